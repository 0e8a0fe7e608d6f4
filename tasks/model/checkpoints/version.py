"""Version of a policy and the digests of its files, by which damage is detected.

The version is of the weights, the prompt format and the base. The digests in `lineage.json` are of every other file in
the folder, and of the lineage itself. The lineage of an older policy has none: its version alone is verified.
"""

import json
from pathlib import Path

from tasks.artifacts import digest_listed, digest_path, digest_text, read_json
from tasks.environments.prompts import FILE as PROMPT_FILE
from tasks.errors import GraftError
from tasks.records.policy import Lineage

WEIGHTS = "model.safetensors"
ADAPTER = "adapter"
LINEAGE = "lineage.json"


def digest_policy(folder: Path, lineage: Lineage) -> Lineage:
    """`lineage` with the version and the digests of the files that are in a policy folder."""
    digests = {name: digest_path(folder / name) for name in _names(folder) if name != LINEAGE}
    adapter = {name.removeprefix(f"{ADAPTER}/"): digests[name] for name in digests if name.startswith(f"{ADAPTER}/")}
    weights = (digests.get(WEIGHTS), digest_listed(adapter) if adapter else None, digests.get(PROMPT_FILE))
    origin = (lineage.base, lineage.base_sha256, lineage.quantize, lineage.dtype)
    version = digest_text("\n".join(filter(None, (*origin, *weights))))[:16]
    named = lineage.model_copy(update={"version": version, "files": None})
    itself = digest_text(json.dumps(named.model_dump(mode="json"), sort_keys=True))
    return named.model_copy(update={"files": digests | {LINEAGE: itself}})


def verify_policy(folder: Path, version: str | None = None) -> Lineage:
    """The lineage of an undamaged policy folder, of this `version` if given.

    Raises GraftError if a file is missing, damaged or none of the policy's.
    """
    lineage = read_json(folder / LINEAGE, Lineage)
    actual = digest_policy(folder, lineage)
    if actual.version != lineage.version or version not in (None, actual.version):
        raise GraftError(
            f"{folder}: its weights are damaged or belong to another policy (version {version or lineage.version} by "
            f"its record, {actual.version} by its content); name another policy, or restore this one from a copy"
        )
    if lineage.files is not None:
        here, recorded = dict(actual.files or {}), lineage.files
        for name in sorted(here.keys() | recorded.keys()):
            if here.get(name) != recorded.get(name):
                what = (
                    "is missing" if name not in here else "is damaged" if name in recorded else "does not belong to it"
                )
                raise GraftError(
                    f"{folder / name}: {what}, by the digests in {LINEAGE}; name another policy, or restore this one "
                    "from a copy"
                )
    return lineage


def _names(folder: Path) -> list[str]:
    """The files of a folder and of those in it, and links, wherever they lead."""
    files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return [path.relative_to(folder).as_posix() for path in sorted(files)]
