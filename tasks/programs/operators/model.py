"""Interface of the model behind the operators, on the host's side: prompts in, replies out; and its cache and ledger.

The cache is on disk, outside of what DVC tracks. A stage that runs again, even after a kill, sends no prompt twice,
and its results are the same although a server may not give the same reply again.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from tasks.artifacts import digest_text, open_file_itself, read_json, write_json, write_text
from tasks.errors import GraftError, TransientError
from tasks.params.sections import Operators
from tasks.records.record import Record

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
    """A language model behind the operators."""

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


class StoredReply(Record):
    """The reply to a prompt as a file of the cache."""

    text: str
    prompt_tokens: int
    completion_tokens: int


class ReplyingModel(Record):
    """The model of the replies of one name and address, as its server calls it."""

    served: str


@dataclass
class Ledger:
    """Usage of a model. `tokens`: (prompt, reply) tokens of all prompts; `paid`: of those not in the cache."""

    calls: int = 0
    asked: int = 0  # distinct prompts
    remembered: int = 0  # of these, cached by earlier runs
    failed: int = 0
    tokens: tuple[int, int] = (0, 0)
    paid: tuple[int, int] = (0, 0)

    def add(self, reply: Reply, remembered: bool) -> None:
        """Count the reply to a new prompt."""
        tokens = (reply.prompt_tokens, reply.completion_tokens)
        self.asked += 1
        self.remembered += remembered
        self.failed += reply.failed is not None
        self.tokens = (self.tokens[0] + tokens[0], self.tokens[1] + tokens[1])
        if not remembered:
            self.paid = (self.paid[0] + tokens[0], self.paid[1] + tokens[1])


class CachedModel:
    """The model as the sandbox and the search use it. `folder`: the cache."""

    def __init__(self, model: Model, params: Operators, folder: Path) -> None:
        self.ledger = Ledger()
        self._model, self._params, self._folder = model, params, folder
        self._replies: dict[str, Reply] = {}
        self._served: str | None = None  # the model of the replies, by its server

    @property
    def max_calls(self) -> int:
        """Largest number of prompts of one program on one question."""
        return self._params.calls

    def complete(self, prompts: Sequence[Prompt]) -> list[Reply]:
        """A reply to each prompt, in order, from the cache where possible.

        Raises GraftError if a new one is of another model than those in the cache.
        """
        self.ledger.calls += len(prompts)
        keys = [self._key(prompt) for prompt in prompts]
        new = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self._replies}
        for key in list(new):
            if (reply := self._read_cached(key)) is not None:
                self._add(key, reply, remembered=True)
                del new[key]
        failed = self._ask(new)
        return [failed[key] if key in failed else self._replies[key] for key in keys]

    def _ask(self, new: dict[str, Prompt]) -> dict[str, Reply]:
        """Send the new prompts and cache each reply on arrival. Returns the failures, which are not cached."""
        failed: dict[str, Reply] = {}
        names = list(new)
        for place, reply in self._model.complete(list(new.values())) if new else ():
            if reply.failed is not None:
                failed[names[place]] = reply
                self.ledger.add(reply, remembered=False)
            else:
                self._add(names[place], reply, remembered=False)
        return failed

    def _add(self, key: str, reply: Reply, remembered: bool) -> None:
        if not remembered:
            self._refuse_another(reply.served)
        self._replies[key] = reply
        self.ledger.add(reply, remembered)
        if not remembered and reply.text is not None:
            stored = StoredReply(
                text=reply.text, prompt_tokens=reply.prompt_tokens, completion_tokens=reply.completion_tokens
            )
            write_text(self._path(key), stored.model_dump_json(), durable=False)

    def _refuse_another(self, served: str | None) -> None:
        """Raise GraftError if a new reply is not of the model of the earlier ones of this name and address."""
        if served is None:  # a server that says nothing
            return
        path = self._folder / "served" / f"{digest_text(self._model.name)}.json"
        if self._served is None:
            self._served = read_json(path, ReplyingModel).served if path.exists() else served
            write_json(path, ReplyingModel(served=self._served))
        if served != self._served:
            raise GraftError(
                f"operators.model: {self._params.model} was {self._served} and is {served}; serve one of them under "
                f"another name, or remove {self._folder}, with all replies so far"
            )

    @property
    def metrics(self) -> dict[str, float]:
        """For the stage's metrics: independent of what was cached."""
        ledger = self.ledger
        return {"model_calls": ledger.calls, "model_tokens": sum(ledger.tokens), "model_failed": ledger.failed}

    @property
    def cost(self) -> float | None:
        """Dollars paid by this run; None if the price is unknown."""
        if self._params.price is None:
            return None
        return sum(price * tokens for price, tokens in zip(self._params.price, self.ledger.paid, strict=True)) / 1e6

    def describe(self) -> str:
        """The ledger in one line."""
        ledger, cost = self.ledger, self.cost
        spent = "cost unknown (operators.price is not set)" if cost is None else f"${cost:.4f}"
        return (
            f"{ledger.calls} model calls, {ledger.asked} prompts ({ledger.remembered} remembered, {ledger.failed} "
            f"failed), {ledger.tokens[0]:,} + {ledger.tokens[1]:,} tokens, {spent}"
        )

    def log_usage(self, path: Path, stage: str) -> None:
        """Append this run's ledger to a `.jsonl` file that no stage reads."""
        entry = {"stage": stage, "model": self._model.name, **asdict(self.ledger), "cost": self.cost}
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8", opener=open_file_itself) as stream:
            stream.write(json.dumps(entry, sort_keys=True) + "\n")

    def _key(self, prompt: Prompt) -> str:
        return digest_text(f"{self._model.name}\0{prompt.nth}\0{prompt.text}")

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    def _read_cached(self, key: str) -> Reply | None:
        try:
            return Reply(**dict(read_json(self._path(key), StoredReply)))
        except GraftError:  # missing or damaged
            return None
