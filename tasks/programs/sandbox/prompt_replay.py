"""Deterministic replay: a program that calls a model is run again from the start with all replies so far."""

import json
from collections.abc import Sequence

from tasks.programs.operators.model import CachedModel, Prompt, Reply
from tasks.programs.operators.model_calls import NOT_REPEATABLE, ModelCall, checksum_of
from tasks.programs.sandbox.run_program import clean_error
from tasks.records.programs import Result


class PromptReplay:
    """The prompts of one program on one question, each with its reply."""

    def __init__(self) -> None:
        self._replies: list[tuple[Prompt, Reply]] = []

    def __len__(self) -> int:
        return len(self._replies)

    @property
    def replies(self) -> bytes:
        """The replies in the format of `protocol.pack_program`."""
        return json.dumps([(checksum_of(p.text), r.text) for p, r in self._replies]).encode() if self._replies else b""

    def prompt(self, call: ModelCall) -> Prompt:
        """The call as a Prompt, numbered among equal prompts of the same program."""
        operator, text = call
        return Prompt(operator, text, sum(prompt.text == text for prompt, _ in self._replies))

    def append(self, prompt: Prompt, reply: Reply) -> None:
        """Add a reply for the next run."""
        self._replies.append((prompt, reply))

    def counted(self, result: Result) -> Result:
        """The result with the number of calls and of their tokens, which of a program that asks something else each
        time are not the same each time, and left out."""
        usage = {
            "calls": len(self),
            "prompt_tokens": sum(reply.prompt_tokens for _, reply in self._replies),
            "completion_tokens": sum(reply.completion_tokens for _, reply in self._replies),
        }
        return result.model_copy(update=usage) if len(self) and result.error != NOT_REPEATABLE else result


def reply_to_all(calls: Sequence[tuple[Prompt, PromptReplay]], model: CachedModel | None) -> list[Reply | Result]:
    """The model's reply to each program's prompt, or the result of a program that gets none."""
    if model is None:
        return [
            error_result(f"{prompt.operator}() has no model here: operators.backend is none") for prompt, _ in calls
        ]
    replies = iter(model.complete([prompt for prompt, replay in calls if len(replay) < model.max_calls]))
    over = error_result(f"asks more than {model.max_calls} prompts")
    return [
        _reply_or_error(prompt, next(replies)) if len(replay) < model.max_calls else over for prompt, replay in calls
    ]


def error_result(text: str) -> Result:
    """A result for an error that is the program's own fault."""
    return Result(status="error", error=clean_error(text))


def _reply_or_error(prompt: Prompt, reply: Reply) -> Reply | Result:
    if reply.text is not None:
        return reply
    if reply.refused is not None:
        return error_result(f"{prompt.operator}(): {reply.refused}")
    return Result(status="failed", error=clean_error(f"{prompt.operator}(): {reply.failed}"))
