"""Stage `search`: tree search for workflows that solve the round's problems, with the current policy as prior."""

from collections.abc import Sequence
from functools import partial

from rich.console import Console

from tasks.artifacts import read_jsonl, write_json, write_text
from tasks.core.sharding import fan_out, shards_of
from tasks.environments.lookup import environment_in
from tasks.layout import Layout
from tasks.model.sampling.vllm.serve import serve_policy
from tasks.params.params import Params
from tasks.programs.workflow_files import write_workflows
from tasks.records import Problem, Split
from tasks.search.journal import remove_journals
from tasks.search.shard import search_shard
from tasks.search.tally import Tally, show_tally
from tasks.search.totals import SearchTotals
from tasks.search.tree_drawing import tree_svg
from tasks.seeds import derive_seed
from tasks.sources.fingerprint import fingerprint


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Search the train problems; sample groups for the validation problems, if influence is measured.

    In an environment without programs, groups are sampled for both. Shards are searched and written one by one.
    """
    assert round is not None
    environment = environment_in(layout.root, params)
    counts: dict[Split, int | None] = {"train": params.search.problems}
    if params.influence.selection != "none":
        counts["validation"] = params.influence.n
    listed = {split: read_jsonl(layout.problems(split), Problem) for split in counts}
    problems = [
        (split, problem)
        for split, count in counts.items()
        for problem in draw_problems(listed[split], count, params.seed, split, round)
    ]
    simulations = params.search.simulations if environment.asks_siblings else params.update.group_size
    most = {"train": simulations, "validation": params.influence.completions}
    tally = Tally({problem.problem_id: most[split] for split, problem in problems})
    reads = [layout.policy(round - 1), *(layout.problems(split) for split in counts)]
    reads.append(layout.sources / "search.json")  # with the digest of a user's environment
    totals, stage_id = SearchTotals(tally), f"search@{round}"
    with (
        serve_policy(layout, params.vllm, layout.policy(round - 1), stage_id) as served,
        show_tally(tally, stage_id, Console(stderr=True)),
    ):
        engine = served.engine if served else None
        inputs = fingerprint(reads, params, round, *([str(engine)] if engine else []))
        work = partial(search_shard, layout.root, params, round, inputs, served)
        shards = fan_out().map(work, enumerate(shards_of(problems, params.shard_size)))
        write_workflows(layout.workflows(round), totals.collect(shards), engine)
    example = totals.example
    assert example is not None, "a run has train problems"
    write_text(layout.tree(round), tree_svg(example.nodes, example.problem, round))
    left_out = len(listed["train"]) - sum(split == "train" for split, _ in problems)
    write_json(layout.metrics("search", round), totals.metrics | {"left_out": left_out})
    remove_journals(layout.journals("search", round))


def draw_problems(problems: Sequence[Problem], count: int | None, seed: int, split: Split, round: int) -> list[Problem]:
    """A random sample of `count` problems for the round, in their order; all if there are fewer, or for None."""
    drawn = sorted(problems, key=lambda problem: derive_seed(seed, split, round, problem.problem_id))
    chosen = {problem.problem_id for problem in drawn[:count]}
    return [problem for problem in problems if problem.problem_id in chosen]
