"""Result of one stage: unchanged, restored from the cache, or executed."""

from dataclasses import dataclass
from typing import Literal

How = Literal["unchanged", "restored", "ran"]


@dataclass(frozen=True)
class StageResult:
    """Result of one stage. `deps` and `outs` map paths to their md5 in `dvc.lock`."""

    stage_id: str
    how: How
    seconds: float
    deps: dict[str, str]
    outs: dict[str, str]

    def __str__(self) -> str:
        return f"{self.stage_id:<16} {self.how:<10} {self.seconds:7.1f} s"

    @property
    def cached(self) -> bool:
        """True if nothing had to be computed."""
        return self.how != "ran"
