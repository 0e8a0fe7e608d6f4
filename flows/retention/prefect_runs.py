"""Old flow runs of this workspace in Prefect, with their task runs and artifacts.

Prefect's own vacuum (`PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED`) goes by age, over all workspaces of a server. The
deletion of a flow run leaves its artifacts.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flows.retention.listing import Listing


def list_prefect_runs(root: Path, keep: int) -> Listing:
    """List all but the last `keep` runs and those that have not ended. No server is asked if no flow ever ran here."""
    import os

    listing = Listing("Prefect flow runs")
    if "PREFECT_API_URL" not in os.environ and not (root / ".graft" / "prefect" / "prefect.db").is_file():
        return listing
    from flows.process import settings

    settings.set_prefect_home(root)
    from httpx import HTTPError
    from prefect.client.orchestration import get_client

    from flows.prefect_runs.crashed_runs import workspace_tag

    try:
        with get_client(sync_client=True) as client:
            runs = list(_runs(client, workspace_tag(root)))
    except (HTTPError, RuntimeError) as error:
        listing.kept.append(f"all: Prefect does not answer ({' '.join(str(error).split())[:200]})")
        return listing
    old = runs[keep:]
    finished = [run for run in old if run.state is not None and run.state.is_final()]
    listing.removable = {f"{run.name} ({run.id})": 0 for run in finished}
    listing.kept = [f"the last {keep}", *(f"{run.name}: has not ended" for run in old if run not in finished)]

    def remove() -> None:
        with get_client(sync_client=True) as client:
            for run in finished:
                _remove(client, run)

    listing.remove = remove
    return listing


def _runs(client: Any, tag: str) -> Iterator[Any]:
    """The runs of the workspace, the latest first."""
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
    from prefect.client.schemas.sorting import FlowRunSort

    offset = 0
    while page := client.read_flow_runs(
        flow_run_filter=FlowRunFilter(tags=FlowRunFilterTags(all_=[tag])),
        sort=FlowRunSort.START_TIME_DESC,
        offset=offset,
        limit=200,
    ):
        yield from page
        offset += len(page)


def _remove(client: Any, run: Any) -> None:
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    own = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
    for artifact in client.read_artifacts(artifact_filter=own):
        client.delete_artifact(artifact.id)
    client.delete_flow_run(run.id)
