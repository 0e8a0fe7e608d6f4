"""The model behind the operators, seen from the host: prompts in, replies out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tasks.errors import GraftError, TransientError

NO_REPLY = "no reply from"
"""What a failure begins with that may pass: the model's server is away or busy."""


@dataclass(frozen=True)
class Prompt:
    """What is asked. `nth`: so often the same program asked the same before; each time has a reply of its own."""

    operator: str
    text: str
    nth: int = 0


@dataclass(frozen=True)
class Reply:
    """What came back. Exactly one of the three is there.

    `refused`: why this prompt can have no reply (too long): whoever wrote it is at fault. `failed`: why there is none
    this time (no answer, nothing but empty texts): nobody knows what it would have been.
    """

    text: str | None = None
    refused: str | None = None
    failed: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Model(Protocol):
    """Something that replies."""

    @property
    def name(self) -> str:
        """All that its replies depend on beside the prompt: two models of one name give the same replies."""

    def complete(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        """The replies as they come, each with the place of its prompt; retried where that can help.

        Raises GraftError where nothing can.
        """


def exception_for(why: str) -> type[GraftError]:
    """The kind of error that a stage stops with over this failure: TransientError where another try may have a reply."""
    return TransientError if NO_REPLY in why else GraftError
