"""A stage finds its policy on a server of vLLM: the base is checked, the adapter loaded under a name of its own."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import read_json
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import ServedModel, save_policy
from tasks.model.sampling.vllm.serve import serve_policy
from tasks.model.sampling.vllm.server import server_command, use_server
from tasks.params.fields import VllmDtype
from tasks.records.policy import Lineage
from tasks.records.search import Engine
from tests.support.policies import MakePolicy, tiny_policy
from tests.support.vllm_server import VllmServer, server_at, vllm_server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "policy"
    save_policy(tiny_policy(kind="llama"), folder, parent=None, round=0)
    return folder


@contextmanager
def serving(folder: Path, server: VllmServer, dtype: VllmDtype = "float32") -> Iterator[ServedModel]:
    layout = Layout(folder.parent)
    with use_server(server_at(server.address)), serve_policy(layout, dtype, folder, "search@1") as served:
        assert served is not None
        yield served


def test_the_adapter_is_loaded_from_its_own_path_and_unloaded_at_the_end(folder: Path) -> None:
    version = read_json(folder / "lineage.json", Lineage).version
    with vllm_server(folder) as server:
        with serving(folder, server, "bfloat16") as served:
            assert server.adapters == {f"graft-{version}": folder / "adapter"}
            assert served == ServedModel(
                server.address, f"graft-{version}", Engine(name="vllm", version="0.32.0", dtype="bfloat16"), 256
            )
        assert server.adapters == {}


def test_an_adapter_of_this_version_that_is_there_is_used_and_left_there(folder: Path) -> None:
    with vllm_server(folder) as server, serving(folder, server) as first:
        with serving(folder, server) as second:
            assert second == first
        assert list(server.adapters) == [first.name]


def test_a_policy_without_adapter_is_the_base_itself(make_policy: MakePolicy, tmp_path: Path) -> None:
    folder = tmp_path / "policy"
    save_policy(make_policy(full=True), folder, parent=None, round=0)
    with vllm_server(folder) as server, serving(folder, server) as served:
        assert served.name == "base"
        assert "/v1/load_lora_adapter" not in server.paths()


def test_the_base_may_be_a_copy_but_no_other(folder: Path, make_policy: MakePolicy, tmp_path: Path) -> None:
    """Each round's policy from scratch has a copy of the base in its folder; the server has the first round's."""
    shutil.copytree(folder, tmp_path / "copy")
    with vllm_server(tmp_path / "copy") as server, serving(folder, server):
        pass
    save_policy(make_policy(kind="llama", seed=1), tmp_path / "other", parent=None, round=0)
    with vllm_server(tmp_path / "other") as server:
        message = rf"^sampler: {server.address} serves {tmp_path}/other, but the policy's base is {folder}; serve that"
        with pytest.raises(GraftError, match=message), serving(folder, server):
            pass


def test_a_server_that_cannot_load_adapters_is_one_line_with_the_remedy(folder: Path) -> None:
    message = r"answers 404 .*start it with --enable-lora, .*UPDATING=1, where it can read"
    with (
        vllm_server(folder, replies={"/v1/load_lora_adapter": (404, {})}) as server,
        pytest.raises(GraftError, match=message),
        serving(folder, server),
    ):
        pass


@pytest.mark.parametrize(("answer", "message"), [
    ({"object": "list"}, "gives no list of models; name a server of vLLM, its address ends in /v1"),
    ({"data": []}, "serves nothing, but the policy's base is"),
    ({"data": [{"id": "a", "root": "/a"}]}, "serves /a, but the policy's base is"),
])  # fmt: skip
def test_a_server_of_another_kind_is_refused(folder: Path, answer: Any, message: str) -> None:
    with (
        vllm_server(folder, replies={"/v1/models": (200, answer)}) as server,
        pytest.raises(GraftError, match=rf"^sampler: {server.address} {message}"),
        serving(folder, server),
    ):
        pass


def test_a_server_with_a_key_is_used_by_those_who_have_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with vllm_server(folder, key="the-key-of-this-test") as server:
        monkeypatch.setenv("VLLM_API_KEY", server.key)
        with serving(folder, server):
            pass
        monkeypatch.delenv("VLLM_API_KEY")
        message = rf"^sampler: {server.address}/models answers 401 .*; export VLLM_API_KEY with the key of that server$"
        with pytest.raises(GraftError, match=message), serving(folder, server):
            pass


def test_no_server_is_one_line(folder: Path) -> None:
    with vllm_server(folder) as server:
        pass
    message = rf"^sampler: no answer from {server.address} .*; start that server again"
    with pytest.raises(GraftError, match=message), serving(folder, server):
        pass


def test_own_asks_no_server(folder: Path) -> None:
    with serve_policy(Layout(folder.parent), None, folder, "search@1") as served:
        assert served is None


@pytest.mark.parametrize(("command", "expected"), [
    (["vllm", "serve", "--max-num-seqs", "8"], ["vllm", "serve", "/base", "--max-num-seqs", "8"]),
    (["python", "-m", "server"], ["python", "-m", "server", "--model", "/base"]),
])  # fmt: skip
@pytest.mark.parametrize(("rank", "most"), [(None, None), (1, "1"), (3, "8"), (16, "16"), (200, "256")])
def test_a_server_is_started_with_all_that_the_samples_depend_on(
    command: list[str], expected: list[str], rank: int | None, most: str | None
) -> None:
    line = server_command(command, "float16", "/base", rank, trusted=False, port=8011)
    assert line[: len(expected)] == expected
    pairs = dict(pairwise(line))
    assert (pairs["--dtype"], pairs["--port"], pairs["--host"]) == ("float16", "8011", "127.0.0.1")
    assert (pairs["--logprobs-mode"], pairs["--generation-config"]) == ("processed_logprobs", "vllm")
    assert pairs["--allowed-origins"] == "[]"
    assert pairs.get("--max-lora-rank") == most
    assert ("--enable-lora" in line) == (rank is not None)
    assert "--trust-remote-code" in server_command(command, "float16", "/base", rank, trusted=True, port=1)
