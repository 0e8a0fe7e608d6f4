"""Law: nothing that Graft reads can run code. Seen in the sources: no name that could make it so is in them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stage_params import REPOSITORY

MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "dbm", "jsonpickle"}
"""Reading what these have written runs what it says."""

FUNCTIONS = {"eval", "exec", "compile", "__import__", "all_gather_object", "gather_object", "broadcast_object_list"}
FUNCTIONS |= {"scatter_object_list", "send_object_list", "recv_object_list", "read_pickle", "to_pickle"}
"""These run their argument, or pickle it."""

ALLOWED = {
    ("tasks/programs/sandbox/run_program.py", "exec compile"): "programs, in a child that has given up everything",
    ("recipes/code/harness/counted_tests.py", "exec compile"): "tests of the user's file, in such a child",
    ("tasks/model/distributed/collectives.py", "all_gather_object"): "between processes that this one has started",
    (
        "tasks/model/checkpoints/base_model.py",
        "trust_remote_code",
    ): "only of the base that the user names in the environment",
    ("tasks/model/checkpoints/export.py", "trust_remote_code"): "the same",
    ("tasks/model/sampling/vllm/serve.py", "trust_remote_code"): "the same",
}
"""(file, names) → why they may stand there."""


def sources() -> list[Path]:
    return sorted(file for folder in ("tasks", "flows", "recipes") for file in (REPOSITORY / folder).rglob("*.py"))


def dangers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, name) of each thing in a source that could run what it reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names if a.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").partition(".")[0] in MODULES:
                yield node.lineno, node.module or ""
            yield from ((node.lineno, a.name) for a in node.names if a.name in FUNCTIONS | MODULES)
        elif isinstance(node, ast.Call):
            yield from ((node.lineno, name) for name in _dangers_of_call(node))
        elif isinstance(node, ast.Attribute) and node.attr in FUNCTIONS - {"eval", "compile"}:
            yield node.lineno, node.attr


def _dangers_of_call(call: ast.Call) -> Iterator[str]:
    arguments = {k.arg: k.value for k in call.keywords if k.arg}
    if isinstance(call.func, ast.Name) and call.func.id in FUNCTIONS:
        yield call.func.id
    name = ast.unparse(call.func)
    if name == "torch.load" and not _is(arguments.get("weights_only"), True):
        yield "torch.load without weights_only=True"
    if name.endswith(("np.load", "numpy.load")) or "allow_pickle" in arguments:
        yield name
    if name.startswith(("yaml.unsafe", "yaml.full")):
        yield name
    if name == "YAML" and "typ" in arguments and not _is(arguments["typ"], "safe"):
        yield "YAML of an unsafe typ"
    if "trust_remote_code" in arguments and not _is(arguments["trust_remote_code"], False):
        yield "trust_remote_code"
    if name.startswith("Auto") and name.endswith(".from_pretrained"):
        if "trust_remote_code" not in arguments:
            yield "trust_remote_code left out, so that transformers asks on the terminal"
        if name.startswith("AutoModel") and not _is(arguments.get("use_safetensors"), True):
            yield "weights that may be a pickle"


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def test_no_source_can_run_what_it_reads() -> None:
    found = {
        (file.relative_to(REPOSITORY).as_posix(), name): line
        for file in sources()
        for line, name in dangers(ast.parse(file.read_text(encoding="utf-8")))
    }
    allowed = {(file, name) for file, names in ALLOWED for name in names.split()}
    assert not {f"{file}:{line}: {name}" for (file, name), line in found.items() if (file, name) not in allowed}
    assert not allowed - set(found), "no longer there: take it out of the list"


@pytest.mark.parametrize("source", [
    "import pickle", "from pickle import loads", "import cloudpickle as harmless", "eval(text)", "exec(text)",
    "from builtins import exec", "torch.load(path)", "torch.load(path, weights_only=False)", "np.load(path)",
    "numpy.load(path, allow_pickle=True)", "YAML(typ='unsafe')", "yaml.unsafe_load(text)",
    "AutoModel.from_pretrained(base, trust_remote_code=True)", "AutoTokenizer.from_pretrained(base)",
    "AutoModel.from_pretrained(base, trust_remote_code=asked)", "distributed.broadcast_object_list(values)",
    "AutoModel.from_pretrained(base, trust_remote_code=False)", "torch.distributed.all_gather_object(values, value)",
])  # fmt: skip
def test_what_the_law_sees(source: str) -> None:
    assert list(dangers(ast.parse(source)))


@pytest.mark.parametrize("source", ["model.eval()", "re.compile('a')", "torch.load(f, weights_only=True)", "YAML()"])
def test_what_the_law_lets_pass(source: str) -> None:
    assert not list(dangers(ast.parse(source)))
