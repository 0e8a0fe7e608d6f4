"""The examples of docs/extend.md do what the page says; a loss and its influence are in tests/unit/select,
a tracker in tests/unit/tracking/test_own_tracker.py."""

import sys
from pathlib import Path

import pytest

from flows.stages.dvc_yaml import MODULES, declared_params
from flows.stages.user_files import digests_for, user_files
from tasks.environments.lookup import environment_in
from tasks.evaluators.scores import score
from tasks.objective.advantages import advantages_of
from tasks.params.file import overridden
from tasks.programs.sandbox.sandbox import Program, make_sandbox
from tasks.records.problems import Problem
from tasks.reward.user_terms import TermProcess
from tasks.sources.user_modules import digest_modules
from tests.support.extensions import EXAMPLES, PAGE, examples_project
from tests.support.real_project import CODES
from tests.support.stage_params import REPOSITORY, shipped_params

ASSIGNMENTS = {
    "bare": "environment=bare:Bare",
    "near": "problems.evaluator=near:Near",
    "manners": 'rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]',
    "thompson": "search.rule=thompson:Thompson",
    "focal": "update.loss=focal:focal",
    "ranks": "update.advantages=ranks:ranks",
    "fair": "influence.selection=fair:best_of_each",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return examples_project(tmp_path, monkeypatch)


def test_each_is_short_and_is_named_on_the_page_as_in_the_params(root: Path) -> None:
    assert {*EXAMPLES} == {*ASSIGNMENTS, "container", "lines"}
    assert all(text.count("\n") <= 25 for text in EXAMPLES.values())
    text = (REPOSITORY / "params.yaml").read_text(encoding="utf-8")
    for module, assignment in ASSIGNMENTS.items():
        assert assignment in PAGE
        source = ["problems.source=jsonl"] if module == "near" else []
        files = user_files(root, overridden(root / "params.yaml", text, [*source, assignment])[1])
        assert any(digest() == digest_modules(root, [module]) for digest in files.values())
        assert any(digests_for(files, declared_params(REPOSITORY, stage)) for stage in MODULES)


def test_the_environment(root: Path) -> None:
    environment = environment_in(
        root, shipped_params().model_copy(update={"environment": shipped_environment("bare:Bare")})
    )
    assert environment.prompt("2 pens?", "scratch") == "2 pens? The number alone:\n"
    assert [environment.parse(text) for text in (" 5\n", "")] == ["5", None]  # type: ignore[attr-defined]


def shipped_environment(name: str) -> object:
    return shipped_params().environment.model_copy(update={"name": name})


def test_the_evaluator(root: Path) -> None:
    problem = Problem(
        problem_id="p",
        question="?",
        answer=10,
        source="test",
        evaluator="near:Near",
        evaluator_sha256=digest_modules(root, ["near"]),
        fields={"tolerance": 2},
    )
    assert [score(problem, value, root) for value in (11.5, 13.0, 15.0)] == [1.0, 0.5, 0.0]


def test_the_reward_term(root: Path) -> None:
    problem = Problem(problem_id="p", question="?", answer=1, source="test")
    with TermProcess(root, "manners:polite", seconds=10) as term:
        assert term(problem, "please, please", []).value == 0.2


def test_the_advantages(root: Path) -> None:
    sys.path.insert(0, str(root))
    given = [[0.1, None, 100.0, 0.1], [1.0, 1.0]]
    assert advantages_of("ranks:ranks", given) == [[-0.5, 0.0, 1.0, -0.5], [0.0, 0.0]]


def test_the_runner_gives_what_the_sandbox_gives(root: Path) -> None:
    """Without its container."""
    sys.path.insert(0, str(root))
    import container  # type: ignore[import-not-found]

    programs = [Program(code, ("2 pens and 3 cups?", "1 pen and 7 cups?")) for code in CODES]
    with make_sandbox(shipped_params().sandbox.model_copy(update={"allow_weak": True})) as sandbox:
        assert container.Container(sys.executable, "-").run(programs) == sandbox.run(programs)
    (failed,), (late,) = (
        container.Container(*command).run([Program("def solve(problem): 1 / 0\n", ("?",))])[0]
        for command in ((sys.executable, "-"), ("timeout", "0.01", "sleep", "9"))
    )
    assert (failed.error, late.error) == ("ZeroDivisionError: division by zero", "timeout")
