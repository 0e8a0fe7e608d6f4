"""What a killed update leaves is gone on with bit for bit, and what is not whole or not its own is not believed."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.grpo import checkpoint
from tasks.grpo.checkpoint import Checkpoint, TrainingState
from tasks.grpo.metrics import Metrics
from tasks.grpo.step_plan import UpdateGroup, plan_steps
from tasks.grpo.update import train
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tests.support.grpo_params import grpo_params

MakePolicy = Callable[..., Policy]
MakeSamples = Callable[..., list[Sample]]
Run = Callable[[Checkpoint | None], tuple[torch.Tensor, list[Metrics]]]


class Cut(Exception):
    """The update ends here, as far as its checkpoint can tell."""


class CuttingCheckpoint(Checkpoint):
    """Of an update that is ended after `at` steps."""

    at = 0

    def keep(self, training: TrainingState) -> None:
        super().keep(training)
        if len(training.rows) == self.at:
            raise Cut


@pytest.fixture
def run(make_policy: MakePolicy, make_samples: MakeSamples) -> Run:
    """run(checkpoint): the weights after an update of 8 steps, and its rows."""

    def train_policy(kept: Checkpoint | None) -> tuple[torch.Tensor, list[Metrics]]:
        policy, samples, params = make_policy(), make_samples(), grpo_params(epochs=4, schedule="cosine")
        scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7)
        groups = [UpdateGroup(f"p{n}", [s for s in samples if s.problem_id == f"p{n}"], 20) for n in range(4)]
        rows = train(scorer, plan_steps(groups, 4, 2, seed=0)[0], params, None, kept).rows
        return torch.cat([p.detach().flatten() for p in policy.model.parameters() if p.requires_grad]), rows

    return train_policy


@pytest.fixture(autouse=True)
def _written_after_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "WRITE_INTERVAL", 0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "update@1" / "name.pt"


def cut(run: Run, path: Path, at: int) -> None:
    CuttingCheckpoint.at = at
    with pytest.raises(Cut):
        run(CuttingCheckpoint(path))


def test_wherever_an_update_is_cut_short_it_goes_on_from_there(
    run: Run, path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    weights, rows = run(None)
    for at in (1, 4, 7, 8):
        cut(run, path, at)
        capfd.readouterr()
        kept = Checkpoint(path)
        again, numbers = run(kept)
        assert f"goes on after {at} of 8 steps" in capfd.readouterr().err
        assert torch.equal(weights, again)
        assert numbers == rows
        kept.remove()
        assert not path.parent.exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(data=st.data())
def test_a_damaged_checkpoint_is_not_believed(run: Run, path: Path, data: st.DataObject) -> None:
    if not path.exists():
        cut(run, path, 1)
    whole = path.read_bytes()
    broken = bytearray(whole)
    if data.draw(st.booleans()):
        broken[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del broken[data.draw(st.integers(0, len(whole) - 1)) :]
    path.write_bytes(broken)
    assert Checkpoint(path).load() is None
    path.write_bytes(whole)
    assert Checkpoint(path).load() is not None


def test_an_update_begins_anew_and_says_so_where_its_checkpoint_is_damaged_or_of_others(
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


def test_what_was_torn_in_writing_is_cleared_away(run: Run, path: Path) -> None:
    cut(run, path, 2)
    torn = path.with_name(f".{path.name}.abc123")
    torn.write_bytes(path.read_bytes()[:100])
    state = Checkpoint(path).load()
    assert state is not None
    assert len(state["rows"]) == 2
    assert not torn.exists()


def test_writing_waits_until_it_has_cost_little(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "WRITE_INTERVAL", 1e9)
    run(Checkpoint(path))
    state = Checkpoint(path).load()
    assert state is not None
    assert len(state["rows"]) == 1  # the first one tells what the next would cost
