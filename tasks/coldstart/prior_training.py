"""Training of the statement prior: cross-entropy of the next statement over the legal ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.coldstart.expression_space import STATEMENTS, SYMBOLS, Program, Space
from tasks.coldstart.expression_states import (
    bits_of,
    legal_statements,
    pair_kinds,
    replay,
    stop_kinds,
    use_kinds,
    width_of,
)
from tasks.coldstart.statement_prior import (
    IMPOSSIBLE,
    Prior,
    S,
    Texts,
    Weights,
    describe_leaves,
    describe_value,
    shapes,
    statement_scores,
    stop_scores,
    texts_of,
    vocabulary_of,
)
from tasks.core.torch_threads import torch_threads

if TYPE_CHECKING:
    import torch

Example = tuple[Space, Program]


@dataclass(frozen=True)
class TrainingBatch:
    """P problems of one width with T = STATEMENTS + 1 steps and M operands."""

    texts: Texts
    symbols: Any  # [P, STATEMENTS]
    operands: Any  # [P, STATEMENTS, 2]
    legal: Any  # [P, T, S, M, M]
    pairs: Any  # [P, T, M, M]
    uses: Any  # [P, T, M]
    stops: Any  # [P, T]
    targets: Any  # [P, T]: index into S M M statements and the stop; -1 = none
    weights: Any  # [P]: weight of each problem
    width: int


def canonical(program: Program) -> Program:
    """Sums and products with the smaller operand first."""
    return tuple((s, *((min(a, b), max(a, b)) if s in "+*" else (a, b))) for s, a, b in program)


def training_batches(
    examples: Sequence[Example],
    vocabulary: dict[str, int],
    size: int,
    seed: int,
    weights: Sequence[float] | None = None,
) -> list[TrainingBatch]:
    """Batches of `size` examples of one width, without examples that contain a pruned statement; default weight 1."""
    order = np.random.default_rng(seed).permutation(len(examples)).tolist()
    counts = np.ones(len(examples)) if weights is None else np.array(weights)
    batches = (
        _training_batch([examples[i] for i in places], vocabulary, width, counts[places])
        for width, places in _batches(examples, order, size)
    )
    return [batch for batch in batches if (batch.targets >= 0).any()]


def _batches(examples: Sequence[Example], order: Sequence[int], size: int) -> list[tuple[int, list[int]]]:
    """(width, indices of at most `size` examples of this width), the indices in the given order."""
    by_width: dict[int, list[int]] = {}
    for index in order:
        by_width.setdefault(width_of(examples[index][0]), []).append(index)
    return [(w, places[i : i + size]) for w, places in sorted(by_width.items()) for i in range(0, len(places), size)]


def _training_batch(examples: Sequence[Example], vocabulary: dict[str, int], width: int, weights: Any) -> TrainingBatch:
    spaces, programs = [s for s, _ in examples], [canonical(p) for _, p in examples]
    steps = [replay(spaces, [p[:t] for p in programs], t, width) for t in range(STATEMENTS + 1)]
    allowed = np.stack([legal_statements(states) for states in steps], axis=1)
    targets = np.full((len(examples), STATEMENTS + 1), -1, dtype=np.int64)
    symbols = np.zeros((len(examples), STATEMENTS), dtype=np.int64)
    operands = np.zeros((len(examples), STATEMENTS, 2), dtype=np.int64)
    for p, program in enumerate(programs):
        for t, (symbol, left, right) in enumerate(program):
            s = SYMBOLS.index(symbol)
            symbols[p, t], operands[p, t] = s, (left, right)
            targets[p, t] = (s * width + left) * width + right
        targets[p, len(program)] = S * width * width
        if not all(allowed[p, t].reshape(-1)[targets[p, t]] for t in range(len(program))):
            targets[p] = -1
    return TrainingBatch(
        texts_of(spaces, vocabulary, width - STATEMENTS),
        symbols,
        operands,
        allowed,
        np.stack([pair_kinds(states) for states in steps], axis=1).astype(np.int8),
        np.stack([use_kinds(states) for states in steps], axis=1),
        np.stack(
            [stop_kinds(s.depth, bits_of(s.used), bits_of(s.leaves.quantity) << STATEMENTS) for s in steps], axis=1
        ),
        targets,
        np.asarray(weights, dtype=np.float32),
        width,
    )


def train_prior(examples: Sequence[Example], epochs: int, seed: int, weights: Sequence[float] | None = None) -> Prior:
    """Train a prior on programs, weighted if they are guesses; deterministic on one machine."""
    with torch_threads(1):  # several would sum embedding gradients in any order, and gain nothing
        return _trained(examples, epochs, seed, weights)


def log_likelihoods(prior: Prior, examples: Sequence[Example]) -> NDArray[np.float64]:
    """[examples]: log-probability of each program; -inf where one of its statements is pruned."""
    import torch

    weights = {name: torch.from_numpy(value) for name, value in prior.weights.items()}
    found = np.full(len(examples), -np.inf)
    for width, places in _batches(examples, range(len(examples)), 256):
        batch = _training_batch([examples[i] for i in places], prior.vocabulary, width, np.ones(len(places)))
        if not (batch.targets >= 0).any():
            continue
        with torch.no_grad():
            losses = torch_losses(weights, batch).double().numpy()
        rows = np.nonzero(batch.targets >= 0)[0]
        sums = np.bincount(rows, losses, minlength=len(places))
        found[places] = np.where(batch.targets[:, 0] >= 0, -sums, -np.inf)
    return found


def _trained(examples: Sequence[Example], epochs: int, seed: int, counts: Sequence[float] | None) -> Prior:
    import torch

    vocabulary = vocabulary_of([space for space, _ in examples], least=3)
    batches = training_batches(examples, vocabulary, 64, seed, counts)
    generator = torch.Generator().manual_seed(seed)
    weights = {
        name: (torch.randn(shape, generator=generator) * _scale(name, shape)).requires_grad_()
        for name, shape in shapes(len(vocabulary)).items()
    }
    optimiser = torch.optim.AdamW(list(weights.values()), lr=LEARNING_RATE, weight_decay=0.02)
    total = max(1, epochs * len(batches))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: min(1, (i + 1) / 50) * max(0.0, 1 - i / total))
    rng = np.random.default_rng(seed)

    def drop(x: "torch.Tensor") -> "torch.Tensor":
        kept = torch.rand(x.shape, generator=generator) > DROPPED
        return x * kept / (1 - DROPPED)

    for _ in range(epochs):
        for index in rng.permutation(len(batches)):
            loss = mean_loss(weights, batches[index], drop)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    return Prior(vocabulary, {name: tensor.detach().numpy() for name, tensor in weights.items()})


DROPPED = 0.5
LEARNING_RATE = 0.004


def _scale(name: str, shape: tuple[int, ...]) -> float:
    if name in {"pair", "use_left", "use_right", "stop", "hidden_bias", "from_bias", "symbol"}:
        return 0.0
    return 0.3 if name == "embedding" else float((shape[-2] if len(shape) > 1 else shape[0]) ** -0.5)


def mean_loss(weights: Weights, batch: TrainingBatch, drop: Any = None) -> "torch.Tensor":
    """Mean cross-entropy over the decisions of a batch, in nats, weighted by problem."""
    import torch

    losses = torch_losses(weights, batch, drop)
    counts = batch.weights[np.nonzero(batch.targets >= 0)[0]]
    return (losses * torch.from_numpy(counts)).sum() / max(1.0, float(counts.sum()))


def torch_losses(weights: Weights, batch: TrainingBatch, drop: Any = None) -> "torch.Tensor":
    """[decisions]: cross-entropy of each decision."""
    import torch

    texts = Texts(*map(torch.from_numpy, batch.texts))
    leaves, question = describe_leaves(weights, texts, drop)
    size = len(batch.targets)
    values = torch.zeros(size, STATEMENTS, leaves.shape[2])
    operands = torch.cat([values, leaves], dim=1)
    rows = torch.arange(size)
    for step in range(STATEMENTS):
        symbol, pair = torch.from_numpy(batch.symbols[:, step]), torch.from_numpy(batch.operands[:, step])
        value = describe_value(weights, symbol, operands[rows, pair[:, 0]], operands[rows, pair[:, 1]])
        operands = torch.cat([operands[:, :step], value[:, None], operands[:, step + 1 :]], dim=1)
    p, t = np.nonzero(batch.targets >= 0)  # problem and step of each decision
    at = torch.from_numpy(p)
    present = np.arange(batch.width)[None] < t[:, None]
    present[:, STATEMENTS:] = True
    seen = operands[at] * torch.from_numpy(present)[:, :, None]
    pairs = torch.from_numpy(batch.pairs[p, t].astype(np.int64))
    scores = statement_scores(weights, seen, question[at], pairs, torch.from_numpy(batch.uses[p, t]))
    allowed = torch.from_numpy(batch.legal[p, t])
    flat = torch.where(allowed, scores, torch.tensor(IMPOSSIBLE)).reshape(len(p), -1)
    latest = seen[torch.arange(len(p)), torch.from_numpy(np.maximum(t - 1, 0))]
    stop = stop_scores(weights, latest, question[at], torch.from_numpy(batch.stops[p, t]))
    ends = torch.from_numpy(batch.targets[p, t] == flat.shape[1])
    free = torch.from_numpy((t > 0) & (t < STATEMENTS))  # a program has between 1 and STATEMENTS statements
    ending = torch.nn.functional.binary_cross_entropy_with_logits(stop, ends.float(), reduction="none") * free
    target = torch.from_numpy(batch.targets[p, t]).masked_fill(ends, 0)
    return ending + torch.nn.functional.cross_entropy(flat, target, reduction="none") * ~ends
