"""Laws of the update."""

import random
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

from tasks.errors import GraftError
from tasks.model.cpu.operations import torch_threads
from tasks.model.cuda.operations import deterministic_operations
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring import backward, packed_attention
from tasks.model.scoring.micro_batches import MicroBatch, RowLayout
from tasks.model.scoring.scorer import Scorer, scorer_for
from tasks.objective.groups import merge_equal_samples, tokenize_trajectory
from tasks.objective.recorded_logprobs import Logprobs, behaviour_logprobs, sample_key, score_samples
from tasks.params.sections import Update
from tasks.update.gradient import accumulate_gradient
from tasks.update.metrics import Metrics, round_metrics
from tasks.update.step_plan import UpdateGroup, plan_steps, steps_of_epoch
from tasks.update.update import train
from tests.support.devices import choosing
from tests.support.groups import changed
from tests.support.plain_scores import sample_logprobs, unpadded_logprobs
from tests.support.policies import MakePolicy, MakeSamples, MakeTrajectory
from tests.support.tiers import nightly_but_first
from tests.support.update_params import MANUAL, grpo_params
from tests.support.updates import TRAINING_LAYOUTS, gradient_of, groups_of, random_logprobs, weights_of

TEMPERATURE = 0.7
GRPO = {"loss": "grpo", "importance": "sequence", "kl_correction": True}


def update(**changes: Any) -> Update:
    return grpo_params(**{"beta": 0.05} | changes)


def learn(policy: Policy, groups: list[UpdateGroup], params: Update, temperature: float, seed: int) -> Metrics:
    """The whole update, against the adapter switched off as reference; the round's numbers."""
    samples = [s for g in groups for s in g.samples]
    scorer = scorer_for(policy, samples, temperature, params.micro_batch_tokens)
    with policy.model.disable_adapter():
        reference = score_samples(scorer, samples) if params.beta else None
    steps, skipped = plan_steps(groups, params.epochs, params.prompts_per_step, seed)
    return round_metrics(train(scorer, steps, params, reference)[0], skipped, groups)


def moved(samples: list[Sample], by: float = 0.3) -> tuple[Logprobs, Logprobs]:
    """Behaviour and reference log-probabilities some way off the policy's own."""
    rng = random.Random(5)
    sizes = dict(sorted(((s.problem_id, s.member), len(s.completion)) for s in samples))
    behaviour, reference = (
        {key: torch.tensor([-5.7 + rng.gauss(0, by) for _ in range(size)]) for key, size in sizes.items()}
        for _ in range(2)
    )
    return behaviour, reference


def step_gradient(
    policy: Policy, samples: list[Sample], layout: RowLayout = "packed", tokens: int = 2048, **changes: Any
) -> torch.Tensor:
    policy.model.zero_grad()
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, TEMPERATURE, layout, tokens)
    accumulate_gradient(scorer, groups_of(samples), *moved(samples), update(**changes))
    return gradient_of(policy)


@pytest.mark.parametrize(("bound", "expected"), [(2 * 10**9, 1), (1, 2)])
def test_a_small_micro_batch_is_computed_on_one_thread(
    bound: int, expected: int, policy: Policy, samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []

    def score(scorer: Scorer, batch: MicroBatch) -> Any:
        used.append(torch.get_num_threads())
        return scorer._score(batch, scorer.collate(batch))

    monkeypatch.setattr(Scorer, "score", score)
    monkeypatch.setattr(backward, "SMALL_PASS", bound)
    with torch_threads(2):
        step_gradient(policy, samples)
    assert set(used) == {expected}


def written_out(policy: Policy, samples: list[Sample], params: Update) -> torch.Tensor:
    """The step's loss, sample by sample without padding."""
    loss = torch.zeros(())
    for one in samples:
        now = unpadded_logprobs(policy.model, one, TEMPERATURE)
        with torch.no_grad(), policy.model.disable_adapter():
            difference = unpadded_logprobs(policy.model, one, TEMPERATURE) - now.detach()
        kl = (difference + now.detach() - now).exp() - (difference + now.detach() - now) - 1
        ratio = (now - now.detach()).exp()
        loss = loss - (ratio * one.advantage).sum() + params.beta * kl.sum()
    return loss / sum(len(s.completion) for s in samples)


def test_one_step_is_adamw_on_the_written_out_loss(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    """Covers: no loss on prompt tokens, reference = adapter off, ratio 1, one denominator, clipping, warm-up, AdamW."""
    params = update(epochs=1, prompts_per_step=100, learning_rate=0.04, max_grad_norm=0.1)
    ours, plain, samples = make_policy(), make_policy(), make_samples()
    numbers = learn(ours, groups_of(samples), params, TEMPERATURE, seed=0)

    loss = written_out(plain, samples, params)
    loss.backward()
    trained = [p for p in plain.model.parameters() if p.requires_grad]
    norm = torch.nn.utils.clip_grad_norm_(trained, 0.1)
    torch.optim.AdamW(trained, lr=0.01, weight_decay=0.0).step()  # a quarter of the rate: first of four warm-up steps

    assert numbers["loss"] == pytest.approx(float(loss.detach()), abs=1e-5)
    assert numbers["grad_norm"] == pytest.approx(float(norm), rel=1e-5)
    step = weights_of(make_policy()) - weights_of(plain)
    assert (weights_of(ours) - weights_of(plain)).norm() <= 1e-3 * step.norm()


@pytest.mark.parametrize(("limit", "layout"), [(1, "packed"), (25, "rows")])
@pytest.mark.parametrize("changes", [{}, GRPO, {"loss": "sapo", "kl": "k2"}, {"loss": "cispo", "entropy": 0.1}, MANUAL])
def test_micro_batches_layout_and_order_never_change_the_gradient(
    changes: dict[str, Any], limit: int, layout: RowLayout, policy: Policy, samples: list[Sample]
) -> None:
    expected = step_gradient(policy, samples, **changes)
    random.Random(0).shuffle(samples)
    assert (step_gradient(policy, samples, layout, limit, **changes) - expected).norm() <= 1e-5 * expected.norm()


def test_equal_rows_counted_once_give_the_same_gradient(policy: Policy, make_samples: MakeSamples) -> None:
    samples = [replace(s, completion=s.completion[:1], advantage=0.5) for s in make_samples()]
    twice = [copy for s in samples for copy in (s, replace(s, member=s.member + 100))]
    groups = groups_of(twice)
    merged_groups = [replace(g, samples=merge_equal_samples(g.samples)) for g in groups]
    merged = [s for g in merged_groups for s in g.samples]
    assert sum(s.count for s in merged) == len(twice) > len(merged)
    scores = [some | {(name, member + 100): row for (name, member), row in some.items()} for some in moved(samples)]
    gradients = []
    for some in (groups, merged_groups):
        policy.model.zero_grad()
        accumulate_gradient(Scorer(policy.model, 0, TEMPERATURE), some, *scores, update())
        gradients.append(gradient_of(policy))
    assert (gradients[0] - gradients[1]).norm() <= 1e-5 * gradients[0].norm()


def test_recorded_log_probabilities_are_what_the_ratio_is_against(policy: Policy, samples: list[Sample]) -> None:
    samples = [replace(s, behaviour=(-5.0,) * len(s.completion)) for s in samples]
    with torch.no_grad():
        ratios = torch.cat([(unpadded_logprobs(policy.model, s, TEMPERATURE) + 5).exp() for s in samples])
    numbers = learn(policy, groups_of(samples), update(epochs=1, prompts_per_step=100), TEMPERATURE, seed=0)
    assert numbers["first_ratio"] == pytest.approx(float(ratios.mean()), rel=1e-5)


def test_samples_of_the_first_step_alone_need_no_pass_of_their_own(policy: Policy, samples: list[Sample]) -> None:
    """Without a denominator a ratio is 1, in a micro-batch with recorded ones, too."""
    scorer = scorer_for(policy, samples, TEMPERATURE)
    mixed = [replace(s, behaviour=(-5.0,) * len(s.completion)) if s.member % 2 else s for s in samples]
    part = [s for s in mixed if s.problem_id == mixed[0].problem_id]
    gradients = []
    for given in (samples, mixed):
        own, lean = behaviour_logprobs(scorer, given), behaviour_logprobs(scorer, given, later=())
        assert lean.keys() == {sample_key(s) for s in given if s.behaviour}
        assert behaviour_logprobs(scorer, given, part).keys() == lean.keys() | {sample_key(s) for s in part}
        for behaviour in (own, lean):
            policy.model.zero_grad()
            accumulate_gradient(scorer, groups_of(given), behaviour, None, update(beta=0.0))
            gradients.append(gradient_of(policy))
    for expected, gradient_without in (gradients[:2], gradients[2:]):
        assert (gradient_without - expected).norm() <= 1e-5 * expected.norm()
    assert (gradients[0] - gradients[2]).norm() > 0.1 * gradients[0].norm()


def test_a_revision_counts_as_if_the_round_policy_had_written_it(
    make_policy: MakePolicy, make_samples: MakeSamples, make_trajectory: MakeTrajectory
) -> None:
    """A revision's tokens come without log-probabilities: the policy's own before the first step take their place."""
    policy, recorded = make_policy(), make_policy()
    others = changed(make_trajectory("p0", [1.0, 0.0]), tokens=[[5, 6, 1], [7, 1]]).trajectory
    written = [replace(s, advantage=a) for s, a in zip(tokenize_trajectory(policy, others), (0.7, -0.7), strict=True)]
    unknown = [*written, *(s for s in make_samples() if s.problem_id != "p0")]
    assert [s.completion for s in unknown[:2]] == [(5, 6, 1), (7, 1)]
    assert not any(s.behaviour for s in unknown)
    with torch.no_grad():
        rows = sample_logprobs(policy.model, unknown, TEMPERATURE)
    known = [
        replace(s, behaviour=tuple(row[: len(s.completion)].tolist())) if place % 2 else s
        for place, (s, row) in enumerate(zip(unknown, rows, strict=True))
    ]
    assert 0 < sum(bool(s.behaviour) for s in known) < len(known)
    one_step = update(prompts_per_step=4, epochs=3)
    numbers = [learn(p, groups_of(s), one_step, TEMPERATURE, 0) for p, s in ((policy, unknown), (recorded, known))]
    assert numbers[0]["first_ratio"] == pytest.approx(1, abs=1e-6)
    assert numbers[0]["ratio"] != pytest.approx(1, abs=1e-3)  # the policy moved, what it is compared with did not
    assert torch.allclose(weights_of(policy), weights_of(recorded), atol=1e-5)


def test_groups_in_any_order_give_the_same_adapter_and_only_the_adapter_moves(
    make_policy: MakePolicy, samples: list[Sample]
) -> None:
    groups, policies = groups_of(samples), [make_policy() for _ in range(4)]
    orders = zip(policies, [groups, groups[::-1], groups], [0, 0, 1], strict=False)
    numbers = [learn(policy, order, update(), TEMPERATURE, seed) for policy, order, seed in orders]
    assert torch.equal(weights_of(policies[0]), weights_of(policies[1]))
    assert numbers[0] == numbers[1]
    assert not torch.equal(weights_of(policies[0]), weights_of(policies[2]))
    assert not policies[0].model.training
    before = dict(policies[3].model.named_parameters())
    for name, parameter in policies[0].model.named_parameters():
        assert torch.equal(parameter, before[name]) != ("lora_" in name), name


def test_each_epoch_sees_every_problem_once_in_even_steps_and_an_order_of_its_own(make_samples: MakeSamples) -> None:
    groups = groups_of(make_samples(problems=50, group=1))
    epochs = [list(steps_of_epoch(groups, 16, seed=0, epoch=epoch)) for epoch in range(2)]
    for steps in epochs:
        assert sorted(map(len, steps)) == [12, 12, 13, 13]
        assert sorted(g.problem_id for step in steps for g in step) == sorted(g.problem_id for g in groups)
    assert epochs[0] != epochs[1]


def test_what_is_not_finite_names_its_samples_and_changes_no_weight(policy: Policy, samples: list[Sample]) -> None:
    """An infinite gradient names the samples that moved most."""
    before = weights_of(policy)
    wild = [replace(s, advantage=-1.0, behaviour=(-1000.0,) * len(s.completion)) for s in samples]
    named = r"update step 1 of 4: the loss of p\d completion .* is not finite; lower update\.learning_rate"
    with pytest.raises(GraftError, match=named):
        learn(policy, groups_of(wild), update(), TEMPERATURE, seed=0)
    assert torch.equal(weights_of(policy), before)
    policy.model.zero_grad()
    (weight, *_) = (p for p in policy.model.parameters() if p.requires_grad)
    weight.register_hook(lambda gradient: gradient * float("inf"))
    far = [replace(s, behaviour=(-40.0 if s.member == 2 else -5.7,) * len(s.completion)) for s in samples]
    named = r"update step 1 of 2: the gradient is not finite; .*: p\d completion 2, p\d completion 2, "
    with pytest.raises(GraftError, match=named):
        learn(policy, groups_of(far), update(epochs=1), TEMPERATURE, seed=0)
    assert torch.equal(weights_of(policy), before)


ARMS = (20, 21, 22, 23)


def bandit(right: int) -> list[Sample]:
    return [Sample("bandit", m, (5, 6, 7), (arm,), (), 1.5 if arm == right else -0.5) for m, arm in enumerate(ARMS)]


def chances(policy: Policy) -> dict[int, float]:
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([[5, 6, 7]])).logits[0, -1, list(ARMS)]
    return dict(zip(ARMS, logits.softmax(-1).tolist(), strict=True))


LOSSES = ["dapo", "grpo", "dr_grpo", "cispo", "sapo", "reinforce"]


@pytest.mark.parametrize(("importance", "loss"), nightly_but_first(product(["token", "sequence"], LOSSES)))
def test_every_loss_learns_the_least_likely_arm(loss: str, importance: str, policy: Policy) -> None:
    before = chances(policy)
    right = min(before, key=before.__getitem__)
    params = update(loss=loss, importance=importance, epochs=40, clip_low=1.0, clip_high=10.0)
    learn(policy, groups_of(bandit(right)), params, 1.0, seed=0)
    assert before[right] < 0.1 < 0.6 < chances(policy)[right]


@pytest.mark.parametrize(
    ("layout", "device_kind"), [*((layout, "cpu") for layout in TRAINING_LAYOUTS), ("packed", "cuda")]
)
def test_bf16_is_near_full_precision_from_ratio_one(
    layout: RowLayout, device_kind: str, policy: Policy, samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    """bfloat16 has 8 bits; weights and gradient stay in 32. The ratio is not to the recorded log-probabilities."""
    monkeypatch.setattr(packed_attention, "for_device", choosing(device_kind))
    recorded = [replace(s, behaviour=(-5.0,) * len(s.completion)) for s in samples]
    full = Scorer(policy.model, policy.tokenizer.pad_token_id, TEMPERATURE, layout)
    half = replace(full, bf16=True)
    gradients = []
    for scorer, given in ((full, samples), (half, recorded)):
        policy.model.zero_grad()
        sums = accumulate_gradient(scorer, groups_of(given), behaviour_logprobs(scorer, given), None, update(beta=0.0))
        assert sums.ratio / sums.tokens == pytest.approx(1, abs=1e-6)
        gradients.append(gradient_of(policy))
    assert gradients[1].dtype == torch.float32
    assert 1e-4 * gradients[0].norm() < (gradients[1] - gradients[0]).norm() < 0.1 * gradients[0].norm()


def test_where_sums_are_atomic_operations_are_deterministic_during_the_gradient(
    policy: Policy, samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that repeat, the first tokens of a group, are added by torch's deterministic operations, too."""
    scorer, recorded = Scorer(policy.model, policy.tokenizer.pad_token_id, TEMPERATURE), random_logprobs(samples, 1)
    inside = []
    for device_kind, wanted in (("cpu", True), ("cuda", False), ("cuda", True)):
        monkeypatch.setattr(backward, "for_device", choosing(device_kind))
        policy.model.zero_grad()
        hook = policy.model.register_forward_hook(
            lambda *_: inside.append(torch.are_deterministic_algorithms_enabled())
        )
        accumulate_gradient(scorer, groups_of(samples), recorded, None, update(beta=0.0, deterministic=wanted))
        hook.remove()
        assert not torch.are_deterministic_algorithms_enabled()
        assert torch.utils.deterministic.fill_uninitialized_memory
    assert inside == [False, False, True]


def test_an_operation_without_a_fixed_order_names_the_param() -> None:
    refused = "put_ does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms"
    with (
        pytest.raises(GraftError, match=r"update\.deterministic: on this card put_ adds in no fixed"),
        deterministic_operations(),
    ):
        raise RuntimeError(refused)
    with pytest.raises(RuntimeError, match="another"), deterministic_operations():
        raise RuntimeError("another")
    assert not torch.are_deterministic_algorithms_enabled()
