"""Policies with one damaged file, given to all that takes a policy: export, approval, rollback, a start and a server.

python -m benchmarks.faults.policies
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.damaged_policies import accepted


def measure() -> dict[str, float]:
    """`damaged_policies_accepted`: those that are not refused in one line that names them."""
    with TemporaryDirectory() as name:
        found = accepted(Path(name))
    for line in found:
        print(line)
    return {"damaged_policies_accepted": float(len(found))}


if __name__ == "__main__":
    print(json.dumps(measure()))
