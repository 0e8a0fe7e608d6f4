"""One round's GRPO update of what is trained of a policy: its adapter, or all its weights.

    for each epoch
        for each step of `prompts_per_step` problems
            loss = Σ over the tokens of their selected samples / denominator      (tasks/grpo/losses.py)
            AdamW step on the trained weights

What a reader may expect and will not find: no critic, no weight decay, no reference model (what the policy that the
run started from gives to each token is scored before, and handed in), no optimiser state carried from round to round:
its running means start anew, so the learning rate rises over the first WARMUP steps, and falls to 0 over the rest.

*Which tokens count.* A step's denominator holds the completion tokens of its selected samples and of those without
signal (advantage 0), or what else `grpo.loss` divides by (tasks/policy/averaging.py): a problem that is always or
never solved says that there is nothing to learn, which is not the same as not being asked. Samples that the selection
rejects, or whose reward failed, are not there at all. Samples without signal are never computed. With beta 0 and
entropy 0 that is exact; else their KL term and entropy are left out: the pull to the reference acts on the samples
that pull away from it.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from tasks.errors import GraftError
from tasks.grpo.losses import Objective, TokenLosses, reduce, token_losses
from tasks.params import Grpo
from tasks.policy.averaging import Averaging
from tasks.policy.base import Policy
from tasks.policy.samples import Sample
from tasks.policy.tree_batch import Scorer, Tree, scorer_of
from tasks.seeds import derive_seed

if TYPE_CHECKING:
    from torch import Tensor

WARMUP = 4

Key = tuple[str, int]
"""problem_id and place in the group."""

Scores = dict[Key, "Tensor"]
"""Log-probabilities [T] of samples."""


@dataclass(frozen=True)
class Group:
    """One problem in the update."""

    problem_id: str
    samples: list[Sample]  # those that the update learns from
    denominator: int  # what it adds to that of its step


@dataclass
class Sums:
    """Totals over the tokens of some micro-batches."""

    tokens: int = 0
    loss: float = 0.0  # already divided by the step's denominator
    ratio: float = 0.0
    clipped: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0  # 0 where there is no bonus

    def add(self, other: "Sums") -> None:
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def update(
    policy: Policy,
    groups: Sequence[Group],
    params: Grpo,
    temperature: float,
    seed: int,
    reference: Scores | None = None,
) -> dict[str, float]:
    """Train the policy in place and return the round's numbers.

    `temperature` is the one that the samples were drawn at; `reference` has the log-probabilities that the KL is
    taken to, None where beta is 0. The same arguments give the same weights.
    Raises GraftError, before any weight takes a wrong value, where a loss or a gradient is not finite, and
    ValueError where beta has no reference.
    """
    import torch

    if params.beta > 0 and reference is None:
        raise ValueError(f"beta {params.beta} needs the reference's scores")
    samples = [s for g in groups for s in g.samples]
    total, first, skipped = Sums(), Sums(), 0
    norms: list[float] = []
    if samples:
        weights = [p for p in policy.model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=params.learning_rate, weight_decay=0.0)
        scorer = scorer_of(policy, samples, temperature)
        behaviour = _behaviour(scorer, samples)
    steps = [step for epoch in range(params.epochs) for step in steps_of(groups, params.prompts_per_step, seed, epoch)]
    for step in _progress(steps):
        if not any(g.samples for g in step):
            skipped += 1
            continue
        optimizer.zero_grad()
        sums = accumulate(scorer, step, behaviour, reference, params)
        norm = float(torch.nn.utils.clip_grad_norm_(weights, params.max_grad_norm))
        _check_finite(sums.loss, norm, len(norms) + 1, step)
        for settings in optimizer.param_groups:
            settings["lr"] = params.learning_rate * rate(len(norms), len(steps))
        optimizer.step()
        norms.append(norm)
        total.add(sums)
        first = first if first.tokens else sums
    numbers = {
        "steps": len(norms),
        "skipped_steps": skipped,
        "samples": sum(s.count for s in samples),
        "distinct_samples": len(samples),
        "tokens": sum(len(s.completion) * s.count for s in samples),
        "loss": total.loss / max(len(norms), 1),
        "grad_norm": math.fsum(norms) / max(len(norms), 1),
        "first_ratio": first.ratio / max(first.tokens, 1),
        "ratio": total.ratio / max(total.tokens, 1),
        "clip_fraction": total.clipped / max(total.tokens, 1),
        "kl": total.kl / max(total.tokens, 1),
    }
    if params.entropy > 0:
        numbers["entropy"] = total.entropy / max(total.tokens, 1)
    return numbers


def objective_of(params: Grpo) -> Objective:
    """The params that make up a token's loss."""
    return Objective(**{field.name: getattr(params, field.name) for field in fields(Objective)})


def rate(step: int, steps: int) -> float:
    """Share of the learning rate at `step` of `steps`: a rise over WARMUP steps, then a straight line down to 0.

    Without the decline the last few steps' noise stays in the weights, and the round ends worse than its mean.
    """
    return min((step + 1) / WARMUP, (steps - step) / max(steps - WARMUP, 1), 1.0)


def steps_of(groups: Sequence[Group], prompts_per_step: int, seed: int, epoch: int) -> Iterator[list[Group]]:
    """The groups in an order of their own for each epoch, in steps of nearly equal size, at most `prompts_per_step`."""
    order = sorted(groups, key=lambda g: derive_seed(seed, "step", epoch, g.problem_id))
    count = math.ceil(len(order) / prompts_per_step)
    for number in range(count):
        yield order[number * len(order) // count : (number + 1) * len(order) // count]


def accumulate(
    scorer: Scorer, step: Sequence[Group], behaviour: Scores, reference: Scores | None, params: Grpo
) -> Sums:
    """Add the gradient of one step's loss to the weights, micro-batch by micro-batch."""
    sums = Sums()
    denominator = sum(g.denominator for g in step)
    objective = objective_of(params)
    averaging = Averaging(params.loss, longest=1)  # for the weights alone
    for trees in scorer.batches([s for g in step for s in g.samples]):
        samples = [s for tree in trees for s in tree]
        logprobs, entropies, mask = _scored(scorer, trees, with_entropies=params.entropy > 0)
        tokens = token_losses(
            logprobs,
            _padded(behaviour, samples, logprobs),
            None if reference is None else _padded(reference, samples, logprobs),
            entropies,
            logprobs.new_tensor([s.advantage for s in samples]),
            mask,
            objective,
        )
        counts = logprobs.new_tensor([s.count for s in samples])[:, None] * mask
        weights = logprobs.new_tensor([averaging.weight(len(s.completion)) for s in samples])[:, None]
        loss = reduce(tokens.loss, counts * weights, denominator)
        loss.backward()  # type: ignore[no-untyped-call]
        sums.add(_summed(tokens, entropies, counts, float(loss.detach())))
    return sums


def _scored(scorer: Scorer, trees: Sequence[Tree], with_entropies: bool) -> tuple["Tensor", "Tensor | None", "Tensor"]:
    """Log-probabilities, entropies and mask [R, C] of the trees' samples."""
    if with_entropies:
        return scorer.entropies(trees)
    logprobs, mask = scorer.logprobs(trees)
    return logprobs, None, mask


def _summed(tokens: TokenLosses, entropies: "Tensor | None", counts: "Tensor", loss: float) -> Sums:
    """`counts` [R, C]: how many tokens of the round each stands for, 0 where padded."""
    return Sums(
        tokens=int(counts.sum()),
        loss=loss,
        ratio=float((tokens.ratio * counts).sum()),
        clipped=float((tokens.clipped * counts).sum()),
        kl=float((tokens.kl * counts).sum()),
        entropy=0.0 if entropies is None else float((entropies.detach() * counts).sum()),
    )


def _behaviour(scorer: Scorer, samples: Sequence[Sample]) -> Scores:
    """Recorded log-probabilities; where a sample has none, the policy's own before the first step."""
    import torch

    scores = _scores(scorer, [s for s in samples if not s.behaviour])
    return scores | {_key(s): torch.tensor(s.behaviour, device=scorer.model.device) for s in samples if s.behaviour}


def scores_of(policy: Policy, groups: Sequence[Group], temperature: float) -> Scores:
    """What `policy` gives to the tokens of the groups' samples at `temperature`."""
    samples = [s for g in groups for s in g.samples]
    return _scores(scorer_of(policy, samples, temperature), samples)


def _scores(scorer: Scorer, samples: Sequence[Sample]) -> Scores:
    """Log-probabilities of samples, no gradient."""
    import torch

    scores: Scores = {}
    with torch.no_grad():
        for trees in scorer.batches(samples):
            logprobs, _ = scorer.logprobs(trees)
            for row, sample in zip(logprobs, (s for tree in trees for s in tree), strict=True):
                scores[_key(sample)] = row[: len(sample.completion)].clone()
    return scores


def _padded(scores: Scores, samples: Sequence[Sample], like: "Tensor") -> "Tensor":
    """The samples' scores as rows [R, C] of the shape and type of `like`, 0 where padded."""
    rows = like.detach().new_zeros(like.shape)
    for row, sample in zip(rows, samples, strict=True):
        row[: len(sample.completion)] = scores[_key(sample)]
    return rows


def _key(sample: Sample) -> Key:
    return sample.problem_id, sample.member


def _check_finite(loss: float, norm: float, step: int, groups: Sequence[Group]) -> None:
    if not (math.isfinite(loss) and math.isfinite(norm)):
        names = ", ".join(g.problem_id for g in groups if g.samples)
        raise GraftError(
            f"update step {step}: loss {loss} and gradient norm {norm} on the problems {names}; "
            "lower grpo.learning_rate"
        )


def _progress(steps: Sequence[list[Group]]) -> Iterable[list[Group]]:
    from rich.console import Console
    from rich.progress import track

    return track(steps, "update", console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)
