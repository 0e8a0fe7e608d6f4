"""`promotion.approve` person, as a person uses it: a policy waits, and `graft promote` makes it champion.

And `graft rollback` and `graft champion`.
"""

import sys
from pathlib import Path

import pytest

from flows.dvc_stages.pipeline import DvcPipeline
from flows.history.run_history import entries
from tasks.artifacts import digest_path, read_json
from tasks.layout import Layout
from tasks.promote.challenger import read_challenger
from tasks.promote.champion import champion_version, current_champion, previous_champions
from tasks.records.promotion import Promotion
from tests.support.champions import promote_weights
from tests.support.params_file import override
from tests.support.tiny_project import ADDRESSES, commit, graft, ran, run

PERSON = ["-S", "promotion.approve=person"]
FLOW = "from flows.scheduling.scheduled_run import scheduled; scheduled()"


def stale(root: Path) -> set[str]:
    return {address for address, reasons in DvcPipeline(root).stale().items() if reasons}


def waiting(root: Path) -> str:
    """The version of the policy that waits."""
    decision = read_challenger(Layout(root))
    assert decision is not None
    return decision.version


@pytest.mark.slow
def test_a_policy_waits_until_a_person_promotes_it_and_no_stage_becomes_stale(
    done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(done)
    layout = Layout(done)
    assert graft(done, "promote", "beef", code=2).stderr.count("\n") == 1
    graft(done, "stage", *PERSON, *ADDRESSES)
    assert ran(done) == ["promote"]
    assert stale(done) == set()
    version = waiting(done)
    assert (
        f"challenger: {version} in challenger/; better: as ever; waits" in graft(done, "champion", COLUMNS="150").stdout
    )
    assert not layout.champion.exists()
    graft(done, "clean", "--keep", "1", "--yes")
    written = digest_path(done / "run")

    told = graft(done, "promote", version[:8], "--reason", "reads\nwell").stdout
    assert told == f"champion: {version}, promoted: as ever; approved by a person (reads well)\n"
    assert digest_path(layout.champion / "policy") == digest_path(layout.run_policy)
    assert digest_path(done / "run") == written
    assert stale(done) == set()
    assert "is the champion already" in graft(done, "promote", version, code=2).stderr
    (row,) = [line for line in graft(done, "champion", COLUMNS="120").stdout.splitlines() if line.startswith("20")]
    assert row.split()[1:3] == [version, "approved"]

    graft(done, "stage", "-S", "policy.base=champion/policy", *ADDRESSES)
    assert ran(done)
    second = waiting(done)
    assert stale(done) == set()
    assert f"to undo this: graft rollback; {version} is kept\n" in graft(done, "promote", second).stdout
    assert stale(done) - {address for address in ADDRESSES if address != "bootstrap"} == {"bootstrap"}  # as with auto
    graft(done, "rollback")
    assert stale(done) == set()


@pytest.mark.slow
def test_scheduled_runs_go_on_from_the_latest_policy_and_are_compared_with_the_champion(
    by_graft: Path, tmp_path: Path, prefect_api: str
) -> None:
    root = tmp_path / "project"
    run(by_graft, "cp", "-r", str(by_graft), str(root))

    def scheduled(*assignments: str) -> str:
        override(root / "params.yaml", assignments)
        commit(root)
        told = run(root, sys.executable, "-c", FLOW, PREFECT_API_URL=prefect_api).stdout
        return told.splitlines()[-1]

    def decisions() -> list[str]:
        return [line.rstrip().split("  ")[-1].strip() for line in graft(root, "history").stdout.splitlines()[2:]]

    line = scheduled("promotion.approve=person")
    first, layout = waiting(root), Layout(root)
    assert line == f"the first scheduled run here. Better: as ever; waits for approval: graft promote {first}"
    assert (layout.challenger / "page.html").read_text() == "a page"
    assert scheduled().startswith("nothing new since")
    scheduled("update.beta=0.05")
    second = waiting(root)
    assert second != first
    assert "base: latest/policy " in (root / "params.yaml").read_text()  # that of the first run
    assert decisions() == ["not approved", "nothing new, 1 ×", "waits, latest"]
    graft(root, "promote", second)
    assert decisions() == ["not approved", "nothing new, 1 ×", "promoted (person), served"]
    scheduled("update.beta=0.1")
    assert "base: latest/policy " in (root / "params.yaml").read_text()
    assert champion_version(layout.champion) == second
    assert read_json(layout.promotion, Promotion).champion_version == second
    assert [entry.nothing_new for entry in entries(root)] == [1, 0, 0]


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
