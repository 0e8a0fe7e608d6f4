"""A rollback happens completely or not at all, even if its process is killed."""

import shutil
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_json, write_text
from tasks.errors import GraftError
from tasks.promote.champion import current_champion, previous_champions, read_history, read_profile, roll_back
from tasks.records.promotion import Champion, Succession
from tests.support.champions import NOW, PROFILE, promote_weights
from tests.support.kill_moments import killed_at_each_call


@pytest.fixture
def three(tmp_path: Path) -> list[str]:
    """The versions of three champions, each of which replaced the one before."""
    return [promote_weights(tmp_path, weights) for weights in ("one", "two", "three")]


def state(folder: Path) -> dict[str, str]:
    """Version → digest of all of its own, of the champion (first) and of those that are kept."""
    places = {current_champion(folder).version: folder, **previous_champions(folder)}
    names = ("champion.json", "policy", "outcomes.jsonl", "promotion.json")
    return {v: "".join(digest_path(place / name) for name in names) for v, place in places.items()}


def test_back_and_forth_nothing_is_lost(tmp_path: Path, three: list[str]) -> None:
    champion, (one, two, last) = tmp_path / "champion", three
    before = state(champion)
    assert list(before) == [last, two, one]
    step = roll_back(champion, None, "it rambles", NOW)
    assert step == Succession(version=two, replaced=last, how="rolled back", reason="it rambles", time=NOW)
    assert list(state(champion)) == [two, last, one]
    assert roll_back(champion, None, "so does that", NOW).version == one
    assert list(state(champion)) == [one, two, last]
    with pytest.raises(GraftError, match=rf"no champion before this one is kept; rolled back .*: {last}, {two}; graft"):
        roll_back(champion, None, "more", NOW)
    assert roll_back(champion, last[:5], "it was fine", NOW).version == last
    assert state(champion) == before
    assert [step.version for step in read_history(champion)] == [one, two, last, two, one, last]
    assert not list(tmp_path.glob(".champion*"))


def test_an_impossible_version_is_refused(tmp_path: Path) -> None:
    champion = tmp_path / "champion"
    with pytest.raises(GraftError, match="there is no champion yet; graft retrain"):
        roll_back(champion, None, "", NOW)
    promote_weights(tmp_path, "one")
    with pytest.raises(GraftError, match="no champion before this one is kept; graft champion"):
        roll_back(champion, None, "", NOW)
    current = promote_weights(tmp_path, "two")
    before = digest_path(champion)
    with pytest.raises(GraftError, match=r"no champion that .*previous keeps; it has .*: name one"):
        roll_back(champion, "unknown", "", NOW)
    with pytest.raises(GraftError, match="is the champion already; name"):
        roll_back(champion, current, "", NOW)
    assert digest_path(champion) == before


def test_a_damaged_policy_does_not_become_champion(tmp_path: Path, three: list[str]) -> None:
    champion = tmp_path / "champion"
    damaged = previous_champions(champion)[three[1]] / "policy" / "adapter"
    write_text(damaged / "adapter_model.safetensors", "tws")
    for _ in ("other weights", "no weights"):
        before = digest_path(champion)
        with pytest.raises(GraftError, match=rf"previous/1/policy: its weights are damaged or .*{three[1]} by its rec"):
            roll_back(champion, None, "", NOW)
        assert digest_path(champion) == before
        shutil.rmtree(damaged, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize("exchange", [True, False])
def test_killed_at_any_moment_it_leaves_the_old_champion_or_the_new_one(tmp_path: Path, exchange: bool) -> None:
    """Also on a file system that cannot exchange two folders in one step."""
    root = tmp_path / "project"
    _, second, last = (promote_weights(root, weights) for weights in ("one", "two", "three"))
    before, found = state(root / "champion"), list[str]()
    for copy in killed_at_each_call(root, f"roll_back(root / 'champion', '{second}', '', 'now')", exchange):
        champion = copy / "champion"
        found.append(current_champion(champion).version if champion.exists() else "none")
        if found[-1] != second:
            roll_back(champion, second, "", NOW)  # the same again: it continues from what was left
        assert state(champion) == before
    assert found[-1] == second
    assert set(found) == ({last, second} if exchange else {last, "none", second})


def test_a_promotion_repairs_an_interrupted_rollback(tmp_path: Path, three: list[str]) -> None:
    """Killed between two renames, where folders cannot be exchanged in one step."""
    champion = tmp_path / "champion"
    (tmp_path / ".champion.abcd1234").mkdir()
    champion.rename(tmp_path / ".champion.abcd1234" / "champion")
    promote_weights(tmp_path, "four")
    assert list(previous_champions(champion)) == [three[2], three[1], three[0]]
    assert read_json(champion / "previous" / "1" / "champion.json", Champion).version == three[2]


def test_an_older_champion_without_a_profile_is_put_back_and_its_successors_is_kept(tmp_path: Path) -> None:
    champion = tmp_path / "champion"
    first = promote_weights(tmp_path, "one")
    (champion / "profile.json").unlink()
    second = promote_weights(tmp_path, "two")
    roll_back(champion, None, "", NOW)
    assert (current_champion(champion).version, read_profile(champion)) == (first, None)
    roll_back(champion, second, "", NOW)
    assert read_profile(champion) == PROFILE
