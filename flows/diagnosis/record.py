"""Diagnosis of one GRPO step: its data, and the lines that show them."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.core import terminal
from tasks.update.diagnostics.health import Score, Verdict, kl_share
from tasks.update.diagnostics.one_step import GradientNorms, OneStep
from tasks.update.metrics import Metrics


@dataclass(frozen=True)
class Token:
    """A token that the policy wrote, with its log-probabilities at the sampling temperature."""

    text: str
    policy: float
    reference: float


@dataclass(frozen=True)
class DiagnosedCompletion:
    """A completion of a group; `count`: how many of the group are this one."""

    code: str
    tokens: Sequence[Token]
    count: int
    result: str  # what running it on the problem gave, in a few words
    reward: float | None  # None = failed
    terms: dict[str, float | None]
    baseline: float | None  # what its reward is compared with
    advantage: float
    learned: float  # the advantage that the step learns from: update.negative_weight × those below 0
    cut: bool  # at policy.max_new_tokens

    @property
    def logprob(self) -> float:
        return sum(token.policy for token in self.tokens)

    @property
    def reference(self) -> float:
        return sum(token.reference for token in self.tokens)


@dataclass(frozen=True)
class ProblemDiagnosis:
    """One problem: its group, the best first, and how it went before and after the step (None: not measured)."""

    problem_id: str
    question: str
    answer: str
    mean: float | None  # of the group's known rewards, None = none is known
    std: float | None  # ddof 1
    completions: Sequence[DiagnosedCompletion]
    greedy: tuple[bool | None, bool | None]
    right: tuple[int | None, int | None]  # of Diagnosis.samples


@dataclass(frozen=True)
class Diagnosis:
    """One GRPO step in full: its problems, the step, the scores before and after it, and the verdicts."""

    round: int  # of the policy
    version: str  # of the policy
    reference: str  # version of the reference
    samples: int  # completions of each problem for the score
    problems: Sequence[ProblemDiagnosis]
    step: OneStep
    before: Score | None
    after: Score | None
    lost: str  # why a score could not be measured, "" where both were
    verdicts: Sequence[Verdict]


def loss_lines(step: OneStep) -> list[tuple[str, str, str]]:
    """(what, before the step, after it), of the samples that are learned from; [] where no step was taken.

    KL share of the loss: |β·KL| / (|policy part| + |β·KL|); of the gradient: the same of the two parts' norms.
    """
    if step.row is None:
        return []
    before, after = _column(step.row, step.before), _column(step.row_after, step.after)
    return [(name, before[name], after.get(name, "not finite")) for name in before]


def _column(row: Metrics | None, parts: GradientNorms | None) -> dict[str, str]:
    """A loss and its gradient, in words; {} where they are not finite."""
    if row is None or parts is None:
        return {}
    clipped = row["clip_ratio/low_mean"] + row["clip_ratio/high_mean"]
    return {
        "learning rate": f"{row['learning_rate']:.3g}",
        "loss": f"{row['loss']:+.4f}",
        "  policy part": f"{row['policy_loss']:+.4f}",
        "  β·KL": f"{row['kl_loss']:+.2e}",
        "  entropy bonus": f"{row['entropy_loss']:+.4f}",
        "KL share of the loss": f"{row['kl_share']:.2%}",
        "gradient norm": f"{parts.whole:.4f}",
        "  of the policy part": f"{parts.policy:.4f}",
        "  of β·KL": f"{parts.kl:.2e}",
        "KL share of the gradient": f"{kl_share(parts.policy, parts.kl) or 0.0:.2%}",
        "KL to the reference, a token": f"{row['kl']:.4f}",
        "entropy of a token": f"{row['entropy']:.4f}",
        "ratio, mean": f"{row['ratio']:.4f}",
        "ratio, largest": f"{row['ratio_max']:.4f}",
        "tokens that the clip acts on": f"{clipped:.1%}",
    }


def summary_lines(diagnosis: Diagnosis) -> list[str]:
    """What was looked at, in a few sentences."""
    completions = sum(completion.count for asked in diagnosis.problems for completion in asked.completions)
    reference = f"round 0's ({diagnosis.reference})" if diagnosis.round else "the policy itself"
    lines = [
        f"One GRPO step of round {diagnosis.round}'s policy ({diagnosis.version}) on {len(diagnosis.problems)} train "
        f"problems with {completions} completions. The reference is {reference}.",
        "The step is the first of an update, at the learning rate of its warm-up and schedule. It is taken in memory, "
        "and nothing of the run is changed.",
    ]
    if diagnosis.step.row is None:
        lines.append("No completion has an advantage, so that no step was taken: before and after are the same policy.")
    return lines + ([f"The score could not be measured: {diagnosis.lost}"] if diagnosis.lost else [])


def printable(text: str) -> str:
    """Text that a model wrote, in one line; control characters are replaced."""
    return terminal.printable(text.replace("\n", "↵"), replacement="·")


def number_text(value: float | None) -> str:
    """Three decimals, or a dash."""
    return "–" if value is None else f"{value:.3f}"
