"""Formats of public data sets, recognised by their columns: question, answer, context and evaluator of a line.

Each is read as it is published as JSON, on its own page or by the Hugging Face hub; nothing is downloaded.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tasks.evaluators.number import kind_of
from tasks.evaluators.text import last_box
from tasks.problems.choice_formats import CHOICE_FORMATS
from tasks.problems.row import ColumnError, Columns, Format, Row, check_text, in_context, needs, texts_of
from tasks.problems.variants import Paragraph, QuestionParts, mixed
from tasks.records.problems import NUMBER, Answer

_INTEGER = re.compile(r"[0-9]{1,3}(?:\s*(?:\^\s*\{?\\circ\}?|°))?")
"""An answer of AIME, some of which are in degrees."""

_PASSAGE = re.compile(r"(?:Passage:)?(.*)\n\s*Question:(.*?)(?:\n\s*Answer:\s*)?", re.DOTALL)

_FOREIGN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("verl", ("prompt", "reward_model"), "write the prompt's last content as question, ground_truth as answer"),
    ("Alpaca", ("instruction", "output"), "write instruction and input as question, output as answer"),
    ("preferences", ("chosen", "rejected"), "it has no answer that can be checked; write question and answer"),
    ("CRUXEval", ("code", "input", "output"), "write the code and the input as question, output as answer"),
    ("OlympiadBench", ("question", "final_answer"), "write the text in final_answer as answer"),
    ("chats", ("messages",), "write the user's message as question, the reply's result as answer"),
    ("chats", ("conversations",), "write the user's message as question, the reply's result as answer"),
    ("Natural Questions", ("document", "annotations"), "write question.text as question, the short answers as answer"),
)
"""Formats that are not read: name, columns that a line has, what to do."""


def recognise(row: Mapping[str, Any], formats: Sequence[Format] = ()) -> Format:
    """The format of a file, from its first line; OWN where a question and an answer are all that is known.

    `formats`: of the environment, tried first. Raises ColumnError for a line of a kind that is not read, with the way
    to convert it.
    """
    known = next((candidate for candidate in (*formats, *FORMATS) if candidate.fits(row)), None)
    lacking = [name for name in ("question", "answer") if name not in row]
    if known or not lacking:
        return known or OWN
    for name, columns, remedy in _FOREIGN:
        if all(column in row for column in columns):
            raise ColumnError(columns[-1], f"this is the format of {name}; {remedy}")
    for name, value in row.items():
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            command = f"jq -c '.[{json.dumps(name)}][]' FILE > NEW.jsonl"
            raise ColumnError(name, f"a list of objects; if they are the lines, write them to a file: {command}")
    names = ", ".join([ascii(name)[:40] for name in row][:12]) or "no column"
    raise ColumnError(
        lacking[0],
        f"missing; the line has {names}: write a question and an answer, or name an environment that reads such lines "
        "(docs/data.md)",
    )


def _own(row: Columns) -> Row:
    paragraphs = _paragraphs(row)
    question, paraphrases = _worded(row)
    if "distractor_contexts" in row.used:
        paragraphs = mixed(paragraphs, question)
    parts = QuestionParts(question, paraphrases, paragraphs)
    read = Row(in_context(parts.context, question), row["answer"], parts=parts)
    if isinstance(read.answer, str) and "####" in read.answer:
        row.used.discard("answer")  # which has more than the answer
    return read


def _worded(row: Columns) -> tuple[str, list[str]]:
    """The question and its paraphrases."""
    question = check_text("question", row["question"])
    if row.peek("paraphrases") is None:
        return question, []
    texts = texts_of("paraphrases", row["paraphrases"])
    return question, [check_text("paraphrases", text) for text in texts]


def _paragraphs(row: Columns) -> list[Paragraph]:
    """The paragraphs of a context of Graft's own format."""
    context = row.peek("context")
    needed: list[Any] = context if isinstance(context, list) else [context]
    if not needed or not all(isinstance(text, str) for text in needed):
        return []
    row.used.add("context")
    texts = [Paragraph(text.strip()) for text in needed if text.strip()]
    if row.peek("distractor_contexts") is not None:
        listed = texts_of("distractor_contexts", row["distractor_contexts"])
        texts += [Paragraph(text.strip(), is_distractor=True) for text in listed if text.strip()]
    return texts


def _math(row: Columns) -> Row:
    question = check_text("problem", row["problem"])
    if row.peek("answer") is not None:
        return Row(question, row["answer"])
    box = last_box(check_text("solution", row["solution"]))
    row.used.discard("solution")  # which has more than the answer
    if box is None:
        raise ColumnError("solution", r"no closed \boxed{} in it, so that it has no answer; add one")
    return Row(question, box, "solution")


def _aime(row: Columns) -> Row:
    asked = next(name for name in ("problem", "Problem", "Question") if name in row)
    key = "answer" if "answer" in row else "Answer"
    return Row(check_text(asked, row[asked]), row[key], key)


def _is_aime(row: Mapping[str, Any]) -> bool:
    return (
        _has_any(row, "problem", "Problem", "Question")
        and _has_any(row, "id", "ID", "url", "year")
        and not _has_any(row, "level", "subject", "type")
        and _INTEGER.fullmatch(str(row.get("answer", row.get("Answer")))) is not None
    )


def _svamp(row: Columns) -> Row:
    body, asked = check_text("Body", row["Body"]), check_text("Question", row["Question"])
    return Row(f"{body}{'' if body[-1] in '.!?,' else '.'} {asked}", row["Answer"], "Answer")


def _drop(row: Columns) -> Row:
    question = in_context(check_text("passage", row["passage"]), check_text("question", row["question"]))
    if isinstance(spans := row.peek("answers_spans"), dict):
        row.used.add("answers_spans")
        return Row(question, _drop_spans(spans["spans"], spans["types"]), "answers_spans")
    return Row(question, [row["answer"], *(row.get("validated_answers") or [])])


def _drop_spans(spans: Sequence[Any], types: Sequence[Any]) -> Answer:
    """DROP's accepted answers from the hub's columns: each number and date is one, all spans of text are one together.

    (The hub's validation split joins the spans of several annotators; the published drop_dataset_dev.json does not.)
    """
    pairs = list(zip(spans, types, strict=True))
    texts = list(dict.fromkeys(span for span, kind in pairs if kind == "span"))
    return [*([span] for span, kind in pairs if kind != "span"), *([texts] if texts else [])]


def _drop_prompt(row: Columns) -> Row:
    """A line of DROP as a prompt (simple-evals, AFlow): accepted answers are separated by "|"."""
    match = _PASSAGE.fullmatch(check_text("context", row["context"]))
    if match is None:
        raise ColumnError("context", "has no line that begins with Question: after the passage; fix the line")
    question = in_context(match[1].strip(), check_text("context", match[2]))
    accepted = [text.strip() for text in check_text("ref_text", row["ref_text"]).split("|")]
    row.used.add("completion")
    return Row(question, [[text] for text in accepted if text], "ref_text")


def _boolean(row: Columns) -> Row:
    question = in_context(check_text("passage", row["passage"]), check_text("question", row["question"]))
    return Row(question, ["yes", "true"] if row["answer"] else ["no", "false"])


def _hotpot(row: Columns) -> Row:
    match row["context"]:
        case {"title": list(titles), "sentences": list(bodies)}:  # as the hub has it
            paragraphs = list(zip(titles, bodies, strict=False))
        case list(pairs) if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):  # as published
            paragraphs = [(title, body) for title, body in pairs]
        case other:
            raise ColumnError("context", f"{kind_of(other)}, not paragraphs with titles; fix the line")
    facts = row.peek("supporting_facts")  # as the hub has them, or as published
    named = facts.get("title") or [] if isinstance(facts, dict) else [fact[0] for fact in facts]
    supporting = {title for title in named if isinstance(title, str)} & {title for title, _ in paragraphs}
    return _on_paragraphs(row, row["answer"], [
        Paragraph(f"{title}: {''.join(map(str, sentences)).strip()}", bool(supporting) and title not in supporting)
        for title, sentences in paragraphs
    ])  # fmt: skip


def _musique(row: Columns) -> Row:
    if row.get("answerable") is False:
        raise ColumnError("answerable", "false, so that the line has no answer; remove it")
    listed = row["paragraphs"]
    needed = any(paragraph.get("is_supporting") for paragraph in listed)
    names = ("title", "paragraph_text")
    texts = [[check_text("paragraphs", paragraph.get(name)) for name in names] for paragraph in listed]
    return _on_paragraphs(row, _unique(row["answer"], *(row.get("answer_aliases") or [])), [
        Paragraph(": ".join(text), needed and not paragraph.get("is_supporting"))
        for text, paragraph in zip(texts, listed, strict=True)
    ])  # fmt: skip


def _on_paragraphs(row: Columns, answer: Answer, paragraphs: Sequence[Paragraph]) -> Row:
    parts = QuestionParts(*_worded(row), paragraphs)
    return Row(in_context(parts.context, parts.question), answer, parts=parts)


def _squad(row: Columns) -> Row:
    column = "answers" if "answers" in row else "answer"
    match row[column]:
        case {"text": list(texts)} | list(texts):  # as the hub has it, as published and as MRQA has it
            accepted = _unique(*(text.get("text") if isinstance(text, dict) else text for text in texts))
        case other:
            raise ColumnError(column, f"{kind_of(other)}, not a list of accepted answers; fix the line")
    if not accepted:
        raise ColumnError(column, "empty: the text has no answer, as some of SQuAD 2.0; remove the line")
    question = check_text("question", row["question"])
    if row.get("context"):
        question = in_context(check_text("context", row["context"]), question)
    return Row(question, accepted, column)


def _trivia(row: Columns) -> Row:
    answer = row["answer"]
    accepted = _unique(answer["value"], *(answer.get("aliases") or []))
    return Row(check_text("question", row["question"]), accepted)


def _unique(*texts: Any) -> list[Any]:
    return list(dict.fromkeys(texts))


def _has_any(row: Mapping[str, Any], *names: str) -> bool:
    return any(name in row for name in names)


def _has(column: str, name: str) -> Callable[[Mapping[str, Any]], bool]:
    """A test of a line: the column is an object with this name."""
    return lambda row: "question" in row and isinstance(row.get(column), dict) and name in row[column]


def _is_drop(row: Mapping[str, Any]) -> bool:
    return "passage" in row and "question" in row and _has_any(row, "answers_spans", "answer")


def _is_gsm8k(row: Mapping[str, Any]) -> bool:
    return "question" in row and isinstance(row.get("answer"), str) and "####" in row["answer"]


OWN = Format("question and answer", NUMBER, needs("question", "answer"), _own, ())
"""Graft's own format: any columns, of which `question`, `answer`, `siblings`, `problem_id`, `paraphrases`, `context`
and, with a context, `distractor_contexts` are read."""

FORMATS = (
    *CHOICE_FORMATS,
    Format("BoolQ", "text", lambda row: _is_drop(row) and isinstance(row.get("answer"), bool), _boolean, ()),
    Format("DROP", "drop", _is_drop, _drop),
    Format("DROP as prompts", "drop", needs("context", "ref_text"), _drop_prompt),
    Format("HotpotQA", "f1", needs("question", "answer", "context", "supporting_facts"), _hotpot),
    Format("MuSiQue", "f1", needs("question", "answer", "paragraphs"), _musique),
    Format("SQuAD", "f1", needs("question", "answers"), _squad),
    Format("SQuAD", "f1", _has("answer", "text"), _squad),
    Format("TriviaQA", "f1", _has("answer", "value"), _trivia),
    Format("SVAMP", NUMBER, needs("Body", "Question", "Answer"), _svamp),
    Format("AIME", NUMBER, _is_aime, _aime),
    Format("MATH", "expression", lambda row: "problem" in row and _has_any(row, "solution", "answer"), _math,
           ("unique_id", "id", "_id", "query_id", "ID", "question_id")),
    Format("GSM8K", NUMBER, _is_gsm8k, _own, ()),
)  # fmt: skip
"""In the order in which they are tried."""
