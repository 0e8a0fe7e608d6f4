"""Which choices of the working notes are reachable: the stages of a round of the tiny project, with each of them.

A choice is reachable where the round ends and what it selects or learns is not what the round without the choice does.
"""

import sys
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path

from flows.stages.dvc_yaml import MODULES, ROUND, declared_params
from tasks.artifacts import digest_path
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import restrict
from tasks.params.params import Params
from tests.support import real_project
from tests.support.choices import CHOICES, TINY, tiny_params
from tests.support.params_file import override
from tests.support.stage_params import REPOSITORY


def reachable_choices(folder: Path) -> dict[str, bool]:
    """Name of each choice → whether it is reachable; `folder`: a new one, for the projects."""
    places = map(str, count())

    @cache
    def without(beside: tuple[str, ...]) -> tuple[str, str]:
        return results_of(folder / next(places), beside)

    found = {}
    for name, choice in CHOICES.items():
        try:
            found[name] = results_of(folder / next(places), choice.assignments) != without(choice.beside)
        except GraftError as error:
            print(f"{name}: {error}", file=sys.stderr)
            found[name] = False
    return found


def results_of(root: Path, assignments: tuple[str, ...]) -> tuple[str, str]:
    """Digests of the selection and of the policy of a round. Raises GraftError where a stage does."""
    real_project.make(root)
    override(root / "params.yaml", [*TINY, *assignments])
    layout, params = Layout(root), tiny_params(assignments)
    for stage in ROUND:
        import_module(MODULES[stage]).run(layout, seen_by(stage, params), 1)
    return digest_path(layout.selection(1)), digest_path(layout.policy(1) / "adapter")


def seen_by(stage: str, params: Params) -> Params:
    """The params that `dvc.yaml` lists for a stage."""
    return restrict(params, declared_params(REPOSITORY, stage))
