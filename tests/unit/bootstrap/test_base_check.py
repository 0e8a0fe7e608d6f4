"""Law: a base that cannot be used is refused in one line, within limits of time and memory, before anything runs."""

import json
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from tasks.bootstrap.base_check import check_base, read_limited
from tasks.errors import GraftError
from tasks.params.sections import PolicyParams
from tests.support.broken_files import broken
from tests.support.broken_models import BROKEN, adapter, gguf_of_many_tokens, save_model
from tests.support.stage_params import SHIPPED
from tests.support.tiny_gguf import write_gguf

FILES = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]
FILES += ["model.safetensors", "adapter_config.json", "adapter_model.safetensors", "tiny.gguf"]
MANY = int(os.environ.get("GRAFT_BROKEN_FILES", "100"))


def params(base: Path | str) -> PolicyParams:
    return SHIPPED.policy.model_copy(update={"base": str(base)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tmp_path / "model")
    return tmp_path / "model"


def refused(base: Path) -> str:
    with pytest.raises(GraftError) as caught:
        check_base(params(base))
    line = str(caught.value)
    assert line.isprintable()
    assert ";" in line
    return line


def test_from_scratch_there_is_nothing_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.bootstrap.base_check.spawn", lambda *_, **__: pytest.fail("a process was started"))
    check_base(params("scratch"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_model_is_one_line(kind: str, folder: Path) -> None:
    change, message = BROKEN[kind]
    change(folder)
    began = time.monotonic()
    line = refused(folder)
    assert time.monotonic() - began < 60
    assert re.search(message, line), line


@pytest.mark.slow
def test_a_gguf_file_of_many_tokens_and_a_valid_one(tmp_path: Path) -> None:
    assert "5,000,000 tokens" in refused(gguf_of_many_tokens(tmp_path))
    check_base(params(write_gguf(tmp_path / "tiny.gguf")))


@pytest.mark.slow
def test_a_valid_model_is_accepted_and_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_base(params(folder))
    monkeypatch.setattr("tasks.bootstrap.base_check.spawn", lambda *_, **__: pytest.fail("it was read again"))
    check_base(params(folder))


def read_in_fork(base: Path, seconds: float = 60) -> dict[str, object]:
    """The last report of a forked process that reads the base: it is killed where it hangs, which fails the test."""
    own, reports = os.pipe()

    def report(**line: object) -> None:
        os.write(reports, json.dumps(line).encode() + b"\n")

    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(own)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            read_limited(params(base), report)
            code = 0
        finally:
            os._exit(code)
    os.close(reports)
    previous = signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
    signal.alarm(int(seconds))
    with os.fdopen(own) as stream:
        lines = stream.read().splitlines()
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status not in (1, -signal.SIGKILL), lines  # an exception that is no GraftError, or a hang
    return dict(json.loads(lines[-1]))


def valid_files(tmp_path: Path, folder: Path, name: str) -> tuple[Path, Path]:
    """The base and the file of it that is broken."""
    if name == "tiny.gguf":
        return (file := write_gguf(tmp_path / name)), file
    if name.startswith("adapter"):
        sft = tmp_path / "sft"
        sft.mkdir()
        adapter(base_model_name_or_path=str(folder))(sft)
        return sft, sft / name
    return folder, folder / name


@pytest.mark.parametrize("count", [2, pytest.param(MANY, marks=pytest.mark.nightly)], ids=["few", "many"])
@pytest.mark.parametrize("name", FILES)
def test_a_base_with_a_broken_file_is_read_or_is_one_line(name: str, count: int, tmp_path: Path, folder: Path) -> None:
    base, file = valid_files(tmp_path, folder, name)
    valid, rng = file.read_bytes(), random.Random(name)
    for _ in range(count):
        content = broken(valid, rng)
        file.write_bytes(content)
        last = read_in_fork(base)
        assert "part" in last or "error" in last, content
        if error := last.get("error"):
            assert str(error).isprintable(), content


SIGNS = [
    "{{",
    "}}",
    "{%",
    "%}",
    " for m in messages ",
    " endfor ",
    "m.content",
    "messages",
    "[0]",
    " if ",
    " endif ",
    "|",
]
SIGNS += [
    "'a'",
    " * 9**9",
    "range(10**9)",
    ".__class__",
    " macro a() ",
    " endmacro ",
    "a()",
    " set x = ",
    "raise_exception",
    "(",
]


@pytest.mark.parametrize("count", [3, pytest.param(MANY, marks=pytest.mark.nightly)], ids=["few", "many"])
def test_any_template_renders_or_is_one_line(count: int, folder: Path) -> None:
    rng = random.Random(0)
    for _ in range(count):
        text = "".join(rng.choice(SIGNS) for _ in range(rng.randint(1, 20)))
        (folder / "chat_template.jinja").write_text(text)
        last = read_in_fork(folder)
        assert last.get("error", "") is None or "part" in last or str(last["error"]).isprintable(), text
