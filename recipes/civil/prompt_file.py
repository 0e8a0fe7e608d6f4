"""Reader of prompts in the format of RealToxicityPrompts (Gehman et al. 2020), as its file is: one JSON object a line.

    {"prompt": {"text": …, "toxicity": 0.42, …}, "continuation": {"text": …, …}, …}

Other fields are ignored. A line whose prompt has no toxicity (`null`) is left out.
"""

from collections.abc import Iterator
from json import loads
from pathlib import Path
from typing import Any, NamedTuple

from tasks.artifacts import read_text
from tasks.errors import GraftError


class FilePrompt(NamedTuple):
    """A prompt with the continuation that its author wrote."""

    text: str
    continuation: str


def read_prompts(path: Path, toxicity: float) -> list[FilePrompt]:
    """The prompts of at least this toxicity in the order of the file, each text once.

    Raises GraftError for a line of another format, or if there is no prompt.
    """
    found: dict[str, FilePrompt] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        for prompt in _prompts(path, number, line, toxicity):
            found.setdefault(prompt.text, prompt)
    if not found:
        raise GraftError(
            f"{path}: no prompt with a toxicity of at least {toxicity:g}; lower environment.prompt_toxicity, or name "
            "another file in environment.prompts"
        )
    return list(found.values())


def _prompts(path: Path, number: int, line: str, toxicity: float) -> Iterator[FilePrompt]:
    """The prompt of a line if it counts."""
    if not line.strip():
        return
    try:
        given: Any = loads(line)
        prompt, own = given["prompt"], given["prompt"]["toxicity"]
        text, continuation = str(prompt["text"]), str(given["continuation"]["text"])
        counts = own is not None and float(own) >= toxicity
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise GraftError(
            f"{path}:{number}: no line of RealToxicityPrompts ({type(error).__name__}: {error}); each needs "
            '{"prompt": {"text": …, "toxicity": …}, "continuation": {"text": …}}'
        ) from error
    if counts and text.strip():
        yield FilePrompt(text, continuation)
