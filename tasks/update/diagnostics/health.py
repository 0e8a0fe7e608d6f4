"""Health of one optimiser step: a verdict for each sign, and the param to change.

    sign                    healthy                                   red flag
    advantages              std and range > 0.01
    KL share                10–30 % of the gradient, a rule of thumb  extreme KL share: > 80 %
    gradient norm           > 0, not clipped at every known step      zero gradients: it is 0
    learning                what earned more gains log-probability    no learning: nothing moves
                                                                      wrong direction: it loses log-probability
    score                   not lower after the step than before      performance down: by more than chance
    distinct completions    in every group                            identical completions: in hardly any group
    reward errors           none                                      reward errors: any

*KL share* is ‖∇ β·KL‖ / (‖∇ policy part‖ + ‖∇ β·KL‖), the two parts of the gradient by themselves. The share that an
update logs (`kl_share` in tasks/update/metrics.py) is of the loss: |β·KL| / (|policy part| + |β·KL|). At the first step
that one says little: every ratio is 1, so that the policy part is -Σ A, which centred advantages make 0 whatever there
is to learn. From the reference itself the KL and its gradient are 0 by construction; there the share is that of the
same samples after the step, and where it is low that is no verdict. *Learning* is `logprob_gain` of one_step.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from tasks.objective.advantages import known_rewards, standard_deviation

SPREAD = 0.01
"""Least standard deviation and range of healthy advantages."""

KL_LOW, KL_HIGH, KL_EXTREME = 0.10, 0.30, 0.80
"""Healthy shares lie between the first two; above the third the reference, not the reward, says where to go."""

ZERO_NORM = 1e-8
"""A gradient norm that is 0 but for rounding."""

MOSTLY_INVALID = 0.5
"""Share of invalid completions above which the prompt is at fault, not the problems."""

COLLAPSED = 0.75
"""Share of groups without two unlike completions above which the policy has collapsed. In the default, six seeds,
it is at most 2/8 of a step's groups; at temperature 0.01 it is 7/8 or all of them."""

CHANCE = 2.0
"""Standard errors that a score may fall by chance."""

STILL = 1e-4
"""A change of a completion's log-probability that is rounding: 64 tokens in float32 leave 1e-5."""

COLLAPSE = "raise search.temperature or lower update.beta"
DEGRADATION = "lower update.learning_rate or raise update.beta"
"""Remedies of completions that are all the same, and of a score that falls."""

Level = Literal["ok", "warning", "red flag", "no verdict"]


@dataclass(frozen=True)
class Score:
    """How a policy does on P prompts; `greedy` [P]: its likeliest completion is right, `right` [P]: of `samples`."""

    greedy: Sequence[bool]
    right: Sequence[int]
    samples: int

    @property
    def greedy_share(self) -> float:
        return sum(self.greedy) / len(self.greedy)

    @property
    def sampled_share(self) -> float:
        return sum(self.right) / (len(self.right) * self.samples)


@dataclass(frozen=True)
class StepMeasurements:
    """What was measured of one step on P problems, G completions each."""

    rewards: Sequence[Sequence[float | None]]  # [P][G], None = failed, or left out as update.truncated says
    advantages: Sequence[Sequence[float]]  # [P][G], before update.negative_weight
    distinct: Sequence[int]  # [P] different completions of each group
    invalid: float  # share of the completions that are no program that runs, or that have no answer
    errors: Sequence[str]  # one for each reward that failed
    faulty: Sequence[str]  # the terms of the reward that failed where the program's result is known
    served: bool  # a model serves operators: then a reward may fail because it gave no reply
    norm: float  # of the gradient, before it is clipped
    max_norm: float  # update.max_grad_norm
    earlier_norms: Sequence[float]  # of the steps of earlier rounds' updates, [] = none is there
    beta: float
    at_reference: bool  # the step begins at the reference: KL is 0 by construction
    policy_norm: float  # of the policy part's gradient by itself; at the reference, after the step
    kl_norm: float  # of the gradient of β·KL by itself; likewise
    before: Score | None  # None: it could not be measured
    after: Score | None
    stepped: bool  # False: nothing had an advantage, no step was taken
    diverged: bool  # the step has left weights whose loss is not finite
    gain: float | None  # of log p of a completion that is learned from; None: diverged


@dataclass(frozen=True)
class Verdict:
    """One sign. `remedy`: the param to turn and the direction, `raise update.beta`; "" where there is nothing to do."""

    sign: str
    value: str
    healthy: str
    level: Level
    why: str
    remedy: str = ""
    flag: str = ""  # the red flag's name


def verdicts(signs: StepMeasurements) -> list[Verdict]:
    """One for each sign, in the order of the table above."""
    return [verdict(signs) for verdict in (_advantages, _kl_share, _gradient, _learning, _score, _distinct, _errors)]


def kl_share(policy_norm: float, kl_norm: float) -> float | None:
    """The KL's share of the gradient, in [0, 1]; None where neither part has one."""
    whole = policy_norm + kl_norm
    return kl_norm / whole if whole > ZERO_NORM else None


def advantage_spread(signs: StepMeasurements) -> tuple[float, float, float]:
    """(least, greatest, standard deviation with ddof 1) of the advantages whose reward is known; 0 of none."""
    pairs = zip(signs.rewards, signs.advantages, strict=True)
    values = [a for rewards, group in pairs for r, a in zip(rewards, group, strict=True) if r is not None]
    if not values:
        return 0.0, 0.0, 0.0
    return min(values), max(values), standard_deviation(values)


def score_fell(before: Score, after: Score) -> bool:
    """Whether the sampled share of right completions fell by more than CHANCE standard errors.

    The prompts are given, so that chance is in the samples alone: Var = Σ_p (v(before) + v(after)) / P² with
    v = p (1 - p) / n, where p has one right and one wrong sample added, so that no variance is 0. The same seeds
    before and after make the true error smaller: the test errs to the side of chance.
    """
    n = before.samples
    shares = [(right + 1) / (n + 2) for right in (*before.right, *after.right)]
    error = math.sqrt(math.fsum(p * (1 - p) / n for p in shares)) / len(before.right)
    return after.sampled_share - before.sampled_share < -CHANCE * error


def _advantages(signs: StepMeasurements) -> Verdict:
    least, greatest, std = advantage_spread(signs)
    no_signal = sum(not any(group) for group in signs.advantages)
    value = f"{least:+.2f} … {greatest:+.2f}, std {std:.3f}"
    verdict = partial(Verdict, "advantages", value, f"std and range > {SPREAD}")
    if std > SPREAD and greatest - least > SPREAD:
        told = f"; {no_signal} of {len(signs.advantages)} groups have none and teach nothing" if no_signal else ""
        return verdict("ok", f"completions of a problem earn unlike rewards{told}")
    return verdict("warning", *_no_advantages(signs))


def _no_advantages(signs: StepMeasurements) -> tuple[str, str]:
    """Why nothing has an advantage, and what to do."""
    rewards = known_rewards(r for group in signs.rewards for r in group)
    if not rewards and signs.errors:
        return "no reward is known: see reward errors", _reward_remedy(signs)
    if not rewards:
        return "every completion was cut, and cut ones are left out", "raise policy.max_new_tokens"
    if all(distinct == 1 for distinct in signs.distinct):
        return "the completions of each problem are the same, and earn the same", COLLAPSE
    if max(rewards) <= 0 and signs.invalid > MOSTLY_INVALID:
        why = f"no completion earns anything, and {signs.invalid:.0%} are no program that runs or have no answer"
        return f"{why}: see policy.prompt, and the trials in run/metrics/bootstrap.json", "raise policy.prompt.examples"
    if max(rewards) == min(rewards):
        earned = "no completion earns anything" if max(rewards) <= 0 else f"every completion earns {max(rewards):.3g}"
        remedy = "raise update.group_size" if max(rewards) <= 0 else "raise search.temperature"
        return f"{earned}: take easier or harder problems, or let more be tried", remedy
    return "all completions of a problem earn the same: let more be tried", "raise update.group_size"


def _kl_share(signs: StepMeasurements) -> Verdict:
    name, healthy = "KL share", f"{KL_LOW:.0%} … {KL_HIGH:.0%}, a rule of thumb"
    if signs.beta == 0:
        return Verdict(name, "KL is off", healthy, "no verdict", "update.beta is 0: nothing holds it to the reference")
    share = kl_share(signs.policy_norm, signs.kl_norm)
    if share is None:
        return Verdict(name, "no gradient", healthy, "no verdict", "there is no gradient to have a share of")
    value = f"{share:.1%} of the gradient" + (", after the step" if signs.at_reference else "")
    verdict = partial(Verdict, name, value, healthy)
    if share > KL_EXTREME:
        why = "the reference pulls harder than the rewards: next to nothing is learned"
        return verdict("red flag", why, "lower update.beta", "extreme KL share")
    if share > KL_HIGH:
        return verdict("warning", "much of the step goes back to the reference", "lower update.beta")
    if share >= KL_LOW:
        return verdict("ok", "the reference holds the policy, and lets it learn")
    if signs.at_reference:
        why = "the step began at the reference, where the KL is 0 by construction: diagnose a later round"
        return verdict("no verdict", why)
    if signs.before and signs.after and signs.after.sampled_share < signs.before.sampled_share:
        why = "the KL hardly acts, and the score is lower: nothing stops a drift"
        return verdict("warning", why, "raise update.beta")
    return verdict("ok", "the KL hardly acts, which does no harm while the score rises")


def _gradient(signs: StepMeasurements) -> Verdict:
    earlier, most = signs.earlier_norms, signs.max_norm
    clipped = sum(norm > most for norm in (signs.norm, *earlier))
    value = f"{signs.norm:.3g}" + (f"; {clipped} of {len(earlier) + 1} known steps clipped" if earlier else "")
    verdict = partial(Verdict, "gradient norm", value, f"> 0; not above {most:g} (clipped) at every step")
    if signs.norm <= ZERO_NORM:
        why, remedy = _no_advantages(signs)
        if any(map(any, signs.advantages)):
            why = "completions have advantages, but the policy is too sure of them to move"
            remedy = "raise search.temperature"
        return verdict("red flag", why, remedy, "zero gradients")
    if clipped < len(earlier) + 1:
        told = "" if earlier else "; it is the only step that is known"
        return verdict("ok", f"the gradient, not the clip, sets the step{told}")
    if not earlier:
        why = "clipped, but one step is too few to decide: diagnose again after a round's update"
        return verdict("no verdict", why)
    why = "every known step is clipped: all have one length, however much they have to say"
    return verdict("warning", why, "raise update.max_grad_norm")


def _learning(signs: StepMeasurements) -> Verdict:
    name, healthy, gain = "learning", "what earned more gains log-probability", signs.gain
    if not signs.stepped:
        return Verdict(name, "as before", healthy, "no verdict", "no step was taken: nothing has an advantage")
    if gain is None:
        return Verdict(name, "lost", healthy, "no verdict", "after the step no log-probability is finite: see score")
    value = f"{gain:+.3g} of log-probability a completion that is learned from"
    verdict = partial(Verdict, name, value, healthy)
    if abs(gain) <= STILL:
        why = "the step changes nothing: look at loss and gradient below, and at the weights that are trained"
        return verdict("red flag", why, "raise update.learning_rate", "no learning")
    if gain > 0:
        return verdict("ok", "the step makes likelier what earned more than its group's mean")
    share = kl_share(signs.policy_norm, signs.kl_norm)
    why = "what earned more than its group's mean has become less likely: the step goes too far"
    if share is not None and share > KL_HIGH:
        why, remedy = f"{why}, or back to the reference", "lower update.beta"
    else:
        why, remedy = f"{why}, or a loss or advantage has the wrong sign", "lower update.learning_rate"
    return verdict("red flag", why, remedy, "wrong direction")


def _score(signs: StepMeasurements) -> Verdict:
    name, healthy, before, after = "score", "not lower after the step", signs.before, signs.after
    if not signs.stepped:
        return Verdict(name, "as before", healthy, "no verdict", "no step was taken: nothing has an advantage")
    if signs.diverged:
        why = "after the step the policy writes nothing: its numbers are not finite"
        return Verdict(name, "lost", healthy, "red flag", why, DEGRADATION, "performance down")
    if before is None or after is None:
        return Verdict(
            name, "not measured", healthy, "no verdict", "what the programs give is not known before the step"
        )
    value = (
        f"sampled {before.sampled_share:.3f} → {after.sampled_share:.3f}, "
        f"greedy {before.greedy_share:.2f} → {after.greedy_share:.2f}"
    )
    verdict = partial(Verdict, name, value, healthy)
    if score_fell(before, after):
        why = f"fewer samples are right after the step, by more than {CHANCE:g} standard errors: it goes too far"
        return verdict("red flag", why, DEGRADATION, "performance down")
    if after.sampled_share < before.sampled_share or after.greedy_share < before.greedy_share:
        why = "it fell, which may be chance: take more --problems; if it stays, the step goes too far"
        return verdict("warning", why, DEGRADATION)
    return verdict("ok", "the step does no harm on its own prompts")


def _distinct(signs: StepMeasurements) -> Verdict:
    sizes = [len(group) for group in signs.rewards]
    alike = sum(distinct == 1 for distinct, size in zip(signs.distinct, sizes, strict=True) if size > 1)
    compared = sum(size > 1 for size in sizes)
    value = f"{sum(signs.distinct)} of {sum(sizes)}; {alike} of {len(sizes)} groups all the same"
    verdict = partial(Verdict, "distinct completions", value, "> 1 in every group")
    if not compared:
        return verdict("no verdict", "update.group_size is 1: nothing to compare")
    if alike > COLLAPSED * compared:
        why = "nearly each problem's completions are one and the same: there is nothing to tell apart"
        return verdict("red flag", why, COLLAPSE, "identical completions")
    if alike:
        return verdict("warning", "some problems' completions are one and the same", COLLAPSE)
    return verdict("ok", "every problem is tried in more than one way")


def _errors(signs: StepMeasurements) -> Verdict:
    count = sum(len(group) for group in signs.rewards)
    name, value, healthy = "reward errors", f"{len(signs.errors)} of {count}", "0"
    if signs.errors:
        checked = "" if signs.faulty else "; graft doctor checks the sandbox"
        why = f"these completions have no reward; the first error: {signs.errors[0]}{checked}"
        return Verdict(name, value, healthy, "red flag", why, _reward_remedy(signs), "reward errors")
    return Verdict(name, value, healthy, "ok", "every reward is known")


def _reward_remedy(signs: StepMeasurements) -> str:
    """Rewards fail where a term does, a model does not reply, or the sandbox dies: of too much memory, as a rule."""
    if signs.faulty:
        return f"fix the reward function {', '.join(signs.faulty)}"
    return "start the server of the operators" if signs.served else "lower sandbox.memory_mb"
