"""What becomes of a stage in a run."""

from dataclasses import dataclass
from typing import Literal

How = Literal["unchanged", "restored", "ran"]


@dataclass(frozen=True)
class Outcome:
    """What became of a stage. `deps` and `outs` map paths to their md5 in `dvc.lock`."""

    address: str
    how: How
    seconds: float
    deps: dict[str, str]
    outs: dict[str, str]

    @property
    def cached(self) -> bool:
        """Whether nothing had to be computed."""
        return self.how != "ran"
