"""What `graft clean` knows of one kind of thing: what may go, and what stays and why."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Going:
    """Something that may go; `size` in bytes, None where nobody knows."""

    name: str
    size: int | None = None


@dataclass
class Part:
    """`remove` takes away what is listed in `goes`, and nothing else."""

    what: str
    goes: list[Going] = field(default_factory=list)
    stays: list[str] = field(default_factory=list)
    remove: Callable[[], None] = lambda: None
