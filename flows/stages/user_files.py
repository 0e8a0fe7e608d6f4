"""The user's own modules, files and folders that params name, with their digests.

They cannot be deps in `dvc.yaml`, because only some runs have them: the stage `sources` lists their digests.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os.path import isfile  # a name that is too long is none, where pathlib's own would raise
from pathlib import Path

from tasks.artifacts import digest_path
from tasks.errors import GraftError
from tasks.model.checkpoints.base_adapter import digest_base, find_base
from tasks.params.params import Params
from tasks.sources.user_modules import check_arguments, check_function_exists, digest_modules

CHAMPION, LATEST = "champion/policy", "latest/policy"
"""`policy.base` of a run that continues the champion, or the policy of the last scheduled run."""

Digest = Callable[[], str]


def user_files(root: Path, params: Params) -> dict[str, Digest]:
    """Param → a function that digests what it names, without the params that name nothing of the user's.

    Raises GraftError if a module, a file or a folder is missing, or a function does not take the arguments.
    """
    environment = params.environment
    for term in params.rewards.own:
        check_arguments(root, term.term, "rewards.own", "problem, text, results")
    for param, (name, arguments) in functions_of(params).items():
        check_arguments(root, name, param, arguments)
    digests = {
        "environment.name": _modules(root, "environment", [environment.name]),
        "problems.evaluator": _modules(root, "problems.evaluator", [params.problems.evaluator]),
        "problems.exclude": _file(root, "problems.exclude", params.problems.exclude, "digests of lines"),
        **{f"environment.{name}": _text(root, value) for name, value in environment.params.items()},
        "policy.base": _base(root, params.policy.base),
        "policy.prompt.file": _file(
            root, "policy.prompt.file", params.policy.prompt.file, "JSON lines of worked examples"
        ),
        "bootstrap.demonstrations": _file(
            root, "bootstrap.demonstrations", params.bootstrap.demonstrations, "JSON lines of questions and completions"
        ),
        "search.rule": _modules(root, "search.rule", [params.search.rule]),
        "rewards.own": _modules(root, "rewards.own", [term.term for term in params.rewards.own]),
        **{param: _modules(root, param, [name]) for param, (name, _) in functions_of(params).items()},
    }
    return {param: digest for param, digest in digests.items() if digest}


def functions_of(params: Params) -> dict[str, tuple[str, str]]:
    """Param that names a user's function → the name, and the arguments that the function is called with."""
    functions = {
        "influence.selection": (params.influence.selection, "measured"),
        "update.loss": (params.update.loss, "logprobs, ratio, advantages, objective"),
        "update.advantages": (params.update.advantages, "groups"),
    }
    return {param: (name, arguments) for param, (name, arguments) in functions.items() if ":" in name}


def digests_for(files: Mapping[str, Digest], declared: Sequence[str]) -> dict[str, str]:
    """Param → digest of the user's files that a stage reads; `declared`: the params that `dvc.yaml` lists for it.

    A stage reads a file if it may see the whole section of the param that names it. One that may see this param alone
    does not, but for the loss and the advantages, which `select` calls, and the demonstrations, which `problems` reads.
    """
    return {param: digest() for param, digest in files.items() if _is_read(param, declared)}


def _is_read(param: str, declared: Sequence[str]) -> bool:
    alone = ("update.loss", "update.advantages", "bootstrap.demonstrations")
    seen = param if param in alone else param.rpartition(".")[0]
    return any(f"{seen}.".startswith(f"{name}.") for name in declared)


def _modules(root: Path, param: str, names: Sequence[str]) -> Digest | None:
    """Digest of the modules in names like `module:CLASS`; None if all names are built in, which have no colon."""
    users = [name for name in names if ":" in name]
    for name in users:
        check_function_exists(root, name, param)
    return partial(digest_modules, root, sorted({name.partition(":")[0] for name in users})) if users else None


def _base(root: Path, base: str) -> Digest | None:
    """Digest of the folder or GGUF file `base`; None if it is scratch, or may be the id of a model on the hub."""
    if base == "scratch":
        return None
    if path := find_base(base, root):
        return partial(digest_base, path)
    if base in (CHAMPION, LATEST):  # look like ids of models on the hub
        why = "nothing was promoted yet" if base == CHAMPION else "no scheduled run has ended yet"
        raise GraftError(f"policy.base: no folder {base}, {why}; name another one, or scratch")
    if base.startswith((".", "/", "~")):  # no id of a model on the hub
        raise GraftError(f"policy.base: no folder {base}; name a folder, a Hugging Face id, or scratch")
    return None


def _file(root: Path, param: str, name: str | None, content: str) -> Digest | None:
    """Digest of a file of the user's."""
    if name is None:
        return None
    if not isfile(root / name):
        raise GraftError(f"{param}: no file {name}; name {content}, or null")
    return partial(digest_path, root / name)


def _text(root: Path, value: object) -> Digest | None:
    """Digest of the file that a param of the environment names; None if it is any other value."""
    return partial(digest_path, root / value) if isinstance(value, str) and isfile(root / value) else None
