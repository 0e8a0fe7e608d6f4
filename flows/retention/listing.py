"""The list of things of one kind that `graft clean` may remove, and of those that it keeps."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Listing:
    """`remove` deletes the things in `removable` and nothing else. `kept`: lines on what is kept, and why."""

    title: str
    removable: dict[str, int] = field(default_factory=dict)  # name → bytes, 0 if unknown
    kept: list[str] = field(default_factory=list)
    remove: Callable[[], None] = lambda: None
