"""Progress artifact of a stage that takes long: a bar on the pages of its flow run and task run in Prefect."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any
from uuid import UUID

from httpx import HTTPError
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.context import TaskRunContext

from tasks.core.progress import observe_progress

KEY = "progress"
"""One key for all stages: its latest version is the stage that is computed now."""

SECONDS = 5.0
"""Time between two updates. A stage that takes less has no artifact."""


@contextmanager
def show_in_prefect() -> Iterator[None]:
    """Keep an artifact of the progress of the work in the block, by a thread: the work never waits for Prefect.

    Called inside a task run.
    """
    bar = ProgressBar()
    threading.Thread(target=copy_context().run, args=(bar.follow,), name="progress", daemon=True).start()
    try:
        with observe_progress(bar.set):
            yield
    finally:
        bar.over.set()


class ProgressBar:
    """The artifact of the present task run, and what it is to show next."""

    def __init__(self) -> None:
        context = TaskRunContext.get()
        assert context is not None
        self._run = context.task_run
        self._now: tuple[float, str] | None = None
        self.over = threading.Event()

    def set(self, share: float, line: str) -> None:
        """Show this with the next update."""
        self._now = share, f"{self._run.name}: {line}"

    def follow(self) -> None:
        """Update the artifact until the stage is over. A server that fails ends it: the run itself warns of that."""
        with get_client(sync_client=True) as client:
            artifact, shown = None, None
            while not self.over.wait(SECONDS) or (artifact and shown != self._now):
                now = self._now
                if now is None or now == shown:
                    continue
                try:
                    artifact = self._send(client, artifact, *now)
                except HTTPError:
                    return
                shown = now

    def _send(self, client: Any, artifact: UUID | None, share: float, line: str) -> UUID:
        data = round(100 * min(share, 1.0), 1)
        if artifact:
            client.update_artifact(artifact, ArtifactUpdate(data=data, description=line))
            return artifact
        new = ArtifactCreate(
            key=KEY,
            type="progress",
            data=data,
            description=line,
            flow_run_id=self._run.flow_run_id,
            task_run_id=self._run.id,
        )
        created: UUID = client.create_artifact(new).id
        return created
