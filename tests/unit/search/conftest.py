"""Fixtures: a sandbox, and a project before its first search with policies that half know a few workflows."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.artifacts import write_jsonl
from tasks.layout import Layout
from tasks.model.policy import save_policy
from tasks.programs.contract import HEADER, prompt_of
from tasks.programs.sandbox.sandbox import Sandbox
from tasks.records.problems import Problem
from tests.support.searches import make_problem
from tests.support.writers import train_writer

CODES = [
    HEADER + "    a = n[0] * n[1]\n    return a\n",
    HEADER + "    a = n[0] * n[1]\n    b = a + n[2]\n    return b\n",
    HEADER + "    a = n[0] + n[1]\n    b = a * n[2]\n    return b\n",
    HEADER + "    a = n[0] + n[1]\n    return a\n",
]


def problem(name: str, operation: Callable[[int, int, int], int]) -> Problem:
    triples = [(3, 4, 5), (6, 2, 9), (8, 7, 2)]
    return make_problem(name, *[(f"{a} boxes, {b} pens and {c} more?", operation(a, b, c)) for a, b, c in triples])


TRAIN = [
    problem("product", lambda a, b, _: a * b),
    problem("both", lambda a, b, c: a * b + c),
    problem("hopeless", lambda a, b, c: a - b - c),
]


@pytest.fixture(scope="session")
def writers(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two policy folders: the first writes all CODES, the second mostly the last two."""
    folders = [tmp_path_factory.mktemp("policies") / str(number) for number in (0, 1)]
    corpus = [prompt_of(p.question, "scratch") for p in TRAIN] + CODES
    for folder, codes in zip(folders, (CODES, [*CODES, *CODES[2:] * 3]), strict=True):
        save_policy(
            train_writer(corpus, TRAIN[0].questions, codes, epochs=60, rate=0.01, batch=12),
            folder,
            parent=None,
            round=0,
        )
    return folders


@pytest.fixture
def layout(tmp_path: Path, writers: list[Path]) -> Layout:
    """Round 1 starts from the first writer, round 2 from the second."""
    layout = Layout(tmp_path)
    write_jsonl(layout.problems("train"), TRAIN)
    for number, folder in enumerate(writers):
        layout.policy(number).parent.mkdir(parents=True)
        layout.policy(number).symlink_to(folder)
    return layout


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(2.0, 256, allow_weak=True, workers=1) as sandbox:
        yield sandbox
