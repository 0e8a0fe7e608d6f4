"""Loss, gradients and advantages are those of TRL 1.16's GRPOTrainer, on a tiny model with padding of all lengths.

TRL computes padded rows and applies the head to all of them; here each prompt is computed once. Both get the same
weights, tokens, advantages and log-probabilities. Every option of TRL that a loss depends on is set: its defaults
have changed between releases.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from tasks.bootstrap.tokenizer import train_tokenizer
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.advantages import advantages_of
from tasks.objective.recorded_logprobs import Logprobs, behaviour_logprobs
from tasks.objective.token_weights import TokenWeights
from tasks.params.fields import Baseline
from tasks.params.sections import Update
from tasks.update.gradient import accumulate_gradient
from tasks.update.sampler_correction import correct_groups
from tasks.update.step_plan import UpdateGroup
from tests.support.pairwise import case_name, pairwise_cases
from tests.support.plain_scores import unpadded_logprobs
from tests.support.update_params import grpo_params

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # TRL's advice on settings that are set so on purpose
]

VOCABULARY = 300
LONGEST = 16
LOSSES = ["grpo", "dr_grpo", "dapo", "cispo", "sapo"]
LEVELS = ["token", "sequence"]
CLIP_LOW, CLIP_HIGH = 0.2, 0.28

Gradients = dict[str, torch.Tensor]

OFF = ["bf16", "fp16", "gradient_checkpointing", "disable_dropout", "shuffle_dataset", "use_vllm", "use_liger_kernel"]
OFF += ["mask_truncated_completions", "sync_ref_model", "use_adaptive_entropy"]
ONE = ["gradient_accumulation_steps", "steps_per_generation", "num_iterations", "max_steps", "logging_steps"]
SETTINGS: dict[str, Any] = {
    **dict.fromkeys(OFF, False), **dict.fromkeys(ONE, 1), "use_cpu": True, "disable_tqdm": True,
    "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": LONGEST, "beta": 0.0,
    "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05, "scale_rewards": "group", "reward_weights": None,
    "multi_objective_aggregation": "sum_then_normalize", "top_entropy_quantile": 1.0,
    "off_policy_mask_threshold": None, "report_to": [], "save_strategy": "no",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(["def solve(problem): 1 + 2"], VOCABULARY)


def full_model(seed: int = 0) -> Qwen2ForCausalLM:
    """All weights are trained: gradients of embeddings, norms and biases are compared too."""
    torch.manual_seed(seed)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    rest = {"intermediate_size": 48, "max_position_embeddings": 256, "pad_token_id": 0, "eos_token_id": 1}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=VOCABULARY, initializer_range=0.1, **shape, **rest)).eval()


def trainer_of(model: Any, tokenizer: Any, folder: Path, params: Update, **changes: Any) -> GRPOTrainer:
    """TRL's trainer with the settings of `params`."""
    settings = SETTINGS | {
        "output_dir": str(folder),
        "loss_type": params.loss,
        "importance_sampling_level": params.importance,
        "epsilon": params.clip_low,
        "epsilon_high": params.clip_high + (params.loss == "cispo"),  # there it is the bound itself
        "use_bias_correction_kl": params.kl_correction,
        "entropy_coef": params.entropy,
    }
    more = {"rollout_func": changes.pop("rollout_func")} if "rollout_func" in changes else {}
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=changes.pop("reward_funcs", lambda completions, **_: [0.0] * len(completions)),
        args=GRPOConfig(**settings | changes),
        train_dataset=Dataset.from_dict({"prompt": ["never read"] * 64}),
        processing_class=tokenizer,
        **more,
    )
    trainer.current_gradient_accumulation_steps = 1  # its loop would set it
    trainer.model.train()
    return trainer


def theirs(trainer: GRPOTrainer, batch: dict[str, Any]) -> tuple[float, Gradients, dict[str, float]]:
    """TRL's loss, gradients and metrics."""
    loss = trainer.compute_loss(trainer.model, batch)
    loss.backward()
    metrics = {name: values[-1] for name, values in trainer._metrics["train"].items()}
    return float(loss.detach()), gradients_of(trainer.model), metrics


def gradients_of(model: Any) -> Gradients:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad and p.grad is not None}


def assert_same(ours: tuple[float, Gradients], trl: tuple[float, Gradients]) -> None:
    assert ours[0] == pytest.approx(trl[0], abs=1e-5)
    assert ours[1].keys() == trl[1].keys()
    greatest = max(float(g.abs().max()) for g in trl[1].values())
    assert greatest > 1e-4  # there is something to compare
    for name, gradient in trl[1].items():
        assert float((ours[1][name] - gradient).abs().max()) <= 1e-5 * min(greatest, 1), name


def params_of(**changes: Any) -> Update:
    plain = {"group_size": 4, "prompts_per_step": 8, "epochs": 1, "clip_low": CLIP_LOW, "clip_high": CLIP_HIGH}
    return grpo_params(**plain | {"kl_correction": True} | changes)


# --- the loss of given samples, all weights trained


def samples() -> list[Sample]:
    rng = random.Random(7)

    def tokens(length: int) -> tuple[int, ...]:
        return tuple(rng.randrange(2, VOCABULARY) for _ in range(length))

    prompts, lengths = [tokens(6), tokens(3)], [11, 4, 7, 1, 9, 11, 2, 5]
    places = [(row // 4, row % 4, length) for row, length in enumerate(lengths)]
    return [Sample(f"p{p}", member, prompts[p], tokens(size), (), rng.gauss(0, 1)) for p, member, size in places]


def scores_of(model: Any, rows: list[Sample], temperature: float, noise: float = 0.0) -> Logprobs:
    """Each sample's log-probabilities alone in its row, without padding, and some noise."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        scores = {(row.problem_id, row.member): unpadded_logprobs(model, row, temperature) for row in rows}
    return {key: own + noise * torch.randn(own.shape, generator=generator) for key, own in scores.items()}


def padded(values: list[torch.Tensor], left: bool = False) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_side="left" if left else "right")


def batch_of(rows: list[Sample], behaviour: Logprobs | None, reference: Logprobs) -> dict[str, torch.Tensor]:
    """TRL's view of the samples."""
    prompts, completions = (
        [torch.tensor(part) for part in parts] for parts in zip(*((r.prompt, r.completion) for r in rows), strict=True)
    )
    batch = {
        "prompt_ids": padded(prompts, left=True),
        "prompt_mask": padded([torch.ones_like(p) for p in prompts], left=True),
        "completion_ids": padded(completions),
        "completion_mask": padded([torch.ones_like(c) for c in completions]),
        "advantages": torch.tensor([r.advantage for r in rows]),
        "num_items_in_batch": torch.tensor(sum(map(len, completions))),
        "ref_per_token_logps": padded([reference[r.problem_id, r.member] for r in rows]),
    }
    if behaviour is not None:
        batch["old_per_token_logps"] = padded([behaviour[r.problem_id, r.member] for r in rows])
    return batch


def compare(tokenizer: Any, folder: Path, temperature: float, off_policy: bool, **changes: Any) -> Any:
    """Assert that loss and gradients agree; returns our sums and TRL's metrics."""
    params, rows, model = params_of(**changes), samples(), full_model()
    behaviour = scores_of(model, rows, temperature, noise=0.3 if off_policy else 0.0)
    reference = scores_of(full_model(seed=1), rows, temperature)

    trainer = trainer_of(full_model(), tokenizer, folder, params, temperature=temperature)
    trainer.beta = params.beta  # in the config it would make TRL look for a reference to load
    loss, gradients, metrics = theirs(trainer, batch_of(rows, behaviour if off_policy else None, reference))

    denominator = TokenWeights(params.loss, LONGEST).denominator([len(row.completion) for row in rows])
    scorer = Scorer(model, pad=0, temperature=temperature)
    group = UpdateGroup("all", rows, denominator)
    sums = accumulate_gradient(scorer, [group], behaviour, reference if params.beta else None, params)
    assert_same((sums.loss, gradients_of(model)), (loss, gradients))
    return sums, metrics


TWO = {"importance": LEVELS, "beta": [0.0, 0.05], "temperature": [1.0, 0.7], "off_policy": [False, True]}


@pytest.mark.parametrize("case", pairwise_cases(loss=LOSSES, **TWO), ids=case_name)
def test_loss_and_every_gradient(case: dict[str, Any], tokenizer: Any, tmp_path: Path) -> None:
    compare(tokenizer, tmp_path, **case)


OPTIONS = [
    {"beta": 0.05, "kl_correction": False},
    {"loss": "dapo", "entropy": 0.05}, {"loss": "cispo", "entropy": 0.05, "beta": 0.05},
    {"loss": "cispo", "clip_high": 4.0},
]  # fmt: skip


@pytest.mark.parametrize("importance", LEVELS)
@pytest.mark.parametrize("changes", OPTIONS, ids=str)
def test_the_options_of_the_loss(changes: dict[str, Any], importance: str, tokenizer: Any, tmp_path: Path) -> None:
    compare(tokenizer, tmp_path, 0.7, True, importance=importance, **changes)


@pytest.mark.parametrize("correction", ["truncate", "mask"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_correction_for_the_sampler(loss: str, correction: Any, tokenizer: Any, tmp_path: Path) -> None:
    """TRL's `vllm_importance_sampling_mode` token_truncate and token_mask, with a bound of 2."""
    params, rows, model = params_of(loss=loss, beta=0.05, sampler_correction=correction), samples(), full_model()
    own, reference = scores_of(model, rows, 0.7), scores_of(full_model(seed=1), rows, 0.7)
    recorded = scores_of(model, rows, 0.7, noise=0.7)
    trainer = trainer_of(full_model(), tokenizer, tmp_path, params, temperature=0.7)
    trainer.beta, trainer.use_vllm, trainer.vllm_importance_sampling_correction = params.beta, True, True
    batch = batch_of(rows, own, reference)
    ratios = padded([(own[key] - recorded[key]).exp() for key in own])
    batch["importance_sampling_ratio"] = (
        ratios.clamp(max=2.0) if correction == "truncate" else ratios.masked_fill(ratios > 2.0, 0.0)
    )
    loss_of_trl, gradients, _ = theirs(trainer, batch)

    rows = [replace(row, behaviour=tuple(recorded[row.problem_id, row.member].tolist())) for row in rows]
    denominator = TokenWeights(params.loss, LONGEST).denominator([len(row.completion) for row in rows])
    scorer = Scorer(model, pad=0, temperature=0.7)
    groups, numbers = correct_groups(scorer, [UpdateGroup("all", rows, denominator)], correction)
    behaviour = behaviour_logprobs(scorer, groups[0].samples)
    sums = accumulate_gradient(scorer, groups, behaviour, reference, params)
    assert_same((sums.loss, gradients_of(model)), (loss_of_trl, gradients))
    assert 0 < numbers["sampler_correction/bounded_share"] < 0.5


def test_the_metrics(tokenizer: Any, tmp_path: Path) -> None:
    options = {"beta": 0.05, "kl_correction": False, "entropy": 1e-6}
    ours, trl = compare(tokenizer, tmp_path, 0.7, True, **options)
    means = [("kl", ours.kl), ("entropy", ours.entropy), ("clip_ratio/region_mean", ours.low + ours.high)]
    for name, total in [*means, ("clip_ratio/low_mean", ours.low), ("clip_ratio/high_mean", ours.high)]:
        assert total / ours.tokens == pytest.approx(trl[name], abs=1e-6 if "clip" in name else 1e-5), name
    assert min(ours.low, ours.high) > 0
    assert ours.policy_loss + ours.kl_loss == pytest.approx(trl["policy_loss"], abs=1e-5)  # TRL's holds both


# --- advantages of rewards

COMPLETIONS = [[[5, 6, 7, 1], [8, 1], [10, 11, 12, 13, 14, 1], [3, 1]], [[5, 5, 5, 1], [9, 9, 9, 1], [4, 1], [7, 8, 1]]]
SIGNAL = [[1.0, 0.0, 0.5, 1.0], [0.0, 1.0, 1.0, 0.75]]
SILENT = [[1.0, 0.0, 0.5, 1.0], [0.3, 0.3, 0.3, 0.3]]
FAILED = [[1.5, 0.0, None, 1.25], [0.0, 0.0, 1.0, None]]


@pytest.fixture(scope="module")
def model() -> Qwen2ForCausalLM:
    return full_model()


@pytest.mark.parametrize("rule", ["group", "batch", "none"])
@pytest.mark.parametrize("rewards", [SIGNAL, SILENT, FAILED], ids=["signal", "silent", "failed"])
def test_rewards_to_advantages(rule: Baseline, rewards: Any, model: Any, tokenizer: Any, tmp_path: Path) -> None:
    written = {
        "prompt_ids": [[5, 6]] * 8,
        "completion_ids": [t for group in COMPLETIONS for t in group],
        "logprobs": None,
    }
    trainer = trainer_of(
        model, tokenizer, tmp_path, params_of(advantages=rule), temperature=0.7, scale_rewards=rule,
        reward_funcs=lambda **_: [r for g in rewards for r in g], rollout_func=lambda *_: written,
    )  # fmt: skip
    batch = trainer._generate_and_score_completions([{"prompt": "never read"}] * 8)
    ours = [a for given in advantages_of(rule, rewards) for a in given]
    assert ours == pytest.approx(batch["advantages"].tolist(), abs=1e-5)
