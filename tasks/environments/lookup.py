"""Lookup of the environment named in `params.yaml`."""

import difflib
import re
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, create_model

from tasks.environments.direct import Direct
from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.params.fields import Weight
from tasks.params.params import Params
from tasks.params.sections import Section
from tasks.sources.user_code import find_modules_in, new_instance

BUILT_IN = {
    "workflow": "tasks.environments.workflow:WorkflowEnvironment",
    "answer": "tasks.environments.tagged_answer:TaggedAnswer",
}
"""Name → module:CLASS; only the module of the environment that is named is imported, and is a source of the stages."""

FIRST = next(iter(BUILT_IN))
"""The environment of champions that name none: there was one only."""

MOVED = {"code": "recipes.code:Code"}
"""Environments that were built in → where they are."""

SET_HERE = ("Params", "params", "root")
"""Attributes that need no definition by the user."""

CALLS = {
    "is_right": (("problem", "result"), "where problem.answer is the expected answer"),
    "demonstrations": (("solved", "seed"), "which gives all pairs, as many as a param of its own says for instance"),
}
"""Methods that once had other arguments, with the present ones."""


def environment_in(root: Path, params: Params) -> Environment:
    """The environment of a stage's params, in the project folder `root`."""
    find_modules_in(root, params.environment.name)
    environment = environment_of(params.environment.name, **params.environment.params)
    environment.root = root
    return environment


def environment_of(name: str, **params: Any) -> Environment:
    """A built-in environment, or an instance of `module:CLASS`, constructed without arguments; `params`: its own.

    Raises GraftError if there is no such environment, or if it has not these params.
    """
    environment = _loaded(path_of(name))
    environment.params = _checked(name, _params_of(environment), params)
    if environment.terms:
        environment.weights = {**environment.weights, **environment.params.weights}
    return environment


def path_of(name: str) -> str:
    """module:CLASS of an environment, of a built-in one too. Raises GraftError for any other name."""
    if name in BUILT_IN or ":" in name:
        return BUILT_IN.get(name, name)
    close = [MOVED[name]] if name in MOVED else difflib.get_close_matches(name, BUILT_IN, n=1)
    remedy = f"did you mean {close[0]!r}?" if close else "write one of these, or module:CLASS for another"
    raise GraftError(f"params.yaml: environment: {name!r} is none of {', '.join(BUILT_IN)}; {remedy}")


def _params_of(environment: Environment) -> type[Section]:
    """The class of an environment's params; one with reward terms has `weights`, too."""
    base = getattr(environment, "Params", Section)
    if not environment.terms:
        return base
    names: Any = Literal[tuple(environment.terms)]
    weights: Any = (
        dict[names, Weight],
        Field(dict(environment.weights), description="of its reward terms; one that is not named keeps its own"),
    )
    return create_model(base.__name__, __base__=base, __module__=base.__module__, weights=weights)


def check_environment(root: Path, params: Params) -> None:
    """Raise GraftError if the environment cannot be loaded, or does not fit the other params."""
    environment, source = environment_in(root, params), params.problems.source
    if environment.writes_problems and source != "environment":
        raise GraftError(
            f"params.yaml: problems.source is {source}, but environment {params.environment.name} reads its own "
            "problems only: set problems.source to environment"
        )
    rewards = params.rewards
    weights = [rewards.correctness, rewards.runs, rewards.efficiency, *environment.weights.values()]
    weights += [term.weight for term in rewards.own]
    if not any(weights):
        raise GraftError(
            "params.yaml: rewards: every weight is 0: give at least one term a weight, correctness: 1.0 for instance"
        )
    if params.operators.backend != "none" and isinstance(environment, Direct):
        raise GraftError(
            f"params.yaml: operators.backend is {params.operators.backend}, but only workflows call operators, and "
            f"environment {params.environment.name} has none: set operators.backend to none"
        )
    search = params.search
    many = search.simulations > search.samples or params.update.group_size < search.samples
    if params.algorithm == "ppo" and environment.asks_siblings and many:
        raise GraftError(
            "params.yaml: algorithm is ppo, which learns from independent samples alone: set search.simulations to "
            f"search.samples ({search.samples}) and update.group_size to at least that, or environment to one without "
            "a tree search, answer for instance"
        )


def _checked(name: str, model: type[Section], params: Mapping[str, Any]) -> Section:
    try:
        return model.model_validate(params)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"] if part != "[key]")
        if first["type"] == "extra_forbidden":
            names = ", ".join(model.model_fields) or "none"
            message = f"environment {name} has no such param; its params: {names}"
        else:
            message = re.sub(r"^(Value error|Assertion failed), ", "", first["msg"])
            message += "" if first["type"] == "value_error" else f", not {first['input']!r}"
        raise GraftError(f"params.yaml: environment.{key}: {message}") from None


def _loaded(name: str) -> Environment:
    made: Environment = new_instance("environment", name)
    needed = [n for n in Environment.__annotations__ | vars(Environment) if not n.startswith("_") and n not in SET_HERE]
    if missing := [n for n in needed if not hasattr(made, n)]:
        raise GraftError(f"environment: {name} has no {missing[0]}; let it inherit tasks.environments.direct.Direct")
    for method, (arguments, meaning) in CALLS.items():
        taken = tuple(signature(getattr(made, method)).parameters)
        if taken != arguments:
            wanted = f"{method}(self, {', '.join(arguments)})"
            raise GraftError(f"environment: {name}.{method}({', '.join(taken)}): write {wanted}, {meaning}")
    return made
