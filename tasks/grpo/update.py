"""One round's GRPO update of a policy's adapter.

    for each epoch
        for each step of `prompts_per_step` problems
            loss = Σ over the tokens of their selected samples / denominator      (tasks/grpo/losses.py)
            AdamW step on the adapter

What a reader may expect and will not find: no critic, no weight decay, no second copy of the model (the reference
is the adapter switched off), no optimiser state carried from round to round: its running means start anew, so the
learning rate rises over the first steps, and falls over the rest. Nothing here draws random numbers.

*Which tokens count.* A step's denominator holds the completion tokens of its selected samples and of those without
signal (advantage 0), or what else `grpo.loss` divides by (tasks/policy/averaging.py): a problem that is always or
never solved says that there is nothing to learn, which is not the same as not being asked. Samples that the selection
rejects, or whose reward failed, are not there at all. Samples without signal are never computed. With beta 0 and
entropy 0 that is exact; else their KL term and entropy are left out: the pull to the reference acts on the samples
that pull away from it.
"""

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from tasks.errors import GraftError
from tasks.grpo.gradient import accumulate, named
from tasks.grpo.numbers import Row, step_row
from tasks.grpo.scores import Scores, behaviour_of, key_of, scores_of
from tasks.grpo.steps import Step
from tasks.params import Grpo
from tasks.policy.scorer import Scorer

WARMUP = 4


def update(scorer: Scorer, steps: Sequence[Step], params: Grpo, reference: Scores | None) -> list[Row]:
    """Train the scorer's model in place; a row of numbers for each step. The same arguments give the same weights.

    `reference`: log-probabilities of all samples by the reference; None where `grpo.beta` is 0.
    Raises GraftError, before any weight takes a wrong value, where a loss or a gradient is not finite.
    """
    import torch

    weights = [p for p in scorer.model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=params.learning_rate, weight_decay=0.0)
    behaviour = behaviour_of(scorer, list({key_of(s): s for step in steps for s in step.samples}.values()))
    rows: list[Row] = []
    for number, step in enumerate(_progress(steps), start=1):
        optimizer.zero_grad()
        try:
            sums = accumulate(scorer, step.groups, behaviour, reference, params)
            norm = float(torch.nn.utils.clip_grad_norm_(weights, params.max_grad_norm))
            _check_finite(norm, scorer, step, behaviour)
        except FloatingPointError as error:
            remedy = "lower grpo.learning_rate, or search again where it is the first step"
            raise GraftError(f"update step {number} of {len(steps)}: {error}; {remedy}") from error
        for settings in optimizer.param_groups:
            settings["lr"] = params.learning_rate * rate(number - 1, len(steps))
        optimizer.step()
        rows.append(step_row(number, step, sums, norm, optimizer.param_groups[0]["lr"]))
    return rows


def rate(step: int, steps: int) -> float:
    """Share of the learning rate at `step` of `steps`: a rise over WARMUP steps, then a straight line down to 0.

    Without the decline the last few steps' noise stays in the weights, and the round ends worse than its mean.
    """
    return min((step + 1) / WARMUP, (steps - step) / max(steps - WARMUP, 1), 1.0)


def _check_finite(norm: float, scorer: Scorer, step: Step, behaviour: Scores) -> None:
    """Raises FloatingPointError that names the samples which have moved most, where the gradient is not finite."""
    if math.isfinite(norm):
        return
    now = scores_of(scorer, step.samples)
    moved = {key: float((row - behaviour[key]).abs().max()) for key, row in now.items()}
    most = sorted(step.samples, key=lambda s: -moved[key_of(s)])[:3]
    raise FloatingPointError(f"the gradient is not finite; the samples with the largest log-ratios: {named(most)}")


def _progress(steps: Sequence[Step]) -> Iterable[Any]:
    from rich.console import Console
    from rich.progress import track

    return track(steps, "update", console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)
