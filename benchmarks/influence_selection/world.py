"""Problems, rollouts and reward conditions of `benchmarks.selection`.

    condition     training rewards
    clean         the share of problem and siblings solved
    flipped       1 where all are solved, else 0; 30 % of them inverted; flipped_10: 10 %, flipped_50: 50 %
    answer_only   1 where the problem's own answer is right, on problems with equal quantities, so that a workflow that
                  takes the wrong one is right as well
    biased        the share solved, and as much again for a long workflow, right or wrong

Trusted, which is the reward of validation in all of them: 1 if the problem and all siblings are solved. Every random
draw has its own seed per problem, round and row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmarks.influence_selection.equal_quantities import with_equal_quantities
from tasks.environments.word_problems.word_problems import WordProblemParams
from tasks.records import Completion, Problem
from tasks.seeds import derive_seed

if TYPE_CHECKING:
    from tasks.model.policy import Policy
    from tasks.params.params import Params

Condition = Literal["clean", "flipped", "flipped_10", "flipped_50", "answer_only", "biased"]

FLIPPED: dict[Condition, float] = {"flipped": 0.3, "flipped_10": 0.1, "flipped_50": 0.5}
"""Share of the training rewards that is inverted."""

ERRING: tuple[Condition, ...] = ("flipped", "biased", "answer_only", "flipped_10", "flipped_50")
"""The conditions whose training rewards err."""

LONG, BONUS = 20, 1.0  # tokens of a long workflow, hardly any of which is right, and what `biased` gives for it


@dataclass(frozen=True)
class Rollout:
    """A completion: is its own answer right, are all siblings' too, the share solved, and the own answer."""

    completion: Completion
    right: bool
    trusted: bool
    share: float
    answer: int | float | None = None


class World:
    """The problems of a workspace, with a cache of results."""

    def __init__(self, folder: Path) -> None:
        from tasks.artifacts import read_jsonl
        from tasks.layout import Layout
        from tasks.params.file import load_params
        from tasks.programs.sandbox.sandbox import Sandbox

        layout = Layout(folder)
        self.params: Params = load_params(folder / "params.yaml")
        self.problems = {
            "train": read_jsonl(layout.problems("train"), Problem),
            "validation": read_jsonl(layout.problems("validation"), Problem),
            "test": read_jsonl(layout.problems("test"), Problem),
        }
        limits = self.params.sandbox
        self.sandbox: Sandbox = Sandbox(limits.seconds, limits.memory_mb, limits.allow_weak, workers=1)
        self.sandbox.__enter__()
        self._known: dict[tuple[str, str], tuple[bool, bool, float, int | float | None]] = {}

    @cached_property
    def equal_quantities(self) -> list[Problem]:
        """Train problems whose answer some wrong workflows also give."""
        phrasings = WordProblemParams(**self.params.environment.params).phrasings
        seed = self.params.seed
        found = [with_equal_quantities(problem, phrasings, seed) for problem in self.problems["train"]]
        return [problem for problem in found if problem]

    def rollouts(
        self, policy: "Policy", problems: Sequence[Problem], count: int, *seed: str | int
    ) -> list[list[Rollout]]:
        """`count` completions of each problem, run on it and its siblings."""
        from tasks.model.policy import chat_prompt, decode, encode_prompt
        from tasks.model.sampling.sampler import Request, sample
        from tasks.programs.answer_check import is_right, number_of, solved_share
        from tasks.programs.code_blocks import code_of
        from tasks.programs.contract import prompt_of
        from tasks.programs.sandbox.sandbox import Program

        requests = [
            Request(prompt, derive_seed(*seed, problem.problem_id, row))
            for problem in problems
            for prompt in [encode_prompt(policy, chat_prompt(policy, prompt_of(problem.question, policy.base)))]
            for row in range(count)
        ]
        written = sample(policy, requests, 1.0, self.params.policy.max_new_tokens, "rollouts")
        owners = [problem for problem in problems for _ in range(count)]
        codes = [code_of(decode(policy, completion.tokens)) for completion in written]
        new = {
            (problem.question, code): problem
            for problem, code in zip(owners, codes, strict=True)
            if (problem.question, code) not in self._known
        }
        programs = [Program(code, problem.questions) for (_, code), problem in new.items()]
        for (key, problem), results in zip(new.items(), self.sandbox.run(programs), strict=True):
            share = solved_share(results, problem.answers)
            own = results[0]
            self._known[key] = (is_right(own, problem.answer), share == 1, share, number_of(own))
        rows = [
            Rollout(completion, *self._known[problem.question, code])
            for completion, problem, code in zip(written, owners, codes, strict=True)
        ]
        return [rows[n * count : (n + 1) * count] for n in range(len(problems))]


@cache
def world_of(folder: Path) -> World:
    """One per process, so that results are cached."""
    return World(folder)


def sample_problems(problems: Sequence[Problem], count: int, seed: int, round: int) -> list[Problem]:
    """A random sample of `count` problems."""
    return sorted(problems, key=lambda problem: derive_seed("lot", seed, round, problem.problem_id))[:count]


def rotate_problems(problems: Sequence[Problem], round: int) -> list[Problem]:
    """The problems in the round's rotation."""
    return [problem.rotated(round) for problem in problems]


def trusted_of(groups: Sequence[Sequence[Rollout]]) -> list[list[float]]:
    return [[float(r.trusted) for r in group] for group in groups]


def rewards_of(
    condition: Condition, problems: Sequence[Problem], groups: Sequence[Sequence[Rollout]], seed: int, round: int
) -> list[list[float]]:
    """Training rewards [n][G]."""
    if condition == "clean":
        return [[r.share for r in group] for group in groups]
    if condition == "answer_only":
        return [[float(r.right) for r in group] for group in groups]
    if condition == "biased":
        return [[r.share + BONUS * (len(r.completion.tokens) >= LONG) for r in group] for group in groups]
    return [
        [
            float(r.trusted != is_flipped(problem, member, seed, round, FLIPPED[condition]))
            for member, r in enumerate(group)
        ]
        for problem, group in zip(problems, groups, strict=True)
    ]


def is_flipped(problem: Problem, member: int, seed: int, round: int, share: float) -> bool:
    """Whether this reward is among the inverted ones; those of a smaller share are among those of a larger one."""
    return derive_seed("flip", seed, round, problem.problem_id, member) % 1000 < 1000 * share
