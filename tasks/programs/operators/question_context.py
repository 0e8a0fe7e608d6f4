"""Context of a question: a text that a problem brings, in front of its question. Standard library only."""

SEPARATOR = "\n\nQuestion: "
"""Between a context and the question."""


def context(problem: str) -> str:
    """The text that a problem brings in front of its question, "" if none: ask(f"Shorten this: {context(problem)}").

    The question itself is problem[len(context(problem)):]. Raises TypeError for anything but a text.
    """
    if not isinstance(problem, str):
        raise TypeError(f"context() reads a text, not {type(problem).__name__}")
    return problem.rpartition(SEPARATOR)[0]


def with_context(text: str, question: str) -> str:
    """The question with a context in front; without one where `text` is blank."""
    return f"{text.strip()}{SEPARATOR}{question}" if text.strip() else question


def without_context(problem: str) -> str:
    """The question alone, for people."""
    return problem.rpartition(SEPARATOR)[2]
