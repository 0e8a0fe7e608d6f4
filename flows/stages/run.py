"""Run one stage in this process; the command of each stage in `dvc.yaml`.

    python -m flows.stages.run search@1      in a clone of Graft
    graft-stage search@1                     in a project that `graft new` made

No DVC, Prefect or tracker is imported here. `flows/dvc_stages/pipeline.py` calls the same `run` inside `graft`.
"""

import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from flows.process import settings
from flows.process.exit_codes import TRANSIENT_ERROR, exit_code
from flows.process.signals import open_standard_streams
from flows.stages.durations import record_duration
from flows.stages.dvc_yaml import MODULES, declared_params, round_of, stage_of
from flows.stages.sources import SOURCES, refuse_changed_files, refuse_outdated
from flows.stages.sources import write as write_sources
from tasks.core.child_process import end_with_parent
from tasks.core.out_of_memory import check_address_space
from tasks.core.terminal import print_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.device import use_device
from tasks.model.sampling.vllm.server import use_server
from tasks.params.file import load_params, restrict
from tasks.params.missing import complete_file


def run(root: Path, stage_id: str) -> None:
    """Compute a stage from its files, with the params that `dvc.yaml` lists for it and no others."""
    if stage_id == SOURCES:
        complete_file(root / "params.yaml", print_text)  # DVC stops at the first stage that has a missing param
        write_sources(root)
        return
    check_address_space()
    params = load_params(root / "params.yaml")
    stage = stage_of(stage_id)
    refuse_outdated(root, stage, params)
    seen = restrict(params, declared_params(root, stage))
    started = time.monotonic()
    with use_device(params.machine.device), use_server(params.machine.vllm):
        import_module(MODULES[stage]).run(Layout(root), seen, round_of(stage_id))
    refuse_changed_files(root, stage, params)
    record_duration(Layout(root), stage_id, time.monotonic() - started)


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> int:
    """The exit code: 0, or 2 after one line on stderr about an error that the user can fix; 75 if it is transient.

    `--tied`: end with the process that started this one.
    """
    open_standard_streams()
    settings.set_environment()
    if "--tied" in arguments:
        end_with_parent()
    stage_ids = [argument for argument in arguments if argument not in ("--debug", "--tied")]
    return exit_code(lambda: _main(stage_ids), debug="--debug" in arguments, transient=TRANSIENT_ERROR)


def _main(stage_ids: Sequence[str]) -> None:
    if len(stage_ids) != 1 or stage_of(stage_ids[0]) not in (SOURCES, *MODULES):
        raise GraftError(f"name one stage: {', '.join(MODULES)}; with its round where it has one, as in search@1")
    run(Path.cwd(), stage_ids[0])


if __name__ == "__main__":
    sys.exit(main())
