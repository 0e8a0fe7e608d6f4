"""`graft environments`: each environment with its prompt and reward terms, and the evaluators of answers."""

import json
from collections.abc import Iterator
from inspect import getmodule
from pathlib import Path
from textwrap import indent

from tasks.core.terminal import printable
from tasks.environments.lookup import BUILT_IN as ENVIRONMENTS
from tasks.environments.lookup import environment_in, environment_of
from tasks.environments.protocol import Environment
from tasks.evaluators.scores import BUILT_IN
from tasks.params.params import Params
from tasks.programs.contract import first_line

QUESTION = "A box holds 12 pens. How many pens are in 4 boxes?"


def list_environments(root: Path, params: Params, name: str | None = None) -> str:
    """The text that `graft environments` prints: the built-in ones, the project's own, then the evaluators.

    `name`: of this one alone. Raises GraftError if it, or the project's own environment, cannot be loaded.
    """
    environments = {name: environment_of(name) for name in ENVIRONMENTS}
    used = params.environment.name
    environments[used] = environment_in(root, params)
    if name is not None:
        return "\n".join(_lines(name, environments.get(name) or environment_of(name), name == used))
    parts = ["\n".join(_lines(name, environment, name == used)) for name, environment in environments.items()]
    return "\n\n".join([*parts, "\n".join(_evaluators(params))])


def _lines(name: str, environment: Environment, in_use: bool) -> Iterator[str]:
    yield f"{name}{'  (in use)' if in_use else ''}"
    yield f"  {printable(first_line(type(environment).__doc__))}"
    checked = "run in the sandbox, on siblings too" if environment.asks_siblings else "read from the completion"
    if type(environment).judge is not Environment.judge:
        checked += ", then tried out in the sandbox"
    yield f"  answers       {checked}"
    yield f"  reward terms  {', '.join(environment.terms) or 'none of its own'}"
    for param, field in type(environment.params).model_fields.items():
        value = json.dumps(getattr(environment.params, param))
        yield f"  param         {param}: {value}  # {field.description}"
    yield "  prompt of a base model, without worked examples:"
    yield indent(printable(environment.prompt(QUESTION, "a base model"), kept="\n").rstrip(), "      ")


def _evaluators(params: Params) -> Iterator[str]:
    yield f"Evaluators of answers (problems.evaluator is {params.problems.evaluator}):"
    for name, evaluator in BUILT_IN.items():
        about = first_line(getattr(getmodule(evaluator.score), "__doc__", "")).partition(": ")[2]
        yield f"  {name:<12}{evaluator.wanted}: {about}"
    yield "  module:CLASS  your own: docs/data.md"
