"""The parts of the engine benchmark that need no vLLM."""

import pytest

from benchmarks.engine.__main__ import equal_share, with_logprobs
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
