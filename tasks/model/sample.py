"""One completion as token ids, with its advantage."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """One completion of a group, as tokens; the samples of a problem share one `prompt`."""

    problem_id: str
    member: int  # index in the group, from 0
    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    behaviour: tuple[float, ...]  # log-probabilities when it was sampled, [T]; () = unknown
    advantage: float
    count: int = 1  # equal completions that this one represents
    kept: tuple[tuple[int, ...], ...] = ()  # [T] the sets that its tokens were drawn from; () = from all tokens
    token_weights: tuple[float, ...] = ()  # [T] factors of the advantage, by `grpo.sampler_correction`; () = 1
    temperature: float | None = None  # at which it was sampled and is scored; None: the scorer's
