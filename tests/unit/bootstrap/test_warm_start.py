"""A warm start: a pretrained base learns demonstrations before the first round, if it is asked to."""

import json
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.artifacts import digest_path, write_json, write_jsonl
from tasks.bootstrap.demonstrations import pairs_of
from tasks.bootstrap.task import run
from tasks.coldstart.task import run as coldstart
from tasks.environments.workflow import WorkflowEnvironment
from tasks.errors import GraftError
from tasks.known_problems import question_key
from tasks.layout import Layout
from tasks.model.checkpoints.base_model import load_model
from tasks.model.policy import load_policy
from tasks.model.text import encode_completion, encode_prompt, problem_prompt
from tasks.params.params import Params
from tasks.params.sections import Lora
from tasks.programs.contract import HEADER
from tasks.records.problems import Demonstrations, Problem, WorkedExample
from tests.support.models import same_logits, save_base
from tests.support.policies import MakePolicy
from tests.support.records import make_workflow
from tests.support.stage_params import stage_params

LORA = Lora(rank=4, alpha=8.0, targets="all-linear")
PROBLEMS = [
    Problem(problem_id=f"p{n}", question=f"{n + 2} and {3 * n + 5}{'?' * n}", answer=4 * n + 7, source="mine")
    for n in range(6)
]
NONE = Demonstrations()
SUM = HEADER + "    a = n[0] + n[1]\n    return a\n"
CODES = {problem.problem_id: SUM.replace("+", "*" if n % 2 else "+") for n, problem in enumerate(PROBLEMS)}


def params(
    base: Path | str, epochs: int | str, lora: Lora | None = LORA, stage: str = "bootstrap", **more: Any
) -> Params:
    prompt = {"style": "raw", "examples": 0}
    return stage_params(
        stage,
        policy={"base": str(base), "lora": lora, "prompt": prompt},
        bootstrap={"epochs": epochs, "learning_rate": 0.01, "hidden": 32, "layers": 1, "vocabulary": 300, **more},
        sandbox={"allow_weak": True},
    )


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BATCH", "BASE_BATCH"):
        monkeypatch.setattr(f"tasks.bootstrap.training.{name}", 2)


@pytest.fixture
def base(tmp_path: Path, make_policy: MakePolicy) -> Path:
    return save_base(make_policy, tmp_path / "base")


def layout_in(root: Path, demonstrations: Demonstrations = NONE) -> Layout:
    """With a program for each problem."""
    layout = Layout(root)
    write_jsonl(layout.problems("train"), PROBLEMS)
    write_json(layout.demonstrations, demonstrations)
    found = [make_workflow(code, problem_id=name, proposer="coldstart") for name, code in CODES.items()]
    write_jsonl(layout.coldstart / "index.jsonl", found)
    return layout


def loss_of(folder: Path) -> float:
    """Mean cross-entropy of a policy of the solutions' tokens, one by one, without padding."""
    policy, losses = load_policy(folder), []
    for problem in PROBLEMS:
        asked = encode_prompt(policy, problem_prompt(policy, WorkflowEnvironment(), problem))
        ids = torch.tensor([[*asked, *encode_completion(policy, CODES[problem.problem_id])]])
        with torch.no_grad():
            scores = policy.model(input_ids=ids).logits[0].log_softmax(-1)
        losses += [-float(scores[place - 1, ids[0, place]]) for place in range(len(asked), ids.shape[1])]
    return sum(losses) / len(losses)


@pytest.mark.parametrize("lora", [LORA, None], ids=["adapter", "all weights"])
def test_a_base_learns_the_solutions_and_is_kept_as_it_was(tmp_path: Path, base: Path, lora: Lora | None) -> None:
    layout = layout_in(tmp_path)
    run(layout, params(base, 12, lora), None)
    before, after = loss_of(layout.untouched_base), loss_of(layout.policy(0))
    assert before > 3
    assert after < 0.5 * before
    found = json.loads(layout.metrics("bootstrap").read_text())
    assert found["pairs"] == len(PROBLEMS)
    assert found["loss"] == pytest.approx(after, rel=0.2)  # while it still falls
    form = load_policy(layout.policy(0)).prompt_format
    assert form is not None
    assert (form.before, form.instructions, form.prefill) == ("", False, HEADER.rstrip())
    untouched = load_policy(layout.untouched_base)
    assert same_logits(untouched.model, load_model(str(base)))
    assert untouched.prompt_format == load_policy(layout.policy(0)).prompt_format
    assert untouched.version != load_policy(layout.policy(0)).version


def test_the_style_auto_needs_no_trial_where_nothing_is_shown(tmp_path: Path, base: Path) -> None:
    layout, wanted = layout_in(tmp_path), params(base, 1)
    prompt = wanted.policy.prompt.model_copy(update={"style": "auto"})
    run(layout, wanted.model_copy(update={"policy": wanted.policy.model_copy(update={"prompt": prompt})}), None)
    form = load_policy(layout.policy(0)).prompt_format
    assert form is not None
    assert (form.style, form.before, form.instructions) == ("plain", "Problem: ", False)
    assert not [name for name in json.loads(layout.metrics("bootstrap").read_text()) if name.startswith("prompt/")]


def test_without_being_asked_to_a_base_learns_nothing(tmp_path: Path, base: Path) -> None:
    written = set()
    for epochs in ("auto", 0):
        layout = layout_in(tmp_path / str(epochs))
        run(layout, params(base, epochs), None)
        written.add((digest_path(layout.policy(0)), digest_path(layout.metrics("bootstrap"))))
        assert not layout.untouched_base.exists()
        assert same_logits(load_policy(layout.policy(0)).model, load_model(str(base)))
    assert len(written) == 1


def test_an_earlier_policy_is_continued_without_another_warm_start(tmp_path: Path, base: Path) -> None:
    first, second = layout_in(tmp_path / "first"), layout_in(tmp_path / "second")
    run(first, params(base, 1), None)
    run(second, params(first.policy(0), 1), None)
    assert not second.untouched_base.exists()
    assert digest_path(second.policy(0) / "adapter") == digest_path(first.policy(0) / "adapter")


KILLED_AFTER_FOUR_STEPS = """
import os, pickle, signal, sys
from pathlib import Path
import torch
from tasks.bootstrap import task, training
from tasks.layout import Layout
from tasks.model import training_checkpoint

class KilledCheckpoint(training_checkpoint.Checkpoint):
    def keep(self, training):
        super().keep(training)
        if len(training.rows) == 4:
            os.kill(os.getpid(), signal.SIGKILL)

torch.set_num_threads(int(sys.argv[3]))
training_checkpoint.WRITE_INTERVAL = 0.0
training.BATCH = training.BASE_BATCH = 2
training.Checkpoint = KilledCheckpoint
task.run(Layout(Path(sys.argv[1])), pickle.loads(Path(sys.argv[2]).read_bytes()), None)
"""


@pytest.mark.parametrize("origin", ["base", "scratch"])
def test_a_killed_one_goes_on_to_the_same_bytes(
    origin: str, tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, killed = layout_in(tmp_path / "whole"), layout_in(tmp_path / "killed")
    wanted = params(base if origin == "base" else "scratch", 3)
    run(whole, wanted, None)
    inputs = (str(killed.root), str(tmp_path / "params.pickle"), str(torch.get_num_threads()))
    (tmp_path / "params.pickle").write_bytes(pickle.dumps(wanted))
    ended = subprocess.run([sys.executable, "-c", KILLED_AFTER_FOUR_STEPS, *inputs], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not killed.policy(0).exists()
    run(killed, wanted, None)
    assert "bootstrap: goes on after 4 of 9 steps" in capsys.readouterr().err
    for part in (whole.policy(0), whole.metrics("bootstrap")):
        assert digest_path(part) == digest_path(killed.root / part.relative_to(whole.root))
    assert not killed.journals("bootstrap", 0).exists()


def test_a_file_takes_the_place_of_the_solutions_and_what_is_tested_on_is_never_learnt(
    tmp_path: Path, base: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine = [WorkedExample(question="9 and 1?", completion=SUM)]
    layout = layout_in(tmp_path, Demonstrations(examples=mine))
    environment = WorkflowEnvironment()
    assert pairs_of(layout, params(base, 2, demonstrations="mine.jsonl"), environment, PROBLEMS) == [("9 and 1?", SUM)]
    solved = [(problem.question, CODES[problem.problem_id]) for problem in PROBLEMS]
    assert pairs_of(layout, params(base, 2), environment, PROBLEMS) == [("9 and 1?", SUM), *solved]
    known = Demonstrations(repeats=["p1"], tested=[question_key(PROBLEMS[3].question.upper() + " ")])
    layout = layout_in(tmp_path, known)
    assert pairs_of(layout, params(base, 2), environment, PROBLEMS) == [solved[place] for place in (0, 2, 4, 5)]
    assert "1 demonstrations of the environment ask what is tested on" in caplog.text


def test_what_the_policy_could_never_write_is_not_learnt(
    tmp_path: Path, base: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = [WorkedExample(question=text, completion=SUM + "#" * 80) for text in ("7 and 7?", "8 and 8?")]
    layout = layout_in(tmp_path, Demonstrations(examples=[*long, WorkedExample(question="1 and 1?", completion=SUM)]))
    run(layout, params(base, 1, demonstrations="mine.jsonl"), None)
    assert "2 of 3 demonstrations are longer than policy.max_new_tokens (64)" in caplog.text
    assert json.loads(layout.metrics("bootstrap").read_text())["pairs"] == 1
    with pytest.raises(GraftError, match=r"^bootstrap: 2 of 2 demonstrations are longer .*: none is left; raise it"):
        run(layout_in(tmp_path, Demonstrations(examples=long)), params(base, 1, demonstrations="mine.jsonl"), None)


def test_without_demonstrations_and_with_a_rate_that_breaks_it_the_param_is_named(tmp_path: Path, base: Path) -> None:
    layout = layout_in(tmp_path)
    write_jsonl(layout.coldstart / "index.jsonl", [])
    with pytest.raises(GraftError, match=r"solved none .*; set bootstrap\.epochs to 0, name a file as"):
        run(layout, params(base, 2), None)
    assert not layout.policy(0).exists()


def test_cold_start_searches_all_train_problems_for_it_and_none_for_a_file(tmp_path: Path, base: Path) -> None:
    layout = layout_in(tmp_path)
    searched = []
    for wanted in (params(base, 2, stage="coldstart"), params(base, 0, stage="coldstart")):
        coldstart(layout, wanted, None)
        searched.append(json.loads(layout.metrics("coldstart").read_text())["problems"])
    for origin in (base, "scratch"):
        coldstart(layout, params(origin, 2, stage="coldstart", demonstrations="mine.jsonl"), None)
        searched.append(json.loads(layout.metrics("coldstart").read_text())["problems"])
    assert searched == [len(PROBLEMS), 0, 0, 0]
