"""The base of all records: what a line of a `.jsonl` file, or a complete `.json` file, may hold.

A record has no time stamp and no absolute path, and rejects unknown fields. The same inputs and params give the same
bytes. The modules of this package are named by the stage, or the machine, that writes their records; those of collect
and reward, with their reader, are in tasks/trajectories.py.
"""

from pydantic import BaseModel, ConfigDict

Number = int | float
"""In a Record a finite number, and never a bool (strict mode refuses `true`)."""


class Record(BaseModel):
    """Frozen, strict, without unknown fields, NaN or infinities."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
