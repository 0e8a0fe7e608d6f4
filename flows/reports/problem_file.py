"""`graft problems`: the format, the answers and examples of files of problems, without a run."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tasks.artifacts import read_text
from tasks.core.terminal import answer_text, printable, shortened
from tasks.environments.lookup import environment_in
from tasks.errors import GraftError
from tasks.evaluators.expression import has_value
from tasks.known_problems import question_key
from tasks.params.file import overridden
from tasks.params.missing import SHIPPED
from tasks.params.sections import BY_FORMAT, EVALUATORS, PolicyParams
from tasks.problems.files import problem_files, problem_text, rows_of, where_of
from tasks.problems.jsonl import MOST_NAMED, Reader, longest_of, rules_of
from tasks.problems.row import Format
from tasks.programs.operators.builtin import context, without_context
from tasks.records.problems import Answer, Problem
from tasks.statistics.problem_profile import kind_of_answer

EXAMPLES = 3
WIDTH = 100
"""Longest question of an example, in characters."""


class FileSummary(NamedTuple):
    """A file's problems, and the lines that a run would refuse."""

    name: str
    known: Format
    evaluator: str
    problems: Mapping[str, Problem]  # by place
    refused: Mapping[str, str]  # place → reason
    doubts: Mapping[str, str]  # place → what a run takes, but should be looked at
    repeated: int  # lines with a question, their siblings' included, that occurs before


def describe_files(path: str, evaluator: str, siblings: int, environment: str | None = None) -> str:
    """The text that `graft problems` prints. Raises GraftError without a file, and for one of which no line is usable.

    The environment, the limits of its sandbox and the base are those of `params.yaml` in this folder, or of the shipped
    one; if the base is on this machine, it also says which question it has no room for. `environment`: another one by
    name.
    """
    if not Path(path).exists():
        raise GraftError(f"{path}: no such file; name a jsonl file, or a folder of them")
    if evaluator not in EVALUATORS and ":" not in evaluator:
        raise GraftError(f"--evaluator: no {evaluator!r}; name one of {', '.join(EVALUATORS)}, or module:CLASS")
    files = problem_files(Path.cwd(), path).items()
    params_file = Path("params.yaml")
    shown = params_file if params_file.is_file() else SHIPPED
    params = overridden(shown, read_text(shown), [f"environment={environment}"] if environment else [])[1]
    reads = environment_in(Path.cwd(), params)
    reader = Reader(evaluator, environment=reads, siblings=siblings, sandbox=params.sandbox, loads=False)
    summaries = [_summarise(name, problem_text(name, file), reader) for name, file in files]
    texts = ["\n".join(_lines_of(summary)) for summary in summaries]
    return "\n\n".join([*texts, *_too_long(params.policy, summaries)])


def _too_long(params: PolicyParams, summaries: Sequence[FileSummary]) -> list[str]:
    """A line on a question for which the base has no room; none where the base cannot be read without a download."""
    from tasks.bootstrap.base_check import check_base

    by_place = {
        where_of(summary.name, place): problem for summary in summaries for place, problem in summary.problems.items()
    }
    questions = longest_of(by_place)
    try:
        check_base(params, questions, download=False)
    except GraftError as error:
        return [printable(str(error))] if str(error).startswith(tuple(f"{place}: " for place in questions)) else []
    return []


def _summarise(name: str, text: str, reader: Reader) -> FileSummary:
    """Read every line, a refused one too. Raises GraftError for a file that is not JSON, or without a usable line."""
    rows = rows_of(name, text)
    first = next(rows, None)
    if first is None:
        raise GraftError(f"{name}: no line; write one JSON object per line")
    known = reader.format_of(where_of(name, first[0]), first[1])
    questions, repeated = set[str](), 0
    problems, refused = dict[str, Problem](), dict[str, str]()
    for place, row in chain([first], rows):
        try:
            problem = reader.problem(where_of(name, place), known, row, name)
        except GraftError as error:
            refused[place] = str(error)
            continue
        before = len(questions)
        questions.update(map(question_key, problem.questions))
        repeated += len(questions) < before + len(problem.questions)
        problems[place] = problem
    taken, unusable, doubts = reader.tried(problems)
    refused |= {place: f"{where_of(name, place)}: {reason}" for place, reason in unusable.items()}
    if not taken:
        count = f" (the first of {len(refused)} lines, of which a run refuses all)"
        raise GraftError(next(iter(refused.values())) + (count if len(refused) > 1 else ""))
    used = known.evaluator if reader.evaluator == BY_FORMAT else reader.evaluator
    return FileSummary(name, known, used, taken, refused, doubts, repeated)


def _lines_of(summary: FileSummary) -> Iterator[str]:
    """What a person wants to know before a run, a line each."""
    problems = [*summary.problems.values()]
    yield f"{summary.name}: {len(problems)} problems, format {summary.known.name}"
    yield f"  evaluator   {_evaluator(summary)}"
    yield f"  answers     {_answers(summary.evaluator, [p.answer for p in problems])}{_without_value(summary)}"
    yield f"  questions   {_lengths([without_context(p.question) for p in problems])}"
    yield f"  contexts    {_lengths([text for p in problems if (text := context(p.question))])}"
    yield f"  siblings    {_siblings([p for p in problems if p.siblings])}"
    names = Counter(name for p in problems for name in p.fields)
    yield f"  fields      {', '.join(map(printable, names)) or 'none'}{' (no question shows them)' if names else ''}"
    yield f"  duplicates  {summary.repeated or 'none'}{' (a run refuses them)' if summary.repeated else ''}"
    if summary.refused:
        count = f"{len(summary.refused)} of {len(summary.refused) + len(problems)} lines"
        yield f"  refused     {count}, so that a run refuses the file: {_listed([*summary.refused])}; the first:"
        yield f"              {printable(next(iter(summary.refused.values())))}"
    for place, what in list(summary.doubts.items())[:MOST_NAMED]:
        yield f"  doubtful    {printable(where_of(summary.name, place))}: {printable(what, replacement=' ')}"
    for problem in problems[:EXAMPLES]:
        yield f"  {problem.problem_id}"
        yield f"      {shortened(printable(without_context(problem.question), replacement=' '), WIDTH)}"
        yield f"      answer: {shortened(printable(answer_text(problem.answer), replacement=' '), WIDTH)}"


def _evaluator(summary: FileSummary) -> str:
    if rules := rules_of(summary.evaluator, summary.known):
        return f"{summary.evaluator}: the answer is {rules.wanted}"
    return f"{summary.evaluator}, your own"


def _siblings(problems: Sequence[Problem]) -> str:
    if not problems:
        return "none: the file has none, no paraphrases and no paragraphs to reorder"
    alike = sum(not p.answers_vary for p in problems)
    return f"{sum(len(p.siblings) for p in problems)}, of {len(problems)} problems; the same answer in {alike} of them"


def _answers(evaluator: str, answers: Sequence[Answer]) -> str:
    counts = Counter(map(str if evaluator == "choice" else kind_of_answer, answers))
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "none"


def _without_value(summary: FileSummary) -> str:
    """How many texts the evaluator `expression` cannot read; "" of another, which compares texts anyway."""
    if summary.evaluator != "expression" or find_spec("math_verify") is None:
        return ""
    texts = {place: p.answer for place, p in summary.problems.items() if isinstance(p.answer, str)}
    unread = [place for place, text in texts.items() if not has_value(text)]
    return (
        f"; {len(unread)} of them no expression, equal to the same letters alone: {_listed(unread)}" if unread else ""
    )


def _listed(places: Sequence[str]) -> str:
    return ", ".join(places[:MOST_NAMED]) + (" …" if len(places) > MOST_NAMED else "")


def _lengths(texts: Sequence[str]) -> str:
    if not texts:
        return "none"
    lengths = sorted(map(len, texts))
    return f"{lengths[0]} to {lengths[-1]} characters, median {median(lengths):.0f} ({len(texts)})"
