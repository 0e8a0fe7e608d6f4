"""Completions as MLflow's traces: the question with its outcome, the completion, and each run of its workflow.

Graft measures no time of a single completion, so a trace has none: all its spans stand at the time at which the round's
selection was done.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from tasks.tracking.trace_sample import Program, SampledCompletion

TEXT_LENGTH = 4000
"""Characters of a prompt, question or completion."""


def log_traces(uri: str, experiment: str, run_id: str, sample: Sequence[SampledCompletion], now: float) -> None:
    """Add a trace for each completion, linked to the run; the same again changes nothing. Raises what MLflow raises.

    By `TracingClient`, whose calls raise: the exporter behind `MlflowClient.start_trace` logs an error and goes on.
    """
    from mlflow.tracing.client import TracingClient

    if not sample:
        return
    client = TracingClient(uri)
    traces = [_Trace(run_id, completion, now) for completion in sample]
    for trace in traces:
        client.start_trace(trace.info(experiment))
    client.log_spans(experiment, [span for trace in traces for span in trace.spans()])


def delete_traces(client: Any, experiment: str, run_id: str) -> None:
    """Delete the traces of a run, which MLflow leaves when the run is deleted."""
    found = client.search_traces(locations=[experiment], run_id=run_id, include_spans=False)
    if found:
        client.delete_traces(experiment, trace_ids=[trace.info.trace_id for trace in found])


class _Trace:
    """One completion in MLflow's types. Its id is a function of the run and the completion."""

    def __init__(self, run_id: str, completion: SampledCompletion, now: float) -> None:
        self._run_id, self._completion, self._now = run_id, completion, now
        self._id = _hex(32, run_id, str(completion.round), *completion.key)

    def info(self, experiment: str) -> Any:
        from mlflow.entities import TraceInfo, TraceLocation, TraceState
        from mlflow.tracing.constant import (
            TRACE_SCHEMA_VERSION,
            TRACE_SCHEMA_VERSION_KEY,
            TraceMetadataKey,
            TraceTagKey,
        )

        own = self._completion
        return TraceInfo(
            trace_id=f"tr-{self._id}",
            trace_location=TraceLocation.from_experiment_id(experiment),
            request_time=round(self._now * 1000),
            execution_duration=0,
            state=TraceState.OK if own.outcome != "invalid" else TraceState.ERROR,
            request_preview=_cut(own.programs[0].question),
            response_preview=_cut(str(_answer(own.programs[0]))),
            trace_metadata={
                TraceMetadataKey.SOURCE_RUN: self._run_id,
                TRACE_SCHEMA_VERSION_KEY: str(TRACE_SCHEMA_VERSION),
            },
            tags={
                TraceTagKey.TRACE_NAME: own.problem_id,
                "round": str(own.round),
                "outcome": own.outcome,
                "selected": json.dumps(bool(own.selection and own.selection.selected)),
            },
        )

    def spans(self) -> list[Any]:
        """The root first."""
        own = self._completion
        first, *_ = own.programs
        root = self._span(
            "root",
            own.problem_id,
            "CHAIN",
            {"question": _cut(first.question), "expected": first.expected},
            {"completion": _cut(own.completion), "value": first.result.value},
            _attributes(own),
            first,
        )
        written = self._span(
            "completion", "completion", "LLM", _cut(own.prompt), _cut(own.completion), {"tokens": own.tokens}
        )
        programs = [
            self._span(
                program.name,
                program.name,
                "TOOL",
                {"question": _cut(program.question), "expected": program.expected},
                {"status": program.result.status, "value": program.result.value},
                {},
                program,
            )
            for program in own.programs
        ]
        return [root, written, *programs]

    def _span(
        self,
        key: str,
        name: str,
        kind: str,
        inputs: Any,
        outputs: Any,
        attributes: dict[str, Any],
        program: Program | None = None,
    ) -> Any:
        """A span; an error of the program is its status."""
        from mlflow.entities import Span

        failed = program is not None and program.result.status != "ok"
        own = {
            "mlflow.traceRequestId": f"tr-{self._id}",
            "mlflow.spanType": kind,
            "mlflow.spanInputs": inputs,
            "mlflow.spanOutputs": outputs,
            **attributes,
        }
        nanoseconds = round(self._now * 1e9)
        return Span.from_dict(
            {
                "trace_id": _base64(self._id),
                "span_id": _base64(_hex(16, self._id, key)),
                "parent_span_id": None if key == "root" else _base64(_hex(16, self._id, "root")),
                "name": name,
                "start_time_unix_nano": nanoseconds,
                "end_time_unix_nano": nanoseconds,
                "events": [],
                "status": {
                    "code": "STATUS_CODE_ERROR" if failed else "STATUS_CODE_OK",
                    "message": _answer(program) if failed and program else "",
                },
                "attributes": {name: json.dumps(value) for name, value in own.items()},
                "links": [],
            }
        )


def _attributes(own: SampledCompletion) -> dict[str, Any]:
    """Numbers of a completion, by the names that the files have."""
    line = own.selection
    return {
        "round": own.round,
        "split": own.split,
        "outcome": own.outcome,
        "reward": own.reward,
        **{f"reward.{name}": value for name, value in own.reward_terms.items()},
        "advantage": line.advantage if line else None,
        "influence": own.influence,
        "selected": line.selected if line else False,
        "weight": line.weight if line else None,
        "proposer": own.proposer,
        "tokens": own.tokens,
        "copies": own.copies,
        "workflow_id": own.workflow_id,
    }


def _answer(program: Program) -> Any:
    """What the program returned, or why it returned nothing."""
    result = program.result
    return result.value if result.status == "ok" else _cut(f"{result.status}: {result.error or ''}".rstrip(": "))


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH else f"{text[:TEXT_LENGTH]}… ({len(text)} characters)"


def _hex(length: int, *parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:length]


def _base64(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()
