"""Formats of questions on texts, and of questions that several answers fit."""

import re
from collections.abc import Sequence
from typing import Any

from tasks.evaluators.number import kind_of
from tasks.problems.columns import ColumnError, check_text
from tasks.problems.row import Columns, Format, Row, has_any, id_in, in_context, needs, texts_of
from tasks.problems.variants import Paragraph, QuestionParts
from tasks.records import Answer

_PASSAGE = re.compile(r"(?:Passage:)?(.*)\n\s*Question:(.*?)(?:\n\s*Answer:\s*)?", re.DOTALL)


def worded(row: Columns) -> tuple[str, list[str], list[str]]:
    """The question, its paraphrases and the columns that they came from."""
    question = check_text("question", row["question"])
    if row.get("paraphrases") is None:
        return question, [], ["question"]
    texts = texts_of("paraphrases", row["paraphrases"])
    return question, [check_text("paraphrases", text) for text in texts], ["question", "paraphrases"]


def _drop(row: Columns) -> Row:
    question = in_context(check_text("passage", row["passage"]), check_text("question", row["question"]))
    if isinstance(spans := row.get("answers_spans"), dict):
        used = ("answers_spans", "passage", "question", "query_id")
        return Row(question, _drop_spans(spans["spans"], spans["types"]), used, id_in(row), "answers_spans")
    accepted = [row["answer"], *(row.get("validated_answers") or [])]
    return Row(question, accepted, ("answer", "validated_answers", "passage", "question", "query_id"), id_in(row))


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
    used = ("context", "ref_text", "completion", "id")
    return Row(question, [[text] for text in accepted if text], used, id_in(row), "ref_text")


def _boolean(row: Columns) -> Row:
    question = in_context(check_text("passage", row["passage"]), check_text("question", row["question"]))
    accepted: Answer = ["yes", "true"] if row["answer"] else ["no", "false"]
    return Row(question, accepted, ("passage", "question", "answer"))


def _hotpot(row: Columns) -> Row:
    match row["context"]:
        case {"title": list(titles), "sentences": list(bodies)}:  # as the hub has it
            paragraphs = list(zip(titles, bodies, strict=False))
        case list(pairs) if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):  # as published
            paragraphs = [(title, body) for title, body in pairs]
        case other:
            raise ColumnError("context", f"{kind_of(other)}, not paragraphs with titles; fix the line")
    supporting = _supporting_titles(row["supporting_facts"]) & {title for title, _ in paragraphs}
    listed = [
        Paragraph(f"{title}: {''.join(map(str, sentences)).strip()}", bool(supporting) and title not in supporting)
        for title, sentences in paragraphs
    ]
    question, paraphrases, used = worded(row)
    parts = QuestionParts(question, paraphrases, listed)
    names = ["answer", "context", *used, "id", "_id"]
    return Row(in_context(parts.context, question), row["answer"], names, id_in(row), parts=parts)


def _supporting_titles(facts: Any) -> set[str]:
    """The titles of the paragraphs that the answer needs: as the hub has them, or as published; none if unknown."""
    titles = facts.get("title") or [] if isinstance(facts, dict) else [fact[0] for fact in facts]
    return {title for title in titles if isinstance(title, str)}


def _musique(row: Columns) -> Row:
    if row.get("answerable") is False:
        raise ColumnError("answerable", "false, so that the line has no answer; remove it")
    needed = any(each.get("is_supporting") for each in row["paragraphs"])
    listed = [
        Paragraph(
            f"{check_text('paragraphs', each.get('title'))}: {check_text('paragraphs', each.get('paragraph_text'))}",
            needed and not each.get("is_supporting"),
        )
        for each in row["paragraphs"]
    ]
    question, paraphrases, used = worded(row)
    parts = QuestionParts(question, paraphrases, listed)
    names = ["answer", "answer_aliases", "paragraphs", "answerable", *used, "id"]
    accepted = _unique(row["answer"], *(row.get("answer_aliases") or []))
    return Row(in_context(parts.context, question), accepted, names, id_in(row), parts=parts)


def _squad(row: Columns) -> Row:
    column = "answers" if "answers" in row else "answer"
    match row[column]:
        case {"text": list(texts)} | list(texts):  # as the hub has it, as published and as MRQA has it
            accepted = _unique(*(each.get("text") if isinstance(each, dict) else each for each in texts))
        case other:
            raise ColumnError(column, f"{kind_of(other)}, not a list of accepted answers; fix the line")
    if not accepted:
        raise ColumnError(column, "empty: the text has no answer, as some of SQuAD 2.0; remove the line")
    question = check_text("question", row["question"])
    if row.get("context"):
        question = in_context(check_text("context", row["context"]), question)
    return Row(question, accepted, (column, "context", "question", "id"), id_in(row), column)


def _trivia(row: Columns) -> Row:
    answer = row["answer"]
    accepted = _unique(answer["value"], *(answer.get("aliases") or []))
    return Row(check_text("question", row["question"]), accepted, ("question", "answer", "question_id"), id_in(row))


def _unique(*texts: Any) -> list[Any]:
    return list(dict.fromkeys(texts))


def _has(column: str, *names: str) -> Any:
    """A test of a line: the column is an object with these names."""
    return lambda row: "question" in row and isinstance(row.get(column), dict) and all(n in row[column] for n in names)


def _is_drop(row: Columns) -> bool:
    return "passage" in row and "question" in row and has_any(row, "answers_spans", "answer")


def _is_boolean(row: Columns) -> bool:
    return _is_drop(row) and isinstance(row.get("answer"), bool)


PASSAGE_FORMATS = (
    Format("BoolQ", "text", _is_boolean, _boolean),
    Format("DROP", "drop", _is_drop, _drop),
    Format("DROP as prompts", "drop", needs("context", "ref_text"), _drop_prompt),
    Format("HotpotQA", "f1", needs("question", "answer", "context", "supporting_facts"), _hotpot),
    Format("MuSiQue", "f1", needs("question", "answer", "paragraphs"), _musique),
    Format("SQuAD", "f1", needs("question", "answers"), _squad),
    Format("SQuAD", "f1", _has("answer", "text"), _squad),
    Format("TriviaQA", "f1", _has("answer", "value"), _trivia),
)
"""In the order in which they are tried."""
