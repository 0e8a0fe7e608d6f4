"""What a model is asked when it revises a workflow, and how its reply is read.

The prompt never holds an expected answer, nor what a sibling asks: of the one a constant could be made, of the other a
table. It says which results are right and what the wrong ones were; of a wrong one on a sibling it says no text, since
a program can return what it is asked, or raise it.
"""

import builtins
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.programs.code_blocks import code_of
from tasks.programs.contract import contract_of
from tasks.records import Result

MAX_CHANGE = 200
"""Longest text of a change that is kept, in characters."""

EXPERIENCES = 12
"""Most changes that a prompt tells of, the latest ones: the whole archive is worse than none (arXiv 2510.06711)."""


@dataclass(frozen=True)
class EvaluatedWorkflow:
    """A workflow with its results on the problem and its siblings, and whether each is right; both [1 + siblings]."""

    code: str
    results: Sequence[Result]
    right: Sequence[bool]


@dataclass(frozen=True)
class Trial:
    """A change that was made, and how many questions were answered right before and after it."""

    change: str
    before: int
    after: int


@dataclass(frozen=True)
class Revision:
    """A reply: what the model says that it changed ("" = nothing), and the workflow."""

    change: str
    code: str


def revision_prompt(question: str, parent: EvaluatedWorkflow, trials: Sequence[Trial]) -> str:
    """Asks for a better workflow than `parent`. `trials`: the changes of it that were tried, each told once."""
    told = list(dict.fromkeys(trials))[-EXPERIENCES:]
    helped = [trial for trial in told if trial.after > trial.before]
    rest = [trial for trial in told if trial.after <= trial.before]
    count = len(parent.results)
    return _joined(
        contract_of(served=True),
        f"Problem: {question}\n",
        f"This workflow was written for it:\n```python\n{parent.code}```\n",
        f"What running it gave:\n{_outcome(parent)}",
        _listed("These changes of it were tried and made it better; go on from them:", _compared(helped, count)),
        _listed("These changes of it were tried and did not help; make none of them again:", _compared(rest, count)),
        "Find out what is wrong with it and change that. Reply with one line that begins with Change: and says what "
        "you change, then the whole new code between ``` fences.\n",
    )


def fresh_prompt(question: str, count: int, trials: Sequence[Trial]) -> str:
    """Asks for a workflow that builds on none. `count`: the problem and its siblings; `trials`: earlier such ones."""
    told = list(dict.fromkeys(trials))[-EXPERIENCES:]
    return _joined(
        contract_of(served=True),
        f"Problem: {question}\n",
        _listed(
            "These ideas were tried; take another one:", [f"{t.change} ({t.after} of {count} right)" for t in told]
        ),
        "Reply with one line that begins with Idea: and says how your workflow solves it, then its whole code between "
        "``` fences.\n",
    )


def parse_revision(reply: str) -> Revision:
    """A model's reply to one of the prompts above, as Unicode text. Without a code the code is "".

    What is changed stands behind `Change:` or `Idea:`, else on the first line above the code's fence.
    """
    text = reply.encode("utf-8", "replace").decode()  # a lone surrogate can be written in JSON, but in no file
    head, fence, rest = text.partition("```")
    said = _SAID.search(head)
    if said:
        change, head = said[1], head.replace(said[0], "", 1)
    else:
        change = next((line for line in head.splitlines() if line.strip()), "") if fence else ""
    return Revision(_line(change), code_of(head + fence + rest))


def change_key(change: str) -> str:
    """The same for changes whose texts differ in case, blanks and marks alone."""
    return " ".join(re.findall(r"\w+|[^\w\s.,;:!`'\"]", change.casefold()))


_SAID = re.compile(r"^[^\w\n]*(?:change|idea)[ \t*_]*:[ \t*_]*(.+)$", re.IGNORECASE | re.MULTILINE)


def _outcome(ran: EvaluatedWorkflow) -> str:
    """The results in words, a line each; equal ones of siblings in one line."""
    own = _gave(ran.results[0], ran.right[0])
    pairs = zip(ran.results[1:], ran.right[1:], strict=True)
    siblings = Counter(_gave_on_sibling(result, right, own) for result, right in pairs)
    lines = [f"- on this problem: {own}"]
    lines += [f"- on the same problem with other quantities ({count} ×): {each}" for each, count in siblings.items()]
    return "".join(f"{line}\n" for line in lines)


def _gave(result: Result, right: bool) -> str:
    if right:
        return "right"
    if result.status == "ok":
        return f"wrong, it returned {_line(repr(result.value))}"
    return _line(f"{result.status}: {result.error}" if result.error else result.status)


def _gave_on_sibling(result: Result, right: bool, own: str) -> str:
    if (whole := _gave(result, right)) in ("right", own):
        return whole
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
    """On one line, without what a terminal could take for a command."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(shown.split())[:MAX_CHANGE]


def _joined(*parts: str) -> str:
    return "\n".join(part for part in parts if part)
