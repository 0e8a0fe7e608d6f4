"""A model with a memory and a ledger: equal prompts are asked once, and what was asked is counted.

The memory lies on disk, outside of what DVC tracks. A stage that is run again, or was killed half-way, asks nothing
twice; and the replies of a server that cannot repeat itself stay what they were.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tasks.artifacts import digest_text, read_json, write_text
from tasks.errors import GraftError
from tasks.params.sections import Operators
from tasks.programs.operators.model import Model, Prompt, Reply
from tasks.records import Record


class StoredReply(Record):
    """A reply on disk."""

    text: str
    prompt_tokens: int
    completion_tokens: int


@dataclass
class Ledger:
    """What was asked. `tokens`: of the prompts and of the replies, whoever paid; `paid`: those not remembered."""

    calls: int = 0
    asked: int = 0  # distinct prompts
    remembered: int = 0  # of these, known from earlier runs
    failed: int = 0
    tokens: tuple[int, int] = (0, 0)
    paid: tuple[int, int] = (0, 0)

    def add(self, reply: Reply, remembered: bool) -> None:
        """Count the reply to a prompt that was not asked before."""
        both = (reply.prompt_tokens, reply.completion_tokens)
        self.asked += 1
        self.remembered += remembered
        self.failed += reply.failed is not None
        self.tokens = (self.tokens[0] + both[0], self.tokens[1] + both[1])
        if not remembered:
            self.paid = (self.paid[0] + both[0], self.paid[1] + both[1])


class CachedModel:
    """What the sandbox and the search ask. `folder`: where replies are kept."""

    def __init__(self, model: Model, params: Operators, folder: Path) -> None:
        self.ledger = Ledger()
        self._model, self._params, self._folder = model, params, folder
        self._replies: dict[str, Reply] = {}

    @property
    def most(self) -> int:
        """Most prompts of one program on one question."""
        return self._params.calls

    def complete(self, prompts: Sequence[Prompt]) -> list[Reply]:
        """A reply to each prompt, in order: one from memory where there is any."""
        self.ledger.calls += len(prompts)
        keys = [self._key(prompt) for prompt in prompts]
        new = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self._replies}
        for key in list(new):
            if (reply := self._remembered(key)) is not None:
                self._take(key, reply, remembered=True)
                del new[key]
        failed = self._ask(new)
        return [failed[key] if key in failed else self._replies[key] for key in keys]

    def _ask(self, new: dict[str, Prompt]) -> dict[str, Reply]:
        """Ask the model, remembering each reply as it comes; those that failed, to be asked again another time."""
        failed: dict[str, Reply] = {}
        names = list(new)
        for place, reply in self._model.complete(list(new.values())) if new else ():
            if reply.failed is not None:
                failed[names[place]] = reply
                self.ledger.add(reply, remembered=False)
            else:
                self._take(names[place], reply, remembered=False)
        return failed

    def _take(self, key: str, reply: Reply, remembered: bool) -> None:
        self._replies[key] = reply
        self.ledger.add(reply, remembered)
        if not remembered and reply.text is not None:
            kept = StoredReply(
                text=reply.text, prompt_tokens=reply.prompt_tokens, completion_tokens=reply.completion_tokens
            )
            write_text(self._path(key), kept.model_dump_json(), durable=False)

    @property
    def numbers(self) -> dict[str, float]:
        """For the stage's metrics: the same however much was remembered."""
        ledger = self.ledger
        return {"model_calls": ledger.calls, "model_tokens": sum(ledger.tokens), "model_failed": ledger.failed}

    @property
    def cost(self) -> float | None:
        """Dollars that this run paid; None where a price is not known."""
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

    def enter(self, book: Path, stage: str) -> None:
        """Add this run to a book, a JSON object a line, that no stage reads."""
        entry = {"stage": stage, "model": self._model.name, **asdict(self.ledger), "cost": self.cost}
        book.parent.mkdir(parents=True, exist_ok=True)
        with book.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry, sort_keys=True) + "\n")

    def _key(self, prompt: Prompt) -> str:
        return digest_text(f"{self._model.name}\0{prompt.nth}\0{prompt.text}")

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    def _remembered(self, key: str) -> Reply | None:
        try:
            return Reply(**dict(read_json(self._path(key), StoredReply)))
        except GraftError:  # not there, or damaged: ask again
            return None
