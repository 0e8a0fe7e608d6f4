"""The section `sampler` of `params.yaml`: what samples the policy, Graft itself or a server of vLLM."""

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from tasks.params.sections import Section
from tasks.redaction import redacted


class SamplerParams(Section):
    """`kind` and `dtype` belong to the stages that sample, the others to none (RUN_ONLY in tasks/params/params.py)."""

    kind: Literal["own", "vllm"]
    dtype: Literal["float32", "bfloat16", "float16"]
    address: Annotated[str, Field(pattern=r"^https?://")] | None
    command: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None
    parallel: Annotated[int, Field(ge=1, le=4096, strict=True)]
    seconds: Annotated[float, Field(gt=0, le=86_400)]

    @field_validator("address")
    @classmethod
    def _check_no_secret(cls, address: str | None) -> str | None:
        if address is not None and redacted(address) != address:
            raise ValueError("contains a password or a key: export VLLM_API_KEY instead")
        return address

    @model_validator(mode="after")
    def _check_server(self) -> "SamplerParams":
        named = [name for name in ("address", "command") if getattr(self, name) is not None]
        if self.kind == "own" and named:
            raise ValueError(f"{named[0]} is given, but kind is own: set kind to vllm, or {named[0]} to null")
        if self.kind == "vllm" and len(named) != 1:
            raise ValueError(
                "kind vllm needs either address, of a server that is there, or command, that starts one: set one of "
                "them and the other to null"
            )
        return self
