"""Whether a policy folder is whole: its version is a digest of what it holds."""

from pathlib import Path

from tasks.artifacts import digest_path, digest_text, read_json
from tasks.errors import GraftError
from tasks.records import Lineage

WEIGHTS = "model.safetensors"
ADAPTER = "adapter"


def version_of(folder: Path, base: str, base_sha256: str | None) -> str:
    """Content hash of the weights in a policy folder and of what they were made of."""
    weights = [digest_path(path) for path in (folder / WEIGHTS, folder / ADAPTER) if path.exists()]
    return digest_text("\n".join([base, *([base_sha256] if base_sha256 else []), *weights]))[:16]


def check_whole(folder: Path, version: str | None = None) -> Lineage:
    """The lineage of a policy folder whose weights are those that were written; of this `version`, where one is given.

    Raises GraftError where a file is missing or damaged.
    """
    lineage = read_json(folder / "lineage.json", Lineage)
    found = version_of(folder, lineage.base, lineage.base_sha256)
    if found != lineage.version or version not in (None, found):
        raise GraftError(
            f"{folder}: its weights are damaged or not its own (version {version or lineage.version} by its record, "
            f"{found} by its content); name another policy, or bring this one back from a copy"
        )
    return lineage
