"""Problems of RookWorld as the environment writes them."""

from typing import Any

import pytest

from recipes.chess.environment import RookWorld, RookWorldParams
from tasks.records.problems import Problem, Split
from tests.support.stage_params import SHIPPED
from tests.support.tiers import nightly_but_first

SIZES = {"train": 12, "validation": 4, "test": 32, "dev": 4, "siblings": 2}


def writer(**changes: Any) -> RookWorld:
    """The environment with these params."""
    environment = RookWorld()
    environment.params = RookWorldParams(**changes)
    return environment


def written(environment: RookWorld, seed: int = 0, **sizes: Any) -> dict[Split, list[Problem]]:
    """Its problems."""
    return environment.problems(SHIPPED.problems.model_copy(update=SIZES | sizes), seed)


@pytest.fixture(scope="session", params=nightly_but_first(["fen", "list"]))
def problems(request: pytest.FixtureRequest) -> dict[Split, list[Problem]]:
    """In one notation."""
    return written(writer(notation=request.param))
