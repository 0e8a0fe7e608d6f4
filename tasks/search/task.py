"""Stage `search`: tree search for workflows that solve the round's problems, with the current policy as prior."""

from collections.abc import Sequence
from functools import partial

from rich.console import Console

from tasks.artifacts import read_jsonl, write_json, write_jsonl, write_text
from tasks.environments.lookup import environment_in
from tasks.layout import Layout
from tasks.model.sampling.vllm.serve import serve_policy
from tasks.params.params import Params
from tasks.programs.workflow_files import write_workflows
from tasks.records import Problem, SearchOutcome, Split
from tasks.search.curriculum import candidates
from tasks.search.journal import remove_journals
from tasks.search.shard import search_shard
from tasks.search.tally import Tally, show_tally
from tasks.search.tree_drawing import tree_svg
from tasks.search.waves import SearchTotals, merge_parts, search_waves
from tasks.seeds import derive_seed
from tasks.sources.fingerprint import fingerprint


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Search the train problems; sample groups for the validation problems, if influence is measured.

    In an environment without programs, groups are sampled for both. Shards are searched and written one by one; with
    `curriculum.groups` all workflows of the round are in memory, since they are found in another order.
    """
    assert round is not None
    environment = environment_in(layout.root, params)
    splits: list[Split] = ["train", "validation"] if params.influence.selection != "none" else ["train"]
    problems = [(split, problem) for split in splits for problem in _problems(layout, params, split, round)]
    train = [problem.problem_id for split, problem in problems if split == "train"]
    earlier, curriculum = read_jsonl(layout.searches(round - 1), SearchOutcome), params.curriculum
    chosen = candidates(train, earlier, curriculum, params.seed, round)
    simulations = params.search.simulations if environment.asks_siblings else params.update.group_size
    held_out_samples = {p.problem_id: params.influence.completions for split, p in problems if split != "train"}
    tally = Tally(dict.fromkeys(chosen, simulations) | held_out_samples)
    reads = [layout.policy(round - 1), layout.searches(round - 1), *(layout.problems(split) for split in splits)]
    reads.append(layout.sources / "search.json")  # with the digest of a user's environment
    totals, stage_id = SearchTotals(tally), f"search@{round}"
    with (
        serve_policy(layout, params.vllm, layout.policy(round - 1), stage_id) as served,
        show_tally(tally, stage_id, Console(stderr=True)),
    ):
        engine = served.engine if served else None
        inputs = fingerprint(reads, params, round, *([str(engine)] if engine else []))
        work = partial(search_shard, layout.root, params, round, inputs, served)
        found = totals.collect(search_waves(work, problems, chosen, curriculum.groups, params.shard_size))
        parts = found if curriculum.groups is None else [merge_parts(found, problems)]
        write_workflows(layout.workflows(round), parts, engine)
    example = totals.example
    assert example is not None, "a run has train problems"
    outcomes = [totals.outcomes[name] for name in train if name in totals.outcomes]
    write_jsonl(layout.searches(round), [*earlier, *outcomes])
    write_text(layout.tree(round), tree_svg(example.nodes, example.problem, round))
    write_json(layout.metrics("search", round), totals.metrics | {"left_out": len(train) - len(outcomes)})
    remove_journals(layout.journals("search", round))


def _problems(layout: Layout, params: Params, split: Split, round: int) -> list[Problem]:
    """The problems of a split; of validation a sample of `influence.n`."""
    problems = read_jsonl(layout.problems(split), Problem)
    return draw_validation(problems, params.influence.n, params.seed, round) if split == "validation" else problems


def draw_validation(problems: Sequence[Problem], count: int, seed: int, round: int) -> list[Problem]:
    """A random sample of `count` problems for the round, in their order; all if there are fewer."""
    drawn = sorted(problems, key=lambda problem: derive_seed(seed, "validation", round, problem.problem_id))
    chosen = {problem.problem_id for problem in drawn[:count]}
    return [problem for problem in problems if problem.problem_id in chosen]
