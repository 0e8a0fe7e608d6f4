"""Environment RookWorld: a language model analyses chess positions (task P) and carries them on (task A).

Positions are generated; legality and evaluations come from rules and an engine, once, when the problems are written.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import cycle, islice
from random import Random
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from recipes.chess import terms
from recipes.chess.board_picture import board_svg
from recipes.chess.engines import Engine, MaterialEngine, Stockfish
from recipes.chess.formats import (
    CANDIDATES,
    Task,
    analysis_question,
    analysis_text,
    canonical_analysis,
    canonical_transition,
    collapsed,
    read_analysis,
    read_transition,
    transition_question,
)
from recipes.chess.generator import (
    GAME,
    MATE_SHARE_OF_ANALYSES,
    MATE_SHARE_OF_TRANSITIONS,
    MATERIALS,
    Draw,
    draw,
    draw_move,
    held_out_materials,
)
from recipes.chess.position import SQUARES
from recipes.chess.self_play import self_play
from tasks.environments.direct import Direct
from tasks.environments.protocol import Complete, Solved, Term
from tasks.errors import GraftError
from tasks.evaluators.number import Value
from tasks.params.fields import Count, Share, Temperature
from tasks.params.sections import Problems, Section
from tasks.records.problems import Problem, Sibling, Split
from tasks.records.programs import Result
from tasks.seeds import derive_seed

EVALUATOR = "text"
"""Of its problems: answers are texts, checked by `score`."""

TRIES = 1000
"""Draws of a new question before there seem to be no more."""


class RookWorldParams(Section):
    """How problems and demonstrations are written."""

    tasks: list[Literal["P", "A"]] = Field(
        ["P", "A"], min_length=1, max_length=2,
        description="in turn: P: candidate moves, evaluations and the best one | A: the position after a move",
    )  # fmt: skip
    notation: Literal["fen", "list"] = Field("fen", description="list: of pieces, Kg8 Qe6 kd8 w, for endings")
    positions: Literal["endings", "games"] = Field(
        "endings", description="endings: 3 to 5 pieces | games: of random games, with the last moves"
    )
    engine: Literal["material", "stockfish"] = Field(
        "material",
        description="evaluates moves: material: two plies, the same on every machine | stockfish: its program",
    )
    nodes: Annotated[int, Field(ge=1000, le=100_000_000, strict=True)] = Field(
        10000, description="stockfish: nodes of the analysis of a position"
    )
    unseen_template_share: Share = Field(
        0.25, description="endings: share of the test problems whose material is not in train, 0–1"
    )
    demonstrations: Count = Field(12000, description="completions that a policy from scratch learns, 1–1000000")
    random_share: Share = Field(
        0.5, description="share of the demonstrations of P whose candidates are random legal moves"
    )
    temperature: dict[Literal["P", "A"], Temperature] = Field(
        {}, description="of a task's samples in search; of one not named, search.temperature"
    )

    @field_validator("tasks")
    @classmethod
    def _check_once(cls, tasks: list[str]) -> list[str]:
        if len(set(tasks)) < len(tasks):
            raise ValueError(f"{tasks} names a task twice: write [P], [A] or [P, A]")
        return tasks

    @field_validator("temperature")
    @classmethod
    def _check_tasks(cls, own: dict[str, float], others: ValidationInfo) -> dict[str, float]:
        if missing := [task for task in own if task not in others.data.get("tasks", own)]:
            raise ValueError(f"names {missing[0]}, which is none of environment.tasks: leave it out")
        return own


class RookWorld(Direct):
    """Chess: candidate moves with evaluations and the best move, or the position after a move."""

    parts: Sequence[str] = (*SQUARES, "P: ", "A: ", "M: ", " E: ", " B: ")
    terms: Mapping[str, Term] = terms.TERMS
    writes_problems = True
    Params = RookWorldParams
    params = RookWorldParams()

    def prompt(self, question: str, base: str, served: bool = False) -> str:  # noqa: ARG002
        """The question itself, as the original has it."""
        return question

    def parse(self, text: str) -> Value | None:
        """P: the best move; A: the whole completion with single blanks; None for anything else."""
        analysis = read_analysis(text)
        if analysis is not None:
            return analysis.best
        return collapsed(text) if read_transition(text) is not None else None

    def score(self, problem: Problem, result: Result) -> float:
        """1 or 0: no move is better, or the completion is exact."""
        return float(result.status == "ok" and terms.is_right(problem, result.value))

    def measures(self, problem: Problem, text: str) -> dict[str, float]:
        """Legality, overlap and errors of P; exactness and flags of A: recipes/chess/terms.py."""
        return terms.measures(problem, text)

    def play(self, problems: Sequence[Problem], complete: Complete) -> dict[str, float]:
        """Half-moves until the first illegal one, if there are problems of both tasks."""
        return self_play(problems, complete)

    def picture(self, problem: Problem, text: str) -> str | None:
        """The board with the best move, or the move of A, as SVG."""
        return board_svg(problem, text)

    def problems(self, sizes: Problems, seed: int) -> dict[Split, list[Problem]]:
        """Problems of the tasks in turn, each of a material in turn; siblings are other positions of the same material.

        Of endings a quarter of the materials is in `unseen_template_share` of the test problems alone.
        """
        with _Writer(self.params, seed) as writer:
            return {split: writer.split(split, size, sizes.siblings) for split, size in sizes.splits.items()}

    def demonstrations(self, solved: Sequence[Solved], seed: int) -> Iterator[tuple[str, str]]:  # noqa: ARG002
        """Questions of seen materials with completions.

        Canonical ones, but in `random_share` of those of P the candidates are random legal moves.
        """
        with _Writer(self.params, seed) as writer:
            for index, task in enumerate(islice(cycle(self.params.tasks), self.params.demonstrations)):
                yield writer.demonstration(index, task)


class _Writer:
    """Writes problems and demonstrations; holds the engine."""

    def __init__(self, params: RookWorldParams, seed: int) -> None:
        self._own, self._seed = params, seed
        self._stack = ExitStack()
        self._engine: Engine = (
            MaterialEngine() if params.engine == "material" else self._stack.enter_context(Stockfish(params.nodes))
        )
        games = params.positions == "games"
        self._held_out = [] if games else sorted(held_out_materials(seed))
        self._seen = [GAME] if games else [each for each in MATERIALS if each not in self._held_out]
        self._questions: set[str] = set()

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def split(self, split: Split, size: int, siblings: int) -> list[Problem]:
        """The problems of a split; only those of train and validation have siblings."""
        count = siblings if split in ("train", "validation") else 0
        written = []
        turns = {True: 0, False: 0}
        for index in range(size):
            task = self._own.tasks[index % len(self._own.tasks)]
            turn = index // len(self._own.tasks)
            share = self._own.unseen_template_share if split == "test" and self._held_out else 0.0
            new = round((turn + 1) * share) > round(turn * share)
            materials = self._shuffled(self._held_out if new else self._seen, split)
            material = materials[turns[new] // len(self._own.tasks) % len(materials)]
            turns[new] += 1
            written.append(self._problem(split, index, task, material, not new, count))
        return written

    def demonstration(self, index: int, task: Task) -> tuple[str, str]:
        """A question and a completion."""
        rng = Random(derive_seed(self._seed, "rookworld", "demonstration", index))
        asked = self._asked(task, rng.choice(self._seen), rng, reserved=False)
        if task == "A" or rng.random() >= self._own.random_share:
            return asked.question, str(asked.answer)
        evaluations = terms.evaluations_in(asked.fields)
        written = rng.sample(list(evaluations), min(CANDIDATES, len(evaluations)))
        return asked.question, analysis_text(written, evaluations, rng.choice(written))

    def _problem(self, split: Split, index: int, task: Task, material: str, seen: bool, siblings: int) -> Problem:
        rng = Random(derive_seed(self._seed, "rookworld", split, index))
        first, *others = (self._new(task, material, rng, split != "train") for _ in range(1 + siblings))
        return Problem(
            problem_id=f"{split}-{index:04d}-{task}-{material}",
            evaluator=EVALUATOR,
            question=first.question,
            answer=first.answer,
            fields=first.fields,
            source=f"generated; {self._engine.name}",
            template=f"{task} {material}",
            seen=seen,
            siblings=others,
            temperature=self._own.temperature.get(task),
        )

    def _new(self, task: Task, material: str, rng: Random, reserved: bool) -> Sibling:
        """A question that there is not yet."""
        for _ in range(TRIES):
            asked = self._asked(task, material, rng, reserved)
            if asked.question not in self._questions:
                self._questions.add(asked.question)
                return asked
        raise GraftError(f"problems: no further question of {task} {material} after {TRIES} draws; ask for fewer")

    def _asked(self, task: Task, material: str, rng: Random, reserved: bool) -> Sibling:
        """A question with its answer; P's has the engine's analysis in its fields."""
        notation = self._own.notation
        share = MATE_SHARE_OF_ANALYSES if task == "P" else MATE_SHARE_OF_TRANSITIONS
        drawn: Draw = draw(material, rng, reserved, share)
        position = drawn.position
        if task == "A":
            move = draw_move(position, rng)
            question = transition_question(position, move, notation, drawn.history)
            return Sibling(question=question, answer=canonical_transition(position, move, notation))
        evaluations = self._engine.evaluate(position)
        return Sibling(
            question=analysis_question(position, notation),
            answer=canonical_analysis(evaluations, rng),
            fields={terms.ANALYSIS: dict(evaluations)},
        )

    def _shuffled(self, materials: list[str], split: Split) -> list[str]:
        return Random(derive_seed(self._seed, "rookworld", "materials", split)).sample(materials, len(materials))
