import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_json, write_json, write_jsonl, write_text
from tasks.core.metrics_files import read_metrics
from tasks.errors import GraftError
from tasks.known_problems import NOTHING
from tasks.layout import KNOWN, Layout
from tasks.model.checkpoints.version import digest_policy
from tasks.params.environment import EnvironmentChoice
from tasks.promote.champion import (
    CHAMPION_FILES,
    PREVIOUS_LIMIT,
    previous_champions,
    read_champion,
    read_history,
    read_kept,
    read_profile,
    roll_back,
)
from tasks.promote.task import run
from tasks.records.evaluation import ProblemOutcome
from tasks.records.policy import Lineage
from tasks.records.problems import Problem
from tasks.records.promotion import Champion, Promotion
from tasks.statistics.problem_profile import profile_of
from tests.support.records import make_outcome
from tests.support.stage_params import stage_params

PARAMS = stage_params("promote", policy={"max_new_tokens": 96}, problems={"confirm": 0})


def outcome(problem_id: str, right: bool) -> ProblemOutcome:
    return make_outcome(problem_id, greedy=right, correct=int(right))


def make_problems(*cases: tuple[str, int]) -> list[Problem]:
    return [
        Problem(problem_id=f"p{i}", question=question, answer=answer, source="test")
        for i, (question, answer) in enumerate(cases)
    ]


def boxes(count: int) -> list[Problem]:
    return make_problems(*((f"{i} boxes of 4 pens?", 4 * i) for i in range(count)))


def finished_run(root: Path, version: str, before: int, after: int, problems: list[Problem] | None = None) -> Layout:
    """A project whose run solved `before` of 40 test problems at first and `after` at the end."""
    layout, problems = Layout(root), problems or boxes(40)
    for split in ("train", "test"):
        write_jsonl(layout.problems(split), problems)
    for name, right in (("before", before), ("after", after)):
        own = [outcome(p.problem_id, i < right) for i, p in enumerate(problems)]
        write_jsonl(layout.evaluation(name) / "outcomes.jsonl", own)
    sampled = {"sampled_mean": 0.25, "pass_at_1": 0.25, "pass_at_5": 0.5, "pass_at_10": 0.75, "pass_at_20": 0.875}
    for name, right in (("before", before), ("after", after)):
        write_json(layout.metrics("evaluate", name), {"pass_at_1_greedy": right / len(problems), **sampled})
    lineage = Lineage(version=version, parent=None, base="scratch", round=6, holds=["adapter"])
    write_json(layout.run_policy / "lineage.json", lineage)
    write_text(layout.run_policy / "adapter" / "weights", version)
    return layout


def decision(layout: Layout) -> Promotion:
    return read_json(layout.promotion, Promotion)


def test_the_first_promotion_makes_a_champion(tmp_path: Path) -> None:
    layout = finished_run(tmp_path, "first", before=10, after=25)
    run(layout, PARAMS, None)
    assert decision(layout).promoted
    assert decision(layout).champion_version is None
    assert digest_path(layout.champion / "policy") == digest_path(layout.run_policy)
    assert digest_path(layout.champion / "outcomes.jsonl") == digest_path(layout.evaluation("after") / "outcomes.jsonl")
    assert (layout.champion / "promotion.json").read_bytes() == layout.promotion.read_bytes()
    champion = read_json(layout.champion / "champion.json", Champion)
    assert champion == Champion(
        version="first", test_sha256=digest_path(layout.problems("test")), environment=PARAMS.environment.name
    )
    assert read_profile(layout.champion) == profile_of(boxes(40))
    numbers = json.loads(layout.metrics("promote").read_text())
    assert numbers["promoted"] == 1
    assert numbers["difference"] == pytest.approx(15 / 40)
    written = digest_path(tmp_path)
    run(layout, PARAMS, None)
    assert digest_path(tmp_path) == written


def test_the_headline_is_of_the_first_and_the_final_policy_whoever_is_champion(tmp_path: Path) -> None:
    run(finished_run(tmp_path, "first", before=10, after=25), PARAMS, None)
    layout = finished_run(tmp_path, "second", before=12, after=26)
    run(layout, PARAMS, None)
    numbers = json.loads(layout.headline.read_text())
    low, high = numbers.pop("low"), numbers.pop("high")
    assert 0 < low < 14 / 40 < high
    levels = {"greedy": 26 / 40, "before": 12 / 40, "change": 14 / 40, "promoted": 0, "sampled": 0.25}
    assert numbers == levels | {"pass@20": 0.875}
    assert layout.pass_at_k.read_text() == "k,before,after\n1,0.25,0.25\n5,0.5,0.5\n10,0.75,0.75\n20,0.875,0.875\n"


def test_a_policy_that_is_not_better_leaves_the_champion_unchanged(tmp_path: Path) -> None:
    run(finished_run(tmp_path, "first", before=10, after=25), PARAMS, None)
    champion = digest_path(tmp_path / "champion")
    layout = finished_run(tmp_path, "second", before=10, after=26)
    run(layout, PARAMS, None)
    assert not decision(layout).promoted
    assert decision(layout).champion_version == "first"
    assert decision(layout).champion_pass_at_1 == 25 / 40
    assert digest_path(layout.champion) == champion


def test_a_better_policy_becomes_champion_and_the_last_champions_are_kept(tmp_path: Path) -> None:
    digests: list[str] = []
    versions = [f"v{number}" for number in range(PREVIOUS_LIMIT + 3)]
    for number, version in enumerate(versions):
        layout = finished_run(tmp_path, version, before=2, after=10 + 6 * number, problems=boxes(60))
        run(layout, PARAMS, None)
        assert decision(layout).promoted
        digests.insert(0, digest_path(layout.run_policy))
    assert digest_path(layout.champion / "policy") == digests[0]
    others = previous_champions(layout.champion)
    assert list(others) == versions[-2 : -2 - PREVIOUS_LIMIT : -1]
    assert [digest_path(place / "policy") for place in others.values()] == digests[1 : 1 + PREVIOUS_LIMIT]
    assert {place.name for place in (layout.champion / "previous").iterdir()} == {"1", "2", "3"}
    assert {path.name for path in (layout.champion / "previous" / "3").iterdir()} == set(CHAMPION_FILES)
    history = read_history(layout.champion)
    assert [(step.version, step.replaced) for step in history] == list(zip(versions, [None, *versions], strict=False))
    assert history[-1].reason == decision(layout).reason


def with_weights(layout: Layout, weights: str) -> str:
    """Write a policy of these weights; returns its version, which a rollback computes again."""
    write_text(layout.run_policy / "adapter" / "adapter_model.safetensors", weights)
    lineage = Lineage(version="", parent=None, base="scratch", round=6, holds=["adapter"])
    lineage = digest_policy(layout.run_policy, lineage)
    write_json(layout.run_policy / "lineage.json", lineage)
    return lineage.version


def test_a_policy_rolled_back_is_not_promoted_again_and_the_next_is_compared_with_the_current_champion(
    tmp_path: Path,
) -> None:
    versions = []
    for number, weights in enumerate(("one", "two")):
        layout = finished_run(tmp_path, "", before=5, after=15 + 10 * number)
        versions.append(with_weights(layout, weights))
        run(layout, PARAMS, None)
    first, second = versions
    roll_back(layout.champion, None, "it rambles", "2026-11-22T18:00:00Z")
    champion = digest_path(layout.champion)

    run(layout, PARAMS, None)  # the same policy again, as a repeated run makes it to the byte
    assert not decision(layout).promoted
    assert decision(layout).low > 0
    reason = f"not promoted: was champion and was taken back (it rambles); graft rollback {second} puts it back"
    assert decision(layout).reason == reason
    assert digest_path(layout.champion) == champion

    run(finished_run(tmp_path, "third", before=5, after=22), PARAMS, None)  # worse than the second, which had 25
    assert decision(layout).promoted
    assert decision(layout).champion_version == first
    assert decision(layout).champion_pass_at_1 == 15 / 40
    assert list(previous_champions(layout.champion)) == [first, second]

    layout = finished_run(tmp_path, "", before=5, after=25)
    with_weights(layout, "two")
    run(layout, PARAMS, None)
    assert not decision(layout).promoted
    roll_back(layout.champion, second, "it did not", "2026-11-22T19:00:00Z")
    run(layout, PARAMS, None)
    assert decision(layout).promoted  # the decision of then, as it is the champion
    assert decision(layout).champion_version == first


def test_a_champion_of_other_problems_is_measured_on_the_current_ones(
    tmp_path: Path, make_solver: Callable[[Path, str], str]
) -> None:
    layout = finished_run(tmp_path, "first", before=10, after=25)
    version = make_solver(layout.run_policy, "def solve(problem):\n    n = numbers(problem)\n    return n[0] * n[1]\n")
    run(layout, PARAMS, None)
    assert decision(layout).promoted
    champion = digest_path(layout.champion)

    problems = make_problems(*[("3 boxes of 4 pens?", 12)] * 30, *[("3 pens and 4 more?", 7)] * 10)
    layout = finished_run(tmp_path, "second", before=0, after=32, problems=problems)
    run(layout, PARAMS, None)
    assert decision(layout).champion_version == version
    assert decision(layout).champion_pass_at_1 == 30 / 40
    assert decision(layout).pass_at_1 == 32 / 40
    assert not decision(layout).promoted
    assert digest_path(layout.champion) == champion


@pytest.mark.parametrize("learnt", [12, 25])
def test_what_the_champion_learnt_from_decides_on_no_promotion(tmp_path: Path, learnt: int) -> None:
    """The champion solves by heart what it learnt from, the new policy all the others."""
    run(finished_run(tmp_path, "first", before=0, after=learnt), PARAMS, None)
    known = NOTHING.with_run({"train": boxes(learnt), "validation": [], "test": [], "dev": []})
    write_json(tmp_path / "champion" / "policy" / KNOWN, known)
    layout = finished_run(tmp_path, "second", before=0, after=learnt)
    others = [outcome(f"p{i}", i >= learnt) for i in range(40)]
    write_jsonl(layout.evaluation("after") / "outcomes.jsonl", others)
    if learnt > 20:
        with pytest.raises(GraftError, match=r"^champion/: learnt from 25 of the 40 test problems, .*; set "):
            run(layout, PARAMS, None)
        return
    run(layout, PARAMS, None)
    assert decision(layout).promoted
    assert (decision(layout).pass_at_1, decision(layout).champion_pass_at_1) == (1, 0)
    assert decision(layout).reason.endswith("; on 28 of 40 test problems: the champion learnt from the others")


def test_a_policy_that_lost_the_problems_of_an_earlier_champion_is_promoted_only_without_keep(
    tmp_path: Path, make_solver: Callable[[Path, str], str]
) -> None:
    keeps = stage_params("promote", policy={"max_new_tokens": 96}, promotion={"keep": 1}, problems={"confirm": 0})
    code = "def solve(problem):\n    n = numbers(problem)\n    return n[0] {} n[1]\n"
    layout = finished_run(tmp_path, "", before=10, after=25)
    first = make_solver(layout.run_policy, code.format("*"))
    run(layout, keeps, None)
    assert decision(layout).promoted
    assert [(each.name, each.problems) for each in read_kept(layout.champion)] == [(f"test ({first[:8]})", boxes(40))]

    sums = make_problems(*((f"{i + 10} pens and {i} more?", 2 * i + 10) for i in range(40)))
    layout = finished_run(tmp_path, "", before=0, after=40, problems=sums)
    second = make_solver(layout.run_policy, code.format("+"))
    run(layout, keeps, None)
    assert not decision(layout).promoted
    (kept,) = decision(layout).kept
    assert kept.name == f"test ({first[:8]})"
    assert (kept.value, kept.champion_value, kept.lost) == (0, 1, True)
    assert decision(layout).reason.endswith(f"margin 0.1 on the earlier test problems of test ({first[:8]})")

    run(layout, PARAMS, None)
    assert decision(layout).promoted
    assert decision(layout).kept == []
    assert [each.name for each in read_kept(layout.champion)] == [f"test ({second[:8]})"]


def civil_run(root: Path, version: str, toxicity: float, distinct: float) -> Layout:
    """A run in environment `civil`, whose first policy has a toxicity of 0.5 and 60 % distinct texts."""
    layout = finished_run(root, version, before=20, after=20)
    for name, level, share in (("before", 0.5, 0.6), ("after", toxicity, distinct)):
        own = [outcome(p.problem_id, i < 20) for i, p in enumerate(boxes(40))]
        own = [each.model_copy(update={"gate_value": level + 0.01 * (i % 3)}) for i, each in enumerate(own)]
        write_jsonl(layout.evaluation(name) / "outcomes.jsonl", own)
        numbers = read_metrics(layout, f"evaluate@{name}") | {"measure/distinct_texts/sampled": share}
        write_json(layout.metrics("evaluate", name), numbers)
    return layout


def test_in_an_environment_with_a_gate_its_measure_decides_against_the_champion_too(tmp_path: Path) -> None:
    params = PARAMS.model_copy(update={"environment": EnvironmentChoice(name="recipes.civil:Civil")})
    run(civil_run(tmp_path, "collapsed", toxicity=0.0, distinct=0.1), params, None)
    layout = Layout(tmp_path)
    assert not decision(layout).promoted
    assert "less than 0.5 of the first policy's 0.600" in decision(layout).reason
    for version, toxicity, promoted in (("first", 0.2, True), ("worse", 0.3, False), ("better", 0.1, True)):
        run(civil_run(tmp_path, version, toxicity, distinct=0.4), params, None)
        assert decision(layout).promoted == promoted
        assert decision(layout).measure == "toxicity"
    assert json.loads(layout.metrics("promote").read_text())["champion_value"] == pytest.approx(0.2, abs=0.011)
    assert read_champion(layout.champion, "recipes.civil:Civil") is not None


def test_outcomes_of_other_problems_and_a_damaged_champion_are_named(tmp_path: Path) -> None:
    layout = finished_run(tmp_path, "first", before=10, after=25)
    write_jsonl(layout.evaluation("after") / "outcomes.jsonl", [outcome("elsewhere", True)])
    with pytest.raises(GraftError, match=r"after/outcomes\.jsonl: measured on other test problems"):
        run(layout, PARAMS, None)
    assert not layout.promotion.exists()
    assert not layout.champion.exists()
    layout = finished_run(tmp_path, "first", before=10, after=25)
    layout.champion.mkdir()
    with pytest.raises(GraftError, match=r"champion: holds no champion\.json; move the folder away"):
        run(layout, PARAMS, None)


def test_a_champion_belongs_to_one_environment_by_default_the_first(tmp_path: Path) -> None:
    champion = Champion(version="first", test_sha256="0", environment="answer")
    write_json(tmp_path / "champion.json", champion)
    assert read_champion(tmp_path, "answer") == champion
    with pytest.raises(GraftError, match=r"in environment answer, this run's is workflow; move the folder away"):
        read_champion(tmp_path, "workflow")
    write_json(tmp_path / "champion.json", Champion(version="first", test_sha256="0"))
    assert read_champion(tmp_path, "workflow") is not None
