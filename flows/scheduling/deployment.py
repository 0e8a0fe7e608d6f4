"""The name of a project's deployment: on one Prefect server, two projects or clones have one each."""

import re
from pathlib import Path

from flows.prefect_runs.crashed_runs import workspace_tag
from tasks.artifacts import digest_text


def project_name(root: Path) -> str:
    """The folder's name, without what Prefect allows in no name, and a digest of host and folder."""
    return f"{re.sub('[/%&<>]', '-', root.name)}-{digest_text(workspace_tag(root))[:6]}"


def project() -> dict[str, str]:
    """Step of `prefect deploy` for `prefect.yaml`: a template there can name no folder."""
    return {"name": project_name(Path.cwd())}
