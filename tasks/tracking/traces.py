"""Completions as MLflow's traces: the question with its outcome, the completion, and each run of its workflow.

Graft measures no time of a single completion, so a trace has none: all its spans stand at the time at which the round's
selection was done.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.records import CodeVerdict, Result
from tasks.tracking.trace_sample import SampledCompletion, SampledProgram

TEXT_LENGTH = 4000
"""Characters of a prompt, question or completion."""

FENCE = "~~~~~~"
"""Around a block of Markdown; models write ``` themselves."""


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


class _Trace:
    """One completion in MLflow's types. Its id is a function of the run and the completion."""

    def __init__(self, run_id: str, completion: SampledCompletion, now: float) -> None:
        self._run_id, self._completion, self._milliseconds = run_id, completion, round(now * 1000)
        self._id = _hex(32, run_id, str(completion.round), *completion.key)

    def info(self, experiment: str) -> Any:
        from mlflow.entities import TraceInfo, TraceLocation, TraceState
        from mlflow.tracing.constant import (
            TRACE_SCHEMA_VERSION,
            TRACE_SCHEMA_VERSION_KEY,
            TraceMetadataKey,
            TraceTagKey,
        )

        completion = self._completion
        return TraceInfo(
            trace_id=f"tr-{self._id}",
            trace_location=TraceLocation.from_experiment_id(experiment),
            request_time=self._milliseconds,
            execution_duration=0,
            state=TraceState.OK if completion.outcome != "invalid" else TraceState.ERROR,
            request_preview=_cut(completion.programs[0].question),
            response_preview=_cut(str(_answer(completion.programs[0]))),
            trace_metadata={
                TraceMetadataKey.SOURCE_RUN: self._run_id,
                TRACE_SCHEMA_VERSION_KEY: str(TRACE_SCHEMA_VERSION),
            },
            tags={
                TraceTagKey.TRACE_NAME: completion.trajectory.problem_id,
                "round": str(completion.round),
                "outcome": completion.outcome,
                "selected": json.dumps(bool(completion.selection and completion.selection.selected)),
            },
        )

    def spans(self) -> list[Any]:
        """The root first."""
        completion, first = self._completion, self._completion.programs[0]
        text = _verbatim(completion.member.code)
        return [
            self._span(
                completion.trajectory.problem_id,
                "CHAIN",
                inputs={"question": _cut(first.question), "expected": first.expected},
                outputs={"completion": text, "value": _value(first.result)},
                program=first,
                attributes=_attributes(completion),
                root=True,
            ),
            self._span("completion", "LLM", inputs=_verbatim(completion.trajectory.prompt), outputs=text),
            *(
                self._span(
                    program.name,
                    "TOOL",
                    inputs={"question": _cut(program.question), "expected": program.expected},
                    outputs={"status": program.result.status, "value": _value(program.result)},
                    program=program,
                )
                for program in completion.programs
            ),
        ]

    def _span(
        self,
        name: str,
        kind: str,
        inputs: Any,
        outputs: Any,
        program: SampledProgram | None = None,
        attributes: Mapping[str, Any] | None = None,
        root: bool = False,
    ) -> Any:
        """A span; if the program returned nothing, its error is the span's status."""
        from mlflow.entities import Span

        failed = program is not None and program.result.status != "ok"
        fields = {
            "mlflow.traceRequestId": f"tr-{self._id}",
            "mlflow.spanType": kind,
            "mlflow.spanInputs": inputs,
            "mlflow.spanOutputs": outputs,
            **(attributes or {}),
        }
        return Span.from_dict(
            {
                "trace_id": _base64(self._id),
                "span_id": _base64(_hex(16, self._id, "" if root else name)),
                "parent_span_id": None if root else _base64(_hex(16, self._id, "")),
                "name": name,
                "start_time_unix_nano": self._milliseconds * 1_000_000,
                "end_time_unix_nano": self._milliseconds * 1_000_000,
                "events": [],
                "status": {
                    "code": "STATUS_CODE_ERROR" if failed else "STATUS_CODE_OK",
                    "message": _answer(program) if program and failed else "",
                },
                "attributes": {key: json.dumps(value) for key, value in fields.items()},
                "links": [],
            }
        )


def _attributes(completion: SampledCompletion) -> dict[str, Any]:
    """Numbers of a completion, by the names that the files have."""
    line = completion.selection
    return {
        "round": completion.round,
        "split": completion.trajectory.split,
        "outcome": completion.outcome,
        "reward": completion.reward.reward,
        **{f"reward.{name}": value for name, value in completion.reward.terms.items()},
        "advantage": line.advantage if line else None,
        "influence": completion.influence,
        "selected": line.selected if line else False,
        "weight": line.weight if line else None,
        "proposer": completion.member.proposer,
        "tokens": len(completion.member.tokens),
        "copies": completion.copies,
        "workflow_id": completion.member.workflow_id,
    }


def _answer(program: SampledProgram) -> Any:
    """What the program returned, or why it returned nothing."""
    result = program.result
    return _value(result) if result.status == "ok" else _cut(f"{result.status}: {result.error or ''}".rstrip(": "))


def _value(result: Result) -> int | float | str | None:
    return str(result.value) if isinstance(result.value, CodeVerdict) else result.value


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH else f"{text[:TEXT_LENGTH]}… ({len(text)} characters)"


def _verbatim(text: str) -> str:
    """A block of Markdown: MLflow's page would run the lines of a program together."""
    return f"{FENCE}\n{_cut(text)}\n{FENCE}"


def _hex(length: int, *parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:length]


def _base64(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()
