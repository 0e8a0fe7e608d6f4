"""Interface of the model behind the operators, on the host's side: prompts in, replies out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tasks.errors import GraftError, TransientError

RETRIES = 4
"""Further attempts after no reply, with back-off, or after an empty one."""

NO_REPLY = "no reply from"
"""Beginning of a transient failure: the model's server is unreachable or busy."""


@dataclass(frozen=True)
class Prompt:
    """A prompt. `nth`: number of equal prompts of the same program before it; each gets its own reply."""

    operator: str
    text: str
    nth: int = 0


@dataclass(frozen=True)
class Reply:
    """A model's reply: exactly one of the three texts is set.

    `refused`: why this prompt can have no reply (too long), the fault of its author. `failed`: why there is none this
    time (no answer, only empty texts), so that the reply remains unknown.
    """

    text: str | None = None
    refused: str | None = None
    failed: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    served: str | None = field(default=None, compare=False)  # what the server says of the model that wrote it


class Model(Protocol):
    """A language model."""

    @property
    def name(self) -> str:
        """Everything besides the prompt that its replies depend on: models with equal names give equal replies."""

    def complete(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        """The replies in order of arrival, each with the index of its prompt, with retries where these can help.

        Raises GraftError where they cannot.
        """


def exception_for(failure: str) -> type[GraftError]:
    """The exception class for a failed reply: TransientError if another try may succeed."""
    return TransientError if NO_REPLY in failure else GraftError
