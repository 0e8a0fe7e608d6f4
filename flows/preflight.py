"""What must be right before anything runs: the folder, `params.yaml` with the digests in it, the problems file."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from os.path import isdir, isfile  # a name that is too long is none, where pathlib's own would raise
from pathlib import Path

import tasks
from flows.stages.dvc_yaml import MODULES
from tasks.artifacts import digest_path, read_text, write_text
from tasks.errors import GraftError
from tasks.params.file import overridden
from tasks.params.params import Params
from tasks.problems.files import problem_files
from tasks.redaction import redacted
from tasks.sources.user_modules import check_function, digest_modules, module_of_environment, modules_of_terms

CHAMPION = "champion/policy"
"""`policy.base` of a run that continues the champion."""


def project_root() -> Path:
    """The folder that we stand in, if it is a project and the code that runs is its own. Raises GraftError."""
    root = Path.cwd()
    for name in ("params.yaml", "dvc.yaml"):
        if not (root / name).is_file():
            raise GraftError(f"{name}: not in {root}; go to the project's own folder first")
    code = Path(tasks.__file__).resolve().parents[1]
    if code != root.resolve():
        raise GraftError(
            f"graft: this command runs the code in {code}, but the stages of {root} are recorded with their own; "
            f"make setup there gives it a graft of its own, or run: python -m flows.cli.main"
        )
    return root


def settle_params(root: Path, assignments: Sequence[str], tell: Callable[[str], None]) -> Params:
    """Write `key=value` assignments and the digests of files into `params.yaml`, and check what the run will need.

    Tells each change. Raises GraftError with the file as it was.
    """
    text, params, changes = proposed_params(root, assignments)
    if changes:
        write_text(root / "params.yaml", text)
    for line in changes:
        tell(line)
    return params


def proposed_params(root: Path, assignments: Sequence[str]) -> tuple[str, Params, list[str]]:
    """What `settle_params` would write into `params.yaml`, the params in it, and a line for each change.

    Writes nothing. Raises GraftError where the run would lack something.
    """
    path = root / "params.yaml"
    text, params, changes = overridden(path, read_text(path), assignments)
    text, params, more = overridden(path, text, _assignments(params, digests(root, params)))
    _check_problems(root, params)
    _check_limits(params)
    return (
        text,
        params,
        [redacted(f"params.yaml: {key}: {old} → {new}") for key, (old, new) in (changes | more).items()],
    )


def digests(root: Path, params: Params) -> dict[str, str | None]:
    """Param → the digest of the file or folder that another param names; None where it names none.

    DVC cannot watch what only some runs have. Raises GraftError where a file is not there or a module is wrong.
    """
    return {
        "policy.base_sha256": _base_digest(root, params),
        "influence.trajectories_sha256": _trajectories_digest(root, params),
        "rewards.model_sha256": _reward_model_digest(root, params),
        **_modules_digests(root, params),
    }


def _base_digest(root: Path, params: Params) -> str | None:
    """Of `policy.base`, where that is a folder."""
    base = root / params.policy.base
    if params.policy.base != "scratch" and isdir(base):
        return digest_path(base)
    if params.policy.base.startswith((".", "/", "~")):
        raise GraftError(f"policy.base: no folder {params.policy.base}; name a folder, a Hugging Face id, or scratch")
    if params.policy.base == CHAMPION:  # which looks like the id of a model on the hub
        raise GraftError(f"policy.base: no folder {CHAMPION}, nothing was promoted yet; name another one, or scratch")
    return None


def _trajectories_digest(root: Path, params: Params) -> str | None:
    name = params.influence.trajectories
    if name is None:
        return None
    if not isfile(root / name):
        raise GraftError(f"influence.trajectories: no file {name}; name a file such as run/rounds/1/rewarded.jsonl")
    return digest_path(root / name)


def _reward_model_digest(root: Path, params: Params) -> str | None:
    """Of `rewards.model.base`, where that is a folder."""
    base = params.rewards.model.base if params.rewards.model else None
    if base is not None and isdir(root / base):
        return digest_path(root / base)
    if base is not None and base.startswith((".", "/", "~")):
        raise GraftError(f"rewards.model: no folder {base}; name a folder, or a Hugging Face id")
    return None


def _modules_digests(root: Path, params: Params) -> dict[str, str | None]:
    """Of the modules of the user's own; a wrong name is found here, before anything runs."""
    for term in params.rewards.own:
        check_function(root, term.term, "rewards.own")
    environment = module_of_environment(params.environment)
    if environment:
        check_function(root, params.environment, "environment")
    return {
        "rewards.own_sha256": digest_modules(root, modules_of_terms(params.rewards)),
        "environment_sha256": digest_modules(root, environment),
    }


def _assignments(params: Params, digests: Mapping[str, str | None]) -> list[str]:
    """Of those that are not what the params hold. In quotes: some digests look like numbers."""
    new = {key: digest for key, digest in digests.items() if attrgetter(key)(params) != digest}
    return [f"{key}=null" if digest is None else f'{key}="{digest}"' for key, digest in new.items()]


def _check_problems(root: Path, params: Params) -> None:
    """They are a dependency of the first stage whatever the source, so they have to be there."""
    problem_files(root, params.problems.path)


def _check_limits(params: Params) -> None:
    for name in params.schedule.seconds:
        if name not in MODULES:
            raise GraftError(f"schedule.seconds: no stage {name!r}; name one of {', '.join(MODULES)}")
