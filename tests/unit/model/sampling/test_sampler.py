"""A sampled row is a function of its request and the policy; test_backends holds it to plain passes."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from tasks.errors import GraftError
from tasks.model.decoding import decode_loop
from tasks.model.layers import lora_linears as merged
from tasks.model.policy import Policy
from tasks.model.sampling import sampler
from tasks.model.sampling.sampler import Request, sample
from tasks.records.policy import PromptFormat
from tasks.records.search import Completion
from tests.support.policies import MakePolicy


def make_requests(count: int = 12, repeat: int = 1) -> list[Request]:
    """Prompts of different lengths, each `repeat` times with different seeds."""
    rng = random.Random(0)
    prompts = [[rng.randrange(2, 300) for _ in range(rng.randint(1, 15))] for _ in range(count)]
    return [Request(prompt, seed) for seed, prompt in enumerate(p for p in prompts for _ in range(repeat))]


def run(policy: Policy, asked: Sequence[Request], temperature: float = 1.0, longest: int = 10) -> list[Completion]:
    return sample(policy, asked, temperature, longest, "test")


def tokens_of(found: Sequence[Completion]) -> list[list[int]]:
    return [c.tokens for c in found]


def end_with(policy: Policy, token: int) -> None:
    policy.tokenizer.eos_token = policy.tokenizer.convert_ids_to_tokens(token)
    assert policy.tokenizer.eos_token_id == token


def test_a_row_depends_on_neither_batch_nor_order_nor_other_rows(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = make_requests(8, repeat=3)
    together = run(policy, asked)
    alone = [run(policy, [request])[0] for request in asked]
    shuffled = random.Random(1).sample(range(len(asked)), len(asked))
    mixed = dict(zip(shuffled, run(policy, [asked[i] for i in shuffled]), strict=True))
    monkeypatch.setattr("tasks.model.cpu.limits.ROWS", 5)
    cut = run(policy, asked)
    for i, completion in enumerate(together):
        for other in (alone[i], mixed[i], cut[i]):
            assert other.tokens == completion.tokens
            assert other.logprobs == pytest.approx(completion.logprobs, abs=1e-5)
    assert len({tuple(t) for t in tokens_of(together)}) == len(asked)  # seeds of their own


@pytest.mark.parametrize("temperatures", [(None, 0.5, 0.0), (None, None, 0.0)])
def test_rows_of_one_batch_may_have_their_own_temperatures(
    temperatures: Sequence[float | None], policy: Policy
) -> None:
    """0 is greedy, beside samples, too."""
    asked = make_requests(8, repeat=3)
    own = [replace(r, temperature=temperatures[i % 3]) for i, r in enumerate(asked)]
    by_temperature = {t: run(policy, asked, t) for t in (1.0, 0.5, 0.0)}
    for request, completion, place in zip(own, run(policy, own), range(24), strict=True):
        expected = by_temperature[request.temperature_or(1.0)][place]
        assert completion.tokens == expected.tokens
        assert completion.logprobs == pytest.approx(expected.logprobs, abs=1e-5)
    assert run(policy, own, 0.0) == run(policy, asked, 0.0)


def test_the_same_requests_give_the_same_bytes_and_another_seed_another_row(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large model is sampled without merged matrices; sampling does not change the policy."""
    before = {name: p.clone() for name, p in policy.model.state_dict().items()}
    asked = make_requests()
    first = run(policy, asked)
    assert run(policy, asked) == first
    assert tokens_of(run(policy, [replace(r, seed=r.seed + 1000) for r in asked])) != tokens_of(first)
    monkeypatch.setattr(merged, "MERGED_PARAMETERS", 0)
    assert tokens_of(run(policy, asked)) == tokens_of(first)
    after = policy.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_that_ends_is_a_prefix_of_the_row_without_an_end(temperature: float, policy: Policy) -> None:
    asked = make_requests(10, repeat=4)
    full = run(policy, asked, temperature, longest=12)
    end = Counter(t for c in full for t in c.tokens).most_common(1)[0][0]
    first_end = policy.tokenizer.eos_token_id
    end_with(policy, end)
    lengths = set()
    for before, after in zip(full, run(policy, asked, temperature, longest=12), strict=True):
        if first_end not in before.tokens:
            assert end not in after.tokens[:-1]
            assert after.tokens == before.tokens[: len(after.tokens)]
            assert after.tokens[-1] == end or len(after.tokens) == 12
            lengths.add(len(after.tokens))
    assert len(lengths) > 2


def test_a_row_ends_with_any_end_token_and_with_a_stop_string(policy: Policy) -> None:
    """And it is a prefix of the row without them."""
    asked = make_requests(10, repeat=2)
    full = run(policy, asked, longest=12)
    (end, _), (other, _) = Counter(t for c in full for t in c.tokens[1:]).most_common(2)
    own = policy.tokenizer.eos_token_id
    policy.model.generation_config.eos_token_id = [own, end]
    stop = policy.tokenizer.decode([other])
    form = PromptFormat(style="plain", examples=0, instructions=True, before="", after="", prefill="", stop=[stop])
    found = run(replace(policy, prompt_format=form), asked, longest=12)
    for before, after in zip(full, found, strict=True):
        texts = [policy.tokenizer.decode(before.tokens[: n + 1]) for n in range(len(before.tokens))]
        ended = [t in (own, end) or stop in text for t, text in zip(before.tokens, texts, strict=True)]
        length = ended.index(True) + 1 if True in ended else len(ended)
        assert after.tokens == before.tokens[:length]


def test_no_completion_is_longer_than_requested_and_its_prefix_counts(policy: Policy) -> None:
    for longest in (1, 4):
        assert {len(c.tokens) for c in run(policy, make_requests(), longest=longest)} == {longest}
    three, two = Completion(tokens=[5, 6, 7], logprobs=[-1.0, -2.0, -3.0]), Completion(tokens=[5, 6], logprobs=[-1, -2])
    found = run(policy, [Request([9], 0, three), Request([9], 1)], longest=3)
    assert found[0] == three
    assert len(found[1].tokens) <= 3
    found = run(policy, [Request([9], 0, two, max_tokens=n) for n in (2, 3)])
    assert found[0] == two
    assert len(found[1].tokens) == 3


def test_when_finished_rows_are_dropped_and_the_number_of_threads_change_nothing(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    asked = [replace(r, max_tokens=r.seed % 9 + 1) for r in make_requests(6, repeat=3)]
    expected = tokens_of(run(policy, asked))
    for kept in (0.0, 0.5, 1.0):
        monkeypatch.setattr(decode_loop, "LIVE_SHARE", kept)
        assert tokens_of(run(policy, asked)) == expected
    monkeypatch.undo()
    asked = make_requests(8, repeat=4)
    expected = tokens_of(run(policy, asked))
    request.addfinalizer(lambda: torch.set_num_threads(1))
    torch.set_num_threads(2)
    assert tokens_of(run(policy, asked)) == expected


def test_logits_that_are_not_finite_are_an_error(policy: Policy) -> None:
    assert run(policy, []) == []
    with torch.no_grad():
        next(policy.model.parameters()).fill_(torch.nan)
    with pytest.raises(GraftError, match="logits are not finite"):
        run(policy, make_requests())


def test_a_prompt_that_leaves_no_room_is_refused(make_policy: MakePolicy) -> None:
    policy = make_policy("gpt2")
    assert len(run(policy, [Request([5] * 246, 0)], longest=10)[0].tokens) <= 10
    with pytest.raises(GraftError, match=r"holds 256 tokens, .* has 247 and policy\.max_new_tokens is 10; lower"):
        run(policy, [Request([5] * 247, 0)], longest=10)


def test_a_batch_that_does_not_fit_in_memory_is_halved_once(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, tried = make_requests(8), []
    expected, decode_rows = run(policy, asked), sampler.Sampler._decode_rows

    def decode(self: Any, requests: Sequence[Request], report: Any) -> Any:
        tried.append(len(requests))
        if len(requests) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return decode_rows(self, requests, report)

    monkeypatch.setattr(sampler.Sampler, "_decode_rows", decode)
    reported: list[int] = []
    sampling = sampler.Sampler(policy, 1.0, 10)
    for _ in range(2):
        found = sampling.complete(asked, reported.append)
    assert tried == [8, 4, 2, 2, 2, 2, 2, 2, 2, 2]
    assert tokens_of(found) == tokens_of(expected)
    assert reported[-1] == 8
    assert max(reported) == 8
