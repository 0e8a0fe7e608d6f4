"""Every answer of a server that is slow or no JSON is one error, in time."""

import time

import pytest

from tasks.errors import TransientError
from tasks.model.sampling.vllm.json_client import JsonClient
from tests.support.drip_server import ANSWERS, DEEP, drip_server, whole


@pytest.mark.parametrize(("answer", "at_once"), ANSWERS)
def test_an_answer_that_drips_is_given_up_after_the_seconds(answer: bytes, at_once: int) -> None:
    with drip_server(answer, 0.05, at_once) as url:
        began = time.monotonic()
        with pytest.raises(TransientError, match=r"no complete answer within 0\.4 s\); start that server again"):
            JsonClient(url, 0.4).ask("/models")
        assert time.monotonic() - began < 5


def test_a_slow_answer_within_the_seconds_is_read() -> None:
    answer, _ = whole(b'{"a": 1}')
    with drip_server(answer, 0.001) as url:
        assert JsonClient(url, 30).ask("/models") == {"a": 1}


def test_lists_within_lists_without_end_are_no_json() -> None:
    with drip_server(whole(DEEP)[0], 0, whole(DEEP)[1]) as url:
        assert JsonClient(url, 30).ask("/models") is None
