"""What must be right before anything runs: the folder, `params.yaml` with the digests in it, the problems file."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import tasks
from tasks.artifacts import digest_path, read_text, write_text
from tasks.errors import GraftError
from tasks.modules import check_function, digest_modules, module_of_environment, modules_of_terms
from tasks.params import Params, load_params, override


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
            f"make setup there gives it a graft of its own, or run: python -m flows.cli"
        )
    return root


def settle_params(root: Path, assignments: Sequence[str], tell: Callable[[str], None]) -> Params:
    """Write `key=value` assignments and the digests of files into `params.yaml`, and check what the run will need.

    Tells each change. Raises GraftError with the file as it was.
    """
    path = root / "params.yaml"
    before = read_text(path)
    try:
        changes = override(path, assignments)
        params = load_params(path)
        changes |= override(path, list(_digests(root, params)))
        params = load_params(path)
        _check_problems_file(root, params)
    except BaseException:
        if read_text(path) != before:
            write_text(path, before)
        raise
    for key, (old, new) in changes.items():
        tell(f"params.yaml: {key}: {old} → {new}")
    return params


def _digests(root: Path, params: Params) -> Iterator[str]:
    """The assignments that make the digests of the files and folders true that params name."""
    yield from _base_digest(root, params)
    yield from _trajectories_digest(root, params)
    yield from _reward_model_digest(root, params)
    yield from _modules_digest(root, params)


def _base_digest(root: Path, params: Params) -> list[str]:
    """The assignment that makes `policy.base_sha256` true: DVC cannot watch a folder that only some bases have."""
    base = root / params.policy.base
    if params.policy.base != "scratch" and base.is_dir():
        return [f'policy.base_sha256="{digest_path(base)}"']  # in quotes: some digests look like numbers
    if params.policy.base.startswith((".", "/", "~")):
        raise GraftError(f"policy.base: no folder {params.policy.base}; name a folder, a Hugging Face id, or scratch")
    return ["policy.base_sha256=null"]


def _trajectories_digest(root: Path, params: Params) -> list[str]:
    """The same of `influence.trajectories`, which only some runs have."""
    name = params.influence.trajectories
    if name is None:
        return ["influence.trajectories_sha256=null"]
    if not (root / name).is_file():
        raise GraftError(f"influence.trajectories: no file {name}; name a file such as run/rounds/1/rewarded.jsonl")
    return [f'influence.trajectories_sha256="{digest_path(root / name)}"']


def _reward_model_digest(root: Path, params: Params) -> list[str]:
    """The same of `rewards.model.base`, where that is a folder."""
    base = params.rewards.model.base if params.rewards.model else None
    if base is not None and (root / base).is_dir():
        return [f'rewards.model_sha256="{digest_path(root / base)}"']
    if base is not None and base.startswith((".", "/", "~")):
        raise GraftError(f"rewards.model: no folder {base}; name a folder, or a Hugging Face id")
    return ["rewards.model_sha256=null"]


def _modules_digest(root: Path, params: Params) -> list[str]:
    """The same of the modules of the user's own; a wrong name is found here, before anything runs."""
    for term in params.rewards.own:
        check_function(root, term.term, "rewards.own")
    environment = module_of_environment(params.environment)
    if environment:
        check_function(root, params.environment, "environment")
    digests = {
        "rewards.own_sha256": digest_modules(root, modules_of_terms(params.rewards)),
        "environment_sha256": digest_modules(root, environment),
    }
    return [f"{key}=null" if digest is None else f'{key}="{digest}"' for key, digest in digests.items()]


def _check_problems_file(root: Path, params: Params) -> None:
    """It is a dependency of the first stage whatever the source, so it has to be there."""
    if not (root / params.problems.path).is_file():
        raise GraftError(
            f"problems.path: no file {params.problems.path}; name a jsonl file, for instance examples/problems.jsonl"
        )
