"""`promotion.approve` person, as a person uses it: a policy waits, and `graft promote` makes it champion."""

import sys
from pathlib import Path

import pytest

from flows.dvc_stages.pipeline import DvcPipeline
from flows.history.run_history import entries
from tasks.artifacts import digest_path, read_json
from tasks.layout import Layout
from tasks.params.file import override
from tasks.promote.challenger import read_challenger
from tasks.promote.champion import champion_version
from tasks.promotion_records import Promotion
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
def test_scheduled_runs_go_on_from_the_champion_and_not_from_what_waits(
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
    assert "base: scratch " in (root / "params.yaml").read_text()
    assert decisions() == ["not approved", "nothing new, 1 ×", "waits"]
    graft(root, "promote", second)
    assert decisions() == ["not approved", "nothing new, 1 ×", "promoted (person)"]
    scheduled("update.beta=0.1")
    assert "base: champion/policy " in (root / "params.yaml").read_text()
    assert champion_version(layout.champion) == second
    assert read_json(layout.promotion, Promotion).champion_version == second
    assert [entry.nothing_new for entry in entries(root)] == [1, 0, 0]
