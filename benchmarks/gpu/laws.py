"""Phase laws: what Graft promises, asked of the card; each is a figure `NAME_held`, next to what was measured.

gradient      the update's against its definition in float64: float32, autocast and a bfloat16 base, packed and in rows
certificate   a step along an influence changes the validation loss as predicted: float32 and a bfloat16 base
twice         the same update twice gives the same bytes
logprobs      the sampler's log-probabilities are the scorer's, by the law of tasks/model/scoring/mismatch.py
resume        an update that is killed and started again ends with the bytes of one that was left alone

python -m benchmarks.gpu.laws FOLDER STEP    such an update, which kills itself after that step (0: never)
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.gpu.phase import Phase
from benchmarks.gpu.policies import SMALL, policy_of
from benchmarks.gpu.samples import digest_of, gradient_of, random_groups
from benchmarks.step_sides import PAD, prompts_of, update_params
from benchmarks.support.workspace import PROJECT
from tasks.records import Dtype

if TYPE_CHECKING:
    from torch import Tensor

    from tasks.model.policy import Policy
    from tasks.model.sample import Sample
    from tasks.model.scoring.scorer import Scorer
    from tasks.update.step_plan import UpdateGroup

SPREAD = 0.02
EXACT, ROUNDED = 1e-4, 5e-2
"""Largest relative error of a gradient in float32, and with products in bfloat16."""

DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16")
LAYOUTS = ("packed", "rows")
RESUME_S = 150.0  # seconds of both processes, at most

groups_of_small = partial(random_groups, SMALL, size=4, lengths=(3, 48))


def run(phase: Phase) -> None:
    killed = TemporaryDirectory()
    cut = _start(killed.name, 3)  # its libraries load while the other laws are computed
    alone = _start(killed.name + "/alone", 0)
    laws: dict[str, Callable[[Phase], None]] = {
        "gradient": gradient,
        "certificate": certificate,
        "twice": twice,
        "logprobs": logprobs,
        "resume": partial(resume, killed=killed.name, cut=cut, alone=alone),
    }
    for name, law in laws.items():
        with phase.part(name):
            law(phase)
    cut.kill()
    alone.kill()
    killed.cleanup()


def samples_of(groups: "list[UpdateGroup]") -> "list[Sample]":
    return [s for g in groups for s in g.samples]


def scorer_of(policy: "Policy", samples: "list[Sample]", layout: str, bf16: bool = False) -> "Scorer":
    """The update's, or one of padded rows."""
    from tasks.model.scoring.scorer import Scorer, scorer_for

    if layout == "rows":
        return Scorer(policy.model, PAD, 1.0, "rows", 4096, bf16=bf16)
    return scorer_for(policy, samples, 1.0, 4096, bf16)


def exact_gradient(policy: "Policy", groups: "list[UpdateGroup]") -> "Tensor":
    """∇ -Σ_i A_i Σ_t log p_it / N, each sample alone in its row, in float64 on the CPU: the definition at ratio 1."""
    from copy import deepcopy

    import torch

    model = deepcopy(policy.model).cpu().double()
    for sample in samples_of(groups):
        ids = torch.tensor([[*sample.prompt, *sample.completion]])
        scores = model(input_ids=ids).logits[0, len(sample.prompt) - 1 : -1].log_softmax(-1)
        logprobs = scores.gather(-1, torch.tensor(sample.completion)[:, None])
        (-sample.advantage * logprobs.sum() / sum(g.denominator for g in groups)).backward()
    return gradient_of(model)


def gradient(phase: Phase) -> None:
    from tasks.objective.recorded_logprobs import behaviour_logprobs
    from tasks.update.gradient import accumulate_gradient

    groups = groups_of_small(problems=2 if phase.is_tiny else 6)
    samples = samples_of(groups)
    cases: tuple[tuple[str, Dtype, bool], ...] = (
        ("float32", "float32", False),
        ("autocast", "float32", True),
        ("bfloat16", "bfloat16", False),
    )
    for name, dtype, bf16 in cases:
        policy = policy_of(SMALL, dtype, SPREAD)
        exact = exact_gradient(policy, groups)
        for layout in LAYOUTS:
            scorer = scorer_of(policy, samples, layout, bf16)
            policy.model.zero_grad(set_to_none=True)
            accumulate_gradient(scorer, groups, behaviour_logprobs(scorer, samples), None, update_params())
            error = float((gradient_of(policy.model) - exact).norm() / exact.norm())
            law = f"gradient_{name}_{layout}"
            phase.figure(**{law: error, f"{law}_held": error <= (EXACT if name == "float32" else ROUNDED)})
            phase.figure(**{f"{law}_layout": scorer.layout})


def certificate(phase: Phase) -> None:
    from tasks.objective.token_weights import TokenWeights
    from tasks.select.certificate import SLOPE_TOLERANCE, certify
    from tasks.select.losses import Validation
    from tasks.select.tracin import influences

    train, held_out = (samples_of(groups_of_small(problems=6, seed=seed)) for seed in (1, 2))
    averaging, validation = TokenWeights("dapo", 64), Validation(held_out, [s.advantage for s in held_out])
    for dtype in DTYPES:
        scorer = scorer_of(policy_of(SMALL, dtype, SPREAD), [*train, *held_out], "packed")
        products = [one.product or 0.0 for one in influences(scorer, train, averaging, validation).each]
        made = certify(scorer, train, products, averaging, validation, 0)
        phase.figure(**{f"certificate_{dtype}_slope": made.slope if made.steps else None})
        held = made.steps > 0 and abs(made.slope + 1) <= SLOPE_TOLERANCE
        phase.figure(**{f"certificate_{dtype}_steps": made.steps, f"certificate_{dtype}_held": held})


def twice(phase: Phase) -> None:
    from tasks.objective.recorded_logprobs import behaviour_logprobs
    from tasks.update.step_plan import Step
    from tasks.update.update import optimizer_step, start_training

    groups = groups_of_small(problems=6, seed=3)
    params = update_params().model_copy(update={"learning_rate": 1e-3})

    def learn(dtype: Dtype, layout: str) -> str:
        policy = policy_of(SMALL, dtype, SPREAD)
        scorer, training = scorer_of(policy, samples_of(groups), layout), start_training(policy.model, params, 2)
        behaviour = behaviour_logprobs(scorer, samples_of(groups))
        for taken in (groups[:3], groups[3:]):
            optimizer_step(training, scorer, Step(1, taken), behaviour, None, params)
        return digest_of(policy.model)

    for dtype in DTYPES:
        for layout in LAYOUTS:
            digests = {learn(dtype, layout) for _ in range(2 if phase.is_tiny else 3)}
            phase.figure(**{f"twice_{dtype}_{layout}_held": len(digests) == 1})


def logprobs(phase: Phase) -> None:
    from benchmarks.gpu.policies import SHAPES
    from benchmarks.gpu.step import sample
    from benchmarks.step_sides import groups_of
    from tasks.model.scoring.mismatch import mismatch_of
    from tasks.objective.recorded_logprobs import sample_key, score_samples

    cases = {f"small_{dtype}": (SMALL, dtype, SPREAD) for dtype in DTYPES}
    if not phase.is_tiny:
        cases["0.5b_bfloat16"] = (SHAPES["0.5b"], "bfloat16", 0.002)
    for name, (shape, dtype, spread) in cases.items():
        policy = policy_of(shape, dtype, spread)
        prompts = prompts_of(replace(shape, prompt=64), 8)
        samples = samples_of(groups_of(prompts, sample(policy, prompts, 4, 48)))
        scores = score_samples(scorer_of(policy, samples, "packed"), samples)
        pairs = [(scores[sample_key(s)].tolist(), s.behaviour) for s in samples]
        found = mismatch_of([a - b for own, recorded in pairs for a, b in zip(own, recorded, strict=True)])
        law = f"logprobs_{name}"
        phase.figure(**{f"{law}_mean": found.mean, f"{law}_max": found.max, f"{law}_kl": found.kl})
        phase.figure(**{f"{law}_held": found.is_lawful(in_float32=dtype == "float32")})


def resume(phase: Phase, killed: str, cut: "subprocess.Popen[str]", alone: "subprocess.Popen[str]") -> None:
    limit = max(min(RESUME_S, phase.left - 5), 1)
    code = cut.wait(limit)
    again = _start(killed, 0)
    digests = [process.communicate(timeout=limit)[0].strip() for process in (alone, again)]
    phase.figure(resume_killed=code == -signal.SIGKILL, resume_held=code == -signal.SIGKILL and len({*digests}) == 1)
    phase.figure(resume_digest=digests[0][:16] or None)


def _start(folder: str, stop: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.gpu.laws", folder, str(stop)]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)


def update(folder: Path, stop: int) -> None:
    """An update of 8 steps with a checkpoint after each; prints the digest of what it learned."""
    from tasks.update import checkpoint
    from tasks.update.step_plan import plan_steps
    from tasks.update.update import train

    class Keeper(checkpoint.Checkpoint):
        """Kills this process after step `stop`."""

        def keep(self, training: checkpoint.TrainingState) -> None:
            super().keep(training)
            if stop and len(training.rows) == stop:
                os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.WRITE_INTERVAL = 0.0
    folder.mkdir(parents=True, exist_ok=True)
    groups, policy = groups_of_small(problems=8, seed=4), policy_of(SMALL, "float32", SPREAD)
    steps, _ = plan_steps(groups, 2, 2, 0)
    params = update_params().model_copy(update={"learning_rate": 1e-3})
    train(scorer_of(policy, samples_of(groups), "packed"), steps, params, None, Keeper(folder / "update.pt"))
    print(digest_of(policy.model))


if __name__ == "__main__":
    from flows.process.settings import set_environment

    set_environment()
    update(Path(sys.argv[1]), int(sys.argv[2]))
