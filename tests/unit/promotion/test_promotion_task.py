import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_json, write_json, write_jsonl, write_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import load_params, restrict
from tasks.promotion.champion import CHAMPION_FILES, PREVIOUS_LIMIT, previous_champions, read_champion, read_history
from tasks.promotion.rollback import roll_back
from tasks.promotion.task import run
from tasks.records import Champion, Lineage, Problem, ProblemOutcome, Promotion
from tests.support.records import make_outcome

SHIPPED = load_params(Path(__file__).parents[3] / "params.yaml")
KEYS = ["seed", "environment", "environment_sha256", "policy.base", "policy.max_new_tokens", "sandbox", "operators"]
KEYS += ["evaluation.resamples", "evaluation.confidence"]
LONGER = SHIPPED.policy.model_copy(update={"max_new_tokens": 96})
PARAMS = restrict(SHIPPED.model_copy(update={"policy": LONGER}), KEYS)
PRODUCT = "def solve(problem):\n    n = numbers(problem)\n    return n[0] * n[1]\n"


def outcome(problem_id: str, right: bool) -> ProblemOutcome:
    return make_outcome(problem_id, greedy=right, correct=int(right))


def finished_run(root: Path, version: str, before: int, after: int, problems: list[Problem] | None = None) -> Layout:
    """A project whose run solved `before` of 40 test problems at first and `after` at the end."""
    layout = Layout(root)
    problems = problems or [
        Problem(problem_id=f"p{i}", question=f"{i} boxes of 4 pens?", answer=4 * i, source="test") for i in range(40)
    ]
    write_jsonl(layout.problems("test"), problems)
    for name, right in (("before", before), ("after", after)):
        own = [outcome(p.problem_id, i < right) for i, p in enumerate(problems)]
        write_jsonl(layout.evaluation(name) / "outcomes.jsonl", own)
    policy(layout.run_policy, version)
    return layout


def policy(folder: Path, version: str) -> None:
    """As much of a policy folder as promotion looks at where no policy has to write anything."""
    write_json(
        folder / "lineage.json",
        Lineage(version=version, parent=None, base="scratch", round=6, holds=["adapter"]),
    )
    write_text(folder / "adapter" / "weights", version)


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
    assert champion == Champion(version="first", test_sha256=digest_path(layout.problems("test")))
    numbers = json.loads(layout.metrics("promote").read_text())
    assert numbers["promoted"] == 1
    assert numbers["difference"] == pytest.approx(15 / 40)


@pytest.mark.parametrize("after", [25, 11, 5])  # promoted, may be chance, worse
def test_running_it_again_changes_no_byte(tmp_path: Path, after: int) -> None:
    layout = finished_run(tmp_path, "first", before=10, after=after)
    run(layout, PARAMS, None)
    written = digest_path(tmp_path)
    run(layout, PARAMS, None)
    assert digest_path(tmp_path) == written


def test_a_policy_that_is_not_better_leaves_the_champion_alone(tmp_path: Path) -> None:
    run(finished_run(tmp_path, "first", before=10, after=25), PARAMS, None)
    champion = digest_path(tmp_path / "champion")
    layout = finished_run(tmp_path, "second", before=10, after=26)
    run(layout, PARAMS, None)
    assert not decision(layout).promoted
    assert decision(layout).champion_version == "first"
    assert decision(layout).champion_pass_at_1 == 25 / 40
    assert digest_path(layout.champion) == champion


def test_a_better_policy_takes_the_place_and_the_last_champions_are_kept(tmp_path: Path) -> None:
    digests: list[str] = []
    versions = [f"v{number}" for number in range(PREVIOUS_LIMIT + 3)]
    for number, version in enumerate(versions):
        layout = finished_run(tmp_path, version, before=2, after=10 + 6 * number, problems=many_problems())
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


def many_problems() -> list[Problem]:
    return [
        Problem(problem_id=f"p{i}", question=f"{i} boxes of 4 pens?", answer=4 * i, source="test") for i in range(60)
    ]


def test_a_policy_that_was_taken_back_is_not_promoted_again_and_the_next_is_compared_with_who_is_champion(
    tmp_path: Path, make_solver: Callable[[Path, str], str]
) -> None:
    versions = []
    for number, code in enumerate(("return 1", "return 2")):
        layout = finished_run(tmp_path, "", before=5, after=15 + 10 * number)
        versions.append(make_solver(layout.run_policy, f"def solve(problem):\n    {code}\n"))
        run(layout, PARAMS, None)
    first, second = versions
    roll_back(layout.champion, None, "it rambles", "2026-11-22T18:00:00Z")
    champion = digest_path(layout.champion)

    run(layout, PARAMS, None)  # the same policy again, as a repeated run makes it to the byte
    assert not decision(layout).promoted
    assert decision(layout).low > 0
    told = f"not promoted: was champion and was taken back (it rambles); graft rollback {second} puts it back"
    assert decision(layout).reason == told
    assert digest_path(layout.champion) == champion

    run(finished_run(tmp_path, "third", before=5, after=22), PARAMS, None)  # worse than the second, which had 25
    assert decision(layout).promoted
    assert decision(layout).champion_version == first
    assert decision(layout).champion_pass_at_1 == 15 / 40
    assert list(previous_champions(layout.champion)) == [first, second]

    layout = finished_run(tmp_path, "", before=5, after=25)
    make_solver(layout.run_policy, "def solve(problem):\n    return 2\n")
    run(layout, PARAMS, None)
    assert not decision(layout).promoted
    assert roll_back(layout.champion, second, "it did not", "2026-11-22T19:00:00Z").how == "reinstated"
    run(layout, PARAMS, None)
    assert decision(layout).promoted  # the decision of then, as it is the champion
    assert decision(layout).champion_version == first


def test_a_champion_of_other_problems_is_measured_on_the_present_ones(
    tmp_path: Path, make_solver: Callable[[Path, str], str]
) -> None:
    layout = finished_run(tmp_path, "first", before=10, after=25)
    version = make_solver(layout.run_policy, "def solve(problem):\n    n = numbers(problem)\n    return n[0] * n[1]\n")
    run(layout, PARAMS, None)
    assert decision(layout).promoted
    champion = digest_path(layout.champion)

    questions = [("3 boxes of 4 pens?", 12)] * 30 + [("3 pens and 4 more?", 7)] * 10
    problems = [
        Problem(problem_id=f"q{i}", question=question, answer=answer, source="test")
        for i, (question, answer) in enumerate(questions)
    ]
    layout = finished_run(tmp_path, "second", before=0, after=32, problems=problems)
    run(layout, PARAMS, None)
    assert decision(layout).champion_version == version
    assert decision(layout).champion_pass_at_1 == 30 / 40
    assert decision(layout).pass_at_1 == 32 / 40
    assert not decision(layout).promoted
    assert digest_path(layout.champion) == champion


def test_outcomes_of_other_problems_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    layout = finished_run(tmp_path, "first", before=10, after=25)
    write_jsonl(layout.evaluation("after") / "outcomes.jsonl", [outcome("elsewhere", True)])
    with pytest.raises(GraftError, match=r"after/outcomes\.jsonl: measured on other test problems"):
        run(layout, PARAMS, None)
    assert not layout.promotion.exists()
    assert not layout.champion.exists()


def test_a_damaged_champion_is_named(tmp_path: Path) -> None:
    layout = finished_run(tmp_path, "first", before=10, after=25)
    layout.champion.mkdir()
    with pytest.raises(GraftError, match=r"champion: holds no champion\.json; move the folder away"):
        run(layout, PARAMS, None)


def test_a_champion_that_cannot_be_copied_whole_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(finished_run(tmp_path, "first", before=5, after=15), PARAMS, None)
    champion = digest_path(tmp_path / "champion")
    layout = finished_run(tmp_path, "second", before=5, after=30)
    monkeypatch.setattr("shutil.copyfile", _full_disk)  # a real one would need a file system of its own
    with pytest.raises(GraftError, match="the disk is full"):
        run(layout, PARAMS, None)
    assert digest_path(layout.champion) == champion
    assert not list(tmp_path.glob(".champion*"))


def _full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_champion_of_another_environment_is_left_where_it_is(tmp_path: Path) -> None:
    champion = Champion(version="first", test_sha256="0", environment="answer")
    write_json(tmp_path / "champion.json", champion)
    assert read_champion(tmp_path, "answer") == champion
    with pytest.raises(GraftError, match=r"in environment answer, this run's is workflow; move the folder away"):
        read_champion(tmp_path, "workflow")


def test_a_champion_of_before_there_were_environments_is_of_workflow(tmp_path: Path) -> None:
    write_json(tmp_path / "champion.json", Champion(version="first", test_sha256="0"))
    assert "environment" not in (tmp_path / "champion.json").read_text()
    assert read_champion(tmp_path, "workflow") is not None
