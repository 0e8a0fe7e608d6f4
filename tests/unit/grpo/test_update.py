"""Laws of the update."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch

from tasks.errors import GraftError
from tasks.grpo.gradient import accumulate_gradient
from tasks.grpo.metrics import Metrics, round_metrics
from tasks.grpo.recorded_logprobs import Logprobs, behaviour_logprobs, score_samples
from tasks.grpo.step_plan import UpdateGroup, plan_steps, steps_of_epoch
from tasks.grpo.update import train
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.sampling.sampler import Request, sample
from tasks.model.scoring import micro_batches as packing
from tasks.model.scoring.micro_batches import Layout, MicroBatch
from tasks.model.scoring.scorer import Scorer, scorer_for
from tasks.objective.samples import merge_equal_samples, tokenize_trajectory
from tasks.params.sections import Grpo
from tasks.records import RewardedTrajectory
from tests.support.grpo_params import grpo_params
from tests.support.plain_scores import sample_logprobs

MakePolicy = Callable[..., Policy]
MakeSamples = Callable[..., list[Sample]]
MakeTrajectory = Callable[..., RewardedTrajectory]

TEMPERATURE = 0.7


def grpo(**changes: Any) -> Grpo:
    return grpo_params(**{"beta": 0.05} | changes)


def learn(policy: Policy, groups: list[UpdateGroup], params: Grpo, temperature: float, seed: int) -> Metrics:
    """The whole update, against the adapter switched off as reference; the round's numbers."""
    samples = [s for g in groups for s in g.samples]
    scorer = scorer_for(policy, samples, temperature, params.micro_batch_tokens)
    with policy.model.disable_adapter():
        reference = score_samples(scorer, samples) if params.beta else None
    steps, skipped = plan_steps(groups, params.epochs, params.prompts_per_step, seed)
    return round_metrics(train(scorer, steps, params, reference).rows, skipped, groups)


def groups_of(samples: list[Sample]) -> list[UpdateGroup]:
    names = dict.fromkeys(s.problem_id for s in samples)
    own = {name: [s for s in samples if s.problem_id == name] for name in names}
    return [UpdateGroup(name, own[name], sum(len(s.completion) for s in own[name])) for name in names]


def weights_of(policy: Policy) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in policy.model.parameters() if p.requires_grad])


def gradient_of(policy: Policy) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in policy.model.parameters() if p.grad is not None])


def moved(samples: list[Sample], by: float = 0.3) -> tuple[Logprobs, Logprobs]:
    """Behaviour and reference log-probabilities some way off the policy's own."""
    rng = random.Random(5)
    keys = sorted((s.problem_id, s.member, len(s.completion)) for s in samples)
    behaviour, reference = (
        {
            (name, member): torch.tensor([-5.7 + rng.gauss(0, by) for _ in range(length)])
            for name, member, length in keys
        }
        for _ in range(2)
    )
    return behaviour, reference


def step_gradient(
    policy: Policy, samples: list[Sample], layout: Layout = "packed", tokens: int = 2048, **changes: Any
) -> torch.Tensor:
    policy.model.zero_grad()
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, TEMPERATURE, layout, tokens)
    accumulate_gradient(scorer, groups_of(samples), *moved(samples), grpo(**changes))
    return gradient_of(policy)


def written_out(policy: Policy, samples: list[Sample], params: Grpo) -> torch.Tensor:
    """The step's loss, sample by sample without padding, from logits[:-1] against ids[1:], kept from prompt_len - 1."""

    def completion_logprobs(one: Sample) -> torch.Tensor:
        ids = torch.tensor([[*one.prompt, *one.completion]])
        logprobs = (policy.model(input_ids=ids).logits[:, :-1] / TEMPERATURE).log_softmax(-1)
        return logprobs.gather(-1, ids[:, 1:, None])[0, len(one.prompt) - 1 :, 0]

    loss = torch.zeros(())
    for one in samples:
        now = completion_logprobs(one)
        with torch.no_grad(), policy.model.disable_adapter():
            difference = completion_logprobs(one) - now.detach()
        kl = (difference + now.detach() - now).exp() - (difference + now.detach() - now) - 1
        ratio = (now - now.detach()).exp()
        loss = loss - (ratio * one.advantage).sum() + params.beta * kl.sum()
    return loss / sum(len(s.completion) for s in samples)


def test_one_step_is_adamw_on_the_written_out_loss(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    """Covers: no loss on prompt tokens, reference = adapter off, ratio 1, one denominator, clipping, warm-up, AdamW."""
    params = grpo(epochs=1, prompts_per_step=100, learning_rate=0.04, max_grad_norm=0.1)
    ours, plain, samples = make_policy(), make_policy(), make_samples()
    numbers = learn(ours, groups_of(samples), params, TEMPERATURE, seed=0)

    loss = written_out(plain, samples, params)
    loss.backward()
    trained = [p for p in plain.model.parameters() if p.requires_grad]
    norm = torch.nn.utils.clip_grad_norm_(trained, 0.1)
    torch.optim.AdamW(trained, lr=0.01, weight_decay=0.0).step()  # a quarter of the rate: first of four warm-up steps

    assert numbers["loss"] == pytest.approx(float(loss.detach()), abs=1e-5)
    assert numbers["grad_norm"] == pytest.approx(float(norm), rel=1e-5)
    assert (weights_of(ours) - weights_of(plain)).norm() <= 1e-3 * (
        weights_of(make_policy()) - weights_of(plain)
    ).norm()


@pytest.mark.parametrize("limit", [1, 25, 10_000])
@pytest.mark.parametrize("layout", get_args(Layout))
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"loss": "grpo", "importance": "sequence", "delta": 1.4, "kl_correction": True},
        {"loss": "sapo", "kl": "k2"},
        {"loss": "cispo", "entropy": 0.1},
    ],
)
def test_micro_batches_layout_and_order_never_change_the_gradient(
    changes: dict[str, Any],
    limit: int,
    layout: Layout,
    make_policy: MakePolicy,
    make_samples: MakeSamples,
) -> None:
    policy, samples = make_policy(), make_samples()
    expected = step_gradient(policy, samples, **changes)
    random.Random(0).shuffle(samples)
    assert (step_gradient(policy, samples, layout, limit, **changes) - expected).norm() <= 1e-5 * expected.norm()


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": "grpo"},
        {"loss": "cispo"},
        {"loss": "sapo"},
        {"importance": "sequence"},
        {"delta": 1.3},
        {"kl": "k1"},
        {"kl": "k2"},
        {"kl_correction": True},
        {"entropy": 0.1},
    ],
)
def test_each_param_of_the_loss_changes_the_gradient(
    changes: dict[str, Any], make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(), make_samples()
    plain, changed = step_gradient(policy, samples), step_gradient(policy, samples, **changes)
    assert (changed - plain).norm() > 1e-3 * plain.norm()


@pytest.mark.parametrize("layout", get_args(Layout))
def test_the_entropy_is_that_of_the_distribution_at_the_temperature(
    layout: Layout, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, (one, *_) = make_policy(), make_samples()
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, TEMPERATURE, layout)
    found = scorer.score(MicroBatch(layout, [[one]])).entropies
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([[*one.prompt, *one.completion]])).logits[
            0, len(one.prompt) - 1 : -1
        ]
    expected = torch.distributions.Categorical(logits=logits / TEMPERATURE).entropy()
    torch.testing.assert_close(found[0].detach(), expected, atol=1e-5, rtol=1e-5)


def test_the_entropy_bonus_keeps_the_policy_undecided(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    found = []
    for weight in (1e-6, 1.0):
        params = grpo(beta=0.0, entropy=weight, epochs=10)
        found.append(learn(make_policy(), groups_of(make_samples()), params, TEMPERATURE, seed=0)["entropy"])
    assert found[1] > found[0] > 0


def test_equal_rows_counted_once_give_the_same_gradient(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy = make_policy()
    samples = [replace(s, completion=s.completion[:1], advantage=0.5) for s in make_samples()]
    twice = [copy for s in samples for copy in (s, replace(s, member=s.member + 100))]
    groups = groups_of(twice)
    merged_groups = [replace(g, samples=merge_equal_samples(g.samples)) for g in groups]
    assert (
        sum(s.count for g in merged_groups for s in g.samples)
        == len(twice)
        > sum(len(g.samples) for g in merged_groups)
    )
    scores = [some | {(name, member + 100): row for (name, member), row in some.items()} for some in moved(samples)]
    gradients = []
    for some in (groups, merged_groups):
        policy.model.zero_grad()
        accumulate_gradient(Scorer(policy.model, policy.tokenizer.pad_token_id, TEMPERATURE), some, *scores, grpo())
        gradients.append(gradient_of(policy))
    assert (gradients[0] - gradients[1]).norm() <= 1e-5 * gradients[0].norm()


def test_only_positions_that_predict_a_completion_token_get_loss(
    make_policy: MakePolicy, make_samples: MakeSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits of the prompt, of padding and behind the last token have no gradient."""
    monkeypatch.setattr(packing, "PADDING_SHARE", 1.0)  # one micro-batch
    policy, samples = make_policy(), make_samples()[:3]
    kept: list[torch.Tensor] = []

    def ask_for_all(_module: Any, _args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        return (), kwargs | {"logits_to_keep": 0}

    def keep(_module: Any, _args: Any, output: Any) -> Any:
        output.logits.retain_grad()
        kept.append(output.logits)
        width = max(len(s.completion) for s in samples) + 1
        return replace(output, logits=output.logits[:, -width:])

    model = policy.model.get_base_model()
    handles = [model.register_forward_pre_hook(ask_for_all, with_kwargs=True), model.register_forward_hook(keep)]
    step_gradient(policy, samples, layout="rows", entropy=0.1)
    for handle in handles:
        handle.remove()
    (logits,) = kept
    assert logits.grad is not None
    start = len(samples[0].prompt) - 1
    found = {int(row.count_nonzero()) and tuple(row.nonzero()[:, 0].tolist()) for row in logits.grad.abs().sum(-1)}
    assert found == {tuple(range(start, start + len(s.completion))) for s in samples}


def test_the_ratio_is_one_on_the_first_pass(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    numbers = learn(make_policy(), groups_of(make_samples()), grpo(), TEMPERATURE, seed=0)
    assert numbers["first_ratio"] == pytest.approx(1, abs=1e-6)
    assert numbers["ratio"] != pytest.approx(1, abs=1e-4)  # later steps have moved on


def test_the_ratio_is_one_against_what_the_sampler_recorded(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, drawn = make_policy(), []
    requests = [Request(list(s.prompt), seed) for seed, s in enumerate(make_samples())]
    for s, c in zip(make_samples(), sample(policy, requests, TEMPERATURE, 12, "test"), strict=True):
        drawn.append(replace(s, completion=tuple(c.tokens), behaviour=tuple(c.logprobs)))
    numbers = learn(policy, groups_of(drawn), grpo(epochs=1, prompts_per_step=100), TEMPERATURE, seed=0)
    assert numbers["first_ratio"] == pytest.approx(1, abs=1e-5)


def test_recorded_log_probabilities_are_what_the_ratio_is_against(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    samples = [replace(s, behaviour=(-5.0,) * len(s.completion)) for s in make_samples()]
    policy = make_policy()
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, TEMPERATURE)
    with torch.no_grad():
        scored = [scorer.score(batch) for batch in scorer.batches(samples)]
    ratios = torch.cat([(s.logprobs + 5)[s.mask].exp() for s in scored])
    numbers = learn(policy, groups_of(samples), grpo(epochs=1, prompts_per_step=100), TEMPERATURE, seed=0)
    assert numbers["first_ratio"] == pytest.approx(float(ratios.mean()), rel=1e-5)


def test_samples_without_signal_are_skipped_exactly_without_kl(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(), make_samples()
    half = [replace(s, advantage=0.0 if s.problem_id in ("p0", "p1") else s.advantage) for s in samples]
    computed = step_gradient(policy, half, beta=0.0)
    policy.model.zero_grad()
    skipping = [replace(g, samples=[s for s in g.samples if s.advantage]) for g in groups_of(half)]
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, TEMPERATURE)
    sums = accumulate_gradient(scorer, skipping, *moved(samples), grpo(beta=0.0))
    assert (gradient_of(policy) - computed).norm() <= 1e-6 * computed.norm()
    assert sums.tokens < sum(g.denominator for g in skipping)


def test_what_another_wrote_counts_as_if_the_round_policy_had_written_it(
    make_policy: MakePolicy, make_samples: MakeSamples, make_trajectory: MakeTrajectory
) -> None:
    """A revision's tokens come without log-probabilities: the policy's own before the first step take their place."""
    policy, recorded = make_policy(), make_policy()
    others = make_trajectory("p0", [1.0, 0.0]).model_copy(update={"tokens": [[5, 6, 1], [7, 1]]})
    unknown = [*tokenize_trajectory(policy, others, [0.7, -0.7]), *(s for s in make_samples() if s.problem_id != "p0")]
    assert [s.completion for s in unknown[:2]] == [(5, 6, 1), (7, 1)]
    assert not any(s.behaviour for s in unknown)
    with torch.no_grad():
        rows = sample_logprobs(policy.model, unknown, TEMPERATURE)
    known = [
        replace(s, behaviour=tuple(row[: len(s.completion)].tolist())) if place % 2 else s
        for place, (s, row) in enumerate(zip(unknown, rows, strict=True))
    ]
    assert 0 < sum(bool(s.behaviour) for s in known) < len(known)
    one_step = grpo(prompts_per_step=4, epochs=3)
    numbers = [learn(p, groups_of(s), one_step, TEMPERATURE, 0) for p, s in ((policy, unknown), (recorded, known))]
    assert numbers[0]["first_ratio"] == pytest.approx(1, abs=1e-6)
    assert numbers[0]["ratio"] != pytest.approx(1, abs=1e-3)  # the policy moved, what it is compared with did not
    assert torch.allclose(weights_of(policy), weights_of(recorded), atol=1e-5)


def test_steps_with_nothing_selected_are_skipped_and_counted(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy = make_policy()
    before = weights_of(policy)
    empty = [replace(g, samples=[]) for g in groups_of(make_samples())]
    numbers = learn(policy, empty, grpo(), TEMPERATURE, seed=0)
    assert torch.equal(weights_of(policy), before)
    assert (numbers["steps"], numbers["skipped_steps"]) == (0, 4)
    assert learn(policy, [], grpo(), TEMPERATURE, seed=0)["skipped_steps"] == 0


def test_the_same_arguments_give_the_same_weights_in_any_order_of_groups(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    groups = groups_of(make_samples())
    policies = [make_policy() for _ in range(3)]
    numbers = [
        learn(p, g, grpo(), TEMPERATURE, s)
        for p, g, s in zip(policies, [groups, groups[::-1], groups], [0, 0, 1], strict=True)
    ]
    assert torch.equal(weights_of(policies[0]), weights_of(policies[1]))
    assert numbers[0] == numbers[1]
    assert not torch.equal(weights_of(policies[0]), weights_of(policies[2]))


def test_only_the_adapter_moves_and_the_model_stays_in_eval_mode(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, untouched = make_policy(), make_policy()
    learn(policy, groups_of(make_samples()), grpo(), TEMPERATURE, seed=0)
    assert not policy.model.training
    before = dict(untouched.model.named_parameters())
    for name, parameter in policy.model.named_parameters():
        assert torch.equal(parameter, before[name]) != ("lora_" in name), name


def test_each_epoch_sees_every_problem_once_in_even_steps_and_an_order_of_its_own(make_samples: MakeSamples) -> None:
    groups = groups_of(make_samples(problems=50, group=1))
    epochs = [list(steps_of_epoch(groups, 16, seed=0, epoch=epoch)) for epoch in range(2)]
    for steps in epochs:
        assert sorted(map(len, steps)) == [12, 12, 13, 13]
        assert sorted(g.problem_id for step in steps for g in step) == sorted(g.problem_id for g in groups)
    assert epochs[0] != epochs[1]


def test_a_loss_that_is_not_finite_stops_before_the_weights_change(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(), make_samples()
    before = weights_of(policy)
    wild = [replace(s, advantage=-1.0, behaviour=(-1000.0,) * len(s.completion)) for s in samples]
    named = r"update step 1 of 4: the loss of p\d completion .* is not finite; lower grpo\.learning_rate"
    with pytest.raises(GraftError, match=named):
        learn(policy, groups_of(wild), grpo(), TEMPERATURE, seed=0)
    assert torch.equal(weights_of(policy), before)


def test_a_gradient_that_is_not_finite_names_the_samples_that_moved_most_before_the_weights_change(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(), make_samples()
    before = weights_of(policy)
    (weight, *_) = (p for p in policy.model.parameters() if p.requires_grad)
    weight.register_hook(lambda gradient: gradient * float("inf"))
    far = [replace(s, behaviour=(-40.0 if s.member == 2 else -5.7,) * len(s.completion)) for s in samples]
    named = r"update step 1 of 2: the gradient is not finite; .*: p\d completion 2, p\d completion 2, "
    with pytest.raises(GraftError, match=named):
        learn(policy, groups_of(far), grpo(epochs=1), TEMPERATURE, seed=0)
    assert torch.equal(weights_of(policy), before)


@pytest.mark.parametrize("changes", [{"schedule": "cosine"}, {"warmup_steps": 0}, {"micro_batch_tokens": 64}])
def test_params_of_the_loop_reach_it(
    changes: dict[str, Any], make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    """The budget changes how much is computed at once, and of the result rounding alone."""
    policies = [make_policy(), make_policy()]
    batches: list[int] = []
    for policy, params in zip(policies, (grpo(epochs=4), grpo(epochs=4, **changes)), strict=True):
        passes: list[int] = []
        policy.model.register_forward_hook(lambda *_, into=passes: into.append(1))
        learn(policy, groups_of(make_samples(problems=6)), params, TEMPERATURE, seed=0)
        batches.append(len(passes))
    moved = (weights_of(policies[0]) - weights_of(make_policy())).norm()
    difference = (weights_of(policies[0]) - weights_of(policies[1])).norm() / moved
    assert (difference > 0.01) == ("micro_batch_tokens" not in changes)
    assert (batches[1] > batches[0]) == ("micro_batch_tokens" in changes)


ARMS = (20, 21, 22, 23)
RIGHT = 21


def bandit(right: int) -> list[Sample]:
    return [Sample("bandit", m, (5, 6, 7), (arm,), (), 1.5 if arm == right else -0.5) for m, arm in enumerate(ARMS)]


def chances(policy: Policy) -> dict[int, float]:
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([[5, 6, 7]])).logits[0, -1, list(ARMS)]
    return dict(zip(ARMS, logits.softmax(-1).tolist(), strict=True))


def test_the_update_learns_where_mean_logp_times_mean_reward_does_not(make_policy: MakePolicy) -> None:
    """Each arm tried once, reward 1 for the right one. The naive product cannot tell who earned the reward."""
    ours, naive = make_policy(), make_policy()
    learn(ours, groups_of(bandit(RIGHT)), grpo(beta=0.0, epochs=60, clip_low=1.0, clip_high=10.0), 1.0, seed=0)
    trained = [p for p in naive.model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.01, weight_decay=0.0)
    for _ in range(60):
        logprobs = naive.model(input_ids=torch.tensor([[5, 6, 7]])).logits[0, -1].log_softmax(-1)[list(ARMS)]
        optimizer.zero_grad()
        (-logprobs.mean() * torch.tensor([0.0, 1.0, 0.0, 0.0]).mean()).backward()
        optimizer.step()
    assert chances(ours)[RIGHT] > 0.9
    assert chances(naive)[RIGHT] < 0.4


@pytest.mark.parametrize("importance", ["token", "sequence"])
@pytest.mark.parametrize("loss", ["dapo", "bnpo", "grpo", "dr_grpo", "cispo", "sapo"])
def test_every_loss_learns_the_least_likely_arm(loss: str, importance: str, make_policy: MakePolicy) -> None:
    policy = make_policy()
    before = chances(policy)
    right = min(before, key=before.__getitem__)
    params = grpo(loss=loss, importance=importance, epochs=40, clip_low=1.0, clip_high=10.0)
    learn(policy, groups_of(bandit(right)), params, 1.0, seed=0)
    assert before[right] < 0.1 < 0.6 < chances(policy)[right]


@pytest.mark.parametrize("layout", get_args(Layout))
def test_bf16_is_near_full_precision_and_its_ratio_starts_at_one(
    layout: Layout, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    """bfloat16 has 8 bits; the weights and the gradient stay in 32. What was recorded is not what it is against."""
    policy, samples = make_policy(), [replace(s, behaviour=(-5.0,) * len(s.completion)) for s in make_samples()]
    full = Scorer(policy.model, policy.tokenizer.pad_token_id, TEMPERATURE, layout)
    half = replace(full, bf16=True)
    own = [replace(s, behaviour=()) for s in samples]
    gradients = []
    for scorer, given in ((full, own), (half, samples)):
        policy.model.zero_grad()
        sums = accumulate_gradient(scorer, groups_of(given), behaviour_logprobs(scorer, given), None, grpo(beta=0.0))
        assert sums.ratio / sums.tokens == pytest.approx(1, abs=1e-6)
        gradients.append(gradient_of(policy))
    assert gradients[1].dtype == torch.float32
    assert 1e-4 * gradients[0].norm() < (gradients[1] - gradients[0]).norm() < 0.1 * gradients[0].norm()
