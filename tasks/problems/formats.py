"""Formats of public data sets, recognised by their columns: question, answer, context and evaluator of a line.

Each is read as it is published as JSON, on its own page or by the Hugging Face hub; nothing is downloaded.
"""

import re
from typing import Any

from tasks.evaluators.boxed import last_box
from tasks.problems.choice_formats import CHOICE_FORMATS
from tasks.problems.code_formats import CODE_FORMATS
from tasks.problems.columns import ColumnError, check_text
from tasks.problems.foreign_formats import refuse_foreign
from tasks.problems.passage_formats import PASSAGE_FORMATS, worded
from tasks.problems.row import Columns, Format, Row, has_any, id_in, id_of, in_context, needs, texts_of
from tasks.problems.variants import Paragraph, QuestionParts, mixed
from tasks.records import NUMBER

_INTEGER = re.compile(r"[0-9]{1,3}(?:\s*(?:\^\s*\{?\\circ\}?|°))?")
"""An answer of AIME, some of which are in degrees."""


def recognise(row: Columns) -> Format:
    """The format of a file, from its first line; OWN where a question and an answer are all that is known.

    Raises ColumnError for a line of a kind that is not read, with the way to convert it.
    """
    known = next((each for each in FORMATS if each.fits(row)), None)
    if known is None:
        refuse_foreign(row)
    return known or OWN


def _own(row: Columns) -> Row:
    paragraphs, context_columns = _paragraphs(row)
    question, paraphrases, used = worded(row)
    if "distractor_contexts" in context_columns:
        paragraphs = mixed(paragraphs, question)
    parts = QuestionParts(question, paraphrases, paragraphs)
    return Row(in_context(parts.context, question), row["answer"], ["answer", *used, *context_columns], parts=parts)


def _paragraphs(row: Columns) -> tuple[list[Paragraph], list[str]]:
    """The paragraphs of a context of Graft's own format, and the columns that they came from."""
    given = row.get("context")
    needed: list[Any] = given if isinstance(given, list) else [given]
    if not needed or not all(isinstance(text, str) for text in needed):
        return [], []
    texts, used = [Paragraph(text.strip()) for text in needed if text.strip()], ["context"]
    if row.get("distractor_contexts") is not None:
        listed = texts_of("distractor_contexts", row["distractor_contexts"])
        texts += [Paragraph(text.strip(), is_distractor=True) for text in listed if text.strip()]
        used.append("distractor_contexts")
    return texts, used


def _math(row: Columns) -> Row:
    question, used = check_text("problem", row["problem"]), ("problem", "unique_id", "id")
    problem_id = id_of(row.get("unique_id")) or id_in(row)
    if row.get("answer") is not None:
        return Row(question, row["answer"], ("answer", *used), problem_id)
    box = last_box(check_text("solution", row["solution"]))
    if box is None:
        raise ColumnError("solution", r"no closed \boxed{} in it, so that it has no answer; add one")
    return Row(question, box, used, problem_id, "solution")


def _aime(row: Columns) -> Row:
    asked = next(name for name in ("problem", "Problem", "Question") if name in row)
    given = "answer" if "answer" in row else "Answer"
    return Row(check_text(asked, row[asked]), row[given], (given, asked, "id", "ID"), id_in(row), given)


def _is_aime(row: Columns) -> bool:
    asked = [row[name] for name in ("problem", "Problem", "Question") if name in row]
    given = row.get("answer", row.get("Answer"))
    return (
        bool(asked)
        and has_any(row, "id", "ID", "url", "year")
        and not has_any(row, "level", "subject", "type")
        and _INTEGER.fullmatch(str(given)) is not None
    )


def _is_math(row: Columns) -> bool:
    return "problem" in row and has_any(row, "solution", "answer")


def _svamp(row: Columns) -> Row:
    body, asked = check_text("Body", row["Body"]), check_text("Question", row["Question"])
    question = f"{body}{'' if body[-1] in '.!?,' else '.'} {asked}"
    return Row(question, row["Answer"], ("Body", "Question", "Answer", "ID"), id_in(row), "Answer")


def _is_gsm8k(row: Columns) -> bool:
    return "question" in row and isinstance(row.get("answer"), str) and "####" in row["answer"]


OWN = Format("question and answer", NUMBER, needs("question", "answer"), _own)
"""Graft's own format: any columns, of which `question`, `answer`, `siblings`, `problem_id`, `paraphrases`, `context`
and, with a context, `distractor_contexts` are read."""

FORMATS = (
    *CODE_FORMATS,
    *CHOICE_FORMATS,
    *PASSAGE_FORMATS,
    Format("SVAMP", NUMBER, needs("Body", "Question", "Answer"), _svamp),
    Format("AIME", NUMBER, _is_aime, _aime),
    Format("MATH", "expression", _is_math, _math),
    Format("GSM8K", NUMBER, _is_gsm8k, _own),
)
"""In the order in which they are tried."""
