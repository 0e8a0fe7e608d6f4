"""`graft rollback` and `graft champion`, as a person calls them."""

from pathlib import Path

from tasks.artifacts import digest_path
from tasks.promote.champion import current_champion, previous_champions
from tests.support.champions import promote_weights
from tests.support.tiny_project import graft


def test_a_promotion_is_taken_back_and_put_back_by_one_command_each(done: Path) -> None:
    assert "there is no champion yet; graft retrain" in graft(done, "rollback", code=2).stderr
    first, second = promote_weights(done, "one"), promote_weights(done, "two")
    champion = done / "champion"
    good = digest_path(champion / "policy")
    told = graft(done, "rollback", "--reason", "rambles\nand worse").stdout
    assert told.startswith(f"champion: {first}, rolled back (rambles and worse); {second} was taken back and is kept\n")
    assert f"to undo this: graft rollback {second}\n" in told
    assert (current_champion(champion).version, list(previous_champions(champion))) == (first, [second])
    for arguments in ([], [first]):
        assert graft(done, "rollback", *arguments, code=2).stderr.count("\n") == 1

    shown = graft(done, "champion", COLUMNS="120").stdout
    assert f"champion: {first} in champion/policy" in shown
    assert f"kept, for graft rollback VERSION: {second}\n" in shown
    rows = [line.split() for line in shown.splitlines() if line.startswith("20")]
    assert [row[1] for row in rows] == [first, second, first]
    assert rows[0][2:] == ["rolled", "back", second, "rambles", "and", "worse"]
    assert rows[1][2:] == ["promoted", first, "promoted:", "[two]", "is", "better"]

    assert "rolled back (no reason given)" in graft(done, "rollback", second).stdout
    assert digest_path(champion / "policy") == good
    assert (current_champion(champion).version, list(previous_champions(champion))) == (second, [first])
