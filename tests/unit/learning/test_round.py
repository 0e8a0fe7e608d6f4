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
from tasks.learning.rollout import Setting, roll_out
from tasks.learning.round import learn
from tasks.model.policy import load_policy, save_policy
from tasks.params.file import restrict
from tasks.params.params import Params
from tasks.ppo.value_head import zero_head
from tasks.programs.sandbox.sandbox import make_sandbox
from tasks.records import Problem, Selected, Split
from tasks.search.draw import draw_train_problems
from tasks.search.policy_search import SplitProblem
from tests.support.choices import CHOICES, PPO, TREE, tiny_params
from tests.support.groups import read_rewarded
from tests.support.real_project import HELD_OUT, TRAIN, adder
from tests.support.stage_params import REPOSITORY

SPLITS: tuple[Split, ...] = ("train", "validation")
CASES: dict[str, tuple[str, ...]] = {
    "grpo": (TREE,),
    "no selection": ("influence.selection=none", "update.beta=0.0"),
    "audit": ("influence.selection=audit",),
    "ppo": PPO,
}


@pytest.mark.parametrize("case", [
    "grpo", pytest.param("ppo", marks=pytest.mark.slow),
    *(pytest.param(case, marks=pytest.mark.nightly) for case in ("no selection", "audit")),
])  # fmt: skip
def test_two_rounds_in_memory_are_those_that_the_stages_write(case: str, tmp_path: Path) -> None:
    """The same completions, rewards and selection, and weights that are equal in every bit."""
    layout, asked = Layout(tmp_path), tiny_params(CASES[case])
    save_policy(adder(TRAIN), layout.policy(0), parent=None, round=0)
    for split, problems in zip(SPLITS, (TRAIN, HELD_OUT), strict=True):
        write_jsonl(layout.problems(split), problems)
    for number in (1, 2):
        for stage in ROUND:
            seen = restrict(asked, declared_params(REPOSITORY, stage))
            import_module(MODULES[stage]).run(layout, seen, number)

    policy, reference = load_policy(layout.policy(0)), load_policy(layout.policy(0))
    head = zero_head(policy) if asked.algorithm == "ppo" else None
    selected = []
    with make_sandbox(asked.sandbox) as runner:
        setting = Setting(tmp_path, asked, WorkflowEnvironment(), runner)
        for number in (1, 2):
            rewarded = roll_out(setting, policy, drawn(asked), number)
            done = learn(asked, policy, reference if asked.update.beta else None, rewarded, number, head)
            written = [own for split in SPLITS for own in read_rewarded(layout.trajectories(number, split))]
            assert [rewards for _, rewards in rewarded] == [rewards for _, rewards in written]
            assert [t.members for t, _ in rewarded] == [t.members for t, _ in written]
            assert done.selection.lines == read_jsonl(layout.selection(number), Selected)
            selected += [line.selected for line in done.selection.lines]
            adapter = load_file(layout.policy(number) / "adapter" / "adapter_model.safetensors")
            trained = {n: w.detach() for n, w in policy.model.named_parameters() if w.requires_grad}
            assert_equal({name.replace(".default.", "."): weight for name, weight in trained.items()}, adapter)
            if head is not None:
                assert_equal(head.state_dict(), load_file(layout.value_head(number)))
    assert {True, False} <= set(selected)


def assert_equal(ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], weight) for name, weight in theirs.items())


def drawn(params: Params) -> list[SplitProblem]:
    held_out: list[Problem] = HELD_OUT if params.influence.is_held_out else []
    train = draw_train_problems(TRAIN, params.search, params.seed, 1)
    return [*train, *(("validation", problem) for problem in held_out)]


@pytest.mark.parametrize(
    "choice", [pytest.param(choice, marks=pytest.mark.slow if place else ()) for place, choice in enumerate(CHOICES)]
)
def test_a_round_ends_with_each_choice_of_the_notes(choice: str, tmp_path: Path) -> None:
    asked, layout = tiny_params(CHOICES[choice].assignments), Layout(tmp_path)
    save_policy(adder(TRAIN), layout.policy(0), parent=None, round=0)
    policy, reference = load_policy(layout.policy(0)), load_policy(layout.policy(0))
    head = zero_head(policy) if asked.algorithm == "ppo" else None
    with make_sandbox(asked.sandbox) as runner:
        rewarded = roll_out(Setting(tmp_path, asked, WorkflowEnvironment(), runner), policy, drawn(asked), 1)
    done = learn(asked, policy, reference if asked.update.beta else None, rewarded, 1, head)
    own = asked.influence
    kept = any(line.selected for line in done.selection.lines)
    assert kept == bool(done.update.rows)
    assert kept or choice == "same batch"  # whose few successes here have only themselves to vote for them
    if own.is_measured:
        assert done.selection.metrics["certificate_slope"] == pytest.approx(-1, abs=0.05)
    if own.selection in ("top", "bottom", "random"):
        train = [line for line in done.selection.lines if line.split == "train"]
        able = sum(line.advantage > 0 for line in train) if head is None else len(train)
        assert sum(line.selected for line in train) == round(own.share * able)
