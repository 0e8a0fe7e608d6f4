"""Law: each process looks through what lies there itself, and through each output once, until a stage has run."""

from collections import Counter
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from dvc.output import Output
from dvc.repo import Repo

from flows.dvc_stages.pipeline import Stages
from tests.support.tiny_project import ADDRESSES, graft


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often an output was looked through."""
    times: Counter[str] = Counter()
    get_hash = Output.get_hash

    def counted(output: Any) -> Any:
        times[output.def_path] += 1
        return get_hash(output)

    monkeypatch.setattr(Output, "get_hash", counted)
    return times


def test_what_several_stages_depend_on_is_looked_through_once(
    done: Path, monkeypatch: pytest.MonkeyPatch, looked: Counter[str]
) -> None:
    monkeypatch.chdir(done)
    stages = Stages(done)
    assert {stages.run(address).how for address in ADDRESSES} == {"unchanged"}
    assert looked["run/problems"] or looked["run/problems/train.jsonl"]
    assert {path: times for path, times in looked.items() if times > 1} == {}


def test_after_a_stage_that_wrote_all_is_looked_through_again(
    done: Path, monkeypatch: pytest.MonkeyPatch, looked: Counter[str]
) -> None:
    monkeypatch.chdir(done)
    stages = Stages(done)
    stages.run("choose")  # has nothing in common with search, but for the sources
    looked.clear()
    assert stages.run("search@1").how == "unchanged"
    before = Counter(looked)
    assert stages.run("search@1").how == "unchanged"
    assert looked == before
    (done / "run" / "rounds" / "1" / "trajectories.jsonl").unlink()
    assert stages.run("collect@1").how == "restored"
    looked.clear()
    assert stages.run("search@1").how == "unchanged"
    assert looked == before


def test_what_a_stage_wrote_is_known_to_dvc_without_reading_it(done: Path) -> None:
    """`dvc repro` after `graft` looks at times only; each process of ours reads for itself all the same."""
    files = [done / "run" / "rounds" / "1" / "rewarded.jsonl", done / "run" / "rounds" / "1" / "policy" / "weights.bin"]
    graft(done, "stage", "--force", "reward@1", "update@1")
    repo = Repo(str(done))
    for file in files:
        _, known = repo.state.get(str(file), repo.fs)
        assert known.value == md5(file.read_bytes()).hexdigest()
