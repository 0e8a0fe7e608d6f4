"""The `openai` backend against servers on loopback: a small one that misbehaves as told, and `transformers serve`."""

import shutil
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import GraftError
from tasks.params.sections import Operators
from tasks.programs.efficiency import mean_cost
from tasks.programs.operators.model import NO_REPLY, CachedModel, Prompt, Reply
from tasks.programs.operators.openai_model import GIVE_UP, KEY, PARALLEL, OpenAiModel
from tasks.programs.sandbox.sandbox import Program, Sandbox
from tests.support.chat_server import chat_server
from tests.support.drip_server import ANSWERS, DEEP, drip_server, whole
from tests.support.stage_params import SHIPPED


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "sk-test")


def params(url: str | None, **changes: Any) -> Operators:
    plain = {"backend": "openai", "model": "tiny", "base_url": url}
    return Operators.model_validate({**SHIPPED.operators.model_dump(), **plain, **changes})


def replies(url: str, *texts: str, retries: int = 2, seconds: float = 5.0, **changes: Any) -> list[Reply]:
    parallel = changes.pop("parallel", PARALLEL)
    model = OpenAiModel(params(url, **changes), retries, seconds, parallel)
    prompts = [Prompt("ask", text) for text in texts]
    return [reply for _, reply in sorted(model.complete(prompts), key=lambda r: r[0])]


def test_each_prompt_has_its_own_reply_with_its_tokens_and_the_params_arrive() -> None:
    with chat_server(lambda prompt, _: (200, prompt.upper())) as server:
        given = replies(server.url, "a", "b", "c", temperature=0.3, max_tokens=17)
    assert given == [Reply(x, prompt_tokens=10, completion_tokens=3) for x in "ABC"]
    assert set(server.keys) == {"Bearer sk-test"}
    asked = {(each["model"], each["temperature"], each["max_tokens"]) for each in server.requests}
    assert asked == {("tiny", 0.3, 17)}


def test_asked_again_it_is_another_sample() -> None:
    with chat_server(lambda *_: (200, "x")) as server:
        model = OpenAiModel(params(server.url), parallel=1)
        for nth in (0, 1, 0):
            assert list(model.complete([Prompt("ask", "a", nth)]))
    seeds = [request["seed"] for request in server.requests]
    assert seeds[0] == seeds[2] != seeds[1]


@pytest.mark.parametrize("status", [429, 500])
def test_what_can_pass_is_tried_again(status: int) -> None:
    with chat_server(lambda _, before: (200, "fine") if before else (status, "busy")) as server:
        assert replies(server.url, "a")[0].text == "fine"
        assert len(server.requests) == 2


def test_an_empty_text_is_no_reply() -> None:
    with chat_server(lambda _, before: (200, "fine" if before else "  \n")) as server:
        assert replies(server.url, "a") == [Reply("fine", prompt_tokens=20, completion_tokens=6)]
    assert server.requests[0]["seed"] != server.requests[1]["seed"]  # or it would be empty again


def test_a_server_that_is_down_is_a_failure_and_is_not_asked_for_ever() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    given = replies(url, *"abcdefghijkl", retries=0, parallel=1)
    assert all(reply.failed for reply in given)
    assert sum("times in a row" in str(reply.failed) for reply in given) == 12 - GIVE_UP


@pytest.mark.parametrize("status", [400, 401])
def test_what_cannot_pass_stops_at_once(status: int) -> None:
    with chat_server(lambda *_: (status, "no such thing")) as server:
        with pytest.raises(GraftError, match=r"refuses .*no such thing.*fix OPENAI_API_KEY or the params") as error:
            replies(server.url, "a")
        assert len(server.requests) == 1
    assert "sk-test" not in str(error.value)


def test_a_server_of_another_kind_is_named() -> None:
    with (
        chat_server(lambda *_: (200, b"<html>Welcome</html>")) as server,
        pytest.raises(GraftError, match=r"does not answer with chat completions; operators\.base_url mostly ends in"),
    ):
        replies(server.url, "a")


def test_a_prompt_that_is_too_long_is_its_writers_fault() -> None:
    with chat_server(lambda *_: (400, "This model's maximum context length is 8 tokens")) as server:
        (reply,) = replies(server.url, "a")
    assert reply.refused is not None


def test_neither_key_nor_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY)
    with pytest.raises(GraftError, match="OPENAI_API_KEY is not set; export the key, or name a server"):
        OpenAiModel(params(None))
    OpenAiModel(params("http://127.0.0.1:1/v1"))


def test_a_workflows_cost_is_what_the_server_was_paid(tmp_path: Path) -> None:
    """Both questions of a program; a call of the server has 10 and 3 tokens."""
    once = "def solve(problem):\n    return ask('How many?', problem)\n"
    twice = "def solve(problem):\n    return ask('Count.', problem) + ask('Check.', problem)\n"
    costs = []
    with chat_server(lambda *_: (200, "5")) as server:
        operators = params(server.url, price=[1.0, 2.0])
        for name, code in (("once", once), ("twice", twice)):
            served = CachedModel(OpenAiModel(operators), operators, tmp_path / name)
            with Sandbox(5.0, 256, allow_weak=True, model=served) as sandbox:
                (results,) = sandbox.run([Program(code, ("3 pens", "4 pens"))])
            costs.append(mean_cost(results, (1.0, 2.0)))
            assert 2 * costs[-1] == pytest.approx(served.cost)
    assert costs == pytest.approx([16e-6, 32e-6])


@pytest.mark.parametrize("what", ["model", "root"])
def test_replies_of_another_model_behind_the_same_address_and_name_are_not_mixed(what: str, tmp_path: Path) -> None:
    """What a server says of its model: the name in its replies, and vLLM's folder in the list of models."""
    with chat_server(lambda prompt, _: (200, prompt.upper())) as server:

        def ask(*texts: str) -> list[str | None]:
            cached = CachedModel(OpenAiModel(params(server.url)), params(server.url), tmp_path / "replies")
            return [reply.text for reply in cached.complete([Prompt("ask", text) for text in texts])]

        setattr(server, what, "/models/first")
        assert ask("a") == ["A"]
        assert ask("a", "b") == ["A", "B"]
        setattr(server, what, "/models/second")
        assert ask("a", "b") == ["A", "B"]  # all of them of one model, which is not asked
        before = sorted(path.name for path in (tmp_path / "replies").rglob("*.json"))
        message = r"^operators\.model: tiny was .*/models/first.* and is .*/models/second.*; serve one .*, or remove "
        for texts in (["a", "c"], ["c"]):
            with pytest.raises(GraftError, match=message) as error:
                ask(*texts)
            assert "\n" not in str(error.value)
        assert sorted(path.name for path in (tmp_path / "replies").rglob("*.json")) == before
        setattr(server, what, "/models/first")
        assert ask("c") == ["C"]
        shutil.rmtree(tmp_path / "replies")
        setattr(server, what, "/models/second")
        assert ask("a", "c") == ["A", "C"]


@pytest.mark.parametrize(("answer", "at_once"), ANSWERS)
def test_an_answer_that_drips_is_given_up_after_the_seconds(answer: bytes, at_once: int) -> None:
    with drip_server(answer, 0.05, at_once) as url:
        began = time.monotonic()
        (reply,) = replies(url, "a", retries=0, seconds=0.5)
        assert reply.failed is not None
        assert reply.failed.startswith(NO_REPLY)
        assert time.monotonic() - began < 5


def test_lists_within_lists_without_end_are_refused() -> None:
    with drip_server(whole(DEEP)[0], 0, whole(DEEP)[1]) as url, pytest.raises(GraftError, match="does not answer with"):
        replies(url, "a")


def test_a_socks_proxy_without_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    with pytest.raises(GraftError, match="pip install socksio, or unset that proxy"):
        replies("http://127.0.0.1:9/v1", "a")
