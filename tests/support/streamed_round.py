"""A round of any number of problems after its search, and a stage that streams it, with its peak of memory.

    python -m tests.support.streamed_round STAGE FOLDER

The folder has `problems.jsonl` and `index.jsonl` of the search of round 1. The last line is the peak in MiB.
"""

import sys
from importlib import import_module
from pathlib import Path

from flows.process import settings
from flows.stages.dvc_yaml import MODULES
from tasks.artifacts import write_json, write_jsonl
from tasks.layout import Layout
from tasks.programs.contract import HEADER
from tasks.records.policy import Lineage
from tasks.records.programs import Result
from tasks.records.search import AskedProblem, Completion, Workflow
from tests.support.records import make_workflow, question_of
from tests.support.stage_params import stage_params

CODES = [HEADER + f"    return n[0] {sign} n[1]\n" for sign in "+*"]


def write_search(root: Path, count: int) -> None:
    """Two workflows with two completions for each problem, of which the second is right."""
    layout = Layout(root)
    lineage = Lineage(version="tiny", parent=None, base="scratch", round=0, holds=["adapter"])
    write_json(layout.policy(0) / "lineage.json", lineage)
    write_jsonl(layout.workflows(1) / "problems.jsonl", map(asked_problem, range(count)))
    write_jsonl(
        layout.workflows(1) / "index.jsonl",
        (workflow(number, code) for number in range(count) for code in CODES),
    )


def asked_problem(number: int) -> AskedProblem:
    """With a token for each byte of its prompt."""
    a, b = number % 89 + 1, number % 97 + 2
    problem = question_of(f"Ben has {a} boxes of {b} pens. How many pens?", a * b, problem_id=f"p{number}")
    prompt = f"{problem.question}\n"
    return AskedProblem(split="train", problem=problem, prompt=prompt, prompt_tokens=list(prompt.encode()))


def workflow(number: int, code: str) -> Workflow:
    """One that was sampled twice."""
    answer = asked_problem(number).problem.answer if code == CODES[1] else 0
    tokens = list(code.encode())
    completion = Completion(tokens=tokens, logprobs=[-1 / (place + 2) for place in range(len(tokens))])
    result = Result(status="ok", value=answer)
    return make_workflow(code, problem_id=f"p{number}", result=result, completions=[completion] * 2, sampled=2)


def peak_mib() -> float:
    """The most memory that this process has held; ru_maxrss begins with the parent's on Linux."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) / 2**10


if __name__ == "__main__":
    settings.set_environment()
    import_module(MODULES[sys.argv[1]]).run(Layout(Path(sys.argv[2])), stage_params(sys.argv[1]), 1)
    print(peak_mib())
