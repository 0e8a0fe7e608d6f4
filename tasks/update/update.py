"""One round's update, by GRPO or PPO, of what is trained of a policy: its adapter, or all its weights.

    for each epoch
        for each step of `prompts_per_step` problems
            loss = Σ over the tokens of their selected samples / denominator      (tasks/objective/losses.py)
            AdamW step on the trained weights

With a value head the samples have targets (tasks/ppo/critic.py): each token has an advantage of its own, the loss gets
the head's (tasks/ppo/losses.py), and AdamW trains the head, too, at a rate of its own.

What a reader may expect and will not find: no weight decay, no reference model (what the policy that the
run started from gives to each token is scored before, and handed in), no optimiser state carried from round to round:
its running means start at 0, so the learning rate warms up again. Nothing here draws random numbers.

*Which tokens count.* A step's denominator holds the completion tokens of its selected samples and of those without
signal (advantage 0), or what else `update.loss` divides by (tasks/objective/token_weights.py): a problem that is always
or never solved says that there is nothing to learn, which is not the same as not being asked. Samples that the
selection rejects, or whose reward failed, are not there at all. Samples without signal are never computed. With beta 0
and entropy 0 that is exact; else their KL term and entropy are left out: the pull to the reference acts on the samples
that pull away from it.

*The weight of the KL.* Where `update.kl_target` is set, a controller keeps the KL there: from `update.beta` at the
round's first step, after each step

    e      = clip((KL - kl_target) / kl_target, -0.2, 0.2)
    beta_+ = beta · (1 + K e),  K = 0.1

Ziegler et al. 2019, "Fine-Tuning Language Models from Human Preferences" (arXiv 1909.08593), §2.2; in their code, and
in AdaptiveKLController of TRL's PPO, K is completions of a step / horizon. KL is that of a completion, `kl_sequence` of
the step. A beta is a function of the rows of metrics before it, which the checkpoint has: a killed update goes on with
the same.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tasks.core.metrics_files import LiveRows
from tasks.core.progress import show_progress
from tasks.core.terminal import print_remark
from tasks.errors import GraftError
from tasks.model.device import memory_note
from tasks.model.distributed.collectives import rank
from tasks.model.scoring.scorer import Scorer
from tasks.model.training_checkpoint import Checkpoint, TrainingState
from tasks.objective.recorded_logprobs import Logprobs, behaviour_logprobs, sample_key, score_samples
from tasks.params.fields import Schedule
from tasks.params.sections import Ppo, Update
from tasks.update.gradient import accumulate_gradient, sample_names
from tasks.update.metrics import Metrics, step_metrics
from tasks.update.step_plan import Step

GAIN = 0.1
"""K of the controller."""

LARGEST_ERROR = 0.2
"""Bound of e."""


def train(
    scorer: Scorer,
    steps: Sequence[Step],
    params: Update,
    reference: Logprobs | None,
    checkpoint: Checkpoint | None = None,
    live: LiveRows | None = None,
    ppo: Ppo | None = None,
) -> tuple[list[Metrics], float]:
    """Train the scorer's model, and its value head, in place. The same arguments give the same weights.

    Returns a row of metrics for each step, and this process's speed: completion tokens a second, each time that they
    are learned from.
    `reference`: log-probabilities of all samples by the reference; None where `update.beta` is 0. `ppo`: None for GRPO;
    else the scorer has a value head and the samples have targets, and the KL is in their advantages, not in the loss.
    With a checkpoint it goes on where an earlier update of the same arguments was ended. `live` has the rows so far.
    Raises GraftError, before any weight takes a wrong value, where a loss or a gradient is not finite.
    """
    # The first step's gradient computes the log-probabilities of its own samples: only later ones are scored before.
    samples, later = ({sample_key(s): s for step in part for s in step.samples} for part in (steps, steps[1:]))
    behaviour = behaviour_logprobs(scorer, [*samples.values()], [*later.values()])
    head_rate = (scorer.value_head, ppo.value_rate) if ppo else None
    training = start_training(scorer.model, params, len(steps), head_rate)
    if checkpoint and (state := checkpoint.load()):
        training.restore(state)
        what = f"{len(training.rows)} of {len(steps)} steps that an update cut short has left"
        print_remark(f"update: goes on after {what}")
    done = len(training.rows)
    if live and rank() == 0:
        live.begin(training.rows)
    tokens, speed, started = 0.0, 0.0, time.monotonic()
    with show_progress("update", len(steps), "steps", done) as advance:
        for number, step in list(enumerate(steps, start=1))[done:]:
            try:
                optimizer_step(training, scorer, step, behaviour, reference, params, ppo)
            except FloatingPointError as error:
                remedy = "lower update.learning_rate, or search again where it is the first step"
                raise GraftError(f"update step {number} of {len(steps)}: {error}; {remedy}") from error
            if checkpoint and rank() == 0:
                checkpoint.keep(training)
            if live and rank() == 0:
                live.add(training.rows[-1])
            tokens += training.rows[-1]["tokens"]
            speed = tokens / max(time.monotonic() - started, 1e-9)
            advance(note=f"{speed:.0f} tokens/s{memory_note(scorer.model.device)}")
    return training.rows, speed


def start_training(
    model: Any,
    params: Update,
    steps: int,
    value_head: tuple[Any, float] | None = None,
) -> TrainingState:
    """AdamW and its schedule over all trained weights, before the first of `steps` steps.

    `value_head`: a head that is trained, too, with its learning rate.
    """
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    groups: list[dict[str, Any]] = [{"params": list(weights.values())}]
    if value_head is not None:
        head, rate = value_head
        of_head = {f"value_head.{name}": weight for name, weight in head.named_parameters()}
        weights |= of_head
        groups.append({"params": list(of_head.values()), "lr": rate})
    optimizer = torch.optim.AdamW(groups, lr=params.learning_rate, weight_decay=0.0, fused=True)
    schedule = schedule_of(optimizer, params.schedule, params.warmup_steps, steps)
    return TrainingState(weights, optimizer, schedule)


def schedule_of(optimizer: Any, name: Schedule, warmup_steps: int, steps: int) -> Any:
    """A scheduler that has set the rate of the first of `steps` steps; its step() sets the next one's.

    The rate rises straight over `warmup_steps`, w, and then follows transformers' schedule. At step s of n, from 1:

        linear      (n + 1 - s) / (n + 1 - w)
        cosine      (1 + cos(π (s - w) / (n + 1 - w))) / 2
        constant    1

    Without a decline the noise of the last few steps stays in the weights, and the round ends worse than its mean.
    transformers counts from step 0 to step n, where its rates are 0; these two steps are left out.
    """
    from transformers import get_scheduler

    kind = "constant_with_warmup" if name == "constant" else name  # its `constant` has no warm-up
    schedule = get_scheduler(kind, optimizer, num_warmup_steps=warmup_steps, num_training_steps=steps + 1)
    optimizer.zero_grad()  # of an earlier update of the same weights
    optimizer.step()  # without a gradient it moves nothing; torch warns where a schedule goes ahead of its optimiser
    schedule.step()
    return schedule


def optimizer_step(
    training: TrainingState,
    scorer: Scorer,
    step: Step,
    behaviour: Logprobs,
    reference: Logprobs | None,
    params: Update,
    ppo: Ppo | None = None,
) -> None:
    """One optimiser step. Raises FloatingPointError, before a weight changes, where loss or gradient is not finite."""
    training.optimizer.zero_grad()
    beta = beta_of_next_step(training.rows, params)
    in_loss = params.model_copy(update={"beta": 0.0 if ppo else beta})
    sums = accumulate_gradient(scorer, step.groups, behaviour, reference, in_loss, ppo)
    clip, groups = torch.nn.utils.clip_grad_norm_, training.optimizer.param_groups
    # Clipped apart: the head's gradient, of another size, would else scale the policy's.
    norm, *others = (float(clip(group["params"], params.max_grad_norm)) for group in groups)
    _check_finite(sum(others, norm), scorer, step, behaviour)
    rate = training.schedule.get_last_lr()[0]
    row = step_metrics(len(training.rows) + 1, step, sums, norm, rate, with_values=ppo is not None)
    training.rows.append(row if params.kl_target is None else row | {"beta": beta})
    training.optimizer.step()
    training.schedule.step()


def beta_after_step(beta: float, kl: float, target: float) -> float:
    """The beta of the step that follows one with this KL of a completion, in nats."""
    error = (kl - target) / target
    return beta * (1 + GAIN * min(max(error, -LARGEST_ERROR), LARGEST_ERROR))


def beta_of_next_step(rows: Sequence[Mapping[str, float]], params: Update) -> float:
    """The beta of the step after those with these metrics."""
    if params.kl_target is None or not rows:
        return params.beta
    return beta_after_step(rows[-1]["beta"], rows[-1]["kl_sequence"], params.kl_target)


def _check_finite(norm: float, scorer: Scorer, step: Step, behaviour: Logprobs) -> None:
    """Raises FloatingPointError that names the samples which have moved most, where the gradient is not finite."""
    if math.isfinite(norm):
        return
    now = score_samples(scorer, step.samples)
    moved = {key: float((row - behaviour.get(key, row)).abs().max()) for key, row in now.items()}
    most = sample_names(sorted(step.samples, key=lambda s: -moved[sample_key(s)])[:3])
    raise FloatingPointError(f"the gradient is not finite; the samples with the largest log-ratios: {most}")
