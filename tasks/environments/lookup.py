"""Lookup of the environment named in `params.yaml`."""

import sys
from importlib import import_module
from inspect import signature
from pathlib import Path

from tasks.environments.civil.environment import Civil
from tasks.environments.direct import Direct
from tasks.environments.protocol import Environment
from tasks.environments.rookworld.environment import RookWorld
from tasks.environments.tagged_answer import TaggedAnswer
from tasks.environments.unit_tested_code import UnitTestedCode
from tasks.environments.workflow import WorkflowEnvironment
from tasks.errors import GraftError
from tasks.params.params import Params

ANSWER, CIVIL, CODE, ROOKWORLD, WORKFLOW = "answer", "civil", "code", "rookworld", "workflow"


def environment_in(root: Path, params: Params, strict: bool = False, partial_tests: bool = False) -> Environment:
    """The environment of a stage's params, in the project folder `root`.

    `partial_tests`: code counts by the share of its tests that pass.
    """
    if ":" in params.environment and str(root) not in sys.path:
        sys.path.insert(0, str(root))
    environment = environment_of(params.environment, strict)
    if isinstance(environment, Direct | WorkflowEnvironment):
        environment.root, environment.partial_tests = root, partial_tests
    return environment


def rewarding_environment(root: Path, params: Params) -> Environment:
    """`environment_in` with what the params `rewards` say of it; for stages that may read these."""
    own = params.rewards
    environment = environment_in(root, params, own.strict, own.partial_tests)
    if isinstance(environment, Civil):
        environment.floor = own.toxicity_floor
    return environment


def problem_writer(root: Path, params: Params) -> Environment:
    """`environment_in` with the params of its own problems; for stages that may read these."""
    environment = environment_in(root, params)
    if isinstance(environment, RookWorld):
        environment.params = params.rookworld
    if isinstance(environment, Civil):
        environment.params = params.civil
    return environment


def environment_of(name: str, strict: bool = False) -> Environment:
    """A built-in environment, or an instance of the user's `module:CLASS`, constructed without arguments.

    `strict`: tags of `answer` need new lines around them. Raises GraftError if there is no such environment.
    """
    if name == WORKFLOW:
        return WorkflowEnvironment()
    if name == ANSWER:
        return TaggedAnswer(strict)
    if name == CODE:
        return UnitTestedCode()
    if name == ROOKWORLD:
        return RookWorld()
    if name == CIVIL:
        return Civil()
    return _own(name)


def _own(name: str) -> Environment:
    module, _, attribute = name.partition(":")
    try:
        made: Environment = getattr(import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError) as error:
        raise GraftError(
            f"environment: {name}: {error}; name a class that needs no arguments, as module:CLASS, in a module that "
            "Python finds from the project's folder"
        ) from error
    needed = [n for n in Environment.__annotations__ | vars(Environment) if not n.startswith("_")]
    if missing := [n for n in needed if not hasattr(made, n)]:
        raise GraftError(f"environment: {name} has no {missing[0]}; let it inherit tasks.environments.direct.Direct")
    taken = list(signature(made.is_right).parameters)
    if taken != ["problem", "result"]:
        raise GraftError(
            f"environment: {name}.is_right({', '.join(taken)}): it is called with the problem and the result; write "
            "is_right(self, problem, result), where problem.answer is the expected answer"
        )
    return made
