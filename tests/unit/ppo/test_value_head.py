"""Values are a linear function of the last hidden state before each token, in every layout, and the head's file."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tasks.errors import GraftError
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import RowLayout
from tasks.model.scoring.scorer import with_constant_prompts
from tasks.objective.recorded_logprobs import score_samples
from tasks.ppo.value_head import read_head, write_head, zero_head
from tests.support.critics import critic_scorer, random_head
from tests.support.policies import MakePolicy


def plain_values(policy: Policy, sample: Sample, head: torch.nn.Linear) -> torch.Tensor:
    """By transformers' own hidden states of the sample alone, [T]."""
    ids = torch.tensor([[*sample.prompt, *sample.completion]])
    with torch.no_grad():
        hidden = policy.model(input_ids=ids, output_hidden_states=True).hidden_states[-1][0]
        found: torch.Tensor = head(hidden.to(head.weight.dtype))[len(sample.prompt) - 1 : -1, 0]
    return found


@pytest.mark.parametrize(("kind", "layout"), [("qwen2", "packed"), ("llama", "rows"), ("gpt2", "completions")])
def test_values_are_the_heads_of_the_prefix_before_each_token(
    kind: str, layout: RowLayout, make_policy: MakePolicy, samples: list[Sample]
) -> None:
    policy = make_policy(kind)
    head = random_head(policy)
    scorer = critic_scorer(policy, head, "rows" if layout == "completions" else layout, tokens=64)
    if layout == "completions":
        scorer = with_constant_prompts(scorer, samples)
    found = score_samples(scorer, samples, "values")
    for sample in samples:
        expected = plain_values(policy, sample, head)
        torch.testing.assert_close(found[sample.problem_id, sample.member], expected, rtol=1e-4, atol=1e-4)


def test_values_change_no_log_probability_and_come_with_a_chunked_head_too(
    policy: Policy, samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = critic_scorer(policy, random_head(policy))
    plain, values = score_samples(critic_scorer(policy, None), samples), score_samples(scorer, samples, "values")
    own = score_samples(scorer, samples)
    assert all(torch.equal(own[key], row) for key, row in plain.items())
    monkeypatch.setattr("tasks.model.cpu.limits.LOGITS_BYTES", 3 * 4 * 300 * 5)  # of five predictions
    chunked = score_samples(scorer, samples, "values")
    for key, row in values.items():
        torch.testing.assert_close(chunked[key], row)


def test_a_new_head_is_0_and_draws_no_random_number(policy: Policy, samples: list[Sample]) -> None:
    state = torch.get_rng_state()
    head = zero_head(policy)
    assert torch.equal(torch.get_rng_state(), state)
    values = score_samples(critic_scorer(policy, head), samples, "values")
    assert not torch.cat(list(values.values())).any()


def test_a_head_is_read_back_and_the_same_head_gives_the_same_bytes(policy: Policy, tmp_path: Path) -> None:
    head = random_head(policy)
    for name in ("one", "two"):
        write_head(tmp_path / name, head)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    again = read_head(tmp_path / "one", policy)
    assert torch.equal(again.weight, head.weight)
    assert torch.equal(again.bias, head.bias)
    assert not read_head(tmp_path / "none", policy).weight.any()


@pytest.mark.parametrize("damage", [
    lambda path: path.write_bytes(b"no tensors"),
    lambda path: path.write_bytes(path.read_bytes()[:-4]),
    lambda path: write_head(path, torch.nn.Linear(7, 1)),
])  # fmt: skip
def test_another_head_is_refused_in_one_line(policy: Policy, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = tmp_path / "value_head.safetensors"
    write_head(path, random_head(policy))
    damage(path)
    with pytest.raises(GraftError, match=r"value_head\.safetensors: no value head of this policy") as error:
        read_head(path, policy)
    assert "\n" not in str(error.value)
