"""An environment that writes its own problems: the one of docs/environments.md, through the stages that it replaces."""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import read_jsonl
from tasks.bootstrap.task import run as bootstrap
from tasks.coldstart.task import run as coldstart
from tasks.environments.lookup import check_environment, environment_in, environment_of
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import load_policy
from tasks.model.sampling.sampler import Request, sample
from tasks.model.text import decode, encode_prompt
from tasks.params.file import load_params
from tasks.params.params import Params
from tasks.problems.environment_problems import checked_problems
from tasks.problems.task import run as problems
from tasks.records.problems import Problem
from tasks.records.search import Workflow
from tests.support.params_file import override
from tests.support.stage_params import REPOSITORY, SHIPPED, shipped_params, stage_params

PAGE = (REPOSITORY / "docs" / "environments.md").read_text(encoding="utf-8")
(OWN,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "class Backwards" in block]
SIZES = {"source": "environment", "train": 6, "validation": 2, "test": 4, "dev": 1, "siblings": 2}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "backwards.py").write_text(OWN.replace("2000", "8"), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("backwards", None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    shutil.copy(REPOSITORY / "params.yaml", tmp_path / "params.yaml")
    return tmp_path / "params.yaml"


def params(stage: str, **changes: Any) -> Params:
    return stage_params(stage, environment="backwards:Backwards", **{"problems": SIZES, **changes})


def test_the_documented_environment_writes_problems_and_what_its_policy_learns(root: Path) -> None:
    layout = Layout(root)
    problems(layout, params("problems"), None)
    listed = {split: read_jsonl(layout.problems(split), Problem) for split in ("train", "validation", "test", "dev")}
    assert {split: len(own) for split, own in listed.items()} == {name: SIZES[name] for name in listed}
    environment = environment_in(root, params("search"))
    for problem in (problem for own in listed.values() for problem in own):
        assert len(problem.siblings) == 2
        assert len({problem.rotated(round).question for round in range(3)}) == 3
        for variant in problem.variants:
            assert variant.answer == variant.question[::-1]

    assert environment.measures_of_all([], [["ab", "cd"], ["ab", "ab"]], [1]) == {"distinct": 0.5}

    coldstart(layout, params("coldstart"), None)
    assert read_jsonl(layout.coldstart / "index.jsonl", Workflow) == []
    assert json.loads(layout.metrics("coldstart").read_text()) == {"problems": 0, "solved": 0}

    small = {"hidden": 32, "layers": 1, "vocabulary": 300, "epochs": 60, "batch": 4}
    bootstrap(layout, params("bootstrap", bootstrap={**small, "learning_rate": 0.02}), None)
    assert json.loads(layout.metrics("bootstrap").read_text())["pairs"] == 8
    policy = load_policy(layout.policy(0))
    learnt = list(environment.demonstrations([], SHIPPED.seed))
    asked = [Request(encode_prompt(policy, environment.prompt(question, "scratch")), 0) for question, _ in learnt]
    written = [decode(policy, c.tokens) for c in sample(policy, asked, 0.0, 16, "test")]
    assert written == [text for _, text in learnt]


@pytest.mark.parametrize(("change", "why"), [
    (("range(size)", "range(3)"), "3 problems for train, problems.train is 6; return as many"),
    (('f"{split}-{number}"', '"p"'), "the problem_id 'p' is in train and again in train; write another"),
    (("new = words(5, seed)", 'new = iter("abcdefgh" * 9)'), "the question 'a' is in train and again in train"),
    (("def problems(", "def puzzles("), "Backwards defines no problems.*or set problems.source to jsonl"),
])  # fmt: skip
def test_wrong_problems_are_refused_in_one_line(root: Path, change: tuple[str, str], why: str) -> None:
    (root / "backwards.py").write_text(OWN.replace(*change), encoding="utf-8")
    with pytest.raises(GraftError, match=why) as error:
        problems(Layout(root), params("problems"), None)
    assert "\n" not in str(error.value)
    assert not Layout(root).problems("train").exists()


def test_without_demonstrations_a_policy_from_scratch_has_nothing_to_learn(root: Path) -> None:
    (root / "backwards.py").write_text(OWN.replace("def demonstrations(", "def samples("), encoding="utf-8")
    problems(Layout(root), params("problems"), None)
    coldstart(Layout(root), params("coldstart"), None)
    with pytest.raises(GraftError, match="Backwards defines no demonstrations"):
        bootstrap(Layout(root), params("bootstrap"), None)


@pytest.mark.parametrize("name", ["workflow", "answer", "recipes.code:Code"])
def test_environments_of_answers_have_problems_but_no_measures_or_pictures(name: str) -> None:
    environment = environment_of(name)
    problem = Problem(problem_id="p", question="?", answer=1, source="test")
    assert environment.measures(problem, "1") == environment.play([problem], lambda _: [""]) == {}
    assert environment.measures_of_all([problem], [["1"]], [1]) == {}
    assert environment.picture(problem, "1") is environment.gate is None
    sizes = SHIPPED.problems.model_copy(update={"train": 3, "validation": 1, "test": 2})
    written = checked_problems(environment.problems(sizes, 0), shipped_params(environment=name, problems=sizes))
    assert {split: len(problems) for split, problems in written.items()} == sizes.splits


@pytest.mark.parametrize("name", ["recipes.chess:RookWorld", "recipes.civil:Civil"])
def test_environments_that_write_their_problems_read_no_others(file: Path, name: str) -> None:
    override(file, [f"environment={name}", "problems.source=jsonl"])
    with pytest.raises(GraftError, match=f"source is jsonl, but environment {name} reads its own problems only"):
        check_environment(REPOSITORY, load_params(file))


@pytest.mark.parametrize(("own", "message"), [
    ("tasks: [P, P]", r"environment\.tasks: \['P', 'P'\] names a task twice: write \[P\], \[A\] or \[P, A\]"),
    ("nodes: 1", r"environment\.nodes: .* greater than or equal to 1000, not 1"),
    ("notion: fen", r"environment\.notion: environment \S+ has no such param; its params: tasks, notation, "),
])  # fmt: skip
def test_params_of_an_environment_are_checked_by_itself(file: Path, own: str, message: str) -> None:
    override(file, [f"environment={{name: 'recipes.chess:RookWorld', {own}}}"])
    with pytest.raises(GraftError, match=message) as error:
        check_environment(REPOSITORY, load_params(file))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("environment", ["workflow", "recipes.code:Code", "answer"])
def test_some_term_has_a_weight(file: Path, environment: str) -> None:
    override(file, [f"environment={environment}", "rewards.correctness=0"])
    if environment == "answer":  # whose form has weights of its own
        check_environment(REPOSITORY, load_params(file))
        override(file, ["environment.weights={hard_format: 0, mark: 0}"])
    with pytest.raises(GraftError, match=r"^params\.yaml: rewards: every weight is 0: give at least one term a weight"):
        check_environment(REPOSITORY, load_params(file))
    override(file, ['rewards.own=[{name: x, term: "a.b:c", weight: 0.1}]'])
    check_environment(REPOSITORY, load_params(file))


@pytest.mark.parametrize("sizes", [[], ["search.simulations=8", "update.group_size=4"]])
def test_ppo_learns_from_independent_samples_alone(file: Path, sizes: list[str]) -> None:
    override(file, ["algorithm=ppo", *sizes])
    with pytest.raises(GraftError, match=r"algorithm is ppo, .* set search\.simulations to search\.samples \(8\)"):
        check_environment(REPOSITORY, load_params(file))
    override(file, ["environment=answer"])
    check_environment(REPOSITORY, load_params(file))


def test_operators_are_served_to_workflows_of_any_environment(file: Path) -> None:
    override(file, ["operators.backend=policy", "environment=recipes.code.workflow:CodeWorkflow"])
    check_environment(REPOSITORY, load_params(file))
    override(file, ["environment=answer"])
    with pytest.raises(GraftError, match=r"operators\.backend is policy, but only workflows call .* answer has none"):
        check_environment(REPOSITORY, load_params(file))
