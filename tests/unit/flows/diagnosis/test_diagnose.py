"""`graft diagnose` on a real tiny policy, which half knows a few workflows, and the real sandbox."""

import copy
import json
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from flows import preflight as inputs
from flows.cli.app import app
from flows.diagnosis.diagnose import diagnose
from flows.diagnosis.problems import baselines_of
from flows.diagnosis.record import Diagnosis
from flows.diagnosis.terminal import print_diagnosis
from flows.process.exit_codes import line_and_code
from tasks.artifacts import digest_path, read_jsonl, write_jsonl
from tasks.environments.workflow import WorkflowEnvironment
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.objective.advantages import advantages_of
from tasks.params.fields import Baseline
from tasks.params.params import Params
from tasks.params.sections import UserTerm
from tasks.programs.contract import HEADER, prompt_of
from tasks.programs.sandbox.sandbox import make_sandbox
from tasks.records.problems import Problem
from tasks.rollout import Setting, roll_out, without_tree
from tasks.update import task as update_task
from tasks.update.diagnostics.health import COLLAPSE, DEGRADATION, Verdict
from tests.support.groups import write_rewarded
from tests.support.searches import make_problem
from tests.support.selections import selected
from tests.support.stage_params import REPOSITORY, SHIPPED
from tests.support.updates import sample_groups
from tests.support.writers import train_writer

SCRIPT = "def solve(problem):\n    return '<script>alert(1)</script>'\n"
ASKING = "def solve(problem):\n    return ask('How many?', problem)\n"
CODES = [
    HEADER + "    a = n[0] * n[1]\n    return a\n",
    HEADER + "    a = n[0] * n[1]\n    b = a + n[2]\n    return b\n",
    HEADER + "    a = n[0] + n[1]\n    return a\n",
    SCRIPT,
]
NAMES = ["advantages", "KL share", "gradient norm", "learning", "score", "distinct completions", "reward errors"]


def problem(name: str, operation: Callable[[int, int, int], int]) -> Problem:
    triples = [(3, 4, 5), (6, 2, 9), (8, 7, 2)]
    return make_problem(name, *[(f"{a} boxes, {b} pens and {c} more?", operation(a, b, c)) for a, b, c in triples])


SOLVABLE = [problem("product", lambda a, b, _: a * b), problem("both", lambda a, b, c: a * b + c)]
HOPELESS = [problem("hopeless", lambda a, b, c: a - b - c)]


@cache
def writer(*codes: str) -> Policy:
    """A policy that writes these codes, as likely as they stand there."""
    corpus = [prompt_of(p.question, "scratch") for p in SOLVABLE] + [*CODES, ASKING]
    return train_writer(corpus, SOLVABLE[0].questions, codes, epochs=100, batch=12, layers=2)


def moved(policy: Policy, by: float) -> Policy:
    """The same with an adapter that has left its reference."""
    model = copy.deepcopy(policy.model)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(1)
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(0, by)
    return replace(policy, model=model)


def make(root: Path, codes: list[str], problems: list[Problem]) -> Layout:
    """A project whose round 0 and round 1 have a policy, and whose round 1 has no table of steps."""
    layout, policy = Layout(root), writer(*codes)
    write_jsonl(layout.problems("train"), problems)
    save_policy(policy, layout.policy(0), parent=None, round=0)
    save_policy(moved(policy, 0.15), layout.policy(1), parent=None, round=1)
    return layout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Not to be changed."""
    torch.set_num_threads(1)  # tiny matrices are slower on two
    return make(tmp_path_factory.mktemp("project"), CODES, [*SOLVABLE, *HOPELESS])


@pytest.fixture
def copied(project: Layout, tmp_path: Path) -> Layout:
    """To work on."""
    root = tmp_path / "project"
    shutil.copytree(project.root, root)
    return Layout(root)


def params(**changes: dict[str, Any]) -> Params:
    """As shipped but for size, and with `changes` of each section."""
    sections: dict[str, dict[str, Any]] = {
        "policy": {"max_new_tokens": 48},
        "sandbox": {"allow_weak": True},
        "search": {"temperature": 0.8},
        "update": {"group_size": 10, "learning_rate": 0.001},
        "evaluation": {"samples": 10, "ks": [1]},
    }
    for section, own in changes.items():
        sections[section] = sections.get(section, {}) | own
    found = {name: getattr(SHIPPED, name).model_copy(update=own) for name, own in sections.items()}
    return SHIPPED.model_copy(update=found)


def verdict(diagnosis: Diagnosis, sign: str) -> Verdict:
    return next(v for v in diagnosis.verdicts if v.sign == sign)


def flags(diagnosis: Diagnosis) -> set[str]:
    return {v.flag for v in diagnosis.verdicts if v.flag}


def printed(diagnosis: Diagnosis) -> str:
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        print_diagnosis(diagnosis, console)
    return capture.get()


@pytest.fixture(scope="module")
def seen(project: Layout) -> Diagnosis:
    return diagnose(project, params(), 3)


def test_it_is_the_same_twice_and_nothing_is_changed(project: Layout, seen: Diagnosis) -> None:
    before = digest_path(project.root)
    again = diagnose(project, params(), 3)
    assert printed(again) == printed(seen)
    assert digest_path(project.root) == before


def test_the_step_is_the_one_that_the_update_stage_takes(copied: Layout) -> None:
    """The stage `update`, given the same completions as files, logs the same numbers."""
    asked = params(update={"epochs": 1, "prompts_per_step": 8, "warmup_steps": 4, "beta": 0.3})
    step = diagnose(copied, asked, round=1).step
    policy = load_policy(copied.policy(1))
    with make_sandbox(asked.sandbox) as sandbox:
        setting = Setting(copied.root, without_tree(asked, asked.update.group_size), WorkflowEnvironment(), sandbox)
        problems = read_jsonl(copied.problems("train"), Problem)
        trajectories = roll_out(setting, policy, [("train", problem) for problem in problems], 2)
    groups = sample_groups(policy, trajectories, asked.update)
    write_rewarded(copied.trajectories(2), trajectories)
    lines = [selected(t, own.advantages) for t, own in zip(trajectories, groups, strict=True)]
    write_jsonl(copied.selection(2), [line for own in lines for line in own])
    update_task.run(copied, asked, 2)
    (names, row) = copied.steps(2).read_text().splitlines()
    assert step.row is not None
    logged = dict(zip(names.split(","), map(float, row.split(",")), strict=True))
    # The problems of a step stand in an order of their own: sums differ in the last digits.
    assert logged == pytest.approx(step.row, rel=1e-4, abs=1e-7)
    assert step.row["grad_norm"] > 0
    assert step.row["kl_loss"] > 0


def test_what_is_shown_is_what_was_measured(seen: Diagnosis) -> None:
    assert {asked.problem_id for asked in seen.problems} == {"product", "both", "hopeless"}
    assert [sum(c.count for c in asked.completions) for asked in seen.problems] == [10] * 3
    assert seen.round == 1
    for asked in seen.problems:
        gains = [c.advantage for c in asked.completions]
        assert gains == sorted(gains, reverse=True)
        for completion in asked.completions:
            assert completion.reward is not None
            assert completion.baseline == asked.mean
            assert completion.advantage == pytest.approx(
                (completion.reward - completion.baseline) / (asked.std + 1e-4) if asked.std else 0.0
            )
            text = "".join(token.text for token in completion.tokens)
            if text.isascii():  # else a sign may be cut into several tokens
                assert text.removesuffix("<|endoftext|>").strip() == completion.code.strip()
            assert all(token.policy <= 0 and token.reference <= 0 for token in completion.tokens)
            assert completion.reference != completion.logprob  # the adapter has moved
            assert set(completion.terms) == {"correctness"}
    (hopeless,) = [asked for asked in seen.problems if asked.problem_id == "hopeless"]
    assert hopeless.right == (0, 0)
    assert [v.sign for v in seen.verdicts] == NAMES
    text = printed(seen)
    for name in [*NAMES, "β·KL", "log ref", "product"]:
        assert name in text
    assert max(map(len, text.splitlines())) <= 80


def test_from_the_reference_itself_policy_and_reference_agree(project: Layout) -> None:
    """And a KL that is 0 by construction is no red flag."""
    seen = diagnose(project, params(), 2, 0)
    for asked in seen.problems:
        assert all(c.reference == c.logprob for c in asked.completions)
    assert seen.step.row is not None
    assert seen.step.row["kl_loss"] == pytest.approx(0.0, abs=1e-9)
    assert verdict(seen, "KL share").level == "no verdict"
    assert "0 by construction" in verdict(seen, "KL share").why


@pytest.mark.parametrize("rule", ["group", "batch", "global", "none", "leave_one_out"])
def test_a_baseline_is_what_the_advantage_is_measured_from(rule: Baseline) -> None:
    groups = [[1.0, 0.0, None, 0.25], [0.5, 0.0], [0.75], [None, None], [1.0, 1.0]]
    batch = [r for group in groups for r in group if r is not None]
    for rewards, advantages in zip(groups, advantages_of(rule, groups), strict=True):
        for r, a, baseline in zip(rewards, advantages, baselines_of(rule, rewards, advantages, batch), strict=True):
            if r is None:
                assert (a, baseline) == (0.0, None)
            else:
                assert baseline is not None
                assert (r > baseline + 1e-12, r < baseline - 1e-12) == (a > 0, a < 0)
                if rule in ("none", "leave_one_out"):
                    assert a == pytest.approx(r - baseline)


COLD = {"distinct completions": COLLAPSE, "gradient norm": COLLAPSE}
TOO_FAR = {"score": DEGRADATION}


@pytest.mark.parametrize(
    ("section", "changes", "expected", "remedies", "told"),
    [
        ("search", {"temperature": 0.01}, {"identical completions", "zero gradients"}, COLD, "no step was taken"),
        (
            "update",
            {"learning_rate": 0.1, "negative_weight": 1.0, "warmup_steps": 0},
            {"performance down"},
            TOO_FAR,
            "performance down",
        ),
        ("update", {"learning_rate": 1e30}, {"performance down"}, TOO_FAR, "not finite"),  # params.yaml refuses that
    ],
)
def test_a_red_flag_names_the_param_to_change(
    project: Layout, section: str, changes: dict[str, Any], expected: set[str], remedies: dict[str, str], told: str
) -> None:
    found = diagnose(project, params(**{section: changes}), 3)
    assert flags(found) == expected
    assert {sign: verdict(found, sign).remedy for sign in remedies} == remedies
    assert told in printed(found).replace("\n", " ")


@pytest.mark.slow
def test_red_flag_reward_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workflows that ask a server which is not there: nobody knows what they are worth."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    asked = {"backend": "openai", "model": "none", "base_url": address}
    found = diagnose(make(tmp_path, [ASKING, CODES[0]], SOLVABLE), params(operators=asked), 2)
    assert "reward errors" in flags(found)
    errors = verdict(found, "reward errors")
    assert errors.remedy == "start the server of the operators"
    assert "the first error:" in errors.why
    failed = [c for asked in found.problems for c in asked.completions if c.reward is None]
    assert failed
    assert all(c.advantage == 0 and c.baseline is None for c in failed)
    assert verdict(found, "score").level == "no verdict"  # evaluation does not guess either
    assert found.lost.split()[0] in printed(found)


BROKEN = """def polite(problem, text, results):
    return {"yes": 1.0}[text[-2] if "+" in text else "yes"]
"""


def test_the_function_that_failed_is_named_with_its_exception_and_line(copied: Layout) -> None:
    (copied.root / "manners.py").write_text(BROKEN)
    own = [UserTerm(name="polite", term="manners:polite", weight=0.5)]
    found = diagnose(copied, params(rewards={"own": own}), 2)
    errors = verdict(found, "reward errors")
    assert errors.remedy == "fix the reward function polite (manners:polite)"
    assert "polite: KeyError: " in errors.why
    assert "(manners.py:2)" in errors.why
    assert "reward errors" in flags(found)


@pytest.mark.slow
def test_replies_before_the_step_are_not_taken_for_those_after_it(tmp_path: Path) -> None:
    """Where the policy serves the operators, the one after the step is another model."""
    asked = {"backend": "policy", "max_tokens": 8}
    layout = make(tmp_path, [CODES[0], ASKING], SOLVABLE)
    diagnose(layout, params(operators=asked), 2)
    lines = (layout.replies / "ledger.jsonl").read_text().splitlines()
    before, after = (json.loads(line)["model"].split()[1] for line in lines)
    assert after.startswith(f"{before}+")


def test_earlier_rounds_tell_whether_every_step_is_clipped(copied: Layout) -> None:
    copied.steps(1).parent.mkdir(parents=True)
    copied.steps(1).write_text("step,grad_norm\n1,0.5\n2,0.75\n")
    tight = params(update={"max_grad_norm": 1e-6})
    found = verdict(diagnose(copied, tight, 2), "gradient norm")
    assert (found.level, found.remedy) == ("warning", "raise update.max_grad_norm")
    assert "3 of 3 known steps clipped" in found.value
    assert verdict(diagnose(copied, tight, 2, 0), "gradient norm").level == "no verdict"
    copied.steps(1).write_text("step,norm\n1,0.5\n")
    with pytest.raises(GraftError, match=r"update@1\.csv: no table of an update's steps"):
        diagnose(copied, tight, 2)


def test_what_a_model_wrote_controls_no_terminal(seen: Diagnosis) -> None:
    (asked, *others) = seen.problems
    wild = replace(asked.completions[0], code="a = 1\n\x1b[2J", result="\x1b[2J")
    odd = replace(seen, problems=[replace(asked, completions=[wild], question="\x1b[2J[b]"), *others], lost="\x1b[2J")
    assert "\x1b" not in printed(odd)


def test_a_project_without_a_policy_is_told_what_to_run(tmp_path: Path, project: Layout) -> None:
    with pytest.raises(GraftError, match="graft stage problems coldstart bootstrap"):
        diagnose(Layout(tmp_path), params(), 4)
    with pytest.raises(GraftError, match=r"--round 7: no policy of that round; there are those of 0, 1"):
        diagnose(project, params(), 4, 7)


def test_the_command_prints(project: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "project"
    shutil.copytree(project.root, root)
    shutil.copytree(REPOSITORY / "examples", root / "examples")
    shutil.copy(REPOSITORY / "params.yaml", root)
    monkeypatch.setattr(inputs, "project_root", lambda: root)
    small = [f"-S{key}" for key in ("update.group_size=4", "sandbox.allow_weak=true", "policy.max_new_tokens=48")]
    ended = CliRunner().invoke(app, ["diagnose", "--problems", "1", *small])
    assert ended.exit_code == 0, ended.output
    assert "params.yaml: update.group_size: 12 → 4" in ended.stdout
    assert "reward errors" in ended.stdout
    ended = CliRunner().invoke(app, ["diagnose", "--round", "7"])
    assert ended.exception is not None
    line, code = line_and_code(ended.exception)
    assert code == 2, line


def test_another_algorithm_than_grpo_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraftError, match="algorithm is ppo, but graft diagnose takes a step of GRPO; set it to grpo"):
        diagnose(Layout(tmp_path), SHIPPED.model_copy(update={"algorithm": "ppo"}), 4)
