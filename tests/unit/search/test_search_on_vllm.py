"""The stage `search` with a server of vLLM: no weights in the stage, finished batches kept.

Its completions are those of Graft: tests/integration/search/test_stages_on_vllm.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tasks.artifacts import digest_path
from tasks.errors import TransientError
from tasks.layout import Layout
from tasks.model.sampling.vllm import serve
from tasks.model.sampling.vllm.server import use_server
from tasks.params.params import Params
from tasks.programs.workflow_files import read_engine
from tasks.records import Engine
from tasks.search.task import run
from tests.support.stage_params import stage_params
from tests.support.vllm_server import VllmServer, server_at, vllm_server
from tests.unit.search.conftest import TRAIN

SAMPLES, SIMULATIONS = 3, 8


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "0"
    corpus = [prompt_of(p.question, "scratch") for p in TRAIN] + CODES
    save_policy(
        train_writer(corpus, TRAIN[0].questions, CODES, epochs=40, rate=0.01, batch=12), folder, parent=None, round=0
    )
    return folder


@pytest.fixture
def layout(tmp_path: Path, writer: Path) -> Layout:
    layout = Layout(tmp_path)
    write_jsonl(layout.problems("train"), TRAIN)
    write_jsonl(layout.problems("validation"), [])
    layout.policy(0).parent.mkdir(parents=True)
    layout.policy(0).symlink_to(writer)
    return layout


def params(dtype: VllmDtype | None) -> Params:
    return stage_params(
        "search",
        search={"samples": SAMPLES, "simulations": SIMULATIONS},
        policy={"max_new_tokens": 48},
        sandbox={"allow_weak": True},
        influence={"selection": "none"},
        vllm="float32",
    )


@contextmanager
def serving(layout: Layout, **options: Any) -> Iterator[VllmServer]:
    with (
        vllm_server(layout.policy(0), **options) as server,
        use_server(server_at(server.address)),
    ):
        yield server


def test_batches_that_were_finished_before_a_server_died_are_not_asked_for_again(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the stage holds no weights."""
    monkeypatch.setattr(serve, "load_policy", lambda _: pytest.fail("weights are loaded"))
    first = SAMPLES * len(TRAIN)
    with serving(layout) as undisturbed:
        run(layout, params(), 1)
    whole = digest_path(layout.workflows(1))
    assert read_engine(layout.workflows(1)) == Engine(name="vllm", version="0.32.0", dtype="float32")
    assert undisturbed.paths()[-1] == "/v1/unload_lora_adapter"
    with (
        serving(layout, behave=lambda number: (500, {}) if number == first + 1 else None) as server,
        pytest.raises(TransientError, match=r"answers 500 .*start it again$"),
    ):
        run(layout, params(), 1)
    # not the last: the server may still be noting requests that were in flight at the error
    assert server.paths().count("/v1/unload_lora_adapter") == 1
    with serving(layout) as server:
        run(layout, params(), 1)
    assert server.paths().count("/v1/completions") == undisturbed.paths().count("/v1/completions") - first
    assert digest_path(layout.workflows(1)) == whole
