"""What a program asks a model, from the host's side: it is told by being run again with all replies so far."""

import json
from collections.abc import Sequence

from tasks.programs.operators.model import Prompt, Reply
from tasks.programs.operators.model_calls import Ask, checksum_of
from tasks.programs.operators.reply_cache import Served
from tasks.programs.sandbox.run_program import clean
from tasks.records import Result


class Dialogue:
    """What one program has asked on one question, and what it was told."""

    def __init__(self) -> None:
        self._told: list[tuple[Prompt, str]] = []

    def __len__(self) -> int:
        return len(self._told)

    @property
    def replies(self) -> bytes:
        """As `frames.pack_program` takes them."""
        return json.dumps([(checksum_of(p.text), text) for p, text in self._told]).encode() if self._told else b""

    def prompt(self, ask: Ask) -> Prompt:
        """What it asks now, told apart from the same prompt earlier on."""
        operator, text = ask
        return Prompt(operator, text, sum(prompt.text == text for prompt, _ in self._told))

    def tell(self, prompt: Prompt, text: str) -> None:
        """Go on with a reply."""
        self._told.append((prompt, text))


def replies_to(asked: Sequence[tuple[Prompt, Dialogue]], served: Served | None) -> list[str | Result]:
    """The model's reply to each program, or the result of one that gets none."""
    if served is None:
        return [error(f"{prompt.operator}() has no model here: operators.backend is none") for prompt, _ in asked]
    within = [prompt for prompt, dialogue in asked if len(dialogue) < served.most]
    replies = iter(served.complete(within))
    over = error(f"asks more than {served.most} prompts")
    return [_told(prompt, next(replies)) if len(dialogue) < served.most else over for prompt, dialogue in asked]


def error(text: str) -> Result:
    """A result that is the program's own fault."""
    return Result(status="error", error=clean(text))


def _told(prompt: Prompt, reply: Reply) -> str | Result:
    if reply.text is not None:
        return reply.text
    if reply.refused is not None:
        return error(f"{prompt.operator}(): {reply.refused}")
    return Result(status="failed", error=clean(f"{prompt.operator}(): {reply.failed}"))
