"""What a program asks a model, from the host's side: it is told by being run again with all replies so far."""

import json
from collections.abc import Sequence

from tasks.programs.operators.model import Prompt, Reply
from tasks.programs.operators.model_calls import ModelCall, checksum_of
from tasks.programs.operators.reply_cache import CachedModel
from tasks.programs.sandbox.run_program import clean_error
from tasks.records import Result


class PromptReplay:
    """What one program has asked on one question, and what it was told."""

    def __init__(self) -> None:
        self._told: list[tuple[Prompt, str]] = []

    def __len__(self) -> int:
        return len(self._told)

    @property
    def replies(self) -> bytes:
        """As `frames.pack_program` takes them."""
        return json.dumps([(checksum_of(p.text), text) for p, text in self._told]).encode() if self._told else b""

    def prompt(self, ask: ModelCall) -> Prompt:
        """What it asks now, told apart from the same prompt earlier on."""
        operator, text = ask
        return Prompt(operator, text, sum(prompt.text == text for prompt, _ in self._told))

    def tell(self, prompt: Prompt, text: str) -> None:
        """Go on with a reply."""
        self._told.append((prompt, text))


def reply_to_all(asked: Sequence[tuple[Prompt, PromptReplay]], served: CachedModel | None) -> list[str | Result]:
    """The model's reply to each program, or the result of one that gets none."""
    if served is None:
        return [
            error_result(f"{prompt.operator}() has no model here: operators.backend is none") for prompt, _ in asked
        ]
    within = [prompt for prompt, dialogue in asked if len(dialogue) < served.most]
    replies = iter(served.complete(within))
    over = error_result(f"asks more than {served.most} prompts")
    return [_told(prompt, next(replies)) if len(dialogue) < served.most else over for prompt, dialogue in asked]


def error_result(text: str) -> Result:
    """A result that is the program's own fault."""
    return Result(status="error", error=clean_error(text))


def _told(prompt: Prompt, reply: Reply) -> str | Result:
    if reply.text is not None:
        return reply.text
    if reply.refused is not None:
        return error_result(f"{prompt.operator}(): {reply.refused}")
    return Result(status="failed", error=clean_error(f"{prompt.operator}(): {reply.failed}"))
