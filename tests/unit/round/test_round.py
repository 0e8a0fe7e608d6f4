"""A round in memory is what the stages write."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from flows.stages.dvc_yaml import MODULES, ROUND, declared_params
from tasks.artifacts import read_jsonl, write_jsonl
from tasks.environments.workflow import WorkflowEnvironment
from tasks.layout import Layout
from tasks.model.policy import load_policy, save_policy
from tasks.params.file import restrict
from tasks.params.params import Params
from tasks.ppo.value_head import zero_head
from tasks.programs.sandbox.sandbox import make_sandbox
from tasks.records.problems import Split
from tasks.records.selection import Selected
from tasks.rollout import Setting
from tasks.round import run_round
from tasks.round_start import HeldModels
from tasks.search.draw import draw_train_problems
from tasks.search.policy_search import SplitProblem
from tests.support.choices import CHOICES, PPO, TREE, tiny_params
from tests.support.groups import read_rewarded
from tests.support.parses import counted_lines
from tests.support.real_project import HELD_OUT, TRAIN, adder
from tests.support.stage_params import REPOSITORY

SPLITS: tuple[Split, ...] = ("train", "validation")
CASES: dict[str, tuple[str, ...]] = {
    "positive": (TREE,),
    "audit": ("influence.selection=audit",),
    "same batch": CHOICES["same batch with own votes"].assignments,
    "none": ("influence.selection=none", "update.beta=0.0"),
    "ppo": PPO,
}
ROUNDS = (1, 2)


@pytest.mark.parametrize("case", CASES)
def test_rounds_in_memory_are_those_that_the_stages_write(case: str, tmp_path: Path) -> None:
    """The same completions, rewards and selection, and weights that are equal in every bit.

    Collect parses the workflows once, and reward, select and update each the trajectories.
    """
    layout, asked = write_project(tmp_path), tiny_params(CASES[case])
    with counted_lines() as parsed:
        for number in ROUNDS:
            for stage in ROUND:
                seen = restrict(asked, declared_params(REPOSITORY, stage))
                import_module(MODULES[stage]).run(layout, seen, number)

    for number in ROUNDS:
        index = layout.workflows(number) / "index.jsonl"
        assert parsed[index] == len(index.read_bytes().splitlines())
        assert parsed[layout.trajectories(number)] == 3 * len(TRAIN)
    selected, models = [], held_models(layout, asked)
    with make_sandbox(asked.sandbox) as runner:
        setting = Setting(tmp_path, asked, WorkflowEnvironment(), runner)
        for number in ROUNDS:
            done = run_round(setting, models, *drawn(asked), number)
            written = list(read_rewarded(layout.trajectories(number)))
            assert [rewards for _, rewards in done.rewarded] == [rewards for _, rewards in written]
            assert [t.members for t, _ in done.rewarded] == [t.members for t, _ in written]
            assert done.selection.lines == read_jsonl(layout.selection(number), Selected)
            selected += [line.selected for line in done.selection.lines]
            adapter = load_file(layout.policy(number) / "adapter" / "adapter_model.safetensors")
            trained = {n: w.detach() for n, w in models.trained.model.named_parameters() if w.requires_grad}
            assert_equal({name.replace(".default.", "."): weight for name, weight in trained.items()}, adapter)
            if models.head is not None:
                assert_equal(models.head.state_dict(), load_file(layout.value_head(number)))
    assert {True, False} <= set(selected)


def write_project(root: Path) -> Layout:
    """The first policy and the problems."""
    layout = Layout(root)
    save_policy(adder(TRAIN), layout.policy(0), parent=None, round=0)
    for split, problems in zip(SPLITS, (TRAIN, HELD_OUT), strict=True):
        write_jsonl(layout.problems(split), problems)
    return layout


def held_models(layout: Layout, params: Params) -> HeldModels:
    policy = load_policy(layout.policy(0))
    reference = load_policy(layout.policy(0)) if params.update.beta else None
    return HeldModels(policy, reference, zero_head(policy) if params.algorithm == "ppo" else None)


def assert_equal(ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], weight) for name, weight in theirs.items())


def drawn(params: Params) -> tuple[list[SplitProblem], list[SplitProblem]]:
    return draw_train_problems(TRAIN, params.search, params.seed, 1), [("validation", problem) for problem in HELD_OUT]


@pytest.mark.parametrize(
    "choice", [pytest.param(choice, marks=pytest.mark.slow if place else ()) for place, choice in enumerate(CHOICES)]
)
def test_a_round_ends_with_each_choice_of_the_notes(choice: str, tmp_path: Path) -> None:
    asked, layout = tiny_params(CHOICES[choice].assignments), write_project(tmp_path)
    models = held_models(layout, asked)
    with make_sandbox(asked.sandbox) as runner:
        done = run_round(Setting(tmp_path, asked, WorkflowEnvironment(), runner), models, *drawn(asked), 1)
    own = asked.influence
    kept = any(line.selected for line in done.selection.lines)
    assert kept == bool(done.update.result.rows)
    assert kept or choice == "same batch"  # whose few successes here have only themselves to vote for them
    if own.is_measured:
        assert done.selection.metrics["certificate_slope"] == pytest.approx(-1, abs=0.05)
    if own.selection in ("top", "bottom", "random"):
        train = [line for line in done.selection.lines if line.split == "train"]
        able = sum(line.advantage > 0 for line in train) if models.head is None else len(train)
        assert sum(line.selected for line in train) == round(own.share * able)
