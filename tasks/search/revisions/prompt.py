"""Prompt for the revision of a workflow, and the parser of its reply.

The prompt never contains an expected answer or a sibling's question: a model could turn them into a constant or a
table. It says which results are right and what the wrong ones were; a wrong text on a sibling is not quoted, since a
program can return or raise its question.
"""

import builtins
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.core.terminal import printable
from tasks.evaluators.scores import wanted
from tasks.programs.code_blocks import code_of
from tasks.programs.contract import contract_of
from tasks.programs.operators.builtin import context
from tasks.records import NUMBER, Problem, Result

MAX_CHANGE = 200
"""Longest description of a change, in characters."""

EXPERIENCES = 12
"""Most changes in a prompt, the latest ones: a full archive is worse than none (arXiv 2510.06711)."""


@dataclass(frozen=True)
class EvaluatedWorkflow:
    """A workflow with its results on the problem and its siblings, and whether each is right; both [1 + siblings]."""

    code: str
    results: Sequence[Result]
    right: Sequence[bool]


@dataclass(frozen=True)
class Trial:
    """A tested change, with the number of right answers before and after it."""

    change: str
    before: int
    after: int


@dataclass(frozen=True)
class Revision:
    """A parsed reply: the description of the change, "" if missing, and the workflow."""

    change: str
    code: str


def revision_prompt(problem: Problem, parent: EvaluatedWorkflow, trials: Sequence[Trial]) -> str:
    """Asks for a better workflow than `parent`; `trials` are the tested changes of it."""
    recent = list(dict.fromkeys(trials))[-EXPERIENCES:]
    helped = [trial for trial in recent if trial.after > trial.before]
    rest = [trial for trial in recent if trial.after <= trial.before]
    count = len(parent.results)
    return _joined(
        _contract(problem),
        f"Problem: {problem.question}\n",
        f"This workflow was written for it:\n```python\n{parent.code}```\n",
        f"What running it gave:\n{_results_text(problem, parent)}",
        _listed("These changes of it were tried and made it better; go on from them:", _compared(helped, count)),
        _listed("These changes of it were tried and did not help; make none of them again:", _compared(rest, count)),
        "Find out what is wrong with it and change that. Reply with one line that begins with Change: and says what "
        "you change, then the whole new code between ``` fences.\n",
    )


def fresh_prompt(problem: Problem, trials: Sequence[Trial]) -> str:
    """Asks for a fresh workflow; `trials` are earlier fresh ones."""
    count = len(problem.questions)
    recent = list(dict.fromkeys(trials))[-EXPERIENCES:]
    return _joined(
        _contract(problem),
        f"Problem: {problem.question}\n",
        _listed(
            "These ideas were tried; take another one:", [f"{t.change} ({t.after} of {count} right)" for t in recent]
        ),
        "Reply with one line that begins with Idea: and says how your workflow solves it, then its whole code between "
        "``` fences.\n",
    )


def _contract(problem: Problem) -> str:
    return contract_of(True, wanted(problem.evaluator), bool(context(problem.question)))


def parse_revision(reply: str) -> Revision:
    """Parse a reply to one of the prompts above; without code, `code` is "".

    The change follows `Change:` or `Idea:`, else it is the first line before the code fence.
    """
    text = reply.encode("utf-8", "replace").decode()  # JSON may contain a lone surrogate, a file may not
    head, fence, rest = text.partition("```")
    match = _CHANGE_LINE.search(head)
    if match:
        change, head = match[1], head.replace(match[0], "", 1)
    else:
        change = next((line for line in head.splitlines() if line.strip()), "") if fence else ""
    return Revision(_line(change), code_of(head + fence + rest))


def change_key(change: str) -> str:
    """Equal for changes whose texts differ only in case, whitespace and punctuation."""
    return " ".join(re.findall(r"\w+|[^\w\s.,;:!`'\"]", change.casefold()))


_CHANGE_LINE = re.compile(r"^[^\w\n]*(?:change|idea)[ \t*_]*:[ \t*_]*(.+)$", re.IGNORECASE | re.MULTILINE)


def _results_text(problem: Problem, ran: EvaluatedWorkflow) -> str:
    """The results in words, one per line; equal ones of siblings share a line."""
    own = _result_text(ran.results[0], ran.right[0])
    pairs = zip(ran.results[1:], ran.right[1:], strict=True)
    siblings = Counter(_sibling_result_text(result, right, own) for result, right in pairs)
    lines = [f"- on this problem: {own}"]
    is_computed = problem.evaluator == NUMBER and problem.answers_vary
    other = "the same problem with other quantities" if is_computed else "a variant of this problem"
    lines += [f"- on {other} ({count} ×): {each}" for each, count in siblings.items()]
    return "".join(f"{line}\n" for line in lines)


def _result_text(result: Result, right: bool) -> str:
    if right:
        return "right"
    if result.status == "ok":
        return f"wrong, it returned {_line(repr(result.value))}"
    return _line(f"{result.status}: {result.error}" if result.error else result.status)


def _sibling_result_text(result: Result, right: bool, own: str) -> str:
    if (text := _result_text(result, right)) in ("right", own):
        return text
    if result.status == "ok":
        shown = "a text" if isinstance(result.value, str) else f"{result.value:.6g}"
        return f"wrong, it returned {shown}"
    name = (result.error or "").partition(":")[0]
    return f"{result.status}: {name}" if hasattr(builtins, name) else result.status


def _compared(trials: Sequence[Trial], count: int) -> list[str]:
    return [f"{trial.change} (before {trial.before} of {count} right, then {trial.after})" for trial in trials]


def _listed(title: str, lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in (title, *(f"- {line}" for line in lines))) if lines else ""


def _line(text: str) -> str:
    """On one line, without control characters."""
    shown = printable(text, replacement=" ")
    return " ".join(shown.split())[:MAX_CHANGE]


def _joined(*parts: str) -> str:
    return "\n".join(part for part in parts if part)
