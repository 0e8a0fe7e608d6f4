"""Version of a policy: a digest of its weights and its base, by which damage is detected."""

from pathlib import Path

from tasks.artifacts import digest_path, digest_text, read_json
from tasks.environments.prompts import FILE
from tasks.errors import GraftError
from tasks.records import Dtype, Lineage, Quantization

WEIGHTS = "model.safetensors"
ADAPTER = "adapter"


def compute_version(
    folder: Path,
    base: str,
    base_sha256: str | None,
    quantize: Quantization | None = None,
    dtype: Dtype | None = None,
) -> str:
    """Content hash of the weights in a policy folder, of its prompt format, of its base and of the base's type."""
    weights = [digest_path(path) for path in (folder / WEIGHTS, folder / ADAPTER, folder / FILE) if path.exists()]
    return digest_text("\n".join([base, *filter(None, (base_sha256, quantize, dtype)), *weights]))[:16]


def verify_policy(folder: Path, version: str | None = None) -> Lineage:
    """The lineage of an undamaged policy folder, of this `version` if given.

    Raises GraftError if a file is missing or damaged.
    """
    lineage = read_json(folder / "lineage.json", Lineage)
    computed = compute_version(folder, lineage.base, lineage.base_sha256, lineage.quantize, lineage.dtype)
    if computed != lineage.version or version not in (None, computed):
        raise GraftError(
            f"{folder}: its weights are damaged or belong to another policy (version {version or lineage.version} by "
            f"its record, {computed} by its content); name another policy, or restore this one from a copy"
        )
    return lineage
