"""The stage `select` in several processes."""

import json
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest

from tasks.artifacts import read_jsonl
from tasks.layout import Layout
from tasks.model.distributed import processes
from tasks.model.distributed.processes import run_in_processes
from tasks.params.params import Params
from tasks.records.selection import Selected
from tasks.select.task import run, write_selection
from tasks.trajectories import RewardedTrajectory
from tests.support.selection_params import recorded, run_selection
from tests.support.stage_params import stage_params
from tests.support.tiers import nightly_but_first

MakeTrajectory = Callable[..., RewardedTrajectory]


def params(processes: int, sharded: bool = False, **influence: Any) -> Params:
    update = {"processes": processes, "negative_weight": 1.0, "micro_batch_tokens": 128}
    update |= {"sharded": sharded, "checkpointing": sharded}
    return stage_params("select", update=update, influence={"selection": "positive"} | influence)


def written(layout: Layout) -> tuple[list[Selected], dict[str, float]]:
    return read_jsonl(layout.selection(1), Selected), json.loads(layout.metrics("select", 1).read_text())


@pytest.mark.slow
@pytest.mark.parametrize("sharded", nightly_but_first([False, True]))
def test_two_processes_select_what_one_selects(
    sharded: bool, layout: Layout, capfd: pytest.CaptureFixture[str]
) -> None:
    run_selection(layout, params(1))
    alone, numbers_alone = written(layout)
    capfd.readouterr()
    layout.selection(1).unlink()
    asked = params(2, sharded)
    run_in_processes(partial(write_selection, *recorded(layout, asked)), 2, layout, asked, 1)
    assert capfd.readouterr().err == ""
    together, numbers = written(layout)
    assert {line.selected for line in together} == {True, False}
    for ours, theirs in zip(together, alone, strict=True):
        changed = {name: getattr(theirs, name) for name in ("influence", "gradient_norm")}
        assert ours.model_copy(update=changed) == theirs
        if ours.split == "validation":
            assert changed == {"influence": None, "gradient_norm": None}
            continue
        assert (ours.influence, ours.gradient_norm) == pytest.approx(tuple(changed.values()), rel=1e-4, abs=1e-6)
    assert (numbers["certificate_signs"], numbers["certificate_steps"]) == (1, 2)
    assert numbers["certificate_slope"] == pytest.approx(-1, abs=0.05)
    assert numbers == pytest.approx(numbers_alone, rel=1e-2, abs=1e-6)


@pytest.mark.slow
def test_two_processes_audit_as_one_does(layout: Layout) -> None:
    """What they measure next to an audit that finds nothing, and what influence drops where rewards err."""
    written_by: dict[str, list[Any]] = {}
    for answer, count in product(("right", "err"), (1, 2)):
        asked = params(count, selection="audit")
        train, held_out = recorded(layout, asked)
        assert held_out.audit is not None
        held_out = held_out._replace(audit=held_out.audit.model_copy(update={"answer": answer}))
        run_in_processes(partial(write_selection, train, held_out), count, layout, asked, 1)
        lines, numbers = written(layout)
        measured = {line.problem_id for line in lines if line.influence is not None}
        written_by.setdefault(answer, []).append(([line.selected for line in lines], measured))
        assert ("certificate_slope" in numbers) == (answer == "err")
    for one, two in written_by.values():
        assert one == two
        assert one[1]
    assert written_by["right"][0] != written_by["err"][0]


def test_where_nothing_is_measured_no_process_is_started(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "multiprocessing", None)
    run(layout, params(2, selection="none"), 1)
    assert any(line.selected for line in written(layout)[0])
