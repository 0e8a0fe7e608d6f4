"""Files are written completely or not at all, with the same bytes each time, and a broken line is named."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.artifacts import (
    append_text,
    atomic_folder,
    digest_path,
    digest_text,
    read_json,
    read_jsonl,
    read_text,
    remove_leftovers,
    stream_jsonl,
    write_json,
    write_jsonl,
    write_text,
)
from tasks.errors import GraftError
from tasks.records.problems import Problem, Sibling

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
ANSWER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
PROBLEM = Problem(problem_id="p1", question="1 + 1 = ?", answer=2, source="test", siblings=[])


def problems(count: int) -> list[Problem]:
    return [PROBLEM.model_copy(update={"problem_id": f"p{i}"}) for i in range(count)]


def listed(folder: Path) -> list[str]:
    """Everything below, hidden and temporary names too."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Writing beyond `size` bytes fails as on a full disk: a limit of the system, not a mock."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@given(text=TEXT)
def test_text_is_read_back_and_has_its_digest(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("text") / "below" / "file.txt"
    write_text(path, text)
    assert read_text(path) == text
    assert path.read_bytes() == text.encode()
    assert listed(path.parent) == ["file.txt"]
    assert digest_path(path) == digest_text(text)


@given(st.lists(st.builds(Sibling, question=TEXT, answer=ANSWER)))
def test_records_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, siblings: list[Sibling]) -> None:
    folder = tmp_path_factory.mktemp("records")
    problem = PROBLEM.model_copy(update={"siblings": siblings})
    write_jsonl(folder / "a.jsonl", [problem, problem])
    write_json(folder / "a.json", problem)
    assert read_jsonl(folder / "a.jsonl", Problem) == [problem, problem]
    assert read_json(folder / "a.json", Problem) == problem
    assert (folder / "a.jsonl").read_bytes().count(b"\n") == 2


KILLED = {
    "file.csv": """
os.fsync = lambda _: os.kill(os.getpid(), 9)
artifacts.write_text(path, "half")
""",
    "folder": """
with artifacts.atomic_folder(path) as folder:
    artifacts.write_text(folder / "x", "")
    os.kill(os.getpid(), 9)
""",
}


@pytest.mark.parametrize("name", KILLED)
def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path: Path, name: str) -> None:
    others = {f".{name}.swp", f".{name}.12345678.bak", f".x{name}.12345678", name}
    for other in others:
        (tmp_path / other).touch()
    begin = f"import os, pathlib\nfrom tasks import artifacts\npath = pathlib.Path({str(tmp_path / name)!r})\n"
    assert subprocess.run([sys.executable, "-c", begin + KILLED[name]]).returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 5
    remove_leftovers(tmp_path / name)
    assert {p.name for p in tmp_path.iterdir()} == others


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write_json(tmp_path / "a.json", {"loss": value})
    assert listed(tmp_path) == []
    (tmp_path / "run").write_text("a file")
    with pytest.raises(OSError, match="run"):
        write_text(tmp_path / "run" / "a.txt", "x")


@pytest.mark.parametrize("write", [
    lambda path: write_text(path, "x" * 10_000), lambda path: write_jsonl(path, problems(200)),
    lambda path: write_json(path, {"x": "x" * 10_000}), lambda path: append_text(path, "x" * 10_000),
], ids=["text", "jsonl", "json", "append"])  # fmt: skip
def test_a_failed_write_leaves_the_file_as_it_was(
    tmp_path: Path, write: Callable[[Path], None], request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "file"
    write_text(path, "before")
    with largest_file(5_000), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        write(path)
    kept = path.read_text()
    assert kept.startswith("before") if request.node.callspec.id == "append" else kept == "before"
    assert listed(tmp_path) == ["file"]


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(GraftError, match="policy: the disk is full; free some space"),
        atomic_folder(tmp_path / "policy"),
        open("/dev/full", "wb", buffering=0) as full,  # answers every write as a full disk does
    ):
        full.write(b"x")
    assert listed(tmp_path) == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GraftError])
def test_a_folder_replaces_the_old_one_completely_or_not_at_all(tmp_path: Path, error: type[BaseException]) -> None:
    for text in ("first", "second"):
        with atomic_folder(tmp_path / "policy") as folder:
            write_text(folder / f"{text}.txt", text)
            assert not (tmp_path / "policy" / f"{text}.txt").exists()

    def stop() -> None:
        with atomic_folder(tmp_path / "policy") as folder:
            write_text(folder / "half.txt", "half")
            raise error("stop")

    with pytest.raises(error):
        stop()
    assert listed(tmp_path) == ["policy", "policy/second.txt"]


@pytest.mark.parametrize(("line", "message"), [
    ("{not json", r"a\.jsonl:3: Invalid JSON"), ("{}", r"a\.jsonl:3: problem_id: Field required"),
    ('{"problem_id": 1}', r"a\.jsonl:3: problem_id: Input should be a valid string"),
    (json.dumps({**PROBLEM.model_dump(), "extra": 1}), r"a\.jsonl:3: extra: Extra inputs"),
    (json.dumps({**PROBLEM.model_dump(), "answer": True}), r"a\.jsonl:3: answer"),
    (json.dumps({**PROBLEM.model_dump(), "answer": float("nan")}), r"a\.jsonl:3: answer"), ("[]", r"a\.jsonl:3: "),
])  # fmt: skip
def test_a_broken_line_is_named_with_file_line_and_field(tmp_path: Path, line: str, message: str) -> None:
    write_jsonl(tmp_path / "a.jsonl", [PROBLEM])
    append_text(tmp_path / "a.jsonl", f"\n{line}\n")
    with pytest.raises(GraftError, match=message) as error:
        read_jsonl(tmp_path / "a.jsonl", Problem)
    assert "\n" not in str(error.value)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    for name, message in {"none": "no such file", ".": "is a folder", "latin.txt": "not UTF-8 text at byte 3"}.items():
        with pytest.raises(GraftError, match=message):
            read_text(tmp_path / name)
    path = tmp_path / "some.jsonl"
    write_jsonl(path, problems(2))
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"\xff\n")
    with pytest.raises(GraftError, match=rf"some\.jsonl: not UTF-8 text at byte {size}; save it as UTF-8"):
        read_jsonl(path, Problem)


def test_a_digest_depends_on_names_and_contents_only(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for folder in (a, b):
        write_text(folder / "x" / "1.txt", "one")
        write_text(folder / "2.txt", "two")
    os.utime(b / "2.txt", (1, 1))
    os.chmod(b / "2.txt", 0o600)
    first = digest_path(a)
    assert first == digest_path(b)
    os.rename(b / "2.txt", b / "3.txt")
    assert digest_path(b) != first
    os.rename(b / "3.txt", b / "2.txt")
    write_text(b / "2.txt", "2")
    assert digest_path(b) != first


def test_records_are_read_and_written_one_at_a_time(tmp_path: Path) -> None:
    """The reader stops at the broken line, not before; the writer keeps nothing of what it wrote."""
    path = tmp_path / "some.jsonl"
    write_jsonl(path, problems(3))
    append_text(path, "{}\n")
    records = stream_jsonl(path, Problem)
    assert [next(records) for _ in range(3)] == problems(3)
    with pytest.raises(GraftError, match=r"some\.jsonl:4: problem_id: Field required"):
        next(records)
    with pytest.raises(GraftError, match=r"some\.jsonl:4"):
        write_jsonl(tmp_path / "copy.jsonl", stream_jsonl(path, Problem))
    assert listed(tmp_path) == ["some.jsonl"]
