"""The stage `search` with a server of vLLM: the same completions, no weights in the stage, finished batches kept."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import digest_path, read_jsonl, write_jsonl
from tasks.errors import TransientError
from tasks.layout import Layout
from tasks.model.policy import save_policy
from tasks.model.sampling.vllm import serve
from tasks.model.sampling.vllm.server import use_server
from tasks.params.fields import VllmDtype
from tasks.params.params import Params
from tasks.programs.contract import HEADER, prompt_of
from tasks.programs.workflow_files import ENGINE, read_engine
from tasks.records.search import Engine, Workflow
from tasks.search.task import run
from tests.support.searches import make_problem
from tests.support.stage_params import stage_params
from tests.support.vllm_server import VllmServer, server_at, vllm_server
from tests.support.writers import train_writer

CODES = [
    HEADER + "    a = n[0] * n[1]\n    return a\n",
    HEADER + "    a = n[0] * n[1]\n    b = a + n[2]\n    return b\n",
]
TRAIN = [
    make_problem(name, *[(f"{a} boxes, {b} pens and {c} more?", answer) for a, b, c, answer in rows])
    for name, rows in {
        "product": [(3, 4, 5, 12), (6, 2, 9, 12)],
        "hopeless": [(3, 4, 5, -6), (6, 2, 9, -5)],
    }.items()
]
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
        vllm=dtype,
    )


@contextmanager
def serving(layout: Layout, **options: Any) -> Iterator[VllmServer]:
    with (
        vllm_server(layout.policy(0), **options) as server,
        use_server(server_at(server.address)),
    ):
        yield server


def index_of(layout: Layout) -> list[Workflow]:
    return read_jsonl(layout.workflows(1) / "index.jsonl", Workflow)


def without_logprobs(workflows: list[Workflow]) -> list[Any]:
    return [
        (w.problem_id, w.code, w.visits, w.result, w.value, w.sampled, [c.tokens for c in w.completions])
        for w in workflows
    ]


def test_the_search_is_that_of_graft_and_the_stage_holds_no_weights(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(layout, params(None), 1)
    own, files = index_of(layout), {path.name for path in layout.workflows(1).iterdir()}
    metrics = json.loads(layout.metrics("search", 1).read_text())
    assert files == {"index.jsonl", "problems.jsonl", "trees.jsonl"}
    assert read_engine(layout.workflows(1)) is None
    monkeypatch.setattr(serve, "load_policy", lambda _: pytest.fail("weights are loaded"))
    with serving(layout) as server:
        run(layout, params("float32"), 1)
    found = index_of(layout)
    assert without_logprobs(found) == without_logprobs(own)
    pairs = [
        pair
        for a, b in zip(found, own, strict=True)
        for one, two in zip(a.completions, b.completions, strict=True)
        for pair in zip(one.logprobs, two.logprobs, strict=True)
    ]
    assert max(abs(a - b) for a, b in pairs) < 2e-5  # of rows that are decoded together, and alone
    assert json.loads(layout.metrics("search", 1).read_text()) == metrics
    assert read_engine(layout.workflows(1)) == Engine(name="vllm", version="0.32.0", dtype="float32")
    assert server.paths()[-1] == "/v1/unload_lora_adapter"


def test_batches_that_were_finished_before_a_server_died_are_not_asked_for_again(layout: Layout) -> None:
    first = SAMPLES * len(TRAIN)
    with serving(layout) as undisturbed:
        run(layout, params("float32"), 1)
    whole = digest_path(layout.workflows(1))
    with (
        serving(layout, behave=lambda number: (500, {}) if number == first + 1 else None) as server,
        pytest.raises(TransientError, match=r"answers 500 .*start it again$"),
    ):
        run(layout, params("float32"), 1)
    # not the last: the server may still be noting requests that were in flight at the error
    assert server.paths().count("/v1/unload_lora_adapter") == 1
    with serving(layout) as server:
        run(layout, params("float32"), 1)
    assert server.paths().count("/v1/completions") == undisturbed.paths().count("/v1/completions") - first
    assert digest_path(layout.workflows(1)) == whole
    assert (layout.workflows(1) / ENGINE).exists()
