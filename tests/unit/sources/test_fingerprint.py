"""What was left unfinished is found again by the same inputs, params, round and sources, and by no others."""

from pathlib import Path

import pytest

from tasks.artifacts import write_text
from tasks.params.file import restrict
from tasks.sources.fingerprint import fingerprint
from tests.support.stage_params import SHIPPED


def test_a_result_is_named_by_all_that_it_depends_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, problems, sources = tmp_path / "policy", tmp_path / "train.jsonl", tmp_path / "tasks"
    for path in (policy / "weights.bin", problems, sources / "search" / "task.py"):
        write_text(path, "before")
    monkeypatch.setattr("tasks.sources.process_sources.CODE", tmp_path)
    params = restrict(SHIPPED, ["seed", "search", "policy.base"])

    def name(round: int = 1, seed: int = 0, samples: int = 3, threads: int = 1) -> str:
        search = params.search.model_copy(update={"samples": samples})
        return fingerprint(
            [policy, problems], params.model_copy(update={"seed": seed, "search": search}), round, threads
        )

    names = [name(), name(round=2), name(seed=1), name(samples=4), name(threads=2)]
    for path in (policy / "weights.bin", problems, sources / "search" / "task.py"):
        write_text(path, "after")
        names.append(name())
    write_text(sources / "new.py", "")
    names.append(name())
    assert len(set(names)) == len(names)
    write_text(sources / "__pycache__" / "task.pyc", "")
    assert name() == names[-1]
