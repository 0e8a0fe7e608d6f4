"""A search that is cut short goes on from there, with a real policy and the sandbox.

One whose process is killed: tests/integration/test_shard_runners.py.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, write_jsonl
from tasks.layout import Layout
from tasks.model.policy import save_policy
from tasks.params.params import Params
from tasks.records.problems import Problem
from tasks.search.journal import FinishedBatch, Journal
from tasks.search.task import run
from tests.support.real_project import adder
from tests.support.stage_params import stage_params

SAMPLES, SIMULATIONS = 3, 12
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "sum": lambda a, b: a + b,
    "product": lambda a, b: a * b,
    "difference": lambda a, b: a - b,
    "hopeless": lambda a, b: 1000 * a + b,
}
TRAIN = [
    Problem(problem_id=name, question="7 pens and 3 cups?", answer=operation(7, 3), source="test")
    for name, operation in OPERATIONS.items()
]


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a policy."""
    folder = tmp_path_factory.mktemp("policy") / "0"
    save_policy(adder(TRAIN), folder, parent=None, round=0)
    return folder


@pytest.fixture
def layout(tmp_path: Path, writer: Path) -> Layout:
    """With what the search of round 1 reads."""
    layout = Layout(tmp_path / "project")
    write_jsonl(layout.problems("train"), TRAIN)
    shutil.copytree(writer, layout.policy(0))
    return layout


def params(**search: float | None) -> Params:
    sizes = {"samples": SAMPLES, "simulations": SIMULATIONS, "temperature": 1.0}
    return stage_params(
        "search",
        search=sizes | search,
        policy={"max_new_tokens": 48},
        sandbox={"allow_weak": True},
    )


def written(layout: Layout) -> list[str]:
    """Digests of all that the stage has written."""
    return [digest_path(p) for p in (layout.workflows(1), layout.tree(1), layout.metrics("search", 1))]


def forget(layout: Layout) -> None:
    """As DVC does before it starts a stage."""
    shutil.rmtree(layout.workflows(1))
    layout.tree(1).unlink()
    layout.metrics("search", 1).unlink()


class Cut(Exception):
    """The search ends here, as far as the journal can tell."""


def test_wherever_a_search_is_cut_short_it_goes_on_from_there(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    added: list[FinishedBatch] = []
    add = Journal.add
    monkeypatch.setattr(Journal, "add", lambda journal, batch: (added.append(batch), add(journal, batch)))
    run(layout, params(), 1)
    undisturbed, batches = written(layout), list(added)
    assert len(batches) >= 4
    assert not layout.journals("search", 1).exists()
    assert "resumes" not in capfd.readouterr().err

    def cutting(at: int) -> Callable[[Journal, FinishedBatch], None]:
        def add_or_cut(journal: Journal, batch: FinishedBatch) -> None:
            if len(added) == at:
                raise Cut
            added.append(batch)
            add(journal, batch)

        return add_or_cut

    for at in range(len(batches)):
        forget(layout)
        added.clear()
        monkeypatch.setattr(Journal, "add", cutting(at))
        with pytest.raises(Cut):
            run(layout, params(), 1)
        assert not layout.workflows(1).exists()
        monkeypatch.setattr(Journal, "add", cutting(len(batches)))
        run(layout, params(), 1)
        assert [batch.name for batch in added] == [batch.name for batch in batches]  # each written once
        assert written(layout) == undisturbed
        assert not layout.journals("search", 1).exists()
        done = sum(len(batch.written) for batch in batches[:at])
        told = f"search@1: resumes after {done} completions of an interrupted search\n"
        assert capfd.readouterr().err == (told if at else "")


def test_a_journal_is_not_believed_for_other_inputs(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tasks.search.task.shutil.rmtree", lambda *_, **__: None)
    run(layout, params(), 1)
    (left,) = layout.journals("search", 1).iterdir()
    other = params(top_k=20)
    monkeypatch.undo()
    run(layout, other, 1)
    assert capfd.readouterr().err == ""
    assert not left.exists()  # the round is searched, nobody comes back to it
