"""Sums over the shards of a round's search, and the tree to show."""

from collections import Counter
from collections.abc import Iterable, Iterator

from tasks.programs.workflow_files import Part
from tasks.search.shard import ExampleTree, SearchShard
from tasks.search.tally import Tally


class SearchTotals:
    """Sums over the shards, and the tree to show."""

    def __init__(self, tally: Tally) -> None:
        self.example: ExampleTree | None = None
        self._tally = tally
        self._metrics: Counter[str] = Counter()
        self._support: Counter[str] = Counter()
        self._all_vary = True

    def collect(self, shards: Iterable[SearchShard]) -> Iterator[Part]:
        """Problems, workflows and nodes of each shard, to be written."""
        for shard in shards:
            self._tally.close_all([asked.problem_id for asked in shard.asked], shard.solved)
            self._metrics.update(shard.metrics)
            self._support.update(shard.support)
            self._all_vary &= shard.all_vary
            if self.example is None or shard.example.rank > self.example.rank:
                self.example = shard.example
            yield shard.asked, shard.workflows, shard.nodes

    @property
    def metrics(self) -> dict[str, float]:
        """The stage's metrics, with the kinds of evidence unless all problems have siblings with other answers."""
        return {**self._metrics, **({} if self._all_vary else self._support)}
