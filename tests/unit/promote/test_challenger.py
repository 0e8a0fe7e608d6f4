"""Laws of approval: a better policy waits; approved, it is champion exactly as the stage would have made it."""

from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_json, write_text
from tasks.core.metrics_files import read_metrics
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.promote.challenger import approve_challenger, read_challenger
from tasks.promote.champion import CHAMPION_FILES, champion_version, previous_champions, read_history, roll_back
from tasks.promote.task import run
from tasks.records.promotion import Promotion, Succession
from tests.support.champions import NOW, keep_weights, promote_weights
from tests.support.kill_moments import killed_at_each_call
from tests.support.stage_params import stage_params
from tests.support.tiers import nightly_but_first
from tests.unit.promote.test_promotion_task import decision, finished_run, with_weights

AUTO, PERSON = (
    stage_params("promote", promotion={"approve": name}, problems={"confirm": 0}) for name in ("auto", "person")
)


def waiting_run(root: Path) -> tuple[Layout, str]:
    """A better policy that waits; returns its version, too."""
    layout = finished_run(root, "", before=5, after=20)
    version = with_weights(layout, "one")
    run(layout, PERSON, None)
    return layout, version


def test_approved_it_is_what_the_stage_makes_but_for_the_note(tmp_path: Path) -> None:
    layout, version = waiting_run(tmp_path / "person")
    waits = decision(layout)
    assert (waits.promoted, waits.approval) == (False, "waits")
    assert waits.reason.startswith("better: 0.500 beats the first policy's 0.125 by 0.375 (95 % interval 0.")
    assert waits.reason.endswith(f"); waits for approval: graft promote {version}")
    assert read_metrics(layout, "promote")["promoted"] == 0
    assert read_challenger(layout) == waits
    assert not layout.champion.exists()
    written = digest_path(layout.root / "run")
    step = approve_challenger(layout, version[:6], "reads well", NOW)
    assert digest_path(layout.root / "run") == written
    assert read_challenger(layout) is None
    assert not list(layout.root.glob("*challenger*"))

    auto = finished_run(tmp_path / "auto", "", before=5, after=20)
    with_weights(auto, "one")
    run(auto, AUTO, None)
    assert "approval" not in auto.promotion.read_text()
    assert not auto.challenger.exists()
    for name in set(CHAMPION_FILES) - {"promotion.json"}:
        assert digest_path(layout.champion / name) == digest_path(auto.champion / name)
    note = {"approval": "person", "reason": f"{decision(auto).reason}; approved by a person (reads well)"}
    approved = read_json(layout.champion / "promotion.json", Promotion)
    assert approved == decision(auto).model_copy(update=note)
    assert step == Succession(version=version, replaced=None, how="approved", reason=note["reason"], time=NOW)
    assert read_history(layout.champion) == [step]
    run(layout, PERSON, None)  # it repeats the decision of its champion, as with auto
    assert decision(layout) == approved


def test_a_policy_that_is_not_better_or_was_taken_back_does_not_wait(tmp_path: Path) -> None:
    run(finished_run(tmp_path, "same", before=20, after=20), PERSON, None)
    assert read_challenger(Layout(tmp_path)) is None
    with_weights(finished_run(tmp_path, "", before=0, after=10), "zero")
    run(Layout(tmp_path), AUTO, None)
    layout, version = waiting_run(tmp_path)
    approve_challenger(layout, version, "", NOW)
    roll_back(layout.champion, None, "it rambles", NOW)
    run(layout, PERSON, None)
    assert "was taken back (it rambles)" in decision(layout).reason
    assert read_challenger(layout) is None


def test_the_latest_better_policy_waits_until_one_is_promoted(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    keep_weights(tmp_path, "one")
    write_text(layout.challenger / "page.html", "of the first")
    second = keep_weights(tmp_path, "two")
    waits = read_challenger(layout)
    assert waits is not None
    assert waits.version == second
    assert {path.name for path in layout.challenger.iterdir()} == set(CHAMPION_FILES)
    other = finished_run(tmp_path, "", before=5, after=20)
    with_weights(other, "three")
    run(other, AUTO, None)
    assert decision(other).promoted
    assert not layout.challenger.exists()


def test_what_cannot_be_approved_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    layout = Layout(tmp_path)

    def champions() -> list[str]:
        return [digest_path(folder) for folder in (layout.champion, layout.challenger) if folder.exists()]

    def refuse(version: str, message: str) -> None:
        before = champions()
        with pytest.raises(GraftError, match=rf"^{version}: {message}") as error:
            approve_challenger(layout, version, "", NOW)
        assert "\n" not in str(error.value)
        assert champions() == before

    refuse("beef", "is no policy that waits for approval; none does; graft champion")
    first = promote_weights(tmp_path, "one")
    refuse(first, "is the champion already; graft champion")
    second = keep_weights(tmp_path, "two")
    refuse("beef", rf"is no policy that waits for approval; {second} does: name that")
    approve_challenger(layout, second, "", NOW)
    third = keep_weights(tmp_path, "three")
    roll_back(layout.champion, None, "it rambles", NOW)
    refuse(second, rf"was champion before; graft rollback {second} puts it back")
    refuse(third, rf"was compared with {second}, but the champion is {first}; compare again: graft retrain")
    roll_back(layout.champion, second, "it did not", NOW)
    write_text(layout.challenger / "policy" / "adapter" / "adapter_model.safetensors", "thre")
    with pytest.raises(GraftError, match=r"challenger/policy: its weights are damaged"):
        approve_challenger(layout, third, "", NOW)
    assert champion_version(layout.champion) == second


def test_an_empty_shell_variable_approves_and_restores_nothing(tmp_path: Path) -> None:
    promote_weights(tmp_path, "one")
    first = promote_weights(tmp_path, "two")
    waits = keep_weights(tmp_path, "three")
    layout, before = Layout(tmp_path), digest_path(tmp_path)
    for short in ("", waits[:1], waits[:3], first[:3]):
        message = rf"^'{short}': too short for a version; give 4 characters of it or more, graft champion lists them$"
        for act in (
            lambda: approve_challenger(layout, short, "", NOW),  # noqa: B023
            lambda: roll_back(layout.champion, short, "", NOW),  # noqa: B023
        ):
            with pytest.raises(GraftError, match=message):
                act()
    assert digest_path(tmp_path) == before
    assert approve_challenger(layout, waits[:4], "", NOW).version == waits


@pytest.mark.slow
@pytest.mark.parametrize("exchange", nightly_but_first([True, False]))
def test_killed_at_any_moment_the_policy_waits_or_is_champion(tmp_path: Path, exchange: bool) -> None:
    """And is never both or neither for the next command."""
    root = tmp_path / "project"
    first, second = promote_weights(root, "one"), keep_weights(root, "two")
    for copy in killed_at_each_call(root, f"approve_challenger(Layout(root), '{second}', '', 'now')", exchange):
        layout = Layout(copy)
        waits = read_challenger(layout)
        if waits is None:
            assert champion_version(layout.champion) == second
        else:
            assert waits.version == second
            assert champion_version(layout.champion) in (first, None)
            approve_challenger(layout, second, "", NOW)  # the same again: it continues from what was left
        assert champion_version(layout.champion) == second
        assert list(previous_champions(layout.champion)) == [first]
        assert read_challenger(layout) is None
