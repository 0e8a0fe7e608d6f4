"""Groups of completions with plausible defaults."""

from typing import Any

from tasks.records import Problem, Result, Sibling, Trajectory


def make_group(codes: list[str], results: list[Result], siblings: int = 0, **fields: Any) -> Trajectory:
    """A train group of the problem `2 and 3?` (5), with as many equal siblings as asked; any field can be given."""
    others = [Sibling(question="4 and 1?", answer=5)] * siblings
    problem = Problem(problem_id="p", question="2 and 3?", answer=5, source="test", siblings=others)
    names = {"problem_id": "p", "split": "train", "prompt": "2 and 3?\n", "policy_version": "v"}
    lists = {"workflow_ids": codes, "proposers": ["sample"] * len(codes), "sibling_results": [[]] * len(codes)}
    written = {"tokens": [[1]] * len(codes), "logprobs": [[-0.1]] * len(codes)}
    return Trajectory(
        **{"problem": problem, "workflow_codes": codes, "results": results, **names, **lists, **written, **fields}
    )
