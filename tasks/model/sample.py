"""One completion as token ids, with its advantage."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenTargets:
    """What PPO's losses compare a completion's T tokens with; each [T]."""

    advantages: tuple[float, ...]
    returns: tuple[float, ...]


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
    token_weights: tuple[float, ...] = ()  # [T] factors of the advantage, by `update.sampler_correction`; () = 1
    temperature: float | None = None  # at which it was sampled and is scored; None: the scorer's
    targets: TokenTargets | None = None  # PPO alone; `advantage` is then that of the last token

    @property
    def has_signal(self) -> bool:
        """Whether there is something to learn from it: an advantage, or values to predict."""
        return self.advantage != 0 or self.targets is not None
