"""Stage `search`: workflows for this round's problems, found by tree search with the present policy as prior."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from rich.console import Console

from tasks.artifacts import read_jsonl, write_json, write_text
from tasks.core.sharding import fan_out, shards_of
from tasks.environments.lookup import environment_in
from tasks.environments.protocol import Environment, with_checked_siblings
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.programs.workflow_files import Part, write_workflows
from tasks.records import Problem, Split
from tasks.search.journal import remove_journals
from tasks.search.progress import Tally, show_progress
from tasks.search.shard import ExampleTree, ShardResult, search_shard
from tasks.search.tree_drawing import tree_svg
from tasks.seeds import derive_seed
from tasks.sources.fingerprint import fingerprint


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Search the train problems; sample groups for the validation problems, which influence is measured against.

    Where the policy writes answers and no programs, groups are sampled for all. A shard of problems is searched
    together, and what is found of it written before the next one is taken.
    """
    assert round is not None
    environment = environment_in(layout.root, params)
    splits: list[Split] = ["train", "validation"] if params.influence.validation == "held_out" else ["train"]
    asked = [(split, problem) for split in splits for problem in _problems(layout, params, environment, split, round)]
    inputs = fingerprint([layout.policy(round - 1), *(layout.problems(split) for split in splits)], params, round)
    simulations = params.search.simulations if environment.asks_siblings else params.grpo.group_size
    most = {"train": simulations, "validation": params.influence.completions}
    tally = Tally({problem.problem_id: most[split] for split, problem in asked})
    work = partial(search_shard, layout.root, params, round, inputs)
    totals = SearchTotals(tally)
    with show_progress(tally, f"search@{round}", Console(stderr=True)):
        searched = fan_out().map(work, enumerate(shards_of(asked, params.shard_size)))
        write_workflows(layout.workflows(round), totals.parts(searched))
    told = totals.example
    assert told is not None, "there is a train problem"
    write_text(layout.tree(round), tree_svg(told.nodes, told.problem, round))
    write_json(layout.metrics("search", round), totals.numbers)
    remove_journals(layout.journals("search", round))


class SearchTotals:
    """What the shards have found, in numbers, and the one tree that tells most."""

    def __init__(self, tally: Tally) -> None:
        self.example: ExampleTree | None = None
        self._tally = tally
        self._numbers: Counter[str] = Counter()
        self._support: Counter[str] = Counter()
        self._all_by_siblings = True

    def parts(self, searched: Iterable[ShardResult]) -> Iterator[Part]:
        """Of each shard what there is to write."""
        for shard in searched:
            self._add(shard)
            yield shard.found, shard.nodes

    def _add(self, shard: ShardResult) -> None:
        self._tally.close_all(shard.problems, shard.solved)
        self._numbers.update(shard.numbers)
        self._support.update(shard.support)
        self._all_by_siblings &= all(w.sibling_results for w in shard.found if w.split == "train")
        if shard.example and (self.example is None or shard.example.rank > self.example.rank):
            self.example = shard.example

    @property
    def numbers(self) -> dict[str, float]:
        """For the stage's metrics; what the solved problems rest on where that is not siblings alone."""
        return {**self._numbers, **({} if self._all_by_siblings else self._support)}


def _problems(layout: Layout, params: Params, environment: Environment, split: Split, round: int) -> list[Problem]:
    """As the round asks them; of validation so many as are drawn."""
    problems = [
        with_checked_siblings(environment, p.turned(round)) for p in read_jsonl(layout.problems(split), Problem)
    ]
    return draw_validation(problems, params.influence.n, params.seed, round) if split == "validation" else problems


def draw_validation(problems: Sequence[Problem], count: int, seed: int, round: int) -> list[Problem]:
    """So many of the problems, by lot in each round, in their order; all where there are no more."""
    lots = sorted(problems, key=lambda problem: derive_seed(seed, "validation", round, problem.problem_id))
    chosen = {problem.problem_id for problem in lots[:count]}
    return [problem for problem in problems if problem.problem_id in chosen]
