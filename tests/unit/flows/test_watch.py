"""Files that arrive: which count, and when."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from flows.scheduling import watch
from flows.scheduling.serve import serve
from tasks.errors import GraftError


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "STILL", 0.2)


@pytest.mark.parametrize(
    ("watched", "name", "read"),
    [
        *[("data", "data/a.jsonl", True), ("data", "data/below/a.jsonl", True), (".", "data/a.jsonl", True)],
        *[("data", f"data/{name}", False) for name in ("a.jsonl.tmp", "a.jsonl.part", "a.jsonl~", "a.csv", "jsonl")],
        *[("data", f"data/{name}", False) for name in (".a.jsonl", ".a.jsonl.swp", ".a.jsonl.Xy12", ".cache/a.jsonl")],
        *[(".", "run/problems/train.jsonl", False), (".", "champion/outcomes.jsonl", False)],
        *[("data.json", "data.json", True), ("data.json", "other.jsonl", False)],
    ],
)
def test_files_that_a_run_reads_count_and_temporary_hidden_and_its_own_do_not(
    tmp_path: Path, watched: str, name: str, read: bool
) -> None:
    assert watch.is_read(tmp_path, tmp_path / watched, tmp_path / name) == read


def notices(root: Path, path: Path, *acts: Callable[[], object]) -> bool:
    """True after each act is noticed; raises TimeoutError if one is not."""

    async def watching() -> bool:
        async with asyncio.timeout(60), aclosing(watch.arrivals(root, path)) as changes:
            while await anext(changes):  # what was written before
                pass
            for act in acts:
                act()
                while not await anext(changes):
                    pass
                while await anext(changes):
                    pass
        return True

    return asyncio.run(watching())


@pytest.mark.parametrize("polling", ["", "true"])
def test_what_arrives_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polling: str) -> None:
    """Polling is for drives of a network, which send no events; it compares the seconds of two times."""
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", polling)
    (tmp_path / "data").mkdir()
    file, temporary = tmp_path / "data/a.jsonl", tmp_path / "data/a.jsonl.tmp"
    temporary.write_text("{}\n")

    def write_later() -> None:
        file.write_text("{}\n{}\n")
        os.utime(file, (time.time() + 1,) * 2)

    acts = [lambda: temporary.rename(file), write_later]
    assert notices(tmp_path, tmp_path / "data", *acts)


@pytest.mark.parametrize("polling", ["", "true"])
def test_a_name_that_is_not_utf_8_is_told_and_what_arrives_later_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], polling: str
) -> None:
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", polling)
    (tmp_path / "data").mkdir()
    acts = [lambda: write(b"data/\xff.jsonl"), lambda: write(b"data/b.jsonl")]

    def write(name: bytes) -> None:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("{}\n")

    assert notices(tmp_path, tmp_path / "data", *acts)
    told = capfd.readouterr().err
    assert "data/\\xFF.jsonl" in told
    assert told.endswith(": its name is not UTF-8; rename it\n")


def test_one_file_is_watched_also_where_another_replaces_it(tmp_path: Path) -> None:
    file, new = tmp_path / "problems.json", tmp_path / "new"
    file.write_text("[]")

    def replace() -> None:
        new.write_text("[{}]")
        new.replace(file)

    assert notices(tmp_path, file, replace, replace)


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraftError, match=r"^--watch data: no such file or folder; make it, or name that of problems"):
        serve(tmp_path, None, None, "data", None)
