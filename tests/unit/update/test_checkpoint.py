"""A killed update continues bit for bit from its checkpoint; a damaged or foreign checkpoint is ignored."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.core.metrics_files import LiveRows
from tasks.model import training_checkpoint as checkpoint
from tasks.model.scoring.scorer import Scorer
from tasks.model.training_checkpoint import Checkpoint, TrainingState
from tasks.update.metrics import Metrics
from tasks.update.step_plan import UpdateGroup, plan_steps
from tasks.update.update import train
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.update_params import grpo_params
from tests.support.updates import reference_scores, weights_of

Run = Callable[..., tuple[torch.Tensor, list[Metrics]]]


@pytest.fixture
def run(make_policy: MakePolicy, make_samples: MakeSamples) -> Run:
    """run(checkpoint, live): the weights after an update of 8 steps, and its rows."""

    def train_policy(kept: Checkpoint | None, live: LiveRows | None = None) -> tuple[torch.Tensor, list[Metrics]]:
        policy, samples = make_policy(), make_samples()
        params = grpo_params(epochs=4, schedule="cosine", beta=0.1)
        scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7)
        reference = reference_scores(scorer, samples)
        groups = [UpdateGroup(f"p{n}", [s for s in samples if s.problem_id == f"p{n}"], 20) for n in range(4)]
        rows, _ = train(scorer, plan_steps(groups, 4, 2, seed=0)[0], params, reference, kept, live)
        return weights_of(policy), rows

    return train_policy


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a checkpoint that is written after each step."""
    monkeypatch.setattr(checkpoint, "WRITE_INTERVAL", 0.0)
    return tmp_path / "update@1" / "name.pt"


def cut(run: Run, path: Path, at: int) -> None:
    """End an update after `at` steps."""

    class CutCheckpoint(Checkpoint):
        def keep(self, training: TrainingState) -> None:
            super().keep(training)
            if len(training.rows) == at:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(CutCheckpoint(path))


def test_an_update_that_ends_at_any_step_continues_from_there(
    run: Run, path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    weights, rows = run(None)
    live = LiveRows(path.parents[1] / "live.jsonl")
    for at in (1, 4, 8):
        cut(run, path, at)
        capfd.readouterr()
        kept = Checkpoint(path)
        again, numbers = run(kept, live)
        assert f"goes on after {at} of 8 steps" in capfd.readouterr().err
        assert torch.equal(weights, again)
        assert numbers == rows
        assert live.read(0) == rows  # with those before the kill
        kept.remove()
        assert not path.parent.exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(data=st.data())
def test_a_damaged_checkpoint_is_not_loaded(run: Run, path: Path, data: st.DataObject) -> None:
    if not path.exists():
        cut(run, path, 1)
    content = path.read_bytes()
    broken, place = bytearray(content), data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        broken[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del broken[place:]
    path.write_bytes(broken)
    assert Checkpoint(path).load() is None
    path.write_bytes(content)
    assert Checkpoint(path).load() is not None


def test_an_update_with_a_damaged_or_foreign_checkpoint_warns_and_starts_over(
    run: Run, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    weights, rows = run(None)
    cut(run, path, 3)
    other = path.rename(path.with_name("other.pt"))
    path.write_bytes(b"no checkpoint")
    with caplog.at_level(logging.WARNING):
        again, numbers = run(Checkpoint(path))
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [str(other), str(path)]
    assert torch.equal(weights, again)
    assert numbers == rows


def test_a_partly_written_checkpoint_is_removed(run: Run, path: Path) -> None:
    cut(run, path, 2)
    torn = path.with_name(f".{path.name}.abc123")
    torn.write_bytes(path.read_bytes()[:100])
    state = Checkpoint(path).load()
    assert state is not None
    assert len(state["rows"]) == 2
    assert not torn.exists()


def test_checkpoints_are_written_no_more_often_than_the_interval(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "WRITE_INTERVAL", 1e9)
    run(Checkpoint(path))
    state = Checkpoint(path).load()
    assert state is not None
    assert len(state["rows"]) == 1  # the first one measures what the next would cost
