"""Stage `search`: Monte Carlo tree search (MCTS) for workflows that solve the round's problems.

The policy of the round before is prior and simulation.
"""

import shutil
from functools import partial

from rich.console import Console

from tasks.artifacts import read_jsonl, write_json, write_text
from tasks.core.sharding import fan_out, shards_of
from tasks.environments.lookup import environment_in
from tasks.layout import Layout
from tasks.model.device import device_name
from tasks.model.policy import policy_device
from tasks.model.sampling.vllm.serve import serve_policy
from tasks.params.params import Params
from tasks.programs.workflow_files import write_workflows
from tasks.records.problems import Problem
from tasks.search.draw import draw_train_problems
from tasks.search.shard import SearchTotals, search_shard
from tasks.search.tally import Tally, show_tally
from tasks.search.tree_drawing import tree_svg
from tasks.sources.fingerprint import fingerprint


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Search the train problems; in an environment without programs, groups are sampled for them.

    Shards are searched and written one by one.
    """
    assert round is not None
    environment = environment_in(layout.root, params)
    listed = read_jsonl(layout.problems("train"), Problem)
    problems = draw_train_problems(listed, params.search, params.seed, round)
    simulations = params.search.simulations if environment.asks_siblings else params.update.group_size
    tally = Tally({problem.problem_id: simulations for _, problem in problems})
    digests = layout.sources / "search.json"  # of a user's environment among others
    reads = [layout.policy(round - 1), layout.problems("train"), digests]
    totals, stage_id = SearchTotals(tally), f"search@{round}"
    with (
        serve_policy(layout, params.vllm, layout.policy(round - 1), stage_id) as served,
        show_tally(tally, stage_id, Console(stderr=True)),
    ):
        engine = served.engine if served else None
        sampler = str(engine) if engine else device_name(policy_device(layout.policy(round - 1)))
        inputs = fingerprint(reads, params, round, sampler)
        work = partial(search_shard, layout.root, params, round, inputs, served)
        shards = fan_out().map(work, enumerate(shards_of(problems, params.shard_size)))
        write_workflows(layout.workflows(round), totals.collect(shards), engine)
    example = totals.example
    assert example is not None, "a run has train problems"
    write_text(layout.tree(round), tree_svg(example.nodes, example.problem, round))
    left_out = len(listed) - len(problems)
    write_json(layout.metrics("search", round), totals.metrics | {"left_out": left_out})
    shutil.rmtree(layout.journals("search", round), ignore_errors=True)  # those of other inputs too
