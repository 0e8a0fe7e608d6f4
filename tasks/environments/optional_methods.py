"""Parts that an environment may leave out: params, problems and demonstrations of its own, measures, play, pictures."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tasks.environments.protocol import Complete, Gate
from tasks.errors import GraftError
from tasks.params.sections import Problems, Section
from tasks.records import Problem, Split


class OptionalMethods:
    """Base class of environments: no params, problems or demonstrations of their own, no measures, no pictures."""

    Params: ClassVar[type[Section]] = Section
    """The params of its own: a field has a default, and its comment as `Field(description=...)`."""
    params: Any = Section()
    """An instance of `Params`, set when the environment is made."""
    gate: Gate | None = None
    writes_problems = False

    def problems(self, sizes: Problems, seed: int) -> dict[Split, list[Problem]]:  # noqa: ARG002
        """Raises GraftError; overridden by an environment that writes its own problems."""
        raise GraftError(
            f"problems.source: environment, but {type(self).__name__} defines no problems(sizes, seed); define it, or "
            "set problems.source to events or jsonl"
        )

    def demonstrations(self, count: int, seed: int) -> list[tuple[str, str]]:  # noqa: ARG002
        """Raises GraftError; overridden by an environment whose own problems a policy from scratch learns."""
        raise GraftError(
            f"problems.source: environment, but {type(self).__name__} defines no demonstrations(count, seed), from "
            "which a policy from scratch or the worked examples of a prompt are made; define it, or set policy.base "
            "to a model and policy.prompt.examples to 0"
        )

    def measures(self, problem: Problem, text: str) -> dict[str, float]:  # noqa: ARG002
        """No measures."""
        return {}

    def measures_of_all(
        self, problems: Sequence[Problem], texts: Sequence[Sequence[str]], ks: Sequence[int]  # noqa: ARG002
    ) -> Mapping[str, float | list[float]]:  # fmt: skip
        """No measures."""
        return {}

    def play(self, problems: Sequence[Problem], complete: Complete) -> dict[str, float]:  # noqa: ARG002
        """No measures."""
        return {}

    def picture(self, problem: Problem, text: str) -> str | None:  # noqa: ARG002
        """No picture."""
        return None
