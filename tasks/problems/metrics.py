"""Metrics of the stage `problems`."""

from tasks.records import Problem, Split


def problem_metrics(problems: dict[Split, list[Problem]]) -> dict[str, float]:
    """Size of each split and share with siblings; for generated problems also counts of templates."""
    everything = [problem for listed in problems.values() for problem in listed]
    numbers: dict[str, float] = {split: len(listed) for split, listed in problems.items()}
    numbers["with_siblings"] = sum(bool(problem.siblings) for problem in everything) / len(everything)
    templates = {problem.template for problem in everything if problem.template is not None}
    if templates:
        numbers["templates"] = len(templates)
        numbers["test_unseen"] = sum(problem.seen is False for problem in problems["test"]) / len(problems["test"])
    return numbers
