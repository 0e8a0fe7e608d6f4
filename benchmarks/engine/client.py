"""Peak memory of a process that samples a policy on a server: it holds no weights.

python -m benchmarks.engine.client FOLDER SERVED.json TOKENS
"""

import json
import sys
from pathlib import Path

from benchmarks.engine.policies import TEMPERATURE, make_requests
from tasks.model.policy import ServedModel
from tasks.model.sampling.sampler import sample
from tasks.model.sampling.vllm.serve import load_sampled_policy
from tasks.records import Engine


def main(folder: Path, served: dict[str, object], tokens: int) -> None:
    """Sample a few rows; print the peak in MiB."""
    engine = Engine.model_validate(served.pop("engine"))
    policy = load_sampled_policy(folder, ServedModel(engine=engine, **served))  # type: ignore[arg-type]
    sample(policy, make_requests(policy)[:8], TEMPERATURE, tokens, "client")
    lines = Path("/proc/self/status").read_text().splitlines()  # getrusage would count the parent's peak, too
    print(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), int(sys.argv[3]))
