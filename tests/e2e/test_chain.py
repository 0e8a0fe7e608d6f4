"""The real chain, small: every record moves through it, the policy learns, and nothing is computed twice.

One run in a copy of the project, looked at from all sides; and a second copy that DVC computes alone (damaged outputs:
tests/faults/test_damaged_outputs.py). The set-up starts from a policy that has hardly learnt anything, so that a rise
is no luck (mean train reward 0.07 → 0.16).
"""

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from flows.dvc_stages.pipeline import DvcPipeline
from flows.stages.dvc_yaml import stage_ids
from tasks.artifacts import digest_path, read_json, read_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.layout import Layout
from tasks.model.checkpoints.version import verify_policy
from tasks.objective.advantages import advantages_of
from tasks.params.file import load_params
from tasks.params.params import Params
from tasks.programs.sandbox.sandbox import probe_tier
from tasks.records.evaluation import Choice, Standing
from tasks.records.policy import Lineage
from tasks.records.problems import Problem, Split
from tasks.records.search import Workflow
from tasks.records.selection import Selected
from tasks.trajectories import Reward, Trajectory
from tests.support.groups import read_rewarded
from tests.support.workspace import clone_workspace, dvc, graft, make_workspace

pytestmark = pytest.mark.e2e

SMALL = [
    *["rounds=2", "problems.train=80", "problems.validation=24", "problems.test=16"],
    *["environment.phrasings=3", "problems.siblings=3"],
    *["bootstrap.hidden=96", "bootstrap.layers=2", "bootstrap.vocabulary=768", "bootstrap.epochs=14"],
    *["bootstrap.learning_rate=0.004"],
    *["search.samples=8", "search.simulations=12", "search.temperature=1.0"],
    *["rewards.correctness=1.0", "rewards.runs=0.0"],
    *["influence.completions=6", "influence.selection=positive", "influence.fdr_control=false"],
    *["update.group_size=10", "update.prompts_per_step=8", "update.epochs=8", "update.learning_rate=0.006"],
    *["update.negative_weight=0.0", "update.clip_low=0.2", "update.clip_high=0.3", "update.beta=0.01"],
    *["evaluation.samples=10", "evaluation.ks=[1, 5]"],
    *["evaluation.every=1", "problems.dev=12"],
]
ROUNDS = (1, 2)
SPLITS: tuple[Split, ...] = ("train", "validation")


class Run(NamedTuple):
    """A workspace after `graft retrain`, with what the command printed."""

    root: Path
    layout: Layout
    params: Params
    stdout: str
    stderr: str

    @property
    def addresses(self) -> list[str]:
        """The picture."""
        return stage_ids(self.params.rounds.last)

    @property
    def stages(self) -> dict[str, str]:
        """Address → what became of it, as printed: ran, unchanged or restored."""
        lines = [line.split() for line in self.stdout.splitlines()[: len(self.addresses)]]
        return {line[0]: line[1] for line in lines}

    def metrics(self, address: str) -> dict[str, float]:
        return read_metrics(self.layout, address)

    def problems(self, split: Split) -> list[Problem]:
        return read_jsonl(self.layout.problems(split), Problem)


def retrain(root: Path, *arguments: str) -> Run:
    ended = graft(root, "retrain", *arguments)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return Run(root, Layout(root), load_params(root / "params.yaml"), ended.stdout, ended.stderr)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A whole run from nothing. Tests that change the workspace leave it as it was."""
    return retrain(make_workspace(tmp_path_factory.mktemp("e2e") / "project", SMALL))


def test_every_stage_ran_once_and_stderr_is_quiet(first: Run) -> None:
    assert first.stages == dict.fromkeys(first.addresses, "ran")
    assert first.stderr == ""


@pytest.mark.parametrize("round", ROUNDS)
def test_every_problem_becomes_a_trajectory_that_holds_its_workflows(first: Run, round: int) -> None:
    trajectories = read_jsonl(first.layout.trajectories(round), Trajectory)
    held_out = read_jsonl(first.layout.trajectories(round, "validation"), Trajectory)
    index = read_jsonl(first.layout.workflows(round) / "index.jsonl", Workflow)
    written = {(w.problem_id, w.workflow_id): w.code for w in index}
    expected = [(split, p.rotated(round)) for split in ("train", "validation") for p in first.problems(split)]
    assert [(t.split, t.problem) for t in (*trajectories, *held_out)] == expected
    assert all(m.code == written[t.problem_id, m.workflow_id] for t in trajectories for m in t.members)
    for t in (*trajectories, *held_out):
        assert any(m.code for m in t.members)  # a policy may end at once and write nothing, but not each time
        # a tree whose independent samples are all right has nothing to look for
        least, most = (8, 10) if t.split == "train" else (6, 6)
        assert least <= len(t.members) <= most
        assert all(len(m.sibling_results) == 3 and len(m.tokens) == len(m.logprobs) for m in t.members)
    assert {m.proposer for t in trajectories for m in t.members} == {"sample", "tree"}
    assert {m.proposer for t in held_out for m in t.members} == {"sample"}


@pytest.mark.parametrize("round", ROUNDS)
def test_what_is_selected_has_influence(first: Run, round: int) -> None:
    """What else is in the file: tests/unit/select/test_select_task.py."""
    lines = read_jsonl(first.layout.selection(round), Selected)
    rewarded = [own for split in SPLITS for own in read_rewarded(first.layout.trajectories(round, split))]
    assert [s.advantage for s in lines] == pytest.approx(
        [a for _, rewards in rewarded for own in advantages_of("group", [[r.reward for r in rewards]]) for a in own]
    )
    learned = [s for s in lines if s.split == "train" and s.advantage > 0]
    assert any(s.selected for s in learned)
    assert all(s.influence is not None and s.selected == (s.influence > 0) for s in learned)
    numbers = first.metrics(f"select@{round}")
    assert numbers["validation_with_signal"] > 0
    assert numbers["all_kept"] == 0


def test_each_round_starts_from_the_policy_of_the_one_before(first: Run) -> None:
    policies = [first.layout.policy(number) for number in (0, *ROUNDS)]
    lineages = [read_json(policy / "lineage.json", Lineage) for policy in policies]
    assert [lineage.round for lineage in lineages] == [0, 1, 2]
    assert [lineage.parent for lineage in lineages] == [None, lineages[0].version, lineages[1].version]
    assert len({digest_path(policy / "adapter" / "adapter_model.safetensors") for policy in policies}) == 3
    assert len({digest_path(policy / "model.safetensors") for policy in policies}) == 1
    for round in ROUNDS:
        wrote = {t.policy_version for t in read_jsonl(first.layout.trajectories(round), Trajectory)}
        assert wrote == {lineages[round - 1].version}


def test_the_reward_on_train_rises(first: Run) -> None:
    numbers = [first.metrics(f"reward@{round}")["epoch/mean_reward"] for round in ROUNDS]
    assert numbers[0] < numbers[-1], numbers
    for round, number in zip(ROUNDS, numbers, strict=True):  # and that is what the files say
        rewards = read_jsonl(first.layout.rewards(round), Reward)
        known = [r.reward for r in rewards if r.split == "train" and r.reward is not None]
        assert sum(known) / len(known) == pytest.approx(number)


def test_the_run_ends_with_the_round_that_is_best_on_dev(first: Run) -> None:
    """And dev is nothing that was learned from or tested on."""
    levels = {round: first.metrics(f"validate@{round}")["pass_at_1"] for round in ROUNDS}
    choice = read_json(first.layout.best, Choice)
    assert choice.round == max(levels, key=lambda round: (levels[round], -round))
    chosen, final = verify_policy(first.layout.policy(choice.round)), verify_policy(first.layout.run_policy)
    assert chosen.version == final.version
    assert {*(final.files or ())} - {*(chosen.files or ())} == {"known.json", "replay.jsonl"}
    assert f"Best: {choice.reason}." in " ".join(first.stdout.split())
    standings = read_jsonl(first.layout.standings(2), Standing)
    assert [s.pass_at_1 for s in standings] == pytest.approx([levels[round] for round in ROUNDS])
    dev = {question for problem in first.problems("dev") for question in problem.questions}
    assert len(dev) == 12 * 4
    others = [problem for split in ("train", "validation", "test") for problem in first.problems(split)]
    assert not dev & {question for problem in others for question in problem.questions}


def test_mlflow_holds_the_whole_run(first: Run) -> None:
    from mlflow import MlflowClient

    found: Any = MlflowClient(f"sqlite:///{first.root}/mlflow.db").search_runs(["1"], max_results=1000)
    (parent,) = [run for run in found if "mlflow.parentRunId" not in run.data.tags]
    children = {run.info.run_name: run for run in found if run is not parent}
    assert set(children) == set(first.addresses)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=first.root, capture_output=True, text=True, check=True)
    assert (parent.data.tags["git_commit"], parent.data.tags["git_dirty"]) == (commit.stdout.strip(), "false")
    assert parent.data.tags["sandbox_tier"] == probe_tier()[0]
    numbers = json.loads((first.root / "run" / "metrics.json").read_text())
    assert {name: parent.data.metrics[name.replace("@", "_at_")] for name in numbers} == numbers
    for address, child in children.items():
        assert child.data.metrics.items() >= first.metrics(address).items()


def test_again_there_is_nothing_to_compute(first: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """That a run then shows every stage as cached: tests/project/test_retrain.py."""
    monkeypatch.chdir(first.root)
    assert DvcPipeline(first.root).stale() == {address: [] for address in first.addresses}


@pytest.mark.slow
def test_same_bytes_e2e(first: Run, tmp_path: Path) -> None:
    """`dvc repro` of a round, a process for each stage, from the same commit and params. The whole lock of a run:
    tests/project/test_reproduction.py."""
    root = clone_workspace(tmp_path / "project", first.root)
    ended = dvc(root, "repro", "evaluate@before", "update@1")
    assert ended.returncode == 0, ended.stderr
    outs = outs_of(root)
    assert outs.items() <= outs_of(first.root).items()
    assert len(outs) == 10
    assert files_of(root / "run").items() <= files_of(first.root / "run").items()
    assert not (root / "mlflow.db").exists()


def outs_of(root: Path) -> dict[str, dict[str, str]]:
    """Stage → output → digest, as dvc.lock has them: the first that differs is where to look."""
    stages = yaml.safe_load((root / "dvc.lock").read_text())["stages"]
    return {name: {out["path"]: out["md5"] for out in stage["outs"]} for name, stage in stages.items()}


def files_of(folder: Path) -> dict[str, str]:
    """Relative name → digest."""
    return {p.relative_to(folder).as_posix(): digest_path(p) for p in folder.rglob("*") if p.is_file()}
