"""Deterministic replay: a program that calls a model is run again from the start with all replies so far."""

import json
from collections.abc import Sequence

from tasks.programs.operators.model import Prompt, Reply
from tasks.programs.operators.model_calls import ModelCall, checksum_of
from tasks.programs.operators.reply_cache import CachedModel
from tasks.programs.sandbox.run_program import clean_error
from tasks.records import Result


class PromptReplay:
    """The prompts of one program on one question, each with its reply."""

    def __init__(self) -> None:
        self._replies: list[tuple[Prompt, str]] = []

    def __len__(self) -> int:
        return len(self._replies)

    @property
    def replies(self) -> bytes:
        """The replies in the format of `protocol.pack_program`."""
        return json.dumps([(checksum_of(p.text), text) for p, text in self._replies]).encode() if self._replies else b""

    def prompt(self, call: ModelCall) -> Prompt:
        """The call as a Prompt, numbered among equal prompts of the same program."""
        operator, text = call
        return Prompt(operator, text, sum(prompt.text == text for prompt, _ in self._replies))

    def append(self, prompt: Prompt, text: str) -> None:
        """Add a reply for the next run."""
        self._replies.append((prompt, text))


def reply_to_all(calls: Sequence[tuple[Prompt, PromptReplay]], model: CachedModel | None) -> list[str | Result]:
    """The model's reply to each program's prompt, or the result of a program that gets none."""
    if model is None:
        return [
            error_result(f"{prompt.operator}() has no model here: operators.backend is none") for prompt, _ in calls
        ]
    replies = iter(model.complete([prompt for prompt, replay in calls if len(replay) < model.max_calls]))
    over = error_result(f"asks more than {model.max_calls} prompts")
    return [
        _text_or_error(prompt, next(replies)) if len(replay) < model.max_calls else over for prompt, replay in calls
    ]


def error_result(text: str) -> Result:
    """A result for an error that is the program's own fault."""
    return Result(status="error", error=clean_error(text))


def _text_or_error(prompt: Prompt, reply: Reply) -> str | Result:
    if reply.text is not None:
        return reply.text
    if reply.refused is not None:
        return error_result(f"{prompt.operator}(): {reply.refused}")
    return Result(status="failed", error=clean_error(f"{prompt.operator}(): {reply.failed}"))
