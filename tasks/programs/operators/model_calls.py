"""Operators that call a model: their prompts and the parsing of the replies. Standard library only.

They run inside the sandbox, without network or key. A program exits at the first prompt without a reply; the host gets
the reply from the model and runs the program again from the start with all replies so far. So the prompts of many
programs form one batch, and a slow model uses up no program's time.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn
from zlib import crc32

from tasks.programs.code_blocks import called_name, code_of, shown_tests
from tasks.programs.operators.builtin import numbers

MAX_PROMPT = 10_000
"""Longest prompt, in characters: as JSON it stays below the 64 KiB that a child may write."""

ModelCall = tuple[str, str]
"""(operator, prompt)."""

NOT_REPEATABLE = "it asks a model something else when it is run again: a workflow must be deterministic"

_FUNCTION = (
    "Write the Python function that is described. Use the standard library only. Reply with the code of the whole "
    "function alone."
)
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Conversation:
    """The model calls of one run of a program. `replies`: (checksum of the prompt, reply) for the first prompts.

    `leave` ends the program, with a prompt that has no reply yet or with an error.
    """

    def __init__(self, replies: Sequence[tuple[int, str]], leave: Callable[[str, str, str], NoReturn]) -> None:
        self._replies = iter(replies)
        self._leave = leave

    def reply(self, operator: str, prompt: str) -> str:
        """The model's reply if the host has it, else ends the program. Raises ValueError for an invalid prompt."""
        if not is_valid_prompt(prompt):
            raise ValueError(f"{operator}() asks with Unicode text of at most {MAX_PROMPT} characters")
        checksum, text = next(self._replies, (None, ""))
        if checksum is None:
            self._leave("ask", operator, prompt)
        if checksum != checksum_of(prompt):
            self._leave("error", "", NOT_REPEATABLE)
        return text


def is_valid_prompt(prompt: str) -> bool:
    """Whether a prompt is Unicode text within MAX_PROMPT."""
    return len(prompt) <= MAX_PROMPT and not any("\ud800" <= character <= "\udfff" for character in prompt)


def checksum_of(prompt: str) -> int:
    """A checksum of a prompt. It needs no protection: a program could deceive only itself."""
    return crc32(prompt.encode())


def no_host(status: str, operator: str, text: str) -> NoReturn:  # noqa: ARG001
    """`leave` for programs that run without a host."""
    raise RuntimeError(f"{operator}() has no model here")


_conversation = [Conversation([], no_host)]


def set_conversation(conversation: Conversation) -> None:
    """Set the conversation that the operators below use."""
    _conversation[0] = conversation


def ask(instruction: str, text: str = "") -> str:
    """The model's reply to an instruction on a text: ask("Which unit does the answer have?", problem).

    Asking the same twice in one workflow gives two replies, each drawn for itself.
    """
    return _ask("ask", f"{instruction}\n\n{text}" if text else instruction)


def answer(problem: str) -> int | float | str:
    """The model's own answer to a problem, thought out step by step; a number where it is one.

    Call it several times for `ensemble` or `majority`: each is drawn for itself.
    """
    return _final(_ask("answer", f"{problem}\n\nThink step by step. End with one line: Answer: <the answer alone>"))


def write_code(problem: str, analysis: str = "") -> str:
    """A program that the model writes for a problem, as text for `run`: run(write_code(problem), problem).

    For a problem that shows unit tests or begins a function it is that function, as text for `test`.
    """
    hints = f"\n\nAnalysis:\n{analysis}" if analysis else ""
    if (name := _function_of(problem)) is not None:
        return code_of(_ask("write_code", f"{_FUNCTION}\n\nProblem: {problem}{hints}"), name)
    return code_of(
        _ask(
            "write_code",
            "Write a Python function solve(problem) that takes the problem's text and returns its answer as a number. "
            f"Use the standard library only. Reply with the code alone.\n\nProblem: {problem}{hints}",
        )
    )


def ensemble(solutions: Sequence[Any], problem: str) -> Any:
    """The solution that is most consistent with the others, as the model sees it (self-consistency).

    Equal solutions are shown once, with their count; if all are equal, there is no call. Raises ValueError for none.
    """
    distinct = list(dict.fromkeys(solutions))[: len(_LETTERS)]
    if not distinct:
        raise ValueError("ensemble() needs at least one solution")
    if len(distinct) == 1:
        return distinct[0]
    counts = [list(solutions).count(solution) for solution in distinct]
    listed = "\n".join(
        f"{letter} ({count} of {len(solutions)}): {solution}"
        for letter, count, solution in zip(_LETTERS, counts, distinct, strict=False)
    )
    reply = _ask(
        "ensemble",
        f"Problem: {problem}\n\nSolutions:\n{listed}\n\nWhich of them is the most consistent and most likely right? "
        "Reply with its letter alone.",
    )
    letter = re.search(rf"\b[{_LETTERS[: len(distinct)]}]\b", reply)
    # without a letter in the reply: the most frequent solution, the first of several
    return distinct[_LETTERS.index(letter[0])] if letter else distinct[counts.index(max(counts))]


def review(problem: str, solution: Any) -> str:
    """What is wrong with a solution, in the model's words, for `revise`."""
    return _ask(
        "review",
        f"Problem: {problem}\n\nSolution:\n{solution}\n\nReview this solution: is it right, and if not, what is wrong "
        "with it? Be short and concrete.",
    )


def revise(problem: str, solution: Any, feedback: str) -> int | float | str:
    """A better solution in the light of feedback: code where the solution is code, a number where it is one."""
    reply = _ask(
        "revise",
        f"Problem: {problem}\n\nSolution:\n{solution}\n\nFeedback:\n{feedback}\n\nRevise the solution. Code: reply "
        "with the whole code between ``` fences. Else end with one line: Answer: <the answer alone>",
    )
    return code_of(reply, _function_of(str(solution)) or "solve") if "```" in reply else _final(reply)


def check(problem: str, solution: Any) -> bool:
    """Whether a solution stands the model's test: it is asked to put the solution back into the problem."""
    reply = _ask(
        "check",
        f"Problem: {problem}\n\nSolution:\n{solution}\n\nTest this solution against every statement of the problem. "
        "End with one word on a line of its own: yes if it holds, no if it does not.",
    )
    words = re.findall(r"\b(yes|no)\b", reply.lower())
    return bool(words) and words[-1] == "yes"


MODEL_OPERATORS: dict[str, Callable[..., Any]] = {
    "ask": ask,
    "answer": answer,
    "write_code": write_code,
    "ensemble": ensemble,
    "review": review,
    "revise": revise,
    "check": check,
}
"""Name → function, in the order of listing: the operators of AFlow (Zhang et al. 2024, §3.1)."""


def _ask(operator: str, prompt: str) -> str:
    return _conversation[0].reply(operator, prompt)


def _function_of(text: str) -> str | None:
    """The function that a text's tests call, or of those that it begins `solve` or the last; None without any."""
    if tests := shown_tests(text):
        return called_name(tests[0])
    begun = re.findall(r"^([ \t]*)def (\w+)\(", text, re.MULTILINE)
    least = min((len(indent) for indent, _ in begun), default=0)
    names = [name for indent, name in begun if len(indent) == least]
    return "solve" if "solve" in names else names[-1] if names else None


def _final(reply: str) -> int | float | str:
    """The text after the last `Answer:`, else the last line; as a number if it contains exactly one."""
    text = re.split(r"answer\s*:", reply.strip(), flags=re.IGNORECASE)[-1].strip()
    text = text.splitlines()[-1].strip(" *.") if text else ""
    quantities = numbers(re.sub("%|percent", "", text))  # a question for a percentage is answered by 20, not 0.2
    if len(quantities) != 1:
        return text
    return -quantities[0] if re.match(r"\W*-\W*\d", text) else quantities[0]
