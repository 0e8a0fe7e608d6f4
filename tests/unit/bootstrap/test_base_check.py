"""Law: a base that cannot be used is refused in one line, within limits of time and memory, before anything runs."""

import os
import random
import re
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tasks.bootstrap.base_check import CHECKED, check_base, main, read_base
from tasks.errors import GraftError
from tasks.model.checkpoints.base_model import load_model
from tasks.model.checkpoints.lora import attach_adapter
from tasks.params.sections import PolicyParams
from tests.support.broken_files import broken, case_numbers
from tests.support.broken_models import BROKEN, save_model
from tests.support.stage_params import SHIPPED
from tests.support.tiny_gguf import write_gguf

FILES = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]
FILES += ["model.safetensors", "adapter_config.json", "adapter_model.safetensors", "tiny.gguf"]
MANY = case_numbers()
IN_CI = ["config.json", "tokenizer.json", "adapter_config.json", "adapter_model.safetensors", "tiny.gguf"]


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
def test_a_valid_model_is_accepted_and_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_base(params(folder))
    monkeypatch.setattr("tasks.bootstrap.base_check.spawn", lambda *_, **__: pytest.fail("it was read again"))
    check_base(params(folder))


@pytest.mark.slow
def test_a_question_that_leaves_no_room_for_a_completion_is_named(folder: Path) -> None:
    questions = {"own.jsonl:1": "one two", "own.jsonl:3": "one two three " * 400}
    with pytest.raises(GraftError, match=r"^own\.jsonl:3: a question of \d+ tokens, but .*model holds \d+, 64 of them"):
        check_base(params(folder), questions)
    check_base(params(folder), {"own.jsonl:1": "one two"})


def test_a_question_longer_than_any_tokenizer_from_scratch_allows_is_named() -> None:
    """Each word is a token at least; with fewer words than that, only the trained tokenizer can say."""
    with pytest.raises(GraftError, match=r"^own\.jsonl:3: a question of 2401 tokens, but scratch holds 2048"):
        check_base(params("scratch"), {"own.jsonl:1": "one two", "own.jsonl:3": "one two three " * 800})
    check_base(params("scratch"), {"own.jsonl:1": "one two three " * 660})


def line_of(base: Path) -> str:
    """The error of `check_base`; "" if it accepts the base."""
    CHECKED.clear()
    try:
        check_base(params(base))
    except GraftError as error:
        return str(error)
    return ""


class ForkedChild:
    """A fork that calls `main` with the arguments, variables and pipes of a child of `spawn`, spared all imports.

    It has what `kill_tree` needs of a Popen. Where `main` raises or returns, the exit code is 1.
    """

    def __init__(self, main: Callable[[], None], *arguments: str, env: Mapping[str, str], **_: Any) -> None:
        read_input, write_input = os.pipe()
        read_output, write_output = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                os.close(write_input)
                nothing = os.open(os.devnull, os.O_WRONLY)
                for number, descriptor in enumerate((read_input, write_output, nothing)):
                    os.dup2(descriptor, number)
                os.close(write_output)  # the parent reads until no copy of it is open
                os.environ.update(env)
                sys.argv[1:] = arguments
                main()
            finally:
                os._exit(1)
        os.close(read_input)
        os.close(write_output)
        self.stdin, self.stdout = os.fdopen(write_input, "wb"), os.fdopen(read_output, "rb")
        self.returncode: int | None = None

    def wait(self) -> int:
        if self.returncode is None:
            self.stdout.close()
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def line_by_fork(base: Path) -> str:
    """The same with a fork of this process as the child; fails where that hangs, or raises what is no GraftError."""
    children = []

    def fork(_module: str, *arguments: str, **options: Any) -> ForkedChild:
        children.append(ForkedChild(main, *arguments, **options))
        return children[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.bootstrap.base_check.spawn", fork)
        patch.setattr("tasks.bootstrap.base_check.BLOCKED_SECONDS", 60)
        line = line_of(base)
    assert children[0].returncode not in (1, -signal.SIGKILL), line
    return line


def check_contents(base: Path, file: Path, content: Callable[[random.Random], bytes], cases: range) -> None:
    """With any content of `file` the base is read or is one line; of every hundred one is read by a real child too."""
    import peft  # noqa: F401 (here and by `read_base`: what this process has imported, no fork has to)

    read_base(params(base), lambda *_: None, {})
    assert line_by_fork(base) == ""
    for number in cases:
        file.write_bytes(content(random.Random(number)))
        line = line_by_fork(base)
        assert line.isprintable(), number
        if number % 100 == 99:
            assert line_of(base) == line, number


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a template that takes all memory", "no configuration"])
def test_a_broken_model_is_one_line(kind: str, folder: Path) -> None:
    change, message = BROKEN[kind]
    change(folder)
    assert re.search(message, refused(folder))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:for base_model")
def test_every_broken_model_is_one_line_in_a_fork(tmp_path: Path) -> None:
    import peft  # noqa: F401

    for kind, (change, message) in BROKEN.items():
        folder = tmp_path / kind / "model"
        save_model(folder)
        read_base(params(folder), lambda *_: None, {})
        change(folder)
        line = line_by_fork(folder)
        assert line.isprintable(), kind
        assert ";" in line, kind
        assert re.search(message, line), (kind, line)


def valid_files(tmp_path: Path, folder: Path, name: str) -> tuple[Path, Path]:
    """The base and the file of it that is broken."""
    if name == "tiny.gguf":
        return (file := write_gguf(tmp_path / name)), file
    if name.startswith("adapter"):
        sft = tmp_path / "sft"
        attach_adapter(load_model(str(folder)), rank=2, alpha=2.0, seed=0).save_pretrained(sft)
        return sft, sft / name
    return folder, folder / name


@pytest.mark.parametrize(
    ("name", "cases"),
    [(name, range(2)) for name in IN_CI] + [pytest.param(name, MANY, marks=pytest.mark.nightly) for name in FILES],
)
@pytest.mark.filterwarnings("ignore:for base_model")  # of torch: an adapter on meta gets no values
def test_a_base_with_a_broken_file_is_read_or_is_one_line(
    name: str, cases: range, tmp_path: Path, folder: Path
) -> None:
    base, file = valid_files(tmp_path, folder, name)
    check_contents(base, file, partial(broken, file.read_bytes()), cases)


VALID = ["{%", " for m in messages ", "%}", "{{", "m.content", "}}", "{%", " endfor ", "%}"]
SIGNS = [*VALID, *["messages", "[0]", "(", "'a'", "a()", " * 9**9", "range(10**9)", ".__class__", "raise_exception"]]
SIGNS += [" if ", " endif ", "|", " macro a() ", " endmacro ", " set x = "]


def any_template(rng: random.Random) -> bytes:
    """Signs in any order, or a few of them in a valid template."""
    text, most = rng.choice((([], 20), (VALID, 4)))
    for _ in range(rng.randint(1, most)):
        place = rng.randint(0, len(text))
        text = [*text[:place], rng.choice(SIGNS), *text[place:]]
    return "".join(text).encode()


@pytest.mark.parametrize("cases", [range(3), pytest.param(MANY, marks=pytest.mark.nightly)], ids=["few", "many"])
def test_any_template_renders_or_is_one_line(cases: range, folder: Path) -> None:
    check_contents(folder, folder / "chat_template.jinja", any_template, cases)
