"""A project with the real flows, params and dvc.yaml, but stages that only hash what they read: seconds, not minutes.

Each stage writes the digest of its inputs and of the params that it may see, so that a change anywhere shows in all
that comes after it. What was computed is noted in `.graft/ran.log`, which no stage reads.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from flows.stages.dvc_yaml import MODULES
from tests.support import fork_server
from tests.support.params_file import override

REPOSITORY = Path(__file__).parents[2]
ADDRESSES = [
    *["problems", "coldstart", "bootstrap"],
    *["search@1", "collect@1", "reward@1", "select@1", "update@1"],
    *["search@2", "collect@2", "reward@2", "select@2", "update@2"],
    *["validate@1", "validate@2", "choose"],
    *["evaluate@before", "evaluate@after", "baselines", "promote"],
]
"""The picture, for two rounds."""

EVALUATE = ["validate@1", "validate@2", "choose", "evaluate@before", "evaluate@after", "baselines", "promote"]
"""What `evaluation.temperature` makes stale."""

TINY = '''
"""What every stage of the tiny project computes: a digest of its inputs and params."""

import hashlib
import json
import logging
import os
import subprocess
import time

from tasks.artifacts import digest_path, atomic_folder, read_json, read_text, write_json, write_text
from tasks.errors import GraftError, TransientError
from tasks.model.checkpoints.version import digest_policy
from tasks.records.policy import Lineage
from tasks.params.strict_yaml import load_yaml
from tasks.tiny_results import write_results


HEADLINE = ("greedy", "before", "change", "low", "high", "promoted", "sampled", "pass@10")


def compute(stage, layout, params, round, weight=1):
    key = {None: "after", 0: "before"}[round] if stage == "evaluate" else "" if round is None else str(round)
    reads, writes = files(stage, layout, params, round, key)
    address = f"{stage}@{key}".rstrip("@")
    digest = hashlib.sha256(repr((stage, [digest_path(p) for p in reads], params, weight)).encode()).hexdigest()
    note = layout.root / ".graft" / "ran.log"
    note.parent.mkdir(exist_ok=True)
    with note.open("a") as stream:
        stream.write(address + "\\n")
    for path in writes[:-1]:
        write(path, digest)
    if os.environ.get("TINY_WARN") == address:
        logging.getLogger(__name__).warning(os.environ.get("TINY_TELLS", "the stage says so"))
    if os.environ.get("TINY_FAIL") == address:
        raise GraftError(f"{address}: told to fail; unset TINY_FAIL")
    if os.environ.get("TINY_BUG") == address:
        raise ZeroDivisionError(os.environ.get("TINY_TELLS", "told to break"))
    if os.environ.get("TINY_AWAY") == address and not (layout.root / "server_is_up").exists():
        raise TransientError(f"{address}: no server")
    if os.environ.get("TINY_CHILDREN") == address:
        pids = [subprocess.Popen(["sleep", "300"], start_new_session=own).pid for own in (False, True)]
        (layout.root / "children").write_text(" ".join(map(str, [os.getpid(), *pids])))
        time.sleep(300)
    if os.environ.get("TINY_HANG") == address:
        time.sleep(float(os.environ.get("TINY_SECONDS", 60)))
    if os.environ.get("TINY_EDIT"):
        (layout.root / os.environ["TINY_EDIT"]).write_text("# edited in between\\n")
    write(writes[-1], digest)
    if stage == "promote":
        promote(layout, params, digest)
    write_json(layout.metrics(stage, key or None), {"weight": weight, "first": int(digest[:6], 16)})
    write_results(layout, stage, round)
    if stage == "promote":
        shares = {name: float(f"{int(digest[i : i + 4], 16) / 0xFFFF:.3f}") for i, name in enumerate(HEADLINE)}
        write_text(layout.headline, json.dumps(shares | {"promoted": 1}, indent=2))


def promote(layout, params, digest):
    """Every policy is better; with auto it does not become champion all the same."""
    numbers = {"pass_at_1": 0.5, "champion_pass_at_1": 0.25, "difference": 0.25, "low": 0.125, "high": 0.375}
    told = {"promoted": True, "reason": "promoted: as ever", "version": digest[:8], "champion_version": None}
    if params.promotion.approve == "auto":
        write_text(layout.promotion, json.dumps(told | numbers))
        return
    from tasks.promote.challenger import ask_approval, keep_challenger
    from tasks.promote.champion import Challenger, champion_version
    from tasks.records.promotion import Champion, Promotion
    from tasks.records.problems import Problem
    from tasks.statistics.problem_profile import profile_of

    version = read_json(layout.run_policy / "lineage.json", Lineage).version
    told |= {"version": version, "champion_version": champion_version(layout.champion)}
    decision = ask_approval(Promotion(**told, **numbers))
    write_json(layout.promotion, decision)
    record = Champion(version=version, test_sha256=digest)
    profile = profile_of([Problem(problem_id="p", question="1 and 1?", answer=2, source="test")])
    keep_challenger(layout, Challenger(layout.run_policy, layout.best, decision, record, profile))


def write(path, digest):
    if path.suffix:
        write_text(path, digest + "\\n")
        return
    with atomic_folder(path) as folder:
        write_text(folder / "weights.bin", digest * 100)
        write_text(folder / "model.safetensors", digest)
        write_text(folder / "below" / "other.py", "same in every run")
        lineage = Lineage(version="", parent=None, base="scratch", round=0, holds=[])
        write_json(folder / "lineage.json", digest_policy(folder, lineage))


def files(stage, layout, params, round, key):
    """What dvc.yaml lists, but sources, problems of the user's own and metrics."""
    entry = load_yaml("dvc.yaml", read_text(layout.root / "dvc.yaml"))["stages"][stage]
    item = (entry["foreach"][key] if stage == "evaluate" else round - 1) if key else None
    values = {"key": key, "item": item, "rounds.last": params.rounds.last if stage in ("choose", "baselines") else None}
    text = json.dumps(entry.get("do", entry))
    for name, value in values.items():
        text = text.replace("${%s}" % name, str(value))
    entry = json.loads(text)
    outs = (out if isinstance(out, str) else next(iter(out)) for out in [*entry["outs"], *entry.get("plots", [])])
    reads = [layout.root / path for path in entry["deps"] if not path.startswith(("$", "run/sources/"))]
    return reads, [layout.root / path for path in outs if not path.startswith("run/metrics/")][::-1]
'''

STAGE = """
from tasks.tiny import compute


def run(layout, params, round):
    compute({stage!r}, layout, params, round)
"""

REWARD = """
def run(layout, params, round):
    from tasks.reward.builtin_terms import WEIGHT
    from tasks.tiny import compute

    compute("reward", layout, params, round, WEIGHT)
"""


REPORT = """
def print_report(layout, params, record, seconds, cached, console):
    console.print("report:", len(seconds), "stages,", len(cached), "cached")
"""

PAGE = """
from tasks.artifacts import write_text


def write_page(layout):
    write_text(layout.account, "{}")
    write_text(layout.page, "a page")
    return "a record"
"""

SUMMARY = """

def summary_of(record):
    return "decided\\n\\nin short"
"""


def make(root: Path, rounds: int = 2) -> Path:
    """A fresh tiny project in the folder `root`, under git, with nothing computed."""
    root.mkdir(parents=True)
    for name in ("dvc.yaml", "params.yaml", ".dvcignore", ".gitignore", "constraints.txt", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, root)
    shutil.copytree(REPOSITORY / "flows", root / "flows", ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".dvc").mkdir()
    for name in ("config", ".gitignore"):
        shutil.copy(REPOSITORY / ".dvc" / name, root / ".dvc")
    (root / "examples").mkdir()
    (root / "examples" / "problems.jsonl").write_text('{"question": "1 and 1?", "answer": 2}\n')
    _write_stages(root)
    session = root / "flows" / "run_session.py"
    session.write_text(session.read_text().replace("\nDELAY = 10.0\n", "\nDELAY = 0.5\n"))
    override(root / "params.yaml", [f"rounds={rounds}", 'machine.tracking.uri=""'])
    run(root, "git", "init", "-q")
    commit(root)
    return root


def commit(root: Path, message: str = "t") -> None:
    """All that git does not ignore."""
    run(root, "git", "add", "-A")
    run(root, "git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", message)


def _write_stages(root: Path) -> None:
    """The repository's `tasks/`, with every stage's module replaced by a tiny one."""
    shutil.copytree(REPOSITORY / "tasks", root / "tasks", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "tasks" / "tiny.py").write_text(TINY)
    (root / "tasks" / "tiny_results.py").write_text("def write_results(layout, stage, round):\n    pass\n")
    for stage, module in MODULES.items():
        file = root.joinpath(*module.split(".")).with_suffix(".py")
        file.write_text(REWARD if stage == "reward" else STAGE.format(stage=stage))
    (root / "tasks" / "reward" / "builtin_terms.py").write_text("WEIGHT = 1\n")
    (root / "flows" / "reports" / "terminal.py").write_text(REPORT)
    (root / "flows" / "reports" / "html" / "page.py").write_text(PAGE)
    with (root / "flows" / "reports" / "publish.py").open("a") as stream:
        stream.write(SUMMARY)


@contextmanager
def public_folder() -> Iterator[Path]:
    """A new folder that every user reaches; pytest's own are closed to others."""
    with TemporaryDirectory(prefix="graft-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def environment(**more: str) -> dict[str, str]:
    """As a user's shell has it with the project's environment activated."""
    bin_folder = Path(sys.executable).parent
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TINY_", "PREFECT_", "COV_", "PYTEST_"))}
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "VIRTUAL_ENV": str(bin_folder.parent), **more}


def run(root: Path, *command: str, code: int | None = 0, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the project, and expect its exit code; None: any."""
    done = subprocess.run(command, cwd=root, env=environment(**more), capture_output=True, text=True, timeout=300)
    return _expect(done, code)


def _expect(done: subprocess.CompletedProcess[str], code: int | None) -> subprocess.CompletedProcess[str]:
    assert code in (done.returncode, None), f"{done.args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def graft(root: Path, *arguments: str, code: int | None = 0, **more: str) -> subprocess.CompletedProcess[str]:
    """`graft …` with the sources of the tiny project, in a process forked from one that has imported DVC."""
    done = fork_server.run("flows.cli.main", arguments, root, environment(**more), timeout=300)
    return _expect(done, code)


def begin(root: Path, address: str, *arguments: str, **more: str) -> "subprocess.Popen[str]":
    """Start `graft` and wait until it computes `address`, where it hangs (for TINY_SECONDS, a minute)."""
    process = start(root, *arguments, TINY_HANG=address, **more)
    wait_for(root, address, process)
    return process


def start(root: Path, *arguments: str, **more: str) -> "subprocess.Popen[str]":
    """Start `graft` in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "flows.cli.main", *arguments],
        cwd=root,
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(root: Path, address: str, process: "subprocess.Popen[str]") -> None:
    """Until the stage is being computed."""
    note = root / ".graft" / "ran.log"
    deadline = time.monotonic() + 300
    while not note.exists() or address not in note.read_text().split():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def dvc(root: Path, *arguments: str, code: int | None = 0, **more: str) -> subprocess.CompletedProcess[str]:
    return run(root, str(Path(sys.executable).with_name("dvc")), *arguments, code=code, **more)


NOTHING = '{"sources": ["always changed"]}'
"""What `dvc status --json` prints if nothing is stale: it cannot know which files params name."""


def ran(root: Path) -> list[str]:
    """The stages that were computed since the last call, in order."""
    note = root / ".graft" / "ran.log"
    addresses = note.read_text().split() if note.exists() else []
    note.unlink(missing_ok=True)
    return addresses


def state_of(root: Path) -> dict[str, bytes]:
    """All results, and what DVC believes of them."""
    files = [p for p in (root / "run").rglob("*") if p.is_file()]
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in [*files, root / "dvc.lock"]}
