"""Prompts: a question as an environment asks it, in the form that belongs to the policy."""

from collections.abc import Callable
from pathlib import Path

from tasks.artifacts import read_json
from tasks.environments.protocol import Environment
from tasks.records.policy import PromptFormat
from tasks.records.problems import Problem

FILE = "prompt.json"
"""Name of the form in a policy's folder; a policy from scratch has none."""

SCRATCH = "scratch"


def read_format(policy: Path) -> PromptFormat | None:
    """The form of the prompts of a policy's folder; None for a policy from scratch."""
    return read_json(policy / FILE, PromptFormat) if (policy / FILE).exists() else None


def prompt_of(
    environment: Environment,
    form: PromptFormat | None,
    problem: Problem,
    base: str,
    served: bool = False,
    quote: Callable[[str], str] = str,
) -> str:
    """The prompt of a problem as text, special tokens included. `base` and `served`: see `Environment.prompt`.

    `quote`: marks the special tokens in what is asked.
    """
    if form is None:
        return quote(environment.prompt_for(problem, base, served))
    asked = environment.prompt_for(problem, base if form.instructions else SCRATCH, served)
    return f"{form.before}{quote(asked)}{form.after}{form.prefill}"


def cut_at_stop(text: str, stop: list[str]) -> str:
    """`text` up to the first stop string in it."""
    places = [place for each in stop if (place := text.find(each)) >= 0]
    return text[: min(places)] if places else text
