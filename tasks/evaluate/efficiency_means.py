"""Mean costs of the samples of an evaluation: operations, calls of a model, dollars."""

from collections.abc import Sequence

from tasks.params.sections import Operators
from tasks.programs.efficiency import count_operations, mean_calls, mean_cost
from tasks.records import Attempt


def efficiency_means(attempts: Sequence[Sequence[Attempt]], operators: Operators) -> dict[str, float]:
    """Means over all samples, right or wrong, of the attempts [P][…].

    Operations are of the samples that are Python; calls and their cost are left out where no model serves operators,
    the cost also where `operators.price` is null.
    """
    every = [attempt for written in attempts for attempt in written if attempt.samples]
    counted = [(attempt.samples, count_operations(attempt.code)) for attempt in every]
    known = [(samples, count) for samples, count in counted if count is not None]
    numbers: dict[str, float] = {}
    if known:
        numbers["operations_per_sample"] = sum(n * count for n, count in known) / sum(n for n, _ in known)
    if operators.backend == "none" or not every:
        return numbers
    total = sum(attempt.samples for attempt in every)
    numbers["model_calls_per_sample"] = sum(a.samples * mean_calls([a.result]) for a in every) / total
    if operators.price is not None:
        price = operators.price
        numbers["cost_per_1000_samples"] = 1000 * sum(a.samples * mean_cost([a.result], price) for a in every) / total
    return numbers
