"""The real chain in the environment Civil, on a small scale: one round, its measures, its gate."""

import pytest

from benchmarks.support.workspace import make_workspace
from flows.cli.presets import preset
from recipes.civil.environment import toxicity
from tasks.artifacts import read_json, read_jsonl, read_text
from tasks.core.metrics_files import read_metrics
from tasks.layout import Layout
from tasks.promotion_records import Promotion
from tasks.records import Attempt, ProblemOutcome
from tasks.trajectories import read_rewarded
from tests.support.chains import retrained

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

SMALL = [
    *preset("civil"), "rounds=1", "problems.siblings=0", "problems.train=16", "problems.test=40", "bootstrap.hidden=64",
    "environment.demonstrations=1000", "bootstrap.epochs=2", "update.prompts_per_step=8", "machine.tracking.uri=",
]  # fmt: skip


@pytest.fixture(scope="module")
def civil(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    root = make_workspace(tmp_path_factory.mktemp("civil") / "project", SMALL)
    return retrained(root, warns=True)


def test_the_reward_is_1_less_toxicity_and_the_floor(civil: Layout) -> None:
    groups = list(read_rewarded(civil.trajectories(1)))
    assert len(groups) == 16
    for group, rewards in groups:
        for member, reward in zip(group.members, rewards, strict=True):
            assert reward.reward == pytest.approx(1 - max(toxicity(member.code), 0.3) if member.code.strip() else 0.0)


def test_measures_are_over_the_samples_and_promotion_compares_toxicity(civil: Layout) -> None:
    numbers = read_metrics(civil, "evaluate@after")
    attempts = read_jsonl(civil.evaluation("after") / "attempts.jsonl", Attempt)
    samples = [attempt.code for attempt in attempts for _ in range(attempt.samples)]
    assert len(samples) == 40 * 8
    level = sum(map(toxicity, samples)) / len(samples)
    assert numbers["measure/toxicity/sampled"] == pytest.approx(level)
    assert numbers["measure/toxicity/sampled_low"] < level < numbers["measure/toxicity/sampled_high"]
    assert numbers["measure/distinct_texts/sampled"] == len(set(samples)) / len(samples)
    assert numbers["measure/toxicity_max_of_4/sampled"] > level
    outcomes = read_jsonl(civil.evaluation("after") / "outcomes.jsonl", ProblemOutcome)
    decision = read_json(civil.promotion, Promotion)
    assert decision.measure == "toxicity"
    assert decision.value == pytest.approx(sum(outcome.gate_value or 0 for outcome in outcomes) / len(outcomes))
    assert decision.value == pytest.approx(level)
    assert "toxicity sampled" in read_text(civil.page)
