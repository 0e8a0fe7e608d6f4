"""Completions from a server of vLLM are those of Graft's own sampler, and every fault of a server is one line."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import GraftError, TransientError
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.model.sampling.sampler import Request, sample
from tasks.model.sampling.vllm import completions
from tasks.model.sampling.vllm.json_client import JsonClient
from tasks.model.sampling.vllm.serve import load_sampled_policy
from tasks.records.policy import PromptFormat
from tasks.records.search import Completion
from tests.support.policies import VOCABULARY, tiny_policy
from tests.support.vllm_server import VllmServer, served, vllm_server

LONGEST = 12
NAME = "graft-tiny"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "policy"
    save_policy(tiny_policy(kind="llama"), folder, parent=None, round=0)
    return folder


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., tuple[Policy, VllmServer]]]:
    """serve(**options): the policy of the folder without weights, and the server that has its adapter."""
    stack = []

    def start(**options: Any) -> tuple[Policy, VllmServer]:
        context = vllm_server(folder, **options)
        server = context.__enter__()
        stack.append(context)
        server.adapters[NAME] = folder / "adapter"
        there = served(load_policy(folder), server, NAME)
        return load_sampled_policy(folder, there.served), server

    yield start
    for context in stack:
        context.__exit__(None, None, None)


def requests(count: int = 6) -> list[Request]:
    """Of unlike prompts and lengths, some with a prefix, a budget or a temperature of its own."""
    prefix = Completion(tokens=[7, 9], logprobs=[-0.5, -1.25])
    plain = [Request([5, 6, 7 + n % 3, *range(20, 20 + n)], seed=n * 2**58) for n in range(count)]
    return [
        *plain,
        Request([8, 9, 10], 3, prefix),
        Request([8, 9, 10], 4, prefix, max_tokens=3),
        Request([8, 9, 11], 5, max_tokens=4, temperature=0.4),
        Request([8, 9, 11], 5, temperature=0.0),
        Request([8, 9], 6, Completion(tokens=[4] * LONGEST, logprobs=[-1.0] * LONGEST)),
    ]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_tokens_are_those_of_graft_and_log_probabilities_to_a_millionth(
    folder: Path, serve: Callable[..., tuple[Policy, VllmServer]], temperature: float
) -> None:
    """Of each row alone, as rows that are decoded together differ in the last digits from those."""
    local = load_policy(folder)
    own = [sample(local, [request], temperature, LONGEST, "own")[0] for request in requests()]
    policy, server = serve()
    assert not hasattr(policy.model, "parameters")  # no weights here
    found = sample(policy, requests(), temperature, LONGEST, "vllm")
    assert [c.tokens for c in found] == [c.tokens for c in own]
    assert [c.tokens for c in found] == [c.tokens for c in sample(local, requests(), temperature, LONGEST, "own")]
    pairs = [pair for a, b in zip(found, own, strict=True) for pair in zip(a.logprobs, b.logprobs, strict=True)]
    rounding = 1.001e-6 if local.device.type == "cpu" else 1e-5  # a GPU's depends on the shapes
    assert max(abs(a - b) for a, b in pairs) <= rounding
    asked = [body for path, body in server.requests if path == "/v1/completions"]
    assert len(asked) == len(requests()) - 1  # a prefix of the maximal length is complete
    assert {body["model"] for body in asked} == {NAME}


def test_a_completion_ends_at_a_stop_string_and_at_the_tokens_that_end_it_here(
    folder: Path, serve: Callable[..., tuple[Policy, VllmServer]]
) -> None:
    policy, server = serve()
    policy.model.generation_config.eos_token_id = [1, 11]
    letters = [text for t in range(VOCABULARY) if (text := policy.tokenizer.decode([t]).strip()).isalpha()]
    form: dict[str, Any] = {"style": "raw", "examples": 0, "instructions": False}
    policy.prompt_format = PromptFormat(**form, before="", after="", prefill="", stop=letters[3:5])
    own = load_policy(folder)
    own.model.generation_config.eos_token_id, own.prompt_format = [1, 11], policy.prompt_format
    many = [Request([5, 6, 7], seed) for seed in range(30)]
    expected = [c.tokens for c in sample(own, many, 1.0, LONGEST, "own")]
    assert [c.tokens for c in sample(policy, many, 1.0, LONGEST, "vllm")] == expected
    assert {body["stop_token_ids"][-1] for path, body in server.requests} == {11}
    assert len({len(tokens) for tokens in expected}) > 1


def choice(**changes: Any) -> dict[str, Any]:
    return {"token_ids": [5, 1], "logprobs": {"token_logprobs": [-1.0, -0.5]}, "finish_reason": "stop", **changes}


FAULTS: list[tuple[int, Any, type[GraftError], str]] = [
    (0, None, TransientError, r"no answer from http://127\.0\.0\.1:\d+/v1 \(.+\); start that server again"),
    (500, {"error": {"message": "EngineCore encountered an issue."}}, TransientError,
     r"/v1/completions answers 500 \(EngineCore encountered an issue\.\); see the log of that server"),
    (404, {"error": {"message": "no model"}}, TransientError, r"no longer has graft-tiny \(404\): somebody "),
    (400, {"error": {"message": "too long"}}, GraftError, r"answers 400 \(too long\); correct machine\.vllm\.address"),
    (429, b"", TransientError, r"answers 429 \(no message\); see the log of that server"),
    (401, b"who are you?", GraftError, r"answers 401 \(who are you\?\)"),
    (200, b"<html>", GraftError, r"answers with something else than completions; name a server of vLLM"),
    (200, {"choices": []}, GraftError, r"answers with something else than completions"),
    (200, {"choices": [choice(token_ids=None)]}, GraftError, r"answers without token_ids"),
    (200, {"choices": [choice(logprobs=None)]}, GraftError, r"with 0 log-probabilities for 2 tokens"),
    (200, {"choices": [choice(logprobs={"token_logprobs": [-1.0, float("nan")]})]}, GraftError,
     r"with the log-probability nan, which is none"),
    (200, {"choices": [choice(logprobs={"token_logprobs": [-1.0, None]})]}, GraftError, r"with the log-probability N"),
    (200, {"choices": [choice(logprobs={"token_logprobs": [-1.0, 0.5]})]}, GraftError, r"with the log-probability 0\."),
    (200, {"choices": [choice(token_ids=[5, 300])]}, GraftError, r"with token 300, which is not in .* of 300"),
    (200, {"choices": [choice(token_ids=[], logprobs={"token_logprobs": []})]}, GraftError, r"with 0 tokens where 1"),
    (200, {"choices": [choice(token_ids=[5] * 13)]}, GraftError, r"with 13 tokens where 1 to 12 were asked for"),
    (200, {"choices": [choice(token_ids=[5, 6])]}, GraftError, r"neither ends nor was cut \(finish_reason stop\)"),
]  # fmt: skip


def test_every_fault_of_a_server_is_one_line(serve: Callable[..., tuple[Policy, VllmServer]]) -> None:
    policy, server = serve()
    for status, answer, kind, message in FAULTS:
        server.behave = lambda _, given=(status, answer): given  # type: ignore[misc]
        with pytest.raises(GraftError, match=rf"^sampler: .*{message}") as error:
            sample(policy, [Request([5, 6, 7], seed) for seed in range(6)], 1.0, LONGEST, "vllm")
        assert type(error.value) is kind
        assert "\n" not in str(error.value)


def test_the_first_fault_ends_the_other_requests(serve: Callable[..., tuple[Policy, VllmServer]]) -> None:
    """One that hangs would hold the stage for SECONDS."""
    released = threading.Event()

    def behave(number: int) -> tuple[int, Any] | None:
        return (500, {}) if number == 0 or not released.wait(30) else None

    policy, _ = serve(behave=behave)
    started = time.monotonic()
    with pytest.raises(TransientError):
        sample(policy, requests(), 1.0, LONGEST, "vllm")
    released.set()
    assert time.monotonic() - started < 15


def test_an_answer_that_takes_too_long_is_an_error(
    serve: Callable[..., tuple[Policy, VllmServer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, _ = serve(behave=lambda _: time.sleep(1.0))
    monkeypatch.setattr(completions, "JsonClient", partial(JsonClient, seconds=0.2))
    with pytest.raises(
        TransientError, match=r"(timed out|no complete answer within 0\.2 s)\); start that server again"
    ):
        sample(policy, requests()[:1], 1.0, LONGEST, "vllm")


def test_the_key_comes_from_the_environment_and_is_in_no_error(
    serve: Callable[..., tuple[Policy, VllmServer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "sk-secret-of-this-test-000")
    policy, server = serve(behave=lambda _: (401, {"error": {"message": "bad sk-secret-of-this-test-000"}}))
    with pytest.raises(GraftError) as error:
        sample(policy, requests()[:1], 1.0, LONGEST, "vllm")
    assert server.keys == ["Bearer sk-secret-of-this-test-000"]
    assert "secret" not in str(error.value)


def test_a_prompt_is_refused_that_the_server_has_no_room_for(serve: Callable[..., tuple[Policy, VllmServer]]) -> None:
    policy, server = serve(max_model_len=20)
    with pytest.raises(
        GraftError, match=rf"^sampler: {server.address}: holds 20 tokens, but the longest prompt has 9 "
    ):
        sample(policy, [Request([5] * 9, 0)], 1.0, LONGEST, "vllm")
    assert server.requests == []


def test_a_request_leaves_nothing_to_the_settings_of_a_server(serve: Callable[..., tuple[Policy, VllmServer]]) -> None:
    policy, server = serve()
    sample(policy, [Request([5, 6], 2**62)], 0.7, LONGEST, "vllm")
    ((_, body),) = server.requests
    assert body["prompt"] == [5, 6]
    assert (body["temperature"], body["top_p"], body["top_k"], body["min_p"]) == (0.7, 1.0, 0, 0.0)
    assert (body["repetition_penalty"], body["presence_penalty"], body["frequency_penalty"]) == (1.0, 0.0, 0.0)
    assert json.loads(json.dumps(body))["seed"] == 2**62
