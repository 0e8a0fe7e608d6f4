"""Training of the first policy by a run's params, with a checkpoint, and the base before it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import transformers

from tasks.artifacts import write_json
from tasks.bootstrap.supervised import TrainingExample, epochs_for, samples_of, train_supervised
from tasks.core.out_of_memory import explain_out_of_memory
from tasks.layout import Layout
from tasks.model.device import device_name
from tasks.model.policy import Policy, save_policy
from tasks.model.scoring.scorer import Scorer, scorer_for
from tasks.model.training_checkpoint import Checkpoint
from tasks.params.params import Params
from tasks.seeds import derive_seed
from tasks.sources.fingerprint import fingerprint

BATCH, BASE_BATCH = 16, 8
"""Demonstrations of a step, from scratch and of a base, which has few demonstrations and needs more steps from them."""


def train_base(
    examples: Sequence[TrainingExample], layout: Layout, params: Params, policy: Policy, metrics: dict[str, float]
) -> Callable[[Path], None]:
    """Train a base in place; a function that writes it as it was before into the folder of the policy."""
    update = params.update
    weights = [weight for weight in policy.model.parameters() if weight.requires_grad]
    before = [weight.detach().clone() for weight in weights]
    with explain_out_of_memory(update.micro_batch_tokens):
        scorer = scorer_for(
            policy, samples_of(examples), 1.0, update.micro_batch_tokens, update.bf16, update.checkpointing
        )
        train_on(examples, layout, params, policy, scorer, metrics)

    def write_base(folder: Path) -> None:
        with torch.no_grad():
            for weight, value in zip(weights, before, strict=True):
                weight.copy_(value)
        save_policy(policy, folder / layout.untouched_base.name, None, 0)

    return write_base


def train_on(
    examples: Sequence[TrainingExample],
    layout: Layout,
    params: Params,
    policy: Policy,
    scorer: Scorer | None,
    metrics: dict[str, float],
) -> None:
    """Train a policy in place; a killed stage goes on from its checkpoint. `scorer`: of a base; None: from scratch."""
    batch = BASE_BATCH if scorer else BATCH
    loss, speed = train_supervised(
        policy.model,
        examples,
        epochs_for(params.bootstrap.epochs, -(-len(examples) // batch)),
        params.bootstrap.learning_rate,
        batch,
        policy.tokenizer.pad_token_id,
        derive_seed(params.seed, "bootstrap"),
        scorer,
        params.update.deterministic,
        _checkpoint(layout, params, policy),
    )
    metrics |= {"pairs": len(examples), "loss": loss}
    write_json(layout.speed("bootstrap"), {"tokens_per_second": speed})


def _checkpoint(layout: Layout, params: Params, policy: Policy) -> Checkpoint:
    """The checkpoint of a training with these inputs, machine and libraries."""
    files = (layout.sources / "bootstrap.json", layout.problems("train"), layout.demonstrations, layout.coldstart)
    machine = (torch.__version__, transformers.__version__, torch.get_num_threads(), device_name(policy.device))
    name = fingerprint([file for file in files if file.exists()], params, 0, policy.base_sha256 or "", *machine)
    return Checkpoint(layout.journals("bootstrap", 0) / f"{name}.pt")
