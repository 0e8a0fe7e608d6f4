"""One stage alone, in this process and nothing else: what each stage of `dvc.yaml` starts.

    python -m flows.stage search@1

Neither DVC nor Prefect nor MLflow is imported here. `flows/stages.py` calls the same `run` inside `graft`.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from flows import environment
from flows.answer import exit_code
from flows.pipeline import MODULES, declared_params, round_of, stage_of
from flows.sources import outdated
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params import load_params, restrict


def run(root: Path, address: str) -> None:
    """Compute a stage from its files, with the params that `dvc.yaml` lists for it and no others."""
    params = load_params(root / "params.yaml")
    stage = stage_of(address)
    _refuse_unlisted_sources(root, stage)
    seen = restrict(params, declared_params(root, stage))
    import_module(MODULES[stage]).run(Layout(root), seen, round_of(address))


def _refuse_unlisted_sources(root: Path, stage: str) -> None:
    """A new import changes a listed source, so the stage runs, so this is seen before any result depends on it."""
    if stage in outdated(root, [stage]):
        raise GraftError(f"dvc.yaml: {stage} imports other sources than it lists; run: python -m flows.sources --write")


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0, or 2 after one line on stderr about what the user can mend."""
    environment.settle()
    addresses = [argument for argument in arguments if argument != "--debug"]
    return exit_code(lambda: _main(addresses), debug="--debug" in arguments)


def _main(addresses: Sequence[str]) -> None:
    if len(addresses) != 1 or stage_of(addresses[0]) not in MODULES:
        raise GraftError(f"name one stage: {', '.join(MODULES)}; with its round where it has one, as in search@1")
    run(Path.cwd(), addresses[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
