"""The parts of the engine benchmark that need no vLLM."""

from pathlib import Path

import pytest

from benchmarks.engine.__main__ import equal_share, sampler_of, with_logprobs
from tasks.model.sample import Sample

pytestmark = pytest.mark.nightly


def rows(*completions: tuple[int, ...]) -> list[Sample]:
    return [Sample("p", m, (5,), tokens, (-1.0,) * len(tokens), 0.0) for m, tokens in enumerate(completions)]


def test_the_equal_share_is_of_rows_with_all_tokens_equal() -> None:
    assert equal_share(rows((1, 2), (3,)), rows((1, 2), (3,))) == 1
    assert equal_share(rows((1, 2), (3,)), rows((1, 4), (3,))) == 0.5


def test_other_log_probabilities_leave_the_tokens() -> None:
    (sample,) = rows((1, 2))
    other = with_logprobs(sample, [-0.5, -0.25])
    assert (other.completion, other.behaviour) == (sample.completion, (-0.5, -0.25))


def test_a_server_is_started_or_is_there() -> None:
    started, there = sampler_of(Path("/vllm"), "bfloat16"), sampler_of(Path("/vllm"), "float32", "http://a:1/v1")
    assert started.command is not None
    assert started.command[:3] == ["/vllm/bin/python", "-m", "vllm.entrypoints.openai.api_server"]
    assert (started.address, there.command, there.address) == (None, None, "http://a:1/v1")
