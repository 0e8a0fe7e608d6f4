"""The section `machine` of `params.yaml`, which a person sets once a machine: no stage depends on it."""

from shlex import quote
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, PlainSerializer, ValidationInfo, field_validator, model_validator

from tasks.params.fields import Device, check_name
from tasks.params.sections import Section
from tasks.redaction import redacted

BUILT_IN = "mlflow"
"""Value of `machine.tracking.tracker` but for a user's class."""


class Tracking(Section):
    """Where runs are recorded; with `uri` empty nowhere."""

    tracker: str
    uri: Annotated[str, PlainSerializer(redacted), Field(repr=False)]  # Prefect stores a flow's parameters
    experiment: Annotated[str, Field(min_length=1)]

    @property
    def store(self) -> str:
        """The URI of MLflow's store; "" if MLflow is not the tracker."""
        return self.uri if self.tracker == BUILT_IN else ""

    @property
    def title(self) -> str:
        """The tracker's name in what a user reads."""
        return "MLflow" if self.tracker == BUILT_IN else self.tracker

    @property
    def place(self) -> str:
        """The tracker and its URI, the beginning of a warning."""
        return f"{self.title} ({self.uri})"

    @field_validator("tracker")
    @classmethod
    def _check_tracker(cls, tracker: str) -> str:
        return check_name(tracker, [BUILT_IN], "module:CLASS")

    @field_validator("uri")
    @classmethod
    def _check_store(cls, uri: str, info: ValidationInfo) -> str:
        if info.data.get("tracker") != BUILT_IN:
            return uri
        if uri not in ("", "databricks") and urlsplit(uri).scheme in ("", "file"):
            folder = quote(urlsplit(uri).path)
            raise ValueError(
                "is a folder, in which MLflow keeps no runs any more; name a database: sqlite:///mlflow.db; to fill a "
                f"new one with the folder's runs: mlflow migrate-filestore --source {folder} --target sqlite:///mlflow.db"
            )
        return uri


class Scheduling(Section):
    """`seconds`: stage → time limit. `flows/preflight.py` checks the names. `keep`: runs whose results stay."""

    start: Literal["latest", "champion"]
    retries: Annotated[int, Field(ge=0, le=20, strict=True)]
    seconds: dict[str, Annotated[float, Field(gt=0, le=31_536_000)]]
    keep: Annotated[int, Field(ge=1, le=100_000, strict=True)] | None


class Contract(Section):
    """Demands on new problem files. `flows/contract.py` checks them."""

    action: Literal["warn", "stop", "none"]
    length: Annotated[float, Field(ge=0, le=1)]
    vocabulary: Annotated[float, Field(ge=0, le=1)]


class Alerts(Section):
    """When scheduled runs send an alert: flows/alerts/alert.py."""

    unbeaten: Annotated[int, Field(ge=1, le=1000, strict=True)] | None


class RunnerParams(Section):
    """The runner that computes the shards of a stage, and how many at a time."""

    kind: Literal["sequential", "processes", "dask", "ray"]
    workers: Annotated[int, Field(ge=1, le=1024, strict=True)] | None
    address: Annotated[str, Field(min_length=1)] | None

    @model_validator(mode="after")
    def _check_address(self) -> "RunnerParams":
        if self.address is not None and self.kind not in ("dask", "ray"):
            raise ValueError(
                f"address is {self.address}, but kind is {self.kind}: set kind to dask or ray, or address to null"
            )
        return self


class VllmServer(Section):
    """The vLLM server that samples the policy: its `address`, or the `command` that starts it."""

    address: Annotated[str, Field(pattern=r"^https?://")] | None
    command: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None

    @field_validator("address")
    @classmethod
    def _check_no_secret(cls, address: str | None) -> str | None:
        if address is not None and redacted(address) != address:
            raise ValueError("contains a password or a key: export VLLM_API_KEY instead")
        return address

    @model_validator(mode="after")
    def _check_one(self) -> "VllmServer":
        if self.address is not None and self.command is not None:
            raise ValueError("address and command are both set, but one server samples: set one of them to null")
        return self


class Machine(Section):
    device: Device
    tracking: Tracking
    schedule: Scheduling
    contract: Contract
    alerts: Alerts
    runner: RunnerParams
    vllm: VllmServer
