"""The stage `search` with a real tiny policy, which half knows a few workflows, and the real sandbox."""

import json
from math import exp
from statistics import fmean

import pytest

from tasks.artifacts import digest_path, read_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import load_policy
from tasks.model.sampling.sampler import Request, sample
from tasks.model.text import decode, encode_prompt
from tasks.params.params import Params
from tasks.programs.answer_check import is_right
from tasks.programs.code_blocks import code_of
from tasks.programs.contract import prompt_of, workflow_id
from tasks.programs.sandbox.sandbox import Program, Sandbox
from tasks.records.problems import Problem
from tasks.records.search import TreeNode, Workflow
from tasks.search.draw import draw_problems, easiest_problems
from tasks.search.task import run
from tasks.seeds import derive_seed
from tests.support.stage_params import stage_params
from tests.unit.search.conftest import TRAIN

SAMPLES, SIMULATIONS = 4, 14


def params(**search: float) -> Params:
    return stage_params(
        "search",
        search={"samples": SAMPLES, "simulations": SIMULATIONS, **search},
        policy={"max_new_tokens": 48},
        sandbox={"allow_weak": True},
    )


def index_of(layout: Layout, number: int = 1) -> list[Workflow]:
    return read_jsonl(layout.workflows(number) / "index.jsonl", Workflow)


def asked_in(number: int) -> list[Problem]:
    """The problems in the quantities that round `number` asks them in."""
    return [p.rotated(number) for p in TRAIN]


def drawn(problems: list[Problem], count: int, round: int = 1) -> list[Problem]:
    return [problem for _, problem in draw_problems(problems, count, 0, "train", round)]


def test_each_round_draws_its_own_problems() -> None:
    problems = [TRAIN[0].model_copy(update={"problem_id": f"v{number}"}) for number in range(20)]
    rounds = [[p.problem_id for p in drawn(problems, 8, round)] for round in range(6)]
    assert all(len(set(names)) == 8 and names == sorted(names, key=lambda n: int(n[1:])) for names in rounds)
    assert len({tuple(names) for names in rounds}) == 6
    assert len({name for names in rounds for name in names}) > 15
    assert drawn(problems[::-1], 8)[::-1] == drawn(problems, 8)  # by name, not by place
    assert drawn(problems, 20) == drawn(problems, 99) == problems


def test_the_first_wave_is_independent_samples(layout: Layout) -> None:
    run(layout, params(), 1)
    policy = load_policy(layout.policy(0))
    for each in asked_in(1):
        prompt = encode_prompt(policy, prompt_of(each.question, "scratch"))
        seeds = [derive_seed(0, "search", 1, each.problem_id, row) for row in range(SAMPLES)]
        wave = sample(policy, [Request(prompt, seed) for seed in seeds], 1.0, 48, "test")
        own = [w for w in index_of(layout) if w.problem_id == each.problem_id]
        sampled = [c for w in own for c in w.completions[: w.sampled]]
        assert sorted(c.tokens for c in sampled) == sorted(c.tokens for c in wave)
        for w in own:
            assert w.proposer == ("sample" if w.sampled else "tree")
            assert w.visits == len(w.completions) > 0
            assert {code_of(decode(policy, c.tokens)) for c in w.completions} == {w.code}
            likeliest = max(exp(sum(c.logprobs)) for c in w.completions)
            assert w.prior == pytest.approx(likeliest, rel=1e-5)


def test_the_recorded_results_and_tree_of_a_search_are_right(layout: Layout, sandbox: Sandbox) -> None:
    run(layout, params(), 1)
    index = index_of(layout)
    assert len({(w.problem_id, w.workflow_id) for w in index}) == len(index)
    problems, completions = (
        {p.problem_id: p for p in asked_in(1)},
        dict.fromkeys((p.problem_id for p in asked_in(1)), 0),
    )
    programs = [Program(w.code, problems[w.problem_id].questions) for w in index]
    for w, program, results in zip(index, programs, sandbox.run(programs), strict=True):
        assert workflow_id(program.code) == w.workflow_id
        assert [w.result, *w.sibling_results] == results
        assert w.value == pytest.approx(fmean(map(is_right, results, problems[w.problem_id].answers)), rel=1e-5)
        completions[w.problem_id] += len(w.completions)
        assert w.split == "train"
    assert completions["hopeless"] == SIMULATIONS
    assert all(completions.values())
    rows = read_jsonl(layout.workflows(1) / "trees.jsonl", TreeNode)
    trees = {(n.problem_id, n.node_id): n for n in rows}
    assert len(trees) == len(rows)
    assert all((n.problem_id, n.parent_id) in trees for n in rows if n.parent_id is not None)
    roots = {n.problem_id: n.visits for n in rows if n.parent_id is None}
    assert {n.problem_id for n in rows} == roots.keys() == {p.problem_id for p in TRAIN}
    assert roots == completions
    numbers = json.loads(layout.metrics("search", 1).read_text())
    assert numbers == {
        "problems": 3,
        "completions": sum(len(w.completions) for w in index),
        "workflows": len(index),
        "solved": len({w.problem_id for w in index if w.value == 1}),
        "solved_by_samples": len({w.problem_id for w in index if w.value == 1 and w.sampled}),
        "with_signal": sum(len({w.value for w in index if w.problem_id == p.problem_id}) > 1 for p in TRAIN),
        "left_out": 0,
    }
    assert 1 <= numbers["solved"] < 3
    from_inside = 0  # a workflow of the tree begins with the statements of its parent
    for w in index:
        assert (w.parent_id is None) == (w.sampled > 0)
        statements: list[str] = []
        place = w.parent_id
        while place is not None:
            node = trees[w.problem_id, place]
            statements, place = [node.statement, *statements], node.parent_id
        wanted = [line.strip() for statement in statements for line in statement.splitlines()]
        assert [line.strip() for line in w.code.splitlines()][: len(wanted)] == wanted
        from_inside += bool(wanted)
    assert from_inside > 0


def test_completions_are_recorded_with_their_kept_sets(layout: Layout) -> None:
    run(layout, params(top_p=0.9, top_k=5), 1)
    written = [c for w in index_of(layout, 1) for c in w.completions]
    assert {w.proposer for w in index_of(layout, 1)} == {"sample", "tree"}
    assert all(len(c.tokens) == len(c.logprobs) == len(c.kept) for c in written)
    assert all(token in own for c in written for token, own in zip(c.tokens, c.kept, strict=True))
    assert 1 < max(len(own) for c in written for own in c.kept) <= 5
    certain = [logprob for c in written for logprob, own in zip(c.logprobs, c.kept, strict=True) if len(own) == 1]
    assert set(certain) <= {0.0}


def test_a_shard_of_each_problem_finds_what_one_of_all_finds_by_the_same_bytes_each_time(layout: Layout) -> None:
    """Tokens do not depend on the rest of a batch; the last digits of log-probabilities may."""
    run(layout, params(), 1)
    together = [(w.problem_id, w.workflow_id, w.proposer, w.visits) for w in index_of(layout)]
    numbers, nodes = layout.metrics("search", 1).read_text(), (layout.workflows(1) / "trees.jsonl").read_text()
    run(layout, params().model_copy(update={"shard_size": 1}), 1)
    alone = digest_path(layout.workflows(1))
    assert [(w.problem_id, w.workflow_id, w.proposer, w.visits) for w in index_of(layout)] == together
    assert layout.metrics("search", 1).read_text() == numbers
    assert (layout.workflows(1) / "trees.jsonl").read_text().count("\n") == nodes.count("\n")
    written = []
    for seed in (0, 1):
        run(layout, params().model_copy(update={"seed": seed, "shard_size": 1}), 1)
        written.append(digest_path(layout.workflows(1)))
    assert written[0] == alone != written[1]


def test_a_round_searches_as_many_problems_as_it_may(layout: Layout) -> None:
    run(layout, params(simulations=SAMPLES, problems=2), 1)
    assert {w.problem_id for w in index_of(layout)} == {p.problem_id for p in drawn(TRAIN, 2)}
    numbers = json.loads(layout.metrics("search", 1).read_text())
    assert (numbers["problems"], numbers["left_out"]) == (2, 1)


def test_the_easiest_problems_come_first_and_each_round_opens_more() -> None:
    made = [TRAIN[0].model_copy(update={"problem_id": f"v{n}", "operations": n * 7 % 20}) for n in range(20)]
    pools = [easiest_problems(made, 3, round) for round in (1, 2, 3, 4, 9)]
    assert [len(pool) for pool in pools] == [5, 10, 15, 20, 20]
    for pool in pools:
        assert sorted(p.operations or 0 for p in pool) == [*range(len(pool))]
        assert pool == [p for p in made if p in pool]
    assert len(easiest_problems(made, 8, 1)) == 8
    with pytest.raises(GraftError, match=r"^search\.order: easiest_first, but problem product does not say how many"):
        easiest_problems([*made, TRAIN[0]], 3, 1)
