"""The real chain, small: every record moves through it, the policy learns, and nothing is computed twice.

One run in a copy of the project, looked at from all sides; then the same copy run again and given to DVC; and a second
copy that DVC computes alone (damaged outputs: tests/faults/test_damaged_outputs.py). The set-up starts from a policy
that has hardly learnt anything, so that a rise is no luck (mean train reward 0.07 → 0.16).
"""

import hashlib
import json
import re
import sqlite3
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from benchmarks.support.workspace import PROJECT, clone_workspace, dvc, graft, make_workspace
from flows.history.run_history import entries
from flows.stages.dvc_yaml import parse, stage_ids
from tasks.artifacts import digest_path, read_json, read_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.layout import Layout
from tasks.objective.advantages import advantages_of
from tasks.params.file import load_params
from tasks.params.params import Params
from tasks.programs.code_blocks import code_of
from tasks.programs.contract import prompt_of
from tasks.programs.sandbox.sandbox import probe_tier
from tasks.promotion_records import Promotion
from tasks.records import (
    Attempt,
    Choice,
    Lineage,
    Problem,
    ProblemOutcome,
    Selected,
    Split,
    Standing,
    Workflow,
)
from tasks.trajectories import Reward, Trajectory, read_rewarded

pytestmark = pytest.mark.e2e

SMALL = [
    *["rounds=2", "problems.train=80", "problems.validation=24", "problems.test=16"],
    *["environment.phrasings=3", "problems.siblings=3"],
    *["bootstrap.hidden=96", "bootstrap.layers=2", "bootstrap.vocabulary=768", "bootstrap.epochs=14"],
    *["bootstrap.learning_rate=0.004"],
    *["search.samples=8", "search.simulations=12", "search.temperature=1.0"],
    *["rewards.correctness=1.0", "rewards.runs=0.0"],
    *["influence.completions=6", "influence.selection=positive"],
    *["update.group_size=10", "update.prompts_per_step=8", "update.epochs=8", "update.learning_rate=0.006"],
    *["update.negative_weight=0.0", "update.clip_low=0.2", "update.clip_high=0.3", "update.beta=0.01"],
    *["evaluation.samples=10", "evaluation.ks=[1, 5]"],
    *["evaluation.every=1", "problems.dev=12"],
]
ROUNDS = (1, 2)
GSM8K = Path("shared", "data", "gsm8k", "train.jsonl")


class Run(NamedTuple):
    """A workspace after `graft retrain`, with what the command printed."""

    root: Path
    layout: Layout
    params: Params
    stdout: str
    stderr: str

    @property
    def lock(self) -> bytes:
        return (self.root / "dvc.lock").read_bytes()

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


@pytest.fixture(scope="module")
def again(first: Run) -> Run:
    """The same once more, where everything is done already."""
    return retrain(first.root)


def test_every_stage_ran_once_and_stderr_is_quiet(first: Run) -> None:
    assert first.stages == dict.fromkeys(first.addresses, "ran")
    assert first.stderr == ""


@pytest.mark.parametrize("round", ROUNDS)
def test_every_problem_becomes_a_trajectory_that_holds_its_workflows(first: Run, round: int) -> None:
    trajectories = read_jsonl(first.layout.trajectories(round), Trajectory)
    index = read_jsonl(first.layout.workflows(round) / "index.jsonl", Workflow)
    written = {(w.split, w.problem_id, w.workflow_id): w.code for w in index}
    expected = [(split, p.rotated(round)) for split in ("train", "validation") for p in first.problems(split)]
    assert [(t.split, t.problem) for t in trajectories] == expected
    for t in trajectories:
        assert all(m.code == written[t.split, t.problem_id, m.workflow_id] for m in t.members)
        assert any(m.code for m in t.members)  # a policy may end at once and write nothing, but not each time
        # a tree whose independent samples are all right has nothing to look for
        least, most = (8, 10) if t.split == "train" else (6, 6)
        assert least <= len(t.members) <= most
        assert all(len(m.sibling_results) == 3 and len(m.tokens) == len(m.logprobs) for m in t.members)
    assert {m.proposer for t in trajectories for m in t.members} == {"sample", "tree"}


@pytest.mark.parametrize("round", ROUNDS)
def test_every_trajectory_is_rewarded(first: Run, round: int) -> None:
    trajectories = read_jsonl(first.layout.trajectories(round), Trajectory)
    rewarded = list(read_rewarded(first.layout.trajectories(round)))
    assert [trajectory for trajectory, _ in rewarded] == trajectories
    assert all((reward.reward is None) == (reward.status != "ok") for _, rewards in rewarded for reward in rewards)


@pytest.mark.parametrize("round", ROUNDS)
def test_every_train_member_is_judged_and_what_is_selected_has_influence(first: Run, round: int) -> None:
    rewarded = sorted(read_rewarded(first.layout.trajectories(round)), key=lambda own: own.trajectory.split)
    lines = read_jsonl(first.layout.selection(round), Selected)
    members = [(r.split, r.problem_id, r.member, r.workflow_id) for _, rewards in rewarded for r in rewards]
    assert [(s.split, s.problem_id, s.member, s.workflow_id) for s in lines] == members
    assert [s.advantage for s in lines] == pytest.approx(
        [a for _, rewards in rewarded for own in advantages_of("group", [[r.reward for r in rewards]]) for a in own]
    )
    assert all(s.influence is None for s in lines if s.split == "validation")
    assert all(s.selected == (s.advantage > 0) for s in lines if s.split == "validation")
    judged = [s.influence is not None for s in lines if s.split == "train"]
    assert sum(judged) / len(judged) == pytest.approx(first.metrics(f"select@{round}")["measured_share"])
    numbers, learned = first.metrics(f"select@{round}"), [s for s in lines if s.split == "train" and s.advantage > 0]
    chosen, others = [s for s in learned if s.selected], [s for s in learned if not s.selected]
    assert chosen
    assert numbers["validation_with_signal"] > 0
    assert numbers["all_kept"] == (not others)
    assert all(s.influence <= min(0, *(one.influence for one in chosen)) for s in others)


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


@pytest.mark.parametrize("name", ["before", "after"])
def test_every_test_problem_has_its_outcome(first: Run, name: str) -> None:
    outcomes = read_jsonl(first.layout.evaluation(name) / "outcomes.jsonl", ProblemOutcome)
    attempts = read_jsonl(first.layout.evaluation(name) / "attempts.jsonl", Attempt)
    assert [o.problem_id for o in outcomes] == [p.problem_id for p in first.problems("test")]
    assert {o.seen for o in outcomes} == {True, False}
    for o in outcomes:
        own = [a for a in attempts if a.problem_id == o.problem_id]
        assert o.samples == 10 == sum(a.samples for a in own)
        assert o.correct == sum(a.samples for a in own if a.right)
    numbers = first.metrics(f"evaluate@{name}")
    assert 0 <= numbers["pass_at_1"] <= numbers["pass_at_5"] <= 1
    assert numbers["pass_at_1"] == pytest.approx(sum(o.correct for o in outcomes) / 160)
    assert numbers["pass_at_1_greedy"] == sum(o.greedy for o in outcomes) / 16


def test_the_run_ends_with_the_round_that_is_best_on_dev(first: Run) -> None:
    """And dev is nothing that was learned from or tested on."""
    levels = {round: first.metrics(f"validate@{round}")["pass_at_1"] for round in ROUNDS}
    choice = read_json(first.layout.best, Choice)
    assert choice.round == max(levels, key=lambda round: (levels[round], -round))
    assert digest_path(first.layout.run_policy) == digest_path(first.layout.policy(choice.round))
    assert f"Best: {choice.reason}." in " ".join(first.stdout.split())
    standings = read_jsonl(first.layout.standings(2), Standing)
    assert [s.pass_at_1 for s in standings] == pytest.approx([levels[round] for round in ROUNDS])
    dev = {question for problem in first.problems("dev") for question in problem.questions}
    assert len(dev) == 12 * 4
    others = [problem for split in ("train", "validation", "test") for problem in first.problems(split)]
    assert not dev & {question for problem in others for question in problem.questions}


def test_the_decision_is_about_what_was_measured(first: Run) -> None:
    decision = read_json(first.layout.promotion, Promotion)
    assert decision.version == read_json(first.layout.run_policy / "lineage.json", Lineage).version
    assert decision.champion_version is None
    assert decision.pass_at_1 == first.metrics("evaluate@after")["pass_at_1_greedy"]
    assert decision.champion_pass_at_1 == first.metrics("evaluate@before")["pass_at_1_greedy"]
    assert decision.promoted == (decision.low > 0) == first.layout.champion.exists()


def test_plain_transformers_and_peft_load_the_policy_and_write_the_same(first: Run) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = first.layout.run_policy
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder), folder / "adapter").eval()
    greedy = [a for a in read_jsonl(first.layout.evaluation("after") / "attempts.jsonl", Attempt) if a.greedy]
    same = 0
    for problem, attempt in zip(first.problems("test"), greedy, strict=True):
        ids = tokenizer(prompt_of(problem.question, "scratch"), add_special_tokens=False, return_tensors="pt").input_ids
        with torch.inference_mode():
            written = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=first.params.policy.max_new_tokens,
            )
        text = tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True)
        same += code_of(text) == attempt.code
    assert same >= 15  # of 16: in a batch, a tie of two tokens may fall the other way


def test_the_screen_shows_what_was_learnt_and_where_the_time_went(first: Run) -> None:
    before, after = first.metrics("evaluate@before"), first.metrics("evaluate@after")
    titles = {"pass@1 greedy": "pass_at_1_greedy", **{f"pass@{k} sampled": f"pass_at_{k}" for k in (1, 5)}}
    for title, name in titles.items():
        interval = r" +\(\d\.\d\d–\d\.\d\d\) +"
        levels = [f"{numbers[name]:.3f}" for numbers in (before, after)]
        row = re.escape(title) + " +" + interval.join([*map(re.escape, levels), r"([+-]\d\.\d{3})"])
        found = re.search(row, first.stdout)
        assert found, (row, first.stdout)
        change = after[name] - before[name]  # which the screen has as the mean of differences
        assert float(found[1]) == pytest.approx(change, abs=0.0005 + 1e-12)
    times = dict(re.findall(r"^(\w+) +\d+ +(\d+\.\d) *$", first.stdout, re.MULTILINE))
    assert list(times) == [*dict.fromkeys(address.partition("@")[0] for address in first.addresses), "all"]
    for name, place in (("MLflow", "sqlite:///mlflow.db"), ("pages", "graft ui")):
        assert re.search(rf"^{name} +{place} *$", first.stdout, re.MULTILINE)
    for place in ("run/policy", "run/rounds/2/workflows", "run/evaluation/after", "run/page.html"):
        assert place in first.stdout
        assert (first.root / place).exists()


def test_graft_tree_draws_what_the_search_left(first: Run) -> None:
    problem = first.problems("train")[0]
    shown = graft(first.root, "tree", problem.problem_id, "--round", "1").stdout
    assert " ".join(problem.rotated(1).question.split()) in " ".join(shown.split())
    assert re.search(r"└── .*×\d+  value \d\.\d\d  p ", shown)


def tracked(run: Run) -> tuple[Any, list[Any]]:
    """MLflow's client and all of its runs, the first to start first."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{run.root}/mlflow.db")
    experiment = client.get_experiment_by_name(run.params.machine.tracking.experiment).experiment_id
    return client, list(client.search_runs([experiment], max_results=1000, order_by=["attributes.start_time ASC"]))


def parents(run: Run) -> list[Any]:
    """The runs in MLflow that are of no stage."""
    return [found for found in tracked(run)[1] if "mlflow.parentRunId" not in found.data.tags]


def flow_runs(run: Run) -> list[str]:
    with sqlite3.connect(run.root / ".graft" / "prefect" / "prefect.db") as database:
        return [row[0] for row in database.execute("select id from flow_run order by start_time")]


def task_states(run: Run, flow_run: str) -> dict[str, str]:
    """Task → the name of its state in Prefect."""
    query = "select name, state_name from task_run where flow_run_id = ? order by start_time"
    with sqlite3.connect(run.root / ".graft" / "prefect" / "prefect.db") as database:
        return dict(database.execute(query, [flow_run]).fetchall())


def test_mlflow_holds_the_whole_run(first: Run) -> None:
    client, found = tracked(first)
    parent = parents(first)[0]
    children = {r.info.run_name: r for r in found if r.data.tags.get("mlflow.parentRunId") == parent.info.run_id}
    assert parent.info.status == "FINISHED"
    assert set(children) == set(first.addresses)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=first.root, capture_output=True, text=True, check=True)
    assert parent.data.tags["git_commit"] == commit.stdout.strip()
    assert parent.data.tags["git_dirty"] == "false"
    assert parent.data.tags["dvc_lock_md5"] == hashlib.md5(first.lock).hexdigest()
    assert parent.data.tags["prefect.flow_run_id"] == flow_runs(first)[0]
    assert parent.data.tags["sandbox_tier"] == probe_tier()[0]
    assert parent.data.params["update.group_size"] == "10"
    points = [(p.step, p.value) for p in client.get_metric_history(parent.info.run_id, "train/mean_reward")]
    assert points == [(round, first.metrics(f"reward@{round}")["epoch/mean_reward"]) for round in ROUNDS]
    assert next(iter(parent.data.metrics)) == "greedy"
    assert len(parent.data.metrics) <= 40
    numbers = json.loads((first.root / "run" / "metrics.json").read_text())
    assert {name: parent.data.metrics[name.replace("@", "_at_")] for name in numbers} == numbers
    models = client.search_logged_models([parent.info.experiment_id], f"source_run_id = '{parent.info.run_id}'")
    assert {model.name for model in models} == {f"round-{round}" for round in ROUNDS}
    for address, child in children.items():
        assert child.data.metrics.items() >= first.metrics(address).items()
    outs = parse(first.root / "dvc.lock")["stages"]["problems"]["outs"]
    digests = {out["md5"] for out in outs if out["path"].startswith("run/problems/")}
    assert {i.dataset.digest for i in parent.inputs.dataset_inputs} == digests
    assert len(digests) == 4
    files = {found.path for found in client.list_artifacts(parent.info.run_id)}
    assert files >= {"page.html", "account.json"}


def test_again_nothing_is_computed_and_every_view_is_whole(first: Run, again: Run) -> None:
    assert again.stages == dict.fromkeys(first.addresses, "unchanged")
    assert again.stderr == ""
    assert task_states(again, flow_runs(again)[1]) == dict.fromkeys(first.addresses, "Cached")
    runs = parents(again)
    assert runs[0].data.tags["repeated"].startswith("1 time, last ")
    assert len(runs) == 1
    assert [entry.name.split(" · ")[1] for entry in entries(again.root)] == ["first run", "repeats 1"]


@pytest.mark.slow
def test_same_bytes_e2e(first: Run, tmp_path: Path) -> None:
    """`dvc repro`, a process for each stage, from the same commit and params."""
    root = clone_workspace(tmp_path / "project", first.root)
    ended = dvc(root, "repro")
    assert ended.returncode == 0, ended.stderr
    assert outs_of(root) == outs_of(first.root)
    assert (root / "dvc.lock").read_bytes() == first.lock
    written = files_of(first.root / "run")
    assert written.pop("page.html")  # what graft adds when all stages are done
    assert written.pop("account.json")
    assert files_of(root / "run") == written
    assert not (root / "mlflow.db").exists()


def outs_of(root: Path) -> dict[str, dict[str, str]]:
    """Stage → output → digest, as dvc.lock has them: the first that differs is where to look."""
    stages = yaml.safe_load((root / "dvc.lock").read_text())["stages"]
    return {name: {out["path"]: out["md5"] for out in stage["outs"]} for name, stage in stages.items()}


def files_of(folder: Path) -> dict[str, str]:
    """Relative name → digest."""
    return {p.relative_to(folder).as_posix(): digest_path(p) for p in folder.rglob("*") if p.is_file()}


@pytest.mark.nightly
@pytest.mark.skipif(not (PROJECT.parent / GSM8K).is_file(), reason="GSM8K is not beside the project")
def test_real_input_ends_with_honest_figures(tmp_path: Path) -> None:
    """The command of docs/problems.md, with the file at the same relative place, on a small set-up."""
    root = make_workspace(tmp_path / "project", [*SMALL, "rounds=1"])
    (tmp_path / GSM8K).parent.mkdir(parents=True)
    (tmp_path / GSM8K).write_bytes((PROJECT.parent / GSM8K).read_bytes())
    run = retrain(root, "-S", "problems.source=jsonl", "-S", f"problems.path={Path('..') / GSM8K}")
    assert len(run.problems("train")) == 80
    for name in ("before", "after"):
        outcomes = read_jsonl(run.layout.evaluation(name) / "outcomes.jsonl", ProblemOutcome)
        assert {(o.seen, o.siblings_passed) for o in outcomes} == {(None, None)}
        numbers = run.metrics(f"evaluate@{name}")
        assert numbers["pass_at_1_greedy"] == sum(o.greedy for o in outcomes) / 16
        assert numbers["pass_at_1_low"] <= numbers["pass_at_1"] <= numbers["pass_at_1_high"]
    assert run.metrics("reward@1")["epoch/accumulated_reward"] > 0
