"""Laws of the latest policy: scheduled runs are built on it, and what broke something is left behind."""

from pathlib import Path

import pytest

from flows.champion import print_champions
from flows.history.changes import scheduled_base
from flows.stages.user_files import CHAMPION, LATEST
from tasks.artifacts import digest_path, read_json, write_json, write_text
from tasks.core.console import PlainConsole
from tasks.layout import Layout
from tasks.model.checkpoints.version import digest_policy
from tasks.promote.challenger import approve_challenger
from tasks.promote.champion import champion_version, read_history, roll_back
from tasks.promote.latest import (
    first_policy,
    follow_champion,
    is_left_behind,
    keep_champion,
    keep_latest,
    latest_lock,
    read_latest,
)
from tasks.records.policy import Lineage
from tasks.records.promotion import Promotion
from tests.support.champions import NOW, keep_weights, promote_weights
from tests.support.kill_moments import killed_at_each_call
from tests.support.records import make_promotion
from tests.support.stage_params import shipped_params
from tests.support.tiers import nightly_but_first


def write_policy(folder: Path, weights: str, parent: str | None = None) -> str:
    """A policy of these weights; returns its version."""
    write_text(folder / "adapter" / "adapter_model.safetensors", weights)
    lineage = Lineage(version="", parent=parent, base="scratch", round=0, holds=["adapter"])
    lineage = digest_policy(folder, lineage)
    write_json(folder / "lineage.json", lineage)
    return lineage.version


def night(layout: Layout, weights: str, **decided: object) -> str:
    """A scheduled run from the latest policy, with this decision; returns the version of its policy."""
    latest = read_latest(layout)
    write_policy(layout.policy(0), "the start", latest.version if latest else None)
    version = write_policy(layout.run_policy, weights)
    champion = champion_version(layout.champion)
    fields = {"promoted": False, "low": -0.1} | decided
    keep_latest(layout, make_promotion(version=version, champion_version=champion, **fields), "workflow")
    return version


def weights_of(folder: Path) -> str:
    return (folder / "adapter" / "adapter_model.safetensors").read_text()


def latest_version(layout: Layout) -> str | None:
    latest = read_latest(layout)
    assert latest is None or latest.version == read_json(layout.latest / "policy" / "lineage.json", Lineage).version
    return latest.version if latest else None


def base(layout: Layout, own: str = "scratch", start: str = "latest") -> str:
    return scheduled_base(layout, shipped_params(policy={"base": own}, machine={"schedule": {"start": start}}))


def test_a_run_is_built_on_unless_it_is_worse_by_more_than_chance(tmp_path: Path) -> None:
    layout, served = Layout(tmp_path), promote_weights(tmp_path, "served")
    assert (latest_version(layout), base(layout)) == (None, CHAMPION)
    for weights in ("one", "two"):
        assert night(layout, weights) == latest_version(layout)
    assert {base(layout, own) for own in ("scratch", CHAMPION, LATEST)} == {LATEST}
    assert (base(layout, start="champion"), base(layout, "someone/model")) == (CHAMPION, "someone/model")
    night(layout, "broken", worse=True)
    assert latest_version(layout) == served == champion_version(layout.champion)
    assert digest_path(layout.latest / "policy") == digest_path(layout.champion / "policy")
    assert base(layout) == LATEST


def test_before_there_is_a_champion_the_line_is_compared_with_its_first_policy(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    night(layout, "one")
    second = night(layout, "two")
    assert (latest_version(layout), weights_of(first_policy(layout))) == (second, "the start")
    assert first_policy(layout) == layout.first  # not the policy that the second run started from
    night(layout, "broken", worse=True)
    assert weights_of(layout.latest / "policy") == "the start"
    write_policy(layout.policy(0), "from scratch")
    assert first_policy(layout) == layout.policy(0)  # a run by hand from elsewhere
    promote_weights(tmp_path, "served")
    night(layout, "three")
    assert not layout.first.exists()


def test_after_a_rollback_or_a_promotion_by_hand_runs_start_from_that_champion(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout, first = Layout(tmp_path), promote_weights(tmp_path, "one")
    second = promote_weights(tmp_path, "two")
    version = night(layout, "three")
    print_champions(layout, PlainConsole(highlight=False))
    assert f"latest: {version} in latest/policy" in capsys.readouterr().out
    roll_back(layout.champion, None, "it rambles", NOW)
    assert (latest_version(layout), base(layout)) == (None, CHAMPION)  # even if its process was killed here
    keep_champion(layout)
    assert (latest_version(layout), base(layout)) == (first, LATEST)
    taken_back = make_promotion(version=second, champion_version=first)
    assert is_left_behind(taken_back, read_history(layout.champion))  # a repeated run makes it again to the byte
    assert night(layout, "four") == latest_version(layout)
    promote_weights(tmp_path, "by hand")
    assert (latest_version(layout), base(layout)) == (None, CHAMPION)


def test_while_a_policy_waits_runs_are_built_on_it_and_its_approval_changes_nothing(tmp_path: Path) -> None:
    layout, _ = Layout(tmp_path), promote_weights(tmp_path, "served")
    waits = keep_weights(tmp_path, "waits")
    keep_latest(layout, read_json(layout.challenger / "promotion.json", Promotion), "workflow")
    assert latest_version(layout) == waits
    later = night(layout, "later")
    follow_champion(layout, approve_challenger(layout, waits, "", NOW))
    assert (latest_version(layout), champion_version(layout.champion)) == (later, waits)


@pytest.mark.slow
@pytest.mark.parametrize("exchange", nightly_but_first([True, False]))
def test_killed_at_any_moment_the_latest_policy_is_the_old_one_or_the_new_one(tmp_path: Path, exchange: bool) -> None:
    root = tmp_path / "project"
    layout, _ = Layout(root), promote_weights(root, "served")
    old, new = night(layout, "one"), write_policy(layout.run_policy, "two")
    write_json(layout.promotion, make_promotion(promoted=False, version=new))
    step = "keep_latest(Layout(root), read_json(Layout(root).promotion, Promotion), 'workflow')"
    found = list[str | None]()
    for copy in killed_at_each_call(root, step, exchange):
        with latest_lock(Layout(copy)):
            found.append(latest_version(Layout(copy)))
        assert not list(copy.glob(".latest*"))
    assert set(found) == {old, new}
    assert found[-1] == new
