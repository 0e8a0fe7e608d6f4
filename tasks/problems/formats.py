"""Formats of public data sets, recognised by their columns: question, answer, context and evaluator of a line.

Each is read as it is published as JSON, on its own page or by the Hugging Face hub; nothing is downloaded.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from tasks.evaluators.boxed import last_box
from tasks.evaluators.number import kind_of
from tasks.problems.columns import ColumnError, check_text
from tasks.problems.variants import Paragraph, QuestionParts, mixed
from tasks.programs.operators.question_context import with_context
from tasks.programs.operators.shown_tests import shown_tests
from tasks.records import NUMBER, PROBLEM_ID, UNIT_TESTS, Answer
from tasks.seeds import derive_seed

LONGEST_CONTEXT = 100_000
"""Longest context, in characters."""

_ID = re.compile(PROBLEM_ID)

Columns = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A line as its format reads it."""

    question: str
    answer: Answer  # as written; the evaluator parses it
    used: Sequence[str]  # the columns that these came from, which are not among the fields
    problem_id: str | None = None
    column: str = "answer"  # the answer's, for errors
    parts: QuestionParts | None = None  # of a question of which variants may be asked


@dataclass(frozen=True)
class Format:
    """A format: its name, the evaluator of its benchmark, a test of a line's columns, and the reader of a line.

    `read` raises ColumnError for a line that does not fit, KeyError with the name of a column that it lacks, and
    TypeError, AttributeError or ValueError for a list or an object of another form.
    """

    name: str
    evaluator: str
    fits: Callable[[Columns], bool]
    read: Callable[[Columns], Row]


def recognise(row: Columns) -> Format:
    """The format of a file, from its first line; OWN where no other fits."""
    return next((each for each in FORMATS if each.fits(row)), OWN)


def _needs(*names: str) -> Callable[[Columns], bool]:
    return lambda row: all(name in row for name in names)


def _own(row: Columns) -> Row:
    paragraphs, context_columns = _paragraphs(row)
    question, paraphrases, used = _worded(row)
    if "distractor_contexts" in context_columns:
        paragraphs = mixed(paragraphs, question)
    parts = QuestionParts(question, paraphrases, paragraphs)
    return Row(_in_context(parts.context, question), row["answer"], ["answer", *used, *context_columns], parts=parts)


def _worded(row: Columns) -> tuple[str, list[str], list[str]]:
    """The question, its paraphrases and the columns that they came from."""
    question = check_text("question", row["question"])
    if row.get("paraphrases") is None:
        return question, [], ["question"]
    texts = _listed_texts("paraphrases", row["paraphrases"])
    return question, [check_text("paraphrases", text) for text in texts], ["question", "paraphrases"]


def _paragraphs(row: Columns) -> tuple[list[Paragraph], list[str]]:
    """The paragraphs of a context of Graft's own format, and the columns that they came from."""
    given = row.get("context")
    needed: list[Any] = given if isinstance(given, list) else [given]
    if not needed or not all(isinstance(text, str) for text in needed):
        return [], []
    texts, used = [Paragraph(text.strip()) for text in needed if text.strip()], ["context"]
    if row.get("distractor_contexts") is not None:
        listed = _listed_texts("distractor_contexts", row["distractor_contexts"])
        texts += [Paragraph(text.strip(), is_distractor=True) for text in listed if text.strip()]
        used.append("distractor_contexts")
    return texts, used


def _human_eval(row: Columns) -> Row:
    answer = {
        "entry_point": row["entry_point"],
        "prompt": row["prompt"],
        "shown": shown_tests(row["prompt"]),
        "hidden": row["test"],
        "solution": row["canonical_solution"],
    }
    names = ("test", "entry_point", "canonical_solution", "prompt", "task_id")
    return Row(check_text("prompt", row["prompt"]), answer, names, _id(row["task_id"]), "test")


def _mbpp(row: Columns) -> Row:
    name = "text" if "text" in row else "prompt"
    imports = row.get("test_setup_code") or row.get("test_imports") or []
    tests = _listed_texts("test_list", row["test_list"])
    shown, hidden = (tests[:1], tests[1:]) if len(tests) > 1 else ([], tests)
    if isinstance(row.get("test"), str):  # MBPP+
        hidden = [row["test"]]
    answer = {
        "entry_point": _called(tests, row["code"]),
        "setup": imports if isinstance(imports, str) else "\n".join(imports),
        "shown": shown,
        "hidden": [*hidden, *_listed_texts("challenge_test_list", row.get("challenge_test_list") or [])],
        "solution": row["code"],
    }
    used = ("test_list", name, "code", "test_setup_code", "test_imports", "task_id", "test", "challenge_test_list")
    question = "\n".join([check_text(name, row[name]), *shown])
    return Row(question, answer, used, f"mbpp-{row['task_id']}", "test_list")


def _code(row: Columns) -> Row:
    names = ("entry_point", "prompt", "setup", "shown", "solution")
    answer = {"hidden": row["tests"], **{name: row.get(name) for name in names}}
    shown = _listed_texts("shown", row.get("shown") or [])
    question = check_text("question", row["question"])
    asked = "\n".join([question, *(test for test in shown if test not in question)])
    return Row(
        asked,
        answer,
        ("question", "tests", *names, "id", "problem_id"),
        _id_in(row) or _id(row.get("problem_id")),
        "tests",
    )


def _called(tests: Sequence[str], code: Any) -> str:
    """The function that the tests call, of those that the code defines; the last of several."""
    defined = re.findall(r"^(?:def|class) +(\w+)|^(\w+) *=", str(code), re.MULTILINE)
    names = [first or second for first, second in defined if re.search(rf"\b{first or second}\(", "\n".join(tests))]
    if not names:
        raise ColumnError("test_list", "calls no function that the code defines; fix the line")
    return str(names[-1])


def _listed_texts(column: str, values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ColumnError(column, f"{kind_of(values)}, not a list of texts; fix the line")
    return values


def _drop(row: Columns) -> Row:
    question = _in_context(check_text("passage", row["passage"]), check_text("question", row["question"]))
    if isinstance(spans := row.get("answers_spans"), dict):
        used = ("answers_spans", "passage", "question", "query_id")
        return Row(question, _accepted(spans["spans"], spans["types"]), used, _id_in(row), "answers_spans")
    accepted = [row["answer"], *(row.get("validated_answers") or [])]
    return Row(question, accepted, ("answer", "validated_answers", "passage", "question", "query_id"), _id_in(row))


def _accepted(spans: Sequence[Any], types: Sequence[Any]) -> Answer:
    """DROP's accepted answers from the hub's columns: each number and date is one, all spans of text are one together.

    (The hub's validation split joins the spans of several annotators; the published drop_dataset_dev.json does not.)
    """
    pairs = list(zip(spans, types, strict=True))
    texts = list(dict.fromkeys(span for span, kind in pairs if kind == "span"))
    return [*([span] for span, kind in pairs if kind != "span"), *([texts] if texts else [])]


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
    question, paraphrases, used = _worded(row)
    parts = QuestionParts(question, paraphrases, listed)
    names = ["answer", "context", *used, "id", "_id"]
    return Row(_in_context(parts.context, question), row["answer"], names, _id_in(row), parts=parts)


def _supporting_titles(facts: Any) -> set[str]:
    """The titles of the paragraphs that the answer needs: as the hub has them, or as published; none if unknown."""
    titles = facts.get("title") or [] if isinstance(facts, dict) else [fact[0] for fact in facts]
    return {title for title in titles if isinstance(title, str)}


def _mmlu(row: Columns) -> Row:
    choices, answer = _texts("choices", row["choices"]), row["answer"]
    if isinstance(answer, int) and not isinstance(answer, bool):
        answer = _letter("answer", answer, len(choices))
    return Row(_with_choices(row["question"], choices), answer, ("answer", "choices", "question", "id"), _id_in(row))


def _arc(row: Columns) -> Row:
    question = row["question"]
    if isinstance(question, dict):  # as published
        listed = question.get("choices") or []
        texts, labels = [each.get("text") for each in listed], [each.get("label") for each in listed]
        stem = question.get("stem")
    else:
        texts, labels, stem = row["choices"].get("text"), row["choices"].get("label"), question
    if row["answerKey"] not in (labels or []):
        raise ColumnError("answerKey", f"{row['answerKey']!r} is none of the labels {labels}; fix the line")
    answer = _letter("answerKey", labels.index(row["answerKey"]), len(labels))  # some lines count 1 to 4
    shown, used = _with_choices(stem, _texts("choices", texts)), ("answerKey", "choices", "question", "id")
    return Row(shown, answer, used, _id_in(row), "answerKey")


def _gpqa(row: Columns) -> Row:
    names = ["Correct Answer", *(f"Incorrect Answer {number}" for number in (1, 2, 3))]
    question, choices = check_text("Question", row["Question"]), [check_text(name, row[name]) for name in names]
    order = list(range(len(choices)))
    random.Random(derive_seed("problems", "choices", question)).shuffle(order)
    letter = _letter(names[0], order.index(0), len(order))
    shown = _with_choices(question, [choices[place] for place in order])
    return Row(shown, letter, (*names, "Question", "Record ID"), _id(row.get("Record ID")), names[0])


def _math(row: Columns) -> Row:
    question, used = check_text("problem", row["problem"]), ("problem", "unique_id", "id")
    problem_id = _id(row.get("unique_id")) or _id_in(row)
    if row.get("answer") is not None:
        return Row(question, row["answer"], ("answer", *used), problem_id)
    box = last_box(check_text("solution", row["solution"]))
    if box is None:
        raise ColumnError("solution", r"no closed \boxed{} in it, so that it has no answer; add one")
    return Row(question, box, used, problem_id, "solution")


def _aime(row: Columns) -> Row:
    asked = next(name for name in ("problem", "Problem", "Question") if name in row)
    given = "answer" if "answer" in row else "Answer"
    return Row(check_text(asked, row[asked]), row[given], (given, asked, "id", "ID"), _id_in(row), given)


def _is_aime(row: Columns) -> bool:
    asked = [row[name] for name in ("problem", "Problem", "Question") if name in row]
    given = row.get("answer", row.get("Answer"))
    return (
        bool(asked)
        and not _has_any(row, "level", "subject", "type")
        and re.fullmatch("[0-9]{1,3}", str(given)) is not None
    )


def _is_math(row: Columns) -> bool:
    return "problem" in row and _has_any(row, "solution", "answer")


def _has_any(row: Columns, *names: str) -> bool:
    return any(name in row for name in names)


def _is_drop(row: Columns) -> bool:
    return "passage" in row and "question" in row and _has_any(row, "answers_spans", "answer")


def _is_gsm8k(row: Columns) -> bool:
    return "question" in row and isinstance(row.get("answer"), str) and "####" in row["answer"]


OWN = Format("question and answer", NUMBER, _needs("question", "answer"), _own)
"""Graft's own format: any columns, of which `question`, `answer`, `siblings`, `problem_id`, `paraphrases`, `context`
and, with a context, `distractor_contexts` are read."""

FORMATS = (
    Format("HumanEval", UNIT_TESTS, _needs("task_id", "prompt", "entry_point", "canonical_solution"), _human_eval),
    Format("MBPP", UNIT_TESTS, _needs("task_id", "code", "test_list"), _mbpp),
    Format("code with tests", UNIT_TESTS, _needs("question", "entry_point", "tests"), _code),
    Format("DROP", "drop", _is_drop, _drop),
    Format("HotpotQA", "f1", _needs("question", "answer", "context", "supporting_facts"), _hotpot),
    Format("MMLU", "choice", _needs("question", "choices", "answer"), _mmlu),
    Format("ARC", "choice", _needs("question", "answerKey"), _arc),
    Format("GPQA", "choice", _needs("Question", "Correct Answer", "Incorrect Answer 1"), _gpqa),
    Format("AIME", NUMBER, _is_aime, _aime),
    Format("MATH", "expression", _is_math, _math),
    Format("GSM8K", NUMBER, _is_gsm8k, _own),
)  # fmt: skip
"""In the order in which they are tried."""


def _in_context(text: str, question: str) -> str:
    if len(text) > LONGEST_CONTEXT:
        raise ColumnError("context", f"{len(text)} characters, more than {LONGEST_CONTEXT}; shorten it")
    return with_context(text, question)


def _with_choices(question: Any, choices: Sequence[str]) -> str:
    lines = (f"{letter}) {choice}" for letter, choice in zip(ascii_uppercase, choices, strict=False))
    return "\n".join([check_text("question", question), *lines])


def _letter(column: str, place: int, count: int) -> str:
    if not 0 <= place < min(count, len(ascii_uppercase)):
        raise ColumnError(column, f"{place} is none of {count} choices, which are counted from 0; fix the line")
    return ascii_uppercase[place]


def _texts(column: str, values: Any) -> list[str]:
    if not isinstance(values, list) or len(values) < 2:
        raise ColumnError(column, f"{kind_of(values)}, not a list of at least two texts; fix the line")
    return [check_text(column, str(value) if isinstance(value, int | float) else value) for value in values]


def _id_in(row: Columns) -> str | None:
    return next((_id(row[name]) for name in ("id", "_id", "query_id", "ID") if row.get(name) is not None), None)


def _id(value: Any) -> str | None:
    """An id of a published data set in the characters of a problem_id; None without one."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    name = re.sub(r"[^A-Za-z0-9._-]", "-", str(value)).lstrip(".-")[:100]
    return name if _ID.fullmatch(name) else None
