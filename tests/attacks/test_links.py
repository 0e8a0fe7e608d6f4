"""A link, or a pipe, at the name of a file that is written in place: its target is not touched, and nothing hangs."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.dvc_stages.site_cache import set_site_cache
from flows.process.workspace_lock import exclusive_lock, shared_lock
from tasks.artifacts import append_text
from tasks.core.metrics_files import LiveRows
from tasks.core.sqlite import creation_lock
from tasks.errors import GraftError
from tasks.model.checkpoints.gguf import _lock as conversion_lock
from tasks.model.sampling.vllm.server import started_server
from tasks.programs.operators.model import CachedModel
from tasks.promote.champion import champion_lock
from tests.support.stage_params import SHIPPED


def _enter(lock: Callable[[Path], object]) -> Callable[[Path], None]:
    def enter(root: Path) -> None:
        with lock(root):  # type: ignore[attr-defined]
            pass

    return enter


def _ledger(root: Path) -> None:
    class Named:
        name = "model"

    CachedModel(Named(), SHIPPED.operators, root).log_usage(root / "ledger.jsonl", "search@1")  # type: ignore[arg-type]


def _site_cache(root: Path) -> None:
    (root / ".dvc").mkdir(exist_ok=True)
    (root / ".dvc" / "config").write_text("")
    set_site_cache(root)


def _serve(root: Path) -> object:
    return started_server(["true"], "float32", "base", None, False, root / "vllm.log")


WRITERS: dict[str, Callable[[Path], object]] = {
    ".graft/champion.lock": _enter(lambda root: champion_lock(root / "champion")),
    ".graft/lock": _enter(lambda root: exclusive_lock(root, "graft retrain")),
    ".graft//lock": _enter(lambda root: shared_lock(root, "graft stage")),
    "mlflow.db.lock": _enter(lambda root: creation_lock(root / "mlflow.db")),
    ".model.lock": _enter(lambda root: conversion_lock(root / "model")),
    "vllm.log": _enter(_serve),
    "ledger.jsonl": _ledger,
    "journal.jsonl": lambda root: append_text(root / "journal.jsonl", "a line\n"),
    ".dvc/config.local": _site_cache,
}


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DVC_SITE_CACHE_DIR", raising=False)
    monkeypatch.setenv("VLLM_API_KEY", "of-a-test")


CASES = [(name, kind) for name in WRITERS for kind in ("link", "dangling link", "pipe")]
CASES.remove((".dvc/config.local", "pipe"))  # DVC itself reads it before


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_nothing_is_written_through_it(name: str, kind: str, tmp_path: Path) -> None:
    place = tmp_path / "project" / name
    place.parent.mkdir(parents=True)
    target = tmp_path / "of-somebody"
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(target)
    if kind == "link":
        target.write_text("[core]\n")
    with pytest.raises(GraftError, match=r"is a link, a pipe or a device, not a file, .*; remove it") as error:
        WRITERS[name](tmp_path / "project")
    assert "\n" not in str(error.value)
    assert target.exists() == (kind == "link")
    assert kind != "link" or target.read_text() == "[core]\n"


@pytest.mark.parametrize("name", [".graft/champion.lock", "mlflow.db.lock", ".model.lock"])
def test_a_lock_empties_no_file(name: str, tmp_path: Path) -> None:
    """Of a hard link, say."""
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    place.write_text("mine")
    WRITERS[name](tmp_path)
    assert place.read_text() == "mine"


def test_live_rows_go_without_the_file(tmp_path: Path) -> None:
    target = tmp_path / "of-somebody"
    target.write_text("mine")
    (tmp_path / "rows").symlink_to(target)
    rows = LiveRows(tmp_path / "rows")
    rows.begin([{"step": 1.0}])
    rows.add({"step": 2.0})
    assert target.read_text() == "mine"
