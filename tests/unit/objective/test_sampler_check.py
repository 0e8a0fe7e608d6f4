"""A sampler's log-probabilities are compared with the policy's: four mistakes are found, noise passes."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import GraftError
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.model.sample import Sample
from tasks.model.sampling.sampler import Request, sample
from tasks.model.scoring.mismatch import BOUND, mismatch_of
from tasks.model.scoring.scorer import scorer_for
from tasks.objective.sampler_check import ROWS, check_sampler, draw_rows
from tasks.records.search import Engine
from tests.support.policies import MakePolicy
from tests.support.vllm_server import served, vllm_server

TEMPERATURE, TOKENS = 0.7, 2048


@pytest.fixture
def folders(make_policy: MakePolicy, tmp_path: Path) -> list[Path]:
    """The policies of two rounds, of one base with unlike adapters."""
    import torch

    policy, found = make_policy(kind="llama"), [tmp_path / "0", tmp_path / "1"]
    save_policy(policy, found[0], parent=None, round=0)
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if "lora_B" in name:
                weight.mul_(-1)
    save_policy(policy, found[1], parent=None, round=1)
    return found


def engine(dtype: str) -> Engine:
    return Engine(name="vllm", version="0.32.0", dtype=dtype)


def drawn(folders: list[Path], **options: Any) -> list[Sample]:
    """Completions of the second policy by a server with these options."""
    with vllm_server(folders[1], **options) as server:
        server.adapters["graft-1"] = folders[1] / "adapter"
        policy = served(load_policy(folders[1]), server, "graft-1")
        requests = [Request([5, 6, 7 + n % 3, *range(20, 20 + n % 4)], n) for n in range(24)]
        requests += [Request([9, 6], n, temperature=0.5) for n in range(4)]
        found = sample(policy, requests, TEMPERATURE, 12, "vllm")
    return [
        Sample(f"p{n}", 0, tuple(r.prompt), tuple(c.tokens), tuple(c.logprobs), 0.0, temperature=r.temperature)
        for n, (r, c) in enumerate(zip(requests, found, strict=True))
    ]


def checked(folders: list[Path], samples: list[Sample], dtype: str = "float32") -> dict[str, float]:
    return check_sampler(scorer_for(load_policy(folders[1]), samples, TEMPERATURE, TOKENS), samples, engine(dtype), 2)


def test_a_right_server_passes_and_its_numbers_are_metrics(folders: list[Path]) -> None:
    found = checked(folders, drawn(folders))
    assert 0 < found["sampler/gap_mean"] <= found["sampler/gap_max"] < 1e-4
    assert 0 <= found["sampler/kl"] < 1e-8
    assert (found["sampler/bounded_weights"], found["sampler/rows"]) == (0, 28)
    assert found["sampler/vllm-0.32.0-float32"] == 1


def test_the_noise_of_a_narrow_type_passes_where_that_type_is_stated(folders: list[Path]) -> None:
    samples = drawn(folders, noise=0.025)
    assert 0.01 < checked(folders, samples, "bfloat16")["sampler/gap_mean"] < 0.03
    with pytest.raises(GraftError, match=r"computes in another type than the param vllm"):
        checked(folders, samples, "float32")


@pytest.mark.parametrize(("options", "dtype"), [
    (lambda _: {"raw": True}, "float32"),
    (lambda folders: {"adapter": folders[0] / "adapter"}, "bfloat16"),
    (lambda _: {"bare": True}, "float32"),
    (lambda _: {"shifted": True}, "bfloat16"),
])  # fmt: skip
def test_a_server_that_is_wrong_stops_the_stage_in_one_line(
    folders: list[Path], options: Callable[[list[Path]], dict[str, Any]], dtype: str
) -> None:
    samples = drawn(folders, **options(folders))
    message = rf"^sampler: the log-probabilities that vllm 0\.32\.0 {dtype} gave for round 2 are not the policy's"
    with pytest.raises(GraftError, match=message) as error:
        checked(folders, samples, dtype)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith("processed_logprobs, then run graft stage --force search@2")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_graft_sampled_is_checked_by_the_law_of_its_weights(make_policy: MakePolicy, dtype: str) -> None:
    policy = make_policy("llama", dtype)
    requests = [
        Request([5, 6, 7 + n % 3, *range(20, 20 + n % 4)], n, temperature=0.5 if n % 2 else None) for n in range(24)
    ]
    samples = [
        Sample(f"p{n}", 0, tuple(r.prompt), tuple(c.tokens), tuple(c.logprobs), 0.0, temperature=r.temperature)
        for n, (r, c) in enumerate(zip(requests, sample(policy, requests, TEMPERATURE, 12, "search"), strict=True))
    ]
    metrics = check_sampler(scorer_for(policy, samples, TEMPERATURE, TOKENS), samples, None, 1)
    assert metrics.keys() == {f"sampler/{n}" for n in ("gap_mean", "gap_max", "kl", "bounded_weights", "rows")}
    assert (metrics["sampler/gap_max"] < 1e-4) == (dtype == "float32")
    wrong = [replace(s, behaviour=tuple(x - 0.2 * (t % 2) for t, x in enumerate(s.behaviour))) for s in samples]
    with pytest.raises(
        GraftError, match=r"recorded in round 1 are not the policy's, .* graft stage --force search@1\Z"
    ):
        check_sampler(scorer_for(policy, wrong, TEMPERATURE, TOKENS), wrong, None, 1)


def test_nothing_is_checked_where_nothing_is_recorded(policy: Policy) -> None:
    samples = [Sample("q", 0, (5, 6), (7, 8), (), 0.0)]
    assert check_sampler(scorer_for(policy, samples, TEMPERATURE, TOKENS), samples, engine("float32"), 1) == {}


def test_the_rows_are_the_same_at_each_call_and_others_in_each_round() -> None:
    samples = [Sample(f"p{n}", m, (5,), (7,), (-1.0,), 0.0) for n in range(40) for m in range(3)]
    rows = [draw_rows(samples, round) for round in (1, 2)]
    assert [len(own) for own in rows] == [ROWS, ROWS]
    assert rows[0] == draw_rows(samples[::-1], 1) != rows[1]


@given(st.lists(st.tuples(st.floats(-20, 0), st.floats(-20, 0)), min_size=1))
def test_a_mismatch_is_its_formulas(pairs: list[tuple[float, float]]) -> None:
    found, ratios = mismatch_of([a - b for a, b in pairs]), [math.exp(a - b) for a, b in pairs]
    assert found.mean == pytest.approx(sum(abs(a - b) for a, b in pairs) / len(pairs))
    assert found.max == max(abs(a - b) for a, b in pairs)
    expected = sum(r - 1 - math.log(r) for r in ratios) / len(pairs)
    assert found.kl == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert found.kl >= 0
    assert found.bounded == pytest.approx(sum(r > BOUND for r in ratios) / len(pairs), abs=1 / len(pairs))
    assert mismatch_of([0.0] * len(pairs)).is_lawful(in_float32=True)
