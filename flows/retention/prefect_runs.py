"""Old flow runs of this workspace in Prefect, with their task runs and artifacts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flows.retention.listing import Going, Part


def prefect_part(root: Path, keep: int) -> Part:
    """The last `keep` stay, and whatever has not ended. Nothing is asked where no flow ever ran here."""
    import os

    part = Part("Prefect flow runs")
    if "PREFECT_API_URL" not in os.environ and not (root / ".graft" / "prefect" / "prefect.db").is_file():
        return part
    from flows.process import settings

    settings.set_prefect_home(root)
    from httpx import HTTPError
    from prefect.client.orchestration import get_client

    from flows.prefect_runs.crashed_runs import workspace_tag

    try:
        with get_client(sync_client=True) as client:
            runs = list(_runs(client, workspace_tag(root)))
    except (HTTPError, RuntimeError) as error:
        part.stays.append(f"all: Prefect does not answer ({' '.join(str(error).split())[:200]})")
        return part
    old = runs[keep:]
    goes = [run for run in old if run.state is not None and run.state.is_final()]
    part.goes = [Going(f"{run.name} ({run.id})") for run in goes]
    part.stays = [f"the last {keep}", *(f"{run.name}: has not ended" for run in old if run not in goes)]

    def remove() -> None:
        with get_client(sync_client=True) as client:
            for run in goes:
                _remove(client, run)

    part.remove = remove
    return part


def _runs(client: Any, tag: str) -> Iterator[Any]:
    """Those of the workspace, the latest first."""
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

    wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
    for artifact in client.read_artifacts(artifact_filter=wanted):
        client.delete_artifact(artifact.id)
    client.delete_flow_run(run.id)
