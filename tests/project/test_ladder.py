"""The ladder of params: real DVC experiments on a project whose one stage brings a run by its params."""

import shutil
import sys
from pathlib import Path

import pytest

from flows.ladder import rungs, try_rungs
from tasks.errors import GraftError
from tests.support import finished_run
from tests.support.stage_params import shipped_params
from tests.support.tiny_project import REPOSITORY, dvc, run

STAGE = """\
stages:
  promote:
    cmd: PYTHONPATH={repository} {python} run.py
    deps: [run.py]
    params: [grpo.learning_rate, grpo.clip_high, grpo.beta, rounds.last]
    outs: [run/evaluation, run/problems, run/rounds, run/plots, run/promotion.json]
    metrics: [run/metrics]
"""

RUN = """\
import shutil
from pathlib import Path
from ruamel.yaml import YAML
from tests.support import finished_run

grpo = YAML().load(Path("params.yaml"))["grpo"]
skill = {skill}
finished_run.write(Path("new"), skill=skill)
shutil.copytree("new/run", "run", dirs_exist_ok=True)
shutil.rmtree("new")
with Path({ran!r}).open("a") as ran:
    ran.write(f"{{grpo['learning_rate']}} {{grpo['clip_high']}} {{grpo['beta']}}\\n")
"""


def project_of(root: Path, skill: str) -> Path:
    """A committed run; `skill`: the share of the problems that a run solves after it, by `grpo`. Before it is 0.3."""
    finished_run.write(root)
    shutil.rmtree(root / "run")
    (root / "dvc.yaml").write_text(STAGE.format(repository=REPOSITORY, python=sys.executable))
    (root / "run.py").write_text(RUN.format(skill=skill, ran=str(root.parent / "ran")))
    (root / ".gitignore").write_text("/run\n/mlflow.db*\n")
    run(root, "git", "init", "-q")
    for setting in (("user.name", "t"), ("user.email", "t@t")):
        run(root, "git", "config", *setting)
    dvc(root, "init", "-q")
    dvc(root, "repro", "-q")
    run(root, "git", "add", "-A")
    run(root, "git", "commit", "-qm", "a run")
    return root


def tried(root: Path) -> list[str]:
    """Learning rate, clip and beta of the runs since the last call."""
    note = root.parent / "ran"
    lines = note.read_text().splitlines() if note.exists() else []
    note.unlink(missing_ok=True)
    return lines


@pytest.mark.slow
def test_the_first_rung_that_moves_ends_the_ladder_and_nothing_is_run_twice(tmp_path: Path) -> None:
    root = project_of(tmp_path / "project", "0.9 if grpo['clip_high'] > 4 else 0.3")
    assert tried(root) == ["0.001 4.0 0.01"]
    told: list[str] = []
    name = try_rungs(root, told.append)
    assert name is not None
    assert name.startswith("ladder-clip-")
    assert [line.split()[1] for line in tried(root)] == ["4.0", "8"]
    assert told[0] == "the committed run: pass@1 sampled 0.277 → 0.319, +0.042 (-0.02 … +0.10)"
    assert "ladder-learning-rate-" in told[1]
    assert "(grpo.learning_rate=0.003)" in told[1]
    assert f"dvc exp apply {name}" in told[-1]
    again: list[str] = []
    assert try_rungs(root, again.append) == name
    assert again == told
    assert tried(root) == []
    assert run(root, "git", "status", "--porcelain").stdout == ""


@pytest.mark.slow
def test_where_no_rung_moves_or_there_is_no_need_it_says_so(tmp_path: Path) -> None:
    told: list[str] = []
    root = project_of(tmp_path / "project", "0.3")
    assert try_rungs(root, told.append) is None
    assert len(tried(root)) == 1 + 4
    assert told[-1].startswith("No rung moves the policy")
    (root / "params.yaml").write_text((root / "params.yaml").read_text().replace("beta: 0.01", "beta: 0.02"))
    with pytest.raises(GraftError, match=r"params\.yaml: differs from the last commit, .* git commit it, dvc\.lock"):
        try_rungs(root, told.append)
    better = project_of(tmp_path / "other" / "project", "0.9")
    assert try_rungs(better, told.append) is None
    assert told[-1] == "The committed run moves the policy: there is nothing to try."


def test_rungs_go_further_by_one_param_at_a_time_and_then_by_all() -> None:
    grpo = shipped_params().grpo
    assert [(rung.name, rung.assignments) for rung in rungs(grpo)] == [
        ("learning-rate", ["grpo.learning_rate=0.003"]),
        ("clip", ["grpo.clip_high=8"]),
        ("beta", ["grpo.beta=0.001"]),
        ("together", ["grpo.learning_rate=0.003", "grpo.clip_high=8", "grpo.beta=0.001"]),
    ]
    bound = grpo.model_copy(update={"learning_rate": 0.1, "clip_high": 10.0, "beta": 0.0})
    assert rungs(bound) == []
    assert [rung.name for rung in rungs(bound.model_copy(update={"learning_rate": 0.05}))] == ["learning-rate"]
    assert [rung.name for rung in rungs(grpo.model_copy(update={"loss": "reinforce", "beta": 0.0}))] == [
        "learning-rate"
    ]


def test_no_git_repository_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(GraftError, match=r"git status: .*; DVC's experiments need a git repository"):
        try_rungs(tmp_path, print)
