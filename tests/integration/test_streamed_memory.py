"""Law: the memory of stages that stream does not grow with the problems.

    python -m tests.integration.test_streamed_memory STAGE FOLDER

runs a stage of round 1 in a folder that has its search; the last line is the most memory that it held, in MiB.
"""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from flows.process import settings
from flows.stages.dvc_yaml import MODULES
from tasks.artifacts import write_json, write_jsonl
from tasks.layout import Layout
from tasks.programs.contract import HEADER
from tasks.records.policy import Lineage
from tasks.records.programs import Result
from tasks.records.search import AskedProblem, Completion, Workflow
from tests.support.records import make_workflow, question_of
from tests.support.stage_params import REPOSITORY, stage_params

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc"),
]

LIMIT = 500  # MiB
ROOM = 20  # MiB by which two peaks may differ: what the allocator keeps
CODES = [HEADER + f"    return n[0] {sign} n[1]\n" for sign in "+*"]


def asked_problem(number: int) -> AskedProblem:
    """With a token for each byte of its prompt."""
    a, b = number % 89 + 1, number % 97 + 2
    problem = question_of(f"Ben has {a} boxes of {b} pens. How many pens?", a * b, problem_id=f"p{number}")
    prompt = f"{problem.question}\n"
    return AskedProblem(split="train", problem=problem, prompt=prompt, prompt_tokens=list(prompt.encode()))


def workflow(number: int, code: str) -> Workflow:
    """One that was sampled twice; the second code is right."""
    tokens = list(code.encode())
    completion = Completion(tokens=tokens, logprobs=[-1 / (place + 2) for place in range(len(tokens))])
    result = Result(status="ok", value=(number % 89 + 1) * (number % 97 + 2) if code == CODES[1] else 0)
    return make_workflow(code, problem_id=f"p{number}", result=result, completions=[completion] * 2, sampled=2)


def write_search(root: Path, count: int) -> None:
    layout = Layout(root)
    lineage = Lineage(version="tiny", parent=None, base="scratch", round=0, holds=["adapter"])
    write_json(layout.policy(0) / "lineage.json", lineage)
    write_jsonl(layout.workflows(1) / "problems.jsonl", map(asked_problem, range(count)))
    found = (workflow(number, code) for number in range(count) for code in CODES)
    write_jsonl(layout.workflows(1) / "index.jsonl", found)


def test_four_times_the_problems_need_no_more_memory(tmp_path: Path) -> None:
    peaks: dict[str, list[float]] = {"collect": [], "reward": []}
    for count in (4_000, 16_000):  # two shards and eight
        write_search(tmp_path / str(count), count)
        for stage, of in peaks.items():
            command = [
                sys.executable,
                "-m",
                "tests.integration.test_streamed_memory",
                stage,
                str(tmp_path / str(count)),
            ]
            ended = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
            of.append(float(ended.stdout.splitlines()[-1]))
    for stage, (few, many) in peaks.items():
        assert many < min(LIMIT, few + ROOM), (stage, few, many)


if __name__ == "__main__":
    settings.set_environment()
    import_module(MODULES[sys.argv[1]]).run(Layout(Path(sys.argv[2])), stage_params(sys.argv[1]), 1)
    status = Path("/proc/self/status").read_text()  # ru_maxrss begins with the parent's
    print(int(status.partition("VmHWM:")[2].split()[0]) / 2**10)
