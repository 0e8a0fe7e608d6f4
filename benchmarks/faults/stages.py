"""Edits of `dvc.yaml` by which DVC takes a stale stage for a current one: those that nothing names.

python -m benchmarks.faults.stages
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from flows.project.new_project import FILES, new_project
from flows.stages.dvc_yaml import parse
from flows.stages.edits import differences
from tests.support.edited_stages import edits
from tests.support.stage_params import REPOSITORY


def measure() -> dict[str, float]:
    """`edited_dvc_yaml_unnoticed`, in a clone and in a project of the installed Graft."""
    tried, unnoticed = 0, []
    shipped = parse(FILES / "stages.yaml")
    with TemporaryDirectory() as name:
        project = Path(name) / "project"
        new_project(project)
        for of in (REPOSITORY, project):
            for words, stages in edits(parse(of / "dvc.yaml")["stages"]):
                tried += 1
                unnoticed += [] if differences(shipped, {"stages": stages}) else [f"{of.name}: {words}"]
    for line in unnoticed:
        print(line)
    return {"dvc_yaml_edits": float(tried), "edited_dvc_yaml_unnoticed": float(len(unnoticed))}


if __name__ == "__main__":
    print(json.dumps(measure()))
