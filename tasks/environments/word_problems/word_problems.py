"""Base class of environments that write word problems, and solve them without a policy.

Answers are numbers: the stage `coldstart` enumerates short arithmetic programs over the quantities of a question, until
one gives the answers to the problem and to its siblings. The numbers of a file's problems are found in the same way.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from tasks.environments.protocol import Environment
from tasks.params.fields import Share
from tasks.params.sections import Problems, SandboxParams, Section
from tasks.records.problems import Problem, Split
from tasks.records.search import Workflow


class WordProblemParams(Section):
    """Which stories are written, and how far they are solved without a policy."""

    stories: Literal["events", "fixed"] = Field(
        "events", description="events: composed by a grammar of events | fixed: 48 of them"
    )
    operations: Annotated[int, Field(ge=1, le=4, strict=True)] = Field(
        2, description="longest solution in arithmetic operations, 1–4; fewer are easier"
    )
    phrasings: Annotated[int, Field(ge=1, le=3)] = Field(
        2, description="phrasings of each part of a story (fixed: of the story), 1–3; more are harder"
    )
    unseen_template_share: Share = Field(
        0.25, description="share of the test problems whose template is not in train, 0–1"
    )
    enumerated_operations: Annotated[int, Field(ge=1, le=5)] = Field(
        4, description="longest program that coldstart enumerates, 1–5; longer ones are left to the tree search"
    )


class WordProblems(Environment):
    """Stories with quantities."""

    Params = WordProblemParams
    params = WordProblemParams()

    def problems(self, sizes: Problems, seed: int) -> dict[Split, list[Problem]]:
        """Stories of the grammar, or fixed ones."""
        from tasks.environments.word_problems.generate import generate

        return generate(sizes, self.params, seed)

    def solutions(self, problems: Sequence[Problem], sandbox: SandboxParams) -> Mapping[str, Workflow | None]:
        """The likeliest shortest program for each problem whose answers are numbers."""
        from tasks.environments.word_problems.solve_problems import solve_problems

        return solve_problems(problems, self.params.enumerated_operations, sandbox)
