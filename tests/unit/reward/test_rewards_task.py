"""The stage `reward`, through its files."""

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from flows.stages.dvc_yaml import declared_params
from tasks.artifacts import read_jsonl, write_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import load_params, restrict
from tasks.params.params import Params
from tasks.programs.sandbox.sandbox import SANDBOX_DIED
from tasks.records.programs import Result
from tasks.reward.histogram import read_histogram
from tasks.reward.task import run
from tasks.trajectories import Reward, Trajectory
from tests.support.groups import make_group, with_fields
from tests.support.params_file import override
from tests.support.stage_params import REPOSITORY, stage_params

PARAMS = stage_params("reward")
KEYS = declared_params(REPOSITORY, "reward")


RIGHT, SLOW, DIED = Result(status="ok", value=5), Result(status="timeout"), Result(status="failed", error=SANDBOX_DIED)


def group_of(*results: Result, codes: list[str] | None = None) -> Trajectory:
    return make_group(codes or ["code"] * len(results), list(results))


def test_rewards_and_metrics_are_written(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    write_jsonl(layout.trajectories(1), [group_of(RIGHT, SLOW)])
    run(layout, PARAMS, 1)
    rewards = read_jsonl(layout.rewards(1), Reward)
    full = PARAMS.rewards.correctness + PARAMS.rewards.runs
    assert [reward.reward for reward in rewards] == [pytest.approx(full), 0.0]
    metrics = json.loads(layout.metrics("reward", 1).read_text())
    assert metrics["epoch/accumulated_reward"] == pytest.approx(full)
    assert metrics["epoch/mean_reward"] == pytest.approx(full / 2)
    bins = read_histogram(layout, 1)
    assert [bin.completions for bin in bins] == [1, *[0] * (len(bins) - 2), 1]
    assert (bins[0].low, bins[-1].high) == (0, pytest.approx(full))


def test_pass_at_1_is_that_of_the_independent_samples_on_the_problem_alone(tmp_path: Path) -> None:
    layout, wrong = Layout(tmp_path), Result(status="ok", value=6)
    half = with_fields(group_of(RIGHT, SLOW, RIGHT), proposer=["sample", "sample", "tree"])
    full = make_group(["a", "b"], [RIGHT, RIGHT], siblings=1, sibling_results=[[wrong], [RIGHT]])
    write_jsonl(layout.trajectories(1), [half, full])
    run(layout, PARAMS, 1)
    metrics = json.loads(layout.metrics("reward", 1).read_text())
    assert metrics["pass_at_1"] == pytest.approx(0.75)
    assert (metrics["pass_at_1_low"], metrics["pass_at_1_high"]) == (pytest.approx(0.75 - 1.96 * 0.25 / 2**0.5), 1.0)


def test_pass_at_k_of_a_round_is_that_of_all_draws_of_k_of_its_independent_samples(tmp_path: Path) -> None:
    layout, wrong = Layout(tmp_path), Result(status="ok", value=6)
    groups = [[RIGHT, *[wrong] * 5], [RIGHT] * 2 + [wrong] * 4, [wrong] * 3]
    trees = [with_fields(group_of(*own, RIGHT), proposer=[*["sample"] * len(own), "tree"]) for own in groups]
    write_jsonl(layout.trajectories(1), trees)
    run(layout, PARAMS, 1)
    metrics = json.loads(layout.metrics("reward", 1).read_text())
    for k, some in ((1, groups), (5, groups[:2])):  # the third has too few samples for k = 5
        solved = [fmean(RIGHT in draw for draw in combinations(own, k)) for own in some]
        assert metrics[f"pass_at_{k}"] == pytest.approx(fmean(solved))
    assert "pass_at_10" not in metrics


def test_a_round_whose_rewards_are_all_alike_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    layout = Layout(tmp_path)
    for results, warning in (
        ([RIGHT, SLOW], ""),
        ([RIGHT, RIGHT], "correctness is 1 for every completion; give harder"),
    ):
        write_jsonl(layout.trajectories(3), [group_of(*results)])
        run(layout, PARAMS, 3)
        assert f"round 3: rewards.{warning}" in caplog.text if warning else caplog.text == ""
    rewarded_by(tmp_path, with_terms(tmp_path), "please", "please ")
    assert "round 1: rewards.polite is 1.01 for every completion: it teaches nothing" in caplog.text


# --- terms of the user's own


MANNERS = """
import time

def polite(problem, text, results):
    assert problem.answer == 5
    if text == "rude":
        raise ValueError("rude")
    if text == "slow":
        time.sleep(60)
    return text.count("please") + len(results) / 100
"""


def with_terms(root: Path, *assignments: str) -> Params:
    """Params of a project whose own term is `manners:polite`, with weight 0.5 by default."""
    (root / "manners.py").write_text(MANNERS)
    (root / "params.yaml").write_text((REPOSITORY / "params.yaml").read_text())
    own = 'rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]'
    override(root / "params.yaml", [own, *assignments])
    return restrict(load_params(root / "params.yaml"), KEYS)


@pytest.fixture
def allow(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """allow(limit, seconds): the share of unknown rewards that stops the stage, and the time limit of a call."""

    def patch(limit: float, seconds: float = 10.0) -> None:
        for module in ("tasks.reward.compute", "tasks.reward.task"):
            monkeypatch.setattr(f"{module}.FAILED_LIMIT", limit)
        monkeypatch.setattr("tasks.reward.compute.SECONDS", seconds)

    return patch


Allow = Callable[..., None]


def rewarded_by(root: Path, params: Params, *texts: str) -> tuple[list[Reward], dict[str, Any]]:
    """One group that wrote these; the first is right."""
    layout = Layout(root)
    write_jsonl(layout.trajectories(1), [group_of(RIGHT, *[SLOW] * (len(texts) - 1), codes=list(texts))])
    run(layout, params, 1)
    return read_jsonl(layout.rewards(1), Reward), json.loads(layout.metrics("reward", 1).read_text())


def test_a_user_term_is_a_part_of_the_reward(tmp_path: Path) -> None:
    rewards, metrics = rewarded_by(tmp_path, with_terms(tmp_path), "please please", "please", "")
    assert [reward.terms["polite"] for reward in rewards] == [2.01, 1.01, 0.01]
    assert [reward.reward for reward in rewards] == pytest.approx([1 + 0.5 * 2.01, 0.5 * 1.01, 0.005])
    assert metrics["polite/mean"] == pytest.approx(1.01)
    assert metrics["polite/std"] == pytest.approx((2 / 3) ** 0.5)
    assert metrics["polite/failed_share"] == 0
    double = with_terms(tmp_path, 'rewards.own=[{name: polite, term: "manners:polite", weight: 1.0}]')
    again, _ = rewarded_by(tmp_path, double, "please", "")
    assert [reward.reward for reward in again] == pytest.approx([2.01, 0.01])


def test_a_completion_that_a_user_term_fails_on_has_no_reward_and_is_counted(tmp_path: Path, allow: Allow) -> None:
    allow(0.9, seconds=1.0)
    params = with_terms(tmp_path)
    rewards, metrics = rewarded_by(tmp_path, params, "please", "rude", "slow", "please please")
    assert [reward.status for reward in rewards] == ["ok", "failed", "timeout", "ok"]
    assert [reward.reward for reward in rewards] == [pytest.approx(1.505), None, None, pytest.approx(1.005)]
    assert [reward.terms["correctness"] for reward in rewards] == [1, 0, 0, 0]
    assert [reward.terms["polite"] for reward in rewards] == [1.01, None, None, 2.01]
    assert (metrics["failed_share"], metrics["timeout_share"], metrics["polite/failed_share"]) == (0.5, 0.25, 0.5)
    assert metrics["polite/mean"] == pytest.approx(1.51)


@pytest.mark.parametrize(("text", "kind"), [("rude", "ValueError: rude"), ("please", "sandbox")])
def test_a_round_without_a_known_reward_stops_the_stage_whatever_may_fail(
    tmp_path: Path, text: str, kind: str, allow: Allow
) -> None:
    allow(1.0)
    params, layout = with_terms(tmp_path), Layout(tmp_path)
    train = group_of(*[DIED if text == "please" else RIGHT] * 2, codes=[text, text])
    write_jsonl(layout.trajectories(1), [train])
    with pytest.raises(GraftError, match=rf"no reward of a completion could be computed; workflow .*{kind}"):
        run(layout, params, 1)
    assert not layout.rewards(1).exists()


def test_user_terms_need_no_torch(tmp_path: Path) -> None:
    """Nor does the process that calls them import more than it asks for."""
    params = with_terms(tmp_path)
    (tmp_path / "manners.py").write_text("import sys\ndef polite(p, t, r):\n    return float('torch' in sys.modules)\n")
    write_jsonl(Layout(tmp_path).trajectories(1), [group_of(RIGHT, SLOW)])
    code = (
        "import sys\nfrom pathlib import Path\nfrom tasks.layout import Layout\nfrom tasks.params.file import *\n"
        "from tasks.reward.task import run\nroot = Path(sys.argv[1])\n"
        f"run(Layout(root), restrict(load_params(root / 'params.yaml'), {KEYS}), 1)\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=REPOSITORY, check=True)
    assert [reward.terms["polite"] for reward in read_jsonl(Layout(tmp_path).rewards(1), Reward)] == [0, 0]
    assert params.rewards.own[0].weight == 0.5
