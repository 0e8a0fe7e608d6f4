"""The section `rookworld` of `params.yaml`: how that environment writes its problems."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from tasks.params.fields import Share, Temperature
from tasks.params.sections import Section


class RookWorld(Section):
    tasks: Annotated[list[Literal["P", "A"]], Field(min_length=1, max_length=100)]
    notation: Literal["fen", "list"]
    positions: Literal["endings", "games"]
    engine: Literal["material", "stockfish"]
    nodes: Annotated[int, Field(ge=1000, le=100_000_000, strict=True)]
    random_share: Share
    temperature: dict[Literal["P", "A"], Temperature]

    @field_validator("tasks")
    @classmethod
    def _check_once(cls, tasks: list[str]) -> list[str]:
        if len(set(tasks)) < len(tasks):
            raise ValueError(f"{tasks} names a task twice: write [P], [A] or [P, A]")
        return tasks

    @field_validator("temperature")
    @classmethod
    def _check_tasks(cls, own: dict[str, float], others: ValidationInfo) -> dict[str, float]:
        if missing := [task for task in own if task not in others.data.get("tasks", own)]:
            raise ValueError(f"names {missing[0]}, which is none of rookworld.tasks: leave it out")
        return own
