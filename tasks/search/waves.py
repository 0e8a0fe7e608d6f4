"""Search of a round's problems in waves of shards, until enough of them have a signal, and the sums over the shards."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from tasks.core.sharding import fan_out, shards_of
from tasks.programs.workflow_files import Part
from tasks.records import AskedProblem, SearchOutcome, TreeNode, Workflow
from tasks.search.curriculum import wave_size
from tasks.search.policy_search import SplitProblem
from tasks.search.shard import ExampleTree, SearchShard
from tasks.search.tally import Tally

NumberedShard = tuple[int, Sequence[SplitProblem]]
"""A shard with its number in the round."""


def search_waves(
    search: Callable[[NumberedShard], SearchShard],
    problems: Sequence[SplitProblem],
    order: Sequence[str],
    groups: int | None,
    shard_size: int,
) -> Iterator[SearchShard]:
    """The results of the shards, wave by wave (curriculum.py), those of a wave in the order of `problems`.

    `order`: ids of the train problems that may be searched. All others, of validation, belong to the first wave.
    """
    searched = with_signal = shards = 0
    while size := wave_size(groups, searched, with_signal, len(order) - searched):
        wave = set(order[searched : searched + size])
        items = [each for each in problems if (each[1].problem_id in wave if each[0] == "train" else not searched)]
        for result in fan_out().map(search, enumerate(shards_of(items, shard_size), start=shards)):
            with_signal += sum(outcome.signal for outcome in result.outcomes)
            shards += 1
            yield result
        searched += size


def merge_parts(parts: Iterator[Part], problems: Sequence[SplitProblem]) -> Part:
    """All parts as one, in the order of `problems`."""
    asked: list[AskedProblem] = []
    workflows: list[Workflow] = []
    nodes: list[TreeNode] = []
    for part in parts:
        asked += part[0]
        workflows += part[1]
        nodes += part[2]
    places = {(split, problem.problem_id): place for place, (split, problem) in enumerate(problems)}
    asked.sort(key=lambda problem: places[problem.split, problem.problem_id])
    workflows.sort(key=lambda workflow: places[workflow.split, workflow.problem_id])
    nodes.sort(key=lambda node: places["train", node.problem_id])
    return asked, workflows, nodes


class SearchTotals:
    """Sums over the shards, the outcome of each train problem, and the tree to show."""

    def __init__(self, tally: Tally) -> None:
        self.example: ExampleTree | None = None
        self.outcomes: dict[str, SearchOutcome] = {}  # by problem_id
        self._tally = tally
        self._metrics: Counter[str] = Counter()
        self._support: Counter[str] = Counter()
        self._all_vary = True

    def collect(self, shards: Iterable[SearchShard]) -> Iterator[Part]:
        """Problems, workflows and nodes of each shard, to be written."""
        for shard in shards:
            self._add(shard)
            yield shard.asked, shard.workflows, shard.nodes

    def _add(self, shard: SearchShard) -> None:
        self._tally.close_all([asked.problem_id for asked in shard.asked], shard.solved)
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
