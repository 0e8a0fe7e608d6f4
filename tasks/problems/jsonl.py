"""Problems from files: one JSON object per line with `question` and `answer`, GSM8K's format included."""

import json
import math
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

from tasks.artifacts import digest_text
from tasks.errors import GraftError
from tasks.params.sections import Problems
from tasks.records import PROBLEM_ID, Problem, Sibling, Split
from tasks.seeds import derive_seed

LARGEST = 10**15
"""Largest absolute value of an answer; beyond it floats are no longer exact."""

_FINAL = re.compile(r"####[ \t]*([^\n]*)")
_NUMBER = re.compile(r"[-+]?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?", re.ASCII)
_ID = re.compile(PROBLEM_ID)


def read_problems(name: str, text: str, source: str) -> list[Problem]:
    """The problems of one file; see `read_files`."""
    return read_files([(name, text, source)])


def read_files(files: Iterable[tuple[str, str, str]]) -> list[Problem]:
    """The problems of files (name, text, source), in order; `name` is used in errors, `source` in the records.

    Fields: `question`; `answer` (see `parse_answer`); optionally `problem_id` or `id` (default: a hash of the question,
    independent of the order and number of lines) and `siblings`, a list of {question, answer}. Other fields and blank
    lines are ignored.

    Raises GraftError that names file, line and field: not JSON, a missing field or one of the wrong kind, two
    lines, of one file or of two, with the same id or question.
    """
    problems: list[Problem] = []
    ids: dict[str, tuple[str, int]] = {}
    questions: dict[str, tuple[str, int]] = {}
    for name, text, source in files:
        for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
            if not line.strip():
                continue
            where = f"{name}:{number}"
            problem = _read_line(where, line, source)
            # the question first: lines without ids and with the same question have the same id as well
            if problem.question in questions:
                raise GraftError(
                    f"{where}: {_line_at(questions[problem.question], name)} asks the same; remove one of the two"
                )
            if problem.problem_id in ids:
                first = _line_at(ids[problem.problem_id], name)
                raise GraftError(
                    f"{where}: {first} has the problem_id {problem.problem_id!r} too; give one of the two another id"
                )
            questions[problem.question] = ids[problem.problem_id] = (name, number)
            problems.append(problem)
    return problems


def _line_at(place: tuple[str, int], here: str) -> str:
    name, number = place
    return f"line {number}" if name == here else f"{name}:{number}"


def split_problems(name: str, problems: list[Problem], params: Problems, seed: int) -> dict[Split, list[Problem]]:
    """Assign the problems to splits by a shuffle with seed and problem_id, independent of the order of the lines.

    Test is first, then validation, dev last: asking for more train or dev problems does not change the others. The rest
    is unused. Raises GraftError if there are too few.
    """
    sizes: dict[Split, int] = {"test": params.test, "validation": params.validation, "train": params.train}
    sizes |= {"dev": params.dev} if params.dev else {}
    asked = sum(sizes.values())
    if len(problems) < asked:
        names, counts = " + ".join(reversed(sizes)), " + ".join(str(size) for size in reversed(sizes.values()))
        raise GraftError(
            f"{name}: {len(problems)} problems, but problems.{names} ask for {asked} ({counts}); "
            "ask for fewer or add lines"
        )
    left = iter(sorted(problems, key=lambda problem: derive_seed(seed, "problems", problem.problem_id)))
    assigned = {split: list(islice(left, size)) for split, size in sizes.items()}
    return {"dev": [], **assigned}


def parse_answer(value: Any) -> int | float:
    """The number of an `answer` field.

    A JSON number, a text that is a number ("72", "-3.5", "1,234", "$12"), or GSM8K's text with the number after the
    last ####. "72%" is refused, as it could mean 72 or 0.72. Raises ValueError for anything else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{_kind(value)}, not a number")
    if isinstance(value, str):
        return _within(_number_in(value))
    return _within(value)


def _number_in(text: str) -> int | float:
    finals = _FINAL.findall(text)
    candidate = (finals[-1] if finals else text).strip()
    if candidate.endswith("%"):
        raise ValueError(f"{_short(candidate)} could mean the percentage or the fraction")
    if not _NUMBER.fullmatch(candidate):
        raise ValueError(f"{_short(candidate)} is no number")
    plain = candidate.replace(",", "").replace("$", "")
    return float(plain) if "." in plain or len(plain) > 20 else int(plain)


def _within(value: int | float) -> int | float:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not finite")
    if abs(value) > LARGEST:
        raise ValueError("beyond ±1e15, where numbers are no longer exact")
    return value


def _read_line(where: str, line: str, source: str) -> Problem:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of more than 4300 digits
        detail = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise GraftError(f"{where}: not JSON: {detail}; fix the line") from None
    if not isinstance(fields, dict):
        raise GraftError(f'{where}: {_kind(fields)}, not an object; write {{"question": …, "answer": …}} on every line')
    question, answer = _question_and_answer(where, "", fields)
    return Problem(
        problem_id=_problem_id(where, fields, question),
        question=question,
        answer=answer,
        source=source,
        siblings=_siblings(where, fields),
    )


def _siblings(where: str, fields: dict[str, Any]) -> list[Sibling]:
    listed = fields.get("siblings") or []
    if not isinstance(listed, list):
        raise GraftError(f"{where}: siblings: {_kind(listed)}, not a list of {{question, answer}}; fix the field")
    siblings = []
    for place, sibling in enumerate(listed):
        if not isinstance(sibling, dict):
            raise GraftError(f"{where}: siblings.{place}: {_kind(sibling)}, not {{question, answer}}; fix the field")
        question, answer = _question_and_answer(where, f"siblings.{place}.", sibling)
        siblings.append(Sibling(question=question, answer=answer))
    return siblings


def _question_and_answer(where: str, prefix: str, fields: dict[str, Any]) -> tuple[str, int | float]:
    for name in ("question", "answer"):
        if fields.get(name) is None:
            raise GraftError(f"{where}: {prefix}{name}: missing; every line needs a question and an answer")
    question = fields["question"]
    if not isinstance(question, str):
        raise GraftError(f"{where}: {prefix}question: {_kind(question)}, not a text; write it in quotes")
    if not question.strip():
        raise GraftError(f"{where}: {prefix}question: empty; write the question or remove the line")
    if not _is_text(question):
        raise GraftError(f"{where}: {prefix}question: holds half of a surrogate pair; save the line as proper Unicode")
    try:
        return question.strip(), parse_answer(fields["answer"])
    except ValueError as error:
        raise GraftError(f"{where}: {prefix}answer: {error}; write a number, or a text that ends in #### 72") from None


def _problem_id(where: str, fields: dict[str, Any], question: str) -> str:
    """The line's id, or one from a digest of its question. Ids name files, hence the narrow alphabet."""
    name = "problem_id" if fields.get("problem_id") is not None else "id"
    given = fields.get(name)
    if given is None:
        return f"q-{digest_text(question)[:16]}"
    if isinstance(given, bool) or not isinstance(given, (str, int)) or not _ID.fullmatch(str(given)):
        raise GraftError(
            f"{where}: {name}: {_short(str(given))} cannot name a file; "
            "use 1 to 100 letters, digits, '.', '_' and '-', and begin with none of the last two"
        )
    return str(given)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: Any) -> str:
    """The type of a JSON value in words."""
    kinds = {bool: "true or false", dict: "an object", list: "a list", str: "a text", type(None): "null"}
    return kinds.get(type(value), "a number")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "…")
