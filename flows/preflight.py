"""Checks before a run: the project folder, the problems file, and `params.yaml` with the digests of other files."""

import os
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from os.path import isdir, isfile  # a name that is too long is none, where pathlib's own would raise
from pathlib import Path
from tempfile import TemporaryFile

import tasks
from flows.stages.dvc_yaml import MODULES
from tasks.artifacts import digest_path, digest_text, read_text, write_text
from tasks.environments.lookup import check_environment
from tasks.errors import GraftError
from tasks.model.base_adapter import CONFIG as ADAPTER_CONFIG
from tasks.model.base_adapter import base_of_adapter
from tasks.model.gguf import find_gguf, is_gguf
from tasks.model.out_of_memory import check_address_space
from tasks.params.file import overridden
from tasks.params.params import Params
from tasks.problems.files import problem_files
from tasks.redaction import redacted
from tasks.sources.user_modules import check_function_exists, digest_modules, module_of_environment, modules_of_terms

CHAMPION = "champion/policy"
"""`policy.base` of a run that continues the champion."""


TEMPORARY = 1 << 16
"""Bytes for which there must be room in the folder of temporary files."""


def project_root() -> Path:
    """The current folder. Raises GraftError unless it is a project whose own code is running."""
    root = Path.cwd()
    for name in ("params.yaml", "dvc.yaml"):
        if not (root / name).is_file():
            raise GraftError(f"{name}: not in {root}; go to the project's own folder first")
    if "?" in str(root):
        raise GraftError(f"{root}: Prefect cannot keep a database below a name with a question mark; rename it")
    code = Path(tasks.__file__).resolve().parents[1]
    if code != root.resolve():
        raise GraftError(
            f"graft: this command runs the code in {code}, but the stages of {root} are recorded with their own; "
            f"make setup there gives it a graft of its own, or run: python -m flows.cli.main"
        )
    return root


def write_params(root: Path, assignments: Sequence[str], report: Callable[[str], None]) -> Params:
    """Write `key=value` assignments and the digests of files into `params.yaml`, and report each change.

    Raises GraftError, with the file unchanged, if anything that the run needs is missing.
    """
    check_address_space()
    _check_temporary_folder()
    text, params, changes = proposed_params(root, assignments)
    if changes:
        write_text(root / "params.yaml", text)
    for line in changes:
        report(line)
    return params


def _check_temporary_folder() -> None:
    """Raise GraftError if TMPDIR is full: SQLite, which Prefect, DVC and MLflow use, would blame its databases."""
    folder = os.environ.get("TMPDIR", "")
    if isdir(folder):
        try:
            with TemporaryFile(dir=folder) as file:
                file.write(bytes(TEMPORARY))
        except OSError as error:
            raise GraftError(f"TMPDIR: {folder}: {error.strerror}; free some space there, or name another") from error


def proposed_params(root: Path, assignments: Sequence[str]) -> tuple[str, Params, list[str]]:
    """The text that `write_params` would write, its params, and a line for each change. Writes nothing."""
    path = root / "params.yaml"
    text, params, changes = overridden(path, read_text(path), assignments)
    text, params, more = overridden(path, text, _assignments(params, digests(root, params)))
    problem_files(root, params.problems.path)  # whatever the source, it is a dependency of the first stage
    _check_limits(params)
    check_environment(root, params)
    return (
        text,
        params,
        [redacted(f"params.yaml: {key}: {old} → {new}") for key, (old, new) in (changes | more).items()],
    )


def digests(root: Path, params: Params) -> dict[str, str | None]:
    """Param → the digest of the file or folder that another param names, or None if it names none.

    Such files cannot be deps in `dvc.yaml`: only some runs have them. Raises GraftError if one is missing.
    """
    return {
        "policy.base_sha256": _base_digest(root, params),
        "policy.prompt.file_sha256": _file_digest(
            root, "policy.prompt.file", params.policy.prompt.file, "JSON lines of worked examples, or null"
        ),
        "influence.trajectories_sha256": _file_digest(
            root,
            "influence.trajectories",
            params.influence.trajectories,
            "a file such as run/rounds/1/rewarded.jsonl",
        ),
        "rewards.model_sha256": _reward_model_digest(root, params),
        **_modules_digests(root, params),
    }


def _base_digest(root: Path, params: Params) -> str | None:
    """Digest of `policy.base`, if it is a folder or a GGUF file; of an adapter also that of its model's folder."""
    base = params.policy.base
    if is_gguf(base):
        return digest_path(find_gguf(base, root))
    if base == CHAMPION and not isdir(root / base):  # looks like the id of a model on the hub
        raise GraftError(f"policy.base: no folder {CHAMPION}, nothing was promoted yet; name another one, or scratch")
    digest = None if base == "scratch" else _folder_digest(root, "policy.base", base, "a Hugging Face id, or scratch")
    if digest and isfile(root / base / ADAPTER_CONFIG):
        below = root / base_of_adapter(root / base)
        if isdir(below) and below != root / base:
            return digest_text(f"{digest}\n{digest_path(below)}")
    return digest


def _file_digest(root: Path, param: str, name: str | None, instead: str) -> str | None:
    """Digest of the file `name` that a param names; None if it names none."""
    if name is None:
        return None
    if not isfile(root / name):
        raise GraftError(f"{param}: no file {name}; name {instead}")
    return digest_path(root / name)


def _reward_model_digest(root: Path, params: Params) -> str | None:
    """Digest of `rewards.model.base`, if it is a folder."""
    model = params.rewards.model
    return _folder_digest(root, "rewards.model", model.base, "or a Hugging Face id") if model else None


def _folder_digest(root: Path, param: str, name: str, others: str) -> str | None:
    """Digest of the folder `name`; None if it may be the id of a model on the hub."""
    if isdir(root / name):
        return digest_path(root / name)
    if name.startswith((".", "/", "~")):
        raise GraftError(f"{param}: no folder {name}; name a folder, {others}")
    return None


def _modules_digests(root: Path, params: Params) -> dict[str, str | None]:
    """Digests of the user's own modules. A wrong name is found here, before anything runs."""
    for term in params.rewards.own:
        check_function_exists(root, term.term, "rewards.own")
    environment = module_of_environment(params.environment.name)
    if environment:
        check_function_exists(root, params.environment.name, "environment")
    evaluator = module_of_environment(params.problems.evaluator)
    if evaluator:
        check_function_exists(root, params.problems.evaluator, "problems.evaluator")
    return {
        "problems.evaluator_sha256": digest_modules(root, evaluator),
        "rewards.own_sha256": digest_modules(root, modules_of_terms(params.rewards)),
        "environment_sha256": digest_modules(root, environment),
    }


def _assignments(params: Params, digests: Mapping[str, str | None]) -> list[str]:
    """Assignments of the digests that differ from the params. Quoted: some digests look like numbers."""
    new = {key: digest for key, digest in digests.items() if attrgetter(key)(params) != digest}
    return [f"{key}=null" if digest is None else f'{key}="{digest}"' for key, digest in new.items()]


def _check_limits(params: Params) -> None:
    for name in params.schedule.seconds:
        if name not in MODULES:
            raise GraftError(f"schedule.seconds: no stage {name!r}; name one of {', '.join(MODULES)}")
