"""What is sent between processes arrives unchanged, and reading it runs no code."""

import json
import math
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.distributed.safe_serialization import deserialize, serialize
from tasks.model.distributed.torchrun import error_from_json, error_to_json, read_job, write_job
from tasks.model.sample import Sample
from tasks.params.file import load_params, restrict
from tasks.update.gradient import TokenSums
from tasks.update.task import run_update

SHIPPED = load_params(Path(__file__).parents[4] / "params.yaml")

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8"))
KEYS = st.text(st.characters(codec="utf-8")) | st.tuples(st.integers(), st.none() | st.booleans())
VALUES = st.recursive(
    PLAIN, lambda below: st.lists(below) | st.lists(below).map(tuple) | st.dictionaries(KEYS, below), max_leaves=12
)


@given(VALUES)
def test_values_arrive_unchanged(value: Any) -> None:
    arrived = deserialize(serialize(value))
    assert arrived == value
    assert repr(arrived) == repr(value)  # 1, 1.0 and True are not the same


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool])
def test_tensors_arrive_to_the_last_bit(kind: torch.dtype) -> None:
    full = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).to(kind)
    sent = {("a", 1): full[::2, 1:], ("b", 2): full[0], "none": torch.zeros(0, 3, dtype=kind)}
    arrived = deserialize(serialize(sent))
    assert arrived.keys() == sent.keys()
    assert all(torch.equal(arrived[key], sent[key]) and arrived[key].dtype == kind for key in sent)


def test_our_data_classes_arrive_and_others_are_refused() -> None:
    sample = Sample("p", 1, (1, 2), (3,), (-0.5,), 1.5)
    sums, samples = deserialize(serialize((TokenSums(tokens=3, ratio_max=math.inf), [sample])))
    assert sums == TokenSums(tokens=3, ratio_max=math.inf)
    assert samples == [sample]
    with pytest.raises(TypeError, match="Path is not sent"):
        serialize([Path("/")])


def test_pickles_and_names_of_other_functions_are_refused_and_not_run(tmp_path: Path) -> None:
    class Malice:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return os.mkdir, (str(tmp_path / "ran"),)

    contents = [pickle.dumps(Malice()), serialize([1.0]) + pickle.dumps(Malice())]
    ours = ["tasks.artifacts:write_text", "tasks.artifacts:Path"]
    for name in ("os:system", "builtins:eval", "subprocess:Popen", *ours, "x:y"):
        plain = json.dumps(["record", name, f"touch {tmp_path / 'ran'}"]).encode()
        contents.append(len(plain).to_bytes(8) + plain + serialize(None)[-10:])
    for content in contents:
        with pytest.raises(ValueError, match="not bytes that Graft serialised"):
            deserialize(content)
    assert not list(tmp_path.iterdir())


@given(st.data())
def test_broken_bytes_are_refused(data: st.DataObject) -> None:
    content = bytearray(serialize({("p", 1): torch.ones(3), "s": [Sample("p", 1, (1,), (3,), (), 1.5)]}))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
        if not content:
            break
    with suppress(ValueError):  # and nothing else
        deserialize(bytes(content))


def test_a_job_is_read_as_it_was_written_and_names_a_function_of_tasks(tmp_path: Path) -> None:
    path = tmp_path / "job"
    for keys in (["seed", "update"], ["policy.lora.rank", "rewards", "operators.price", "rounds"]):
        given = restrict(SHIPPED, keys)
        write_job(path, run_update, Layout(tmp_path), given, 3)
        work, layout, params, round = read_job(path)
        assert (work, layout, round) == (run_update, Layout(tmp_path), 3)
        assert repr(params) == repr(given)
    job = json.loads(path.read_text())
    for name in ("os:system", "tasks.artifacts:os.system", "tasks.update.task:no", "builtins:exec"):
        path.write_text(json.dumps(job | {"work": name}))
        with pytest.raises(GraftError, match="is no function of tasks"):
            read_job(path)


def test_errors_keep_kind_and_message() -> None:
    full = error_from_json(error_to_json(OSError(28, "No space left on device", "run/x")))
    assert isinstance(full, OSError)
    assert (full.errno, full.filename) == (28, "run/x")
    assert str(error_from_json(error_to_json(GraftError("a: b; c")))) == "a: b; c"
    other = error_from_json(error_to_json(ZeroDivisionError("by zero")))
    assert (type(other), str(other)) == (RuntimeError, "ZeroDivisionError: by zero")
