"""Protocol of an environment: its problems, the prompt, and how an answer is read from a completion and rewarded.

Stages depend on a kind of task through `Environment` only. `workflow` and `answer` are built in; a custom one inherits
`direct.Direct`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, NamedTuple, Protocol

from tasks.errors import GraftError
from tasks.params.sections import Problems, SandboxParams, Section
from tasks.records.problems import Problem, Split
from tasks.records.programs import Result
from tasks.records.search import Workflow
from tasks.seeds import derive_seed

Complete = Callable[[Sequence[str]], list[str]]
"""Questions → the policy's greedy completions."""

Term = Callable[[Problem, str, Sequence[Result]], float | None]
"""(problem, text, results on the problem and its siblings) → a term of the reward in [0, 1], None if unknown."""

Solved = tuple[Problem, str]
"""A problem with the code that solves it."""

Judge = Callable[[Sequence[tuple[Problem, Result]]], list[Result]]
"""(problem, what a completion gave for its own question) → what is recorded in its place."""


class CheckedProblems(NamedTuple):
    """Problems of a file as a run takes them, why others are refused, and what is doubtful in some; by place."""

    problems: Mapping[str, Problem]
    refused: Mapping[str, str]
    doubts: Mapping[str, str]


class Gate(NamedTuple):
    """The measure by which a policy is promoted, in place of pass@1: the means over each problem's samples.

    `measure`: in [0, 1], one of `measures`; `lower`: less is better. `kept`: name in `measures_of_all` → least share of
    the first policy's that is left after training.
    """

    measure: str
    lower: bool
    kept: Mapping[str, float]


class Environment(Protocol):
    """One kind of task. Inherited, it has no params, problems or demonstrations, and no measures."""

    Params: ClassVar[type[Section]] = Section
    """The params of its own: a field has a default, and its comment as `Field(description=...)`."""
    params: Any = Section()
    """An instance of `Params`, set when the environment is made."""
    root: Path | None = None
    """The project's folder, where a user's evaluator is; set by `environment_in`."""
    asks_siblings: bool = False  # True: completions are programs, run on siblings too
    parts: Sequence[str] = ()  # texts that a tokenizer from scratch encodes as one token each
    terms: Mapping[str, Term] = {}  # of the reward by name, in addition to the built-in ones
    weights: Mapping[str, float] = {}  # of its terms, 0 for one without; param `environment.weights` has others
    gate: Gate | None = None  # of promotion; None: pass@1, greedy
    writes_problems: bool = False  # True: it reads only the problems that it writes
    formats: Sequence[Any] = ()  # of files, tried before the public ones: `Format` of tasks/problems/row.py

    @abstractmethod
    def prompt(self, question: str, base: str, served: bool = False) -> str:
        """The prompt of a question whose answer is a number.

        `base`: base of the policy in its lineage, `served`: a model serves operators.
        """

    def prompt_for(self, problem: Problem, base: str, served: bool = False) -> str:
        """The prompt of a problem's own question; overridden where it depends on the problem's fields or evaluator."""
        return self.prompt(problem.question, base, served)

    @abstractmethod
    def text(self, completion: str) -> str:
        """The part of a completion that is recorded: its code or its text."""

    def text_for(self, problem: Problem, completion: str) -> str:  # noqa: ARG002
        """`text`; overridden where that part depends on the problem's fields."""
        return self.text(completion)

    def is_right(self, problem: Problem, result: Result) -> bool:
        """True if a result is the expected answer to the problem's own question: its score is 1."""
        return self.score(problem, result) == 1

    @abstractmethod
    def score(self, problem: Problem, result: Result) -> float:
        """In [0, 1], 1 if and only if the result is right; between them by evaluators with partial credit."""

    def problems(self, sizes: Problems, seed: int) -> dict[Split, list[Problem]]:  # noqa: ARG002
        """The problems of each split, where `problems.source` is environment.

        `sizes`: the params `problems`. A sibling is what a round asks in place of the problem's own question. Raises
        GraftError unless overridden.
        """
        raise GraftError(
            f"environment: {type(self).__name__} defines no problems(sizes, seed); define it, inherit WorkedAnswers, "
            "which has word problems, or set problems.source to jsonl"
        )

    def fresh_problems(self, sizes: Problems, seed: int, draw: str) -> list[Problem]:
        """`sizes.test` problems like those of the split test; each `draw` gives others. A better policy is confirmed on
        them: those of another seed, unless overridden where the seed decides about kinds of problems, too.
        """
        return self.problems(sizes, derive_seed(seed, "confirm", draw))["test"]

    def check_problems(
        self, problems: Mapping[str, Problem], sandbox: SandboxParams  # noqa: ARG002
    ) -> CheckedProblems:  # fmt: skip
        """The problems of a file by place, tried out when it is read; overridden where a line itself may be wrong."""
        return CheckedProblems(problems, {}, {})

    def solutions(
        self, problems: Sequence[Problem], sandbox: SandboxParams  # noqa: ARG002
    ) -> Mapping[str, Workflow | None]:  # fmt: skip
        """The program of each train problem that may have one without a policy, by its id; None: none was found."""
        return {}

    def demonstrations(self, solved: Sequence[Solved], seed: int) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        """Pairs (question, completion) that a policy from scratch, or a base in its warm start, learns.

        `solved`: by `solutions`.


        Raises GraftError unless overridden.
        """
        raise GraftError(
            f"environment: {type(self).__name__} defines no demonstrations(solved, seed), from which a policy from "
            "scratch or the worked examples of a prompt are made; define it, inherit WorkedAnswers, or set policy.base "
            "to a model and policy.prompt.examples to 0"
        )

    def worked_solution(self, problem: Problem) -> str | None:  # noqa: ARG002
        """The completion for the text that works a problem of a file out, `problem.worked_solution`, from which a base
        learns in a warm start; None, unless overridden: completions are of another kind, programs for instance.
        """
        return None

    def worked_examples(self, solved: Sequence[Solved], count: int, seed: int) -> list[tuple[str, str]]:
        """At most `count` pairs (question, completion) that the prompt of a base shows: the first demonstrations."""
        return list(islice(self.demonstrations(solved, seed), count)) if count else []

    def judge(self, sandbox: SandboxParams) -> AbstractContextManager[Judge | None]:  # noqa: ARG002
        """What tries out answers, in a sandbox of its own, before they are recorded; None: answers are values."""
        return nullcontext()

    def search_share(self, problem: Problem, results: Sequence[Result]) -> float:
        """The share of the reward that search may see; less than `solved_share` where some checks are hidden."""
        return solved_share(self, problem, results)

    def measures(self, problem: Problem, text: str) -> dict[str, float]:  # noqa: ARG002
        """Numbers on a completion by name, whose means an evaluation shows; a name may be missing for some problems."""
        return {}

    def measures_of_all(
        self, problems: Sequence[Problem], texts: Sequence[Sequence[str]], ks: Sequence[int]  # noqa: ARG002
    ) -> Mapping[str, float | list[float]]:  # fmt: skip
        """Numbers on the completions of all problems [P][n] together, by name: how many differ, for instance.

        A list has a number for each problem, of several completions of it. `ks`: the params `evaluation.ks`.
        """
        return {}

    def play(self, problems: Sequence[Problem], complete: Complete) -> dict[str, float]:  # noqa: ARG002
        """Numbers on the policy that take several completions, one after another: of a game, for instance."""
        return {}

    def picture(self, problem: Problem, text: str) -> str | None:  # noqa: ARG002
        """An SVG of a problem and a completion for the page of a run, which shows it as an image; or None."""
        return None


def solved_share(environment: Environment, problem: Problem, results: Sequence[Result]) -> float:
    """Mean score of the results on the problem and its siblings, in [0, 1]; 1 if all are right.

    Raises ValueError unless there is a result for each.
    """
    return fmean(environment.score(variant, result) for variant, result in zip(problem.variants, results, strict=True))


def with_checked_siblings(environment: Environment, problem: Problem) -> Problem:
    """The problem with the siblings that its completions are checked on: all of them or none."""
    return problem if environment.asks_siblings else problem.model_copy(update={"siblings": []})
