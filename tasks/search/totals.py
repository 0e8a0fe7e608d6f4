"""The results of a round's shards, summed."""

from collections import Counter
from collections.abc import Iterable, Iterator

from tasks.programs.workflow_files import Part
from tasks.records import SearchOutcome
from tasks.search.shard import ExampleTree, ShardResult
from tasks.search.tally import Tally


class SearchTotals:
    """Sums over the shards, the outcome of each train problem, and the tree to show."""

    def __init__(self, tally: Tally) -> None:
        self.example: ExampleTree | None = None
        self.outcomes: dict[str, SearchOutcome] = {}  # by problem_id
        self._tally = tally
        self._metrics: Counter[str] = Counter()
        self._support: Counter[str] = Counter()
        self._all_vary = True

    def collect(self, shards: Iterable[ShardResult]) -> Iterator[Part]:
        """Workflows and nodes of each shard, to be written."""
        for shard in shards:
            self._add(shard)
            yield shard.workflows, shard.nodes

    def _add(self, shard: ShardResult) -> None:
        self._tally.close_all(shard.problems, shard.solved)
        self.outcomes |= {outcome.problem_id: outcome for outcome in shard.outcomes}
        self._metrics.update(shard.metrics)
        self._support.update(shard.support)
        self._all_vary &= shard.all_vary
        if shard.example and (self.example is None or shard.example.rank > self.example.rank):
            self.example = shard.example

    @property
    def metrics(self) -> dict[str, float]:
        """The stage's metrics, with the kinds of evidence unless all problems have siblings with other answers."""
        return {**self._metrics, **({} if self._all_vary else self._support)}
