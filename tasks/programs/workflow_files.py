"""The files of a round's workflows: `problems.jsonl` for the problems as asked, `index.jsonl` for the programs,
`trees.jsonl` for the search trees, and `engine.json` where a server sampled them; and the check that a stored program
is the one that the search ran."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tasks.artifacts import atomic_file, atomic_folder, line_of, read_json, write_json
from tasks.programs.contract import workflow_id
from tasks.records.problems import Problem
from tasks.records.programs import Result
from tasks.records.search import AskedProblem, Engine, TreeNode, Workflow

SearchedPart = tuple[Iterable[AskedProblem], Iterable[Workflow], Iterable[TreeNode]]
"""Some problems, their workflows and the nodes of their trees."""

ENGINE = "engine.json"


def write_workflows(folder: Path, parts: Iterable[SearchedPart], engine: Engine | None = None) -> None:
    """Write the parts one by one, so that only one must be in memory. The folder is written atomically.

    `engine`: what sampled the policy, in a file of its own; None: Graft itself, without a file.
    """
    with (
        atomic_folder(folder) as new,
        atomic_file(new / "problems.jsonl") as problems,
        atomic_file(new / "index.jsonl") as index,
        atomic_file(new / "trees.jsonl") as trees,
    ):
        for part in parts:
            for file, records in zip((problems, index, trees), part, strict=True):
                file.writelines(map(line_of, records))
        if engine:
            write_json(new / ENGINE, engine)


def read_engine(folder: Path) -> Engine | None:
    """What sampled the policy that wrote these workflows; None: Graft itself."""
    return read_json(folder / ENGINE, Engine) if (folder / ENGINE).exists() else None


def solution_record(problem: Problem, code: str, depth: int, results: Sequence[Result]) -> Workflow:
    """The record of a program that was found without a policy. `results`: on the problem, then on its siblings."""
    return Workflow(
        problem_id=problem.problem_id,
        split="train",
        workflow_id=workflow_id(code),
        code=code,
        proposer="coldstart",
        parent_id=None,
        depth=depth,
        visits=1,
        value=1.0,
        prior=1.0,
        result=results[0],
        sibling_results=list(results[1:]),
    )


def integrity_error(workflow: Workflow) -> str | None:
    """Why the code is not what the search ran; None if its hash is the recorded id."""
    if workflow_id(workflow.code) == workflow.workflow_id:
        return None
    length = len(workflow.code.encode("utf-8", "surrogatepass"))
    return f"changed since the search ran it ({length} bytes)"


def workflow_location(workflow: Workflow, index: Path) -> str:
    """File, workflow and problem, for a message."""
    return f"{index}: workflow {workflow.workflow_id} of {workflow.problem_id}"


def mark_invalid(workflow: Workflow, error: str) -> Workflow:
    """The workflow without its code, every result replaced by a `failed` one with the error."""
    result = Result(status="failed", error=f"workflow: {error}")
    results = {"result": result, "sibling_results": [result] * len(workflow.sibling_results)}
    return workflow.model_copy(update={"code": "", **results})
