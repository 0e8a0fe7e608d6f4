"""Phase laws: what Graft promises, asked of the card; each is a figure `NAME_held`, next to what was measured.

gradient      the update's against its definition in float64: float32, autocast and a bfloat16 base, packed and rows
certificate   a step along an influence changes the validation loss as predicted: float32 and a bfloat16 base
twice         the same update twice gives the same bytes
logprobs      the sampler's log-probabilities are the scorer's, by the law of tasks/model/scoring/mismatch.py
resume        an update that is killed and started again ends with the bytes of one that was left alone
"""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.phase import Phase
from benchmarks.gpu.policies import QWEN, SMALL, policy_of, random_groups, samples_of
from benchmarks.gpu.step import sample
from benchmarks.step_sides import PAD, Shape, groups_of, prompts_of, update_params
from flows.process.settings import set_environment
from tasks.model import training_checkpoint as checkpoint
from tasks.model.scoring.mismatch import mismatch_of
from tasks.objective.recorded_logprobs import behaviour_logprobs, sample_key, score_samples
from tasks.objective.token_weights import TokenWeights
from tasks.records.policy import Dtype
from tasks.select.certificate import certify
from tasks.select.losses import Validation
from tasks.select.tracin import influences
from tasks.update.gradient import accumulate_gradient
from tasks.update.step_plan import Step, UpdateGroup, plan_steps
from tasks.update.update import optimizer_step, start_training, train

if TYPE_CHECKING:
    from torch import Tensor

    from tasks.model.policy import Policy
    from tasks.model.sample import Sample
    from tasks.model.scoring.scorer import Scorer

SPREAD = 0.02  # of the adapter's B: far from that of a fresh adapter, 0
LIMITS = {"float32": 1e-4, "autocast": 5e-2, "bfloat16": 5e-2}
"""Largest relative error of a gradient."""

DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16")
LAYOUTS = ("packed", "rows")
STOP = 3  # steps before an update is killed

small_groups = partial(random_groups, SMALL, size=4, lengths=(3, 48))


def run(phase: Phase) -> None:
    for law in (gradient, certificate, twice, logprobs, resume):
        with phase.part(law.__name__):
            for name, held, figures in law():
                phase.figure(f"{law.__name__}_{name}", _held=held, **figures)


Verdicts = Iterator[tuple[str, bool, dict[str, Any]]]
"""Name, whether the law holds, and what was measured."""


def scorer_of(policy: "Policy", samples: "list[Sample]", layout: str = "packed", bf16: bool = False) -> "Scorer":
    """The update's, or one of padded rows."""
    from tasks.model.scoring.scorer import Scorer, scorer_for

    packed = scorer_for(policy, samples, 1.0, 4096, bf16)
    return packed if layout == "packed" else Scorer(policy.model, PAD, 1.0, "rows", 4096, bf16=bf16)


def weights_of(model: Any) -> "list[Tensor]":
    """Those that are trained."""
    return [weight for weight in model.parameters() if weight.requires_grad]


def gradient_of(model: Any) -> "Tensor":
    import torch

    return torch.cat([weight.grad.double().cpu().flatten() for weight in weights_of(model) if weight.grad is not None])


def digest_of(model: Any) -> str:
    return sha256(b"".join(w.detach().float().cpu().numpy().tobytes() for w in weights_of(model))).hexdigest()


def exact_gradient(policy: "Policy", groups: list[UpdateGroup]) -> "Tensor":
    """∇ -Σ_i A_i Σ_t log p_it / N, each sample alone in its row, in float64 on the CPU: the definition at ratio 1."""
    from copy import deepcopy

    import torch

    model = deepcopy(policy.model).cpu().double()
    for s in samples_of(groups):
        scores = model(input_ids=torch.tensor([[*s.prompt, *s.completion]])).logits[0, len(s.prompt) - 1 : -1]
        logprobs = scores.log_softmax(-1).gather(-1, torch.tensor(s.completion)[:, None])
        (-s.advantage * logprobs.sum() / sum(g.denominator for g in groups)).backward()
    return gradient_of(model)


def gradient() -> Verdicts:
    groups = small_groups(problems=4)
    samples = samples_of(groups)
    for name, limit in LIMITS.items():
        policy = policy_of(SMALL, "bfloat16" if name == "bfloat16" else "float32", SPREAD)
        exact = exact_gradient(policy, groups)
        for layout in LAYOUTS:
            scorer = scorer_of(policy, samples, layout, bf16=name == "autocast")
            policy.model.zero_grad(set_to_none=True)
            accumulate_gradient(scorer, groups, behaviour_logprobs(scorer, samples), None, update_params())
            error = float((gradient_of(policy.model) - exact).norm() / exact.norm())
            yield f"{name}_{layout}", error <= limit, {"": error, "_layout": scorer.layout}


def certificate() -> Verdicts:
    train_samples, held_out = (samples_of(small_groups(problems=6, seed=seed)) for seed in (1, 2))
    averaging, validation = TokenWeights("dapo", 64), Validation(held_out, [s.advantage for s in held_out])
    for dtype in DTYPES:
        scorer = scorer_of(policy_of(SMALL, dtype, SPREAD), [*train_samples, *held_out])
        products = [one.product or 0.0 for one in influences(scorer, train_samples, averaging, validation).samples]
        made = certify(scorer, train_samples, products, validation, update_params(), 64, 0)
        held = made.steps > 0 and abs(made.slope + 1) <= made.tolerance
        yield dtype, held, {"_slope": made.slope if made.steps else None, "_steps": made.steps}


def twice() -> Verdicts:
    groups = small_groups(problems=6, seed=3)
    samples, params = samples_of(groups), update_params().model_copy(update={"learning_rate": 1e-3})

    def learn(dtype: Dtype, layout: str) -> str:
        policy = policy_of(SMALL, dtype, SPREAD)
        scorer, training = scorer_of(policy, samples, layout), start_training(policy.model, params, 2)
        behaviour = behaviour_logprobs(scorer, samples)
        for step in (Step(1, groups[:3]), Step(1, groups[3:])):
            optimizer_step(training, scorer, step, behaviour, None, params)
        return digest_of(policy.model)

    for dtype in DTYPES:
        for layout in LAYOUTS:
            yield f"{dtype}_{layout}", learn(dtype, layout) == learn(dtype, layout), {}


def logprobs() -> Verdicts:
    import torch

    cases: dict[str, tuple[Shape, Dtype, float]] = {dtype: (SMALL, dtype, SPREAD) for dtype in DTYPES}
    if torch.cuda.is_available():
        cases["0.5b"] = (QWEN, "bfloat16", 0.002)
    for name, (shape, dtype, spread) in cases.items():
        policy, prompts = policy_of(shape, dtype, spread), prompts_of(replace(shape, prompt=64), 8)
        samples = samples_of(groups_of(prompts, sample(policy, prompts, 4, 48)))
        scores = score_samples(scorer_of(policy, samples), samples)
        pairs = [pair for s in samples for pair in zip(scores[sample_key(s)].tolist(), s.behaviour, strict=True)]
        mismatch = mismatch_of([scored - recorded for scored, recorded in pairs])
        figures = {"_mean": mismatch.mean, "_max": mismatch.max, "_kl": mismatch.kl}
        yield name, mismatch.is_lawful(in_float32=dtype == "float32"), figures


def resume() -> Verdicts:
    with TemporaryDirectory() as folder:
        alone, killed = (Path(folder) / name for name in ("alone", "killed"))
        codes = []
        for starts in ([(alone, 0), (killed, STOP)], [(killed, 0)]):
            processes = [get_context("spawn").Process(target=update, args=start) for start in starts]
            for process in processes:
                process.start()
            for process in processes:
                process.join()
                codes.append(process.exitcode)
        digests = {(path / "digest").read_text() for path in (alone, killed)}
        yield "killed", codes == [0, -signal.SIGKILL, 0] and len(digests) == 1, {"_codes": codes}


def update(folder: Path, stop: int) -> None:
    """An update of 8 steps with a checkpoint after each, which kills its process after step `stop` (0: never)."""

    class Keeper(checkpoint.Checkpoint):
        """Kills this process after it has written step `stop`."""

        def keep(self, training: checkpoint.TrainingState) -> None:
            super().keep(training)
            if len(training.rows) == stop:
                os.kill(os.getpid(), signal.SIGKILL)

    set_environment()
    checkpoint.WRITE_INTERVAL = 0.0
    folder.mkdir(exist_ok=True)
    groups, policy = small_groups(problems=8, seed=4), policy_of(SMALL, "float32", SPREAD)
    steps, _ = plan_steps(groups, 2, 2, 0)
    params = update_params().model_copy(update={"learning_rate": 1e-3})
    train(scorer_of(policy, samples_of(groups)), steps, params, None, Keeper(folder / "update.pt"))
    (folder / "digest").write_text(digest_of(policy.model))
