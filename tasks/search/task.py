"""Stage `search`: tree search for workflows that solve the round's problems, with the current policy as prior."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from rich.console import Console

from tasks.artifacts import read_jsonl, write_json, write_text
from tasks.core.sharding import fan_out, shards_of
from tasks.environments.lookup import environment_in
from tasks.environments.protocol import Environment, with_checked_siblings
from tasks.layout import Layout
from tasks.params.fields import UNMEASURED
from tasks.params.params import Params
from tasks.programs.workflow_files import Part, write_workflows
from tasks.records import Problem, Split
from tasks.search.journal import remove_journals
from tasks.search.shard import ExampleTree, ShardResult, search_shard
from tasks.search.tally import Tally, show_tally
from tasks.search.tree_drawing import tree_svg
from tasks.seeds import derive_seed
from tasks.sources.fingerprint import fingerprint


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Search the train problems; sample groups for the validation problems, if influence is measured against them.

    In an environment without programs, groups are sampled for both. Shards are searched and written one by one.
    """
    assert round is not None
    environment = environment_in(layout.root, params)
    held_out = params.influence.validation == "held_out" and params.influence.selection not in UNMEASURED
    splits: list[Split] = ["train", "validation"] if held_out else ["train"]
    problems = [
        (split, problem) for split in splits for problem in _problems(layout, params, environment, split, round)
    ]
    inputs = fingerprint([layout.policy(round - 1), *(layout.problems(split) for split in splits)], params, round)
    simulations = params.search.simulations if environment.asks_siblings else params.grpo.group_size
    most = {"train": simulations, "validation": params.influence.completions}
    tally = Tally({problem.problem_id: most[split] for split, problem in problems})
    work = partial(search_shard, layout.root, params, round, inputs)
    totals = SearchTotals(tally)
    with show_tally(tally, f"search@{round}", Console(stderr=True)):
        results = fan_out().map(work, enumerate(shards_of(problems, params.shard_size)))
        write_workflows(layout.workflows(round), totals.collect(results))
    example = totals.example
    assert example is not None, "a run has train problems"
    write_text(layout.tree(round), tree_svg(example.nodes, example.problem, round))
    write_json(layout.metrics("search", round), totals.metrics)
    remove_journals(layout.journals("search", round))


class SearchTotals:
    """Sums over the shards, and the tree to show."""

    def __init__(self, tally: Tally) -> None:
        self.example: ExampleTree | None = None
        self._tally = tally
        self._metrics: Counter[str] = Counter()
        self._support: Counter[str] = Counter()
        self._all_by_siblings = True

    def collect(self, shards: Iterable[ShardResult]) -> Iterator[Part]:
        """Workflows and nodes of each shard, to be written."""
        for shard in shards:
            self._add(shard)
            yield shard.workflows, shard.nodes

    def _add(self, shard: ShardResult) -> None:
        self._tally.close_all(shard.problems, shard.solved)
        self._metrics.update(shard.metrics)
        self._support.update(shard.support)
        self._all_by_siblings &= all(w.sibling_results for w in shard.workflows if w.split == "train")
        if shard.example and (self.example is None or shard.example.rank > self.example.rank):
            self.example = shard.example

    @property
    def metrics(self) -> dict[str, float]:
        """The stage's metrics, with the kinds of evidence unless all problems have siblings."""
        return {**self._metrics, **({} if self._all_by_siblings else self._support)}


def _problems(layout: Layout, params: Params, environment: Environment, split: Split, round: int) -> list[Problem]:
    """The problems of a split in the round's rotation; of validation a sample of `influence.n`."""
    problems = [
        with_checked_siblings(environment, p.rotated(round)) for p in read_jsonl(layout.problems(split), Problem)
    ]
    return draw_validation(problems, params.influence.n, params.seed, round) if split == "validation" else problems


def draw_validation(problems: Sequence[Problem], count: int, seed: int, round: int) -> list[Problem]:
    """A random sample of `count` problems for the round, in their order; all if there are fewer."""
    drawn = sorted(problems, key=lambda problem: derive_seed(seed, "validation", round, problem.problem_id))
    chosen = {problem.problem_id for problem in drawn[:count]}
    return [problem for problem in problems if problem.problem_id in chosen]
