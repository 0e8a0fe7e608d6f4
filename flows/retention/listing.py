"""The list of things of one kind that `graft clean` may remove, and of those that it keeps."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Removable:
    """A thing that may be removed; `size` in bytes, None if unknown."""

    name: str
    size: int | None = None


@dataclass
class Listing:
    """`remove` deletes the things in `removable` and nothing else. `kept`: lines on what is kept, and why."""

    title: str
    removable: list[Removable] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    remove: Callable[[], None] = lambda: None
