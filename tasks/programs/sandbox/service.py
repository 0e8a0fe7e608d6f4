"""A service in the zygote: what an environment tries completions out with, in children that it forks itself.

It is imported where the zygote starts, before anything is hidden from programs: standard library, tasks.programs and
its own modules alone, from the folder that the package `tasks` is in.
"""

from typing import Protocol

from tasks.programs.sandbox.children import Children
from tasks.programs.sandbox.lockdown import Lockdown


class Service(Protocol):
    """Answers one request at a time, with children of its own."""

    def __init__(self, children: Children, lockdown: Lockdown, source: int, seconds: float) -> None:
        """`source`: the socket of what the host sends past the zygote, `seconds`: the limit of a program.

        What programs must not read goes there: the zygote, from which they are forked, never has it in its memory.
        """

    def run(self, payload: memoryview) -> tuple[bytes, bytes]:
        """(kind, payload) for the host. Raises HostClosed to end the zygote; the host starts another one."""

    def end(self) -> object:
        """End the children that last."""
