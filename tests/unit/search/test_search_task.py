"""The stage `search` with a real tiny policy, which half knows a few workflows, and the real sandbox."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import exp
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import digest_path, read_jsonl, write_jsonl
from tasks.core.sharding import use_fan_out
from tasks.environments.workflow import WorkflowEnvironment
from tasks.layout import Layout
from tasks.model.policy import decode, encode_prompt, load_policy, save_policy
from tasks.model.sampling.sampler import Request, sample
from tasks.params.params import Params
from tasks.programs.answer_check import solved_share
from tasks.programs.code_blocks import code_of
from tasks.programs.contract import HEADER, prompt_of, workflow_id
from tasks.programs.sandbox.sandbox import Program, Sandbox
from tasks.records import Problem, SearchOutcome, TreeNode, Workflow
from tasks.search.node import node_id
from tasks.search.policy_search import PolicySearch
from tasks.search.policy_tree import NEGLIGIBLE, WAVE_SIZE, PolicyTree
from tasks.search.task import draw_validation, run
from tasks.seeds import derive_seed
from tests.support.searches import make_problem, nodes_of
from tests.support.stage_params import stage_params
from tests.support.writers import train_writer

SAMPLES, SIMULATIONS = 4, 14
JUDGES = 3  # completions of a validation problem
CODES = [
    HEADER + "    a = n[0] * n[1]\n    return a\n",
    HEADER + "    a = n[0] * n[1]\n    b = a + n[2]\n    return b\n",
    HEADER + "    a = n[0] + n[1]\n    b = a * n[2]\n    return b\n",
    HEADER + "    a = n[0] + n[1]\n    return a\n",
]


def problem(name: str, operation: Callable[[int, int, int], int]) -> Problem:
    triples = [(3, 4, 5), (6, 2, 9), (8, 7, 2)]
    return make_problem(name, *[(f"{a} boxes, {b} pens and {c} more?", operation(a, b, c)) for a, b, c in triples])


TRAIN = [
    problem("product", lambda a, b, _: a * b),
    problem("both", lambda a, b, c: a * b + c),
    problem("hopeless", lambda a, b, c: a - b - c),
]
VALIDATION = [problem("held-out", lambda a, b, c: (a + b) * c)]


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two policy folders: the first writes all CODES, the second mostly the last two."""
    folders = [tmp_path_factory.mktemp("policies") / str(number) for number in (0, 1)]
    corpus = [prompt_of(p.question, "scratch") for p in TRAIN] + CODES
    for folder, codes in zip(folders, (CODES, [*CODES, *CODES[2:] * 3]), strict=True):
        save_policy(
            train_writer(corpus, TRAIN[0].questions, codes, epochs=60, rate=0.01, batch=12),
            folder,
            parent=None,
            round=0,
        )
    return folders


def params(selection: str = "positive", curriculum: Mapping[str, float | str] | None = None, **search: float) -> Params:
    return stage_params(
        "search",
        curriculum=curriculum or {},
        search={"samples": SAMPLES, "simulations": SIMULATIONS, **search},
        policy={"max_new_tokens": 48},
        sandbox={"allow_weak": True},
        influence={"selection": selection, "completions": JUDGES},
    )


@pytest.fixture
def layout(tmp_path: Path, writers: list[Path]) -> Layout:
    """Round 1 starts from the first writer, round 2 from the second."""
    layout = Layout(tmp_path)
    write_jsonl(layout.problems("train"), TRAIN)
    write_jsonl(layout.problems("validation"), VALIDATION)
    for number, folder in enumerate(writers):
        layout.policy(number).parent.mkdir(parents=True)
        layout.policy(number).symlink_to(folder)
        write_jsonl(layout.searches(number), [])
    return layout


def index_of(layout: Layout, number: int = 1) -> list[Workflow]:
    return read_jsonl(layout.workflows(number) / "index.jsonl", Workflow)


def asked_in(number: int) -> list[Problem]:
    """The problems in the quantities that round `number` asks them in."""
    return [p.rotated(number) for p in [*TRAIN, *VALIDATION]]


def test_each_round_draws_its_own_validation_problems_and_only_these_are_sampled(layout: Layout) -> None:
    problems = [VALIDATION[0].model_copy(update={"problem_id": f"v{number}"}) for number in range(20)]
    rounds = [[p.problem_id for p in draw_validation(problems, 8, 0, round)] for round in range(6)]
    assert all(len(set(names)) == 8 and names == sorted(names, key=lambda n: int(n[1:])) for names in rounds)
    assert len({tuple(names) for names in rounds}) == 6
    assert len({name for names in rounds for name in names}) > 15
    assert draw_validation(problems[::-1], 8, 0, 1)[::-1] == draw_validation(problems, 8, 0, 1)  # by name, not by place
    assert draw_validation(problems, 20, 0, 1) == draw_validation(problems, 99, 0, 1) == problems
    write_jsonl(layout.problems("validation"), problems[:3])
    influence = params().influence.model_copy(update={"n": 1})
    run(layout, params(simulations=SAMPLES).model_copy(update={"influence": influence}), 1)
    (name,) = {p.problem_id for p in draw_validation(problems[:3], 1, 0, 1)}
    assert {w.problem_id for w in index_of(layout)} == {*(p.problem_id for p in TRAIN), name}


def test_the_first_wave_is_independent_samples(layout: Layout) -> None:
    run(layout, params(), 1)
    policy = load_policy(layout.policy(0))
    for each in asked_in(1):
        prompt = encode_prompt(policy, prompt_of(each.question, "scratch"))
        count = SAMPLES if each.problem_id in {p.problem_id for p in TRAIN} else JUDGES
        seeds = [derive_seed(0, "search", 1, each.problem_id, row) for row in range(count)]
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
        assert w.value == pytest.approx(solved_share(results, problems[w.problem_id].answers), rel=1e-5)
        completions[w.problem_id] += len(w.completions)
        assert w.split == ("validation" if w.problem_id == "held-out" else "train")
        assert w.split == "train" or (w.sampled, w.parent_id) == (len(w.completions), None)
    assert (completions["held-out"], completions["hopeless"]) == (JUDGES, SIMULATIONS)
    assert all(completions.values())
    rows = read_jsonl(layout.workflows(1) / "trees.jsonl", TreeNode)
    trees = {(n.problem_id, n.node_id): n for n in rows}
    assert len(trees) == len(rows)
    assert all((n.problem_id, n.parent_id) in trees for n in rows if n.parent_id is not None)
    roots = {n.problem_id: n.visits for n in rows if n.parent_id is None}
    assert {n.problem_id for n in rows} == roots.keys() == {p.problem_id for p in TRAIN}
    assert roots == {name: count for name, count in completions.items() if name != "held-out"}
    numbers = json.loads(layout.metrics("search", 1).read_text())
    train = [w for w in index if w.split == "train"]
    assert numbers == {
        "problems": 3,
        "completions": sum(len(w.completions) for w in train),
        "workflows": len(train),
        "solved": len({w.problem_id for w in train if w.value == 1}),
        "solved_by_samples": len({w.problem_id for w in train if w.value == 1 and w.sampled}),
        "with_signal": sum(len({w.value for w in train if w.problem_id == p.problem_id}) > 1 for p in TRAIN),
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


def grown(layout: Layout, sandbox: Sandbox, folder: int = 0, **knobs: float) -> tuple[PolicySearch, list[PolicyTree]]:
    search = PolicySearch(load_policy(layout.policy(folder)), WorkflowEnvironment(), sandbox, params(**knobs), round=1)
    trees = search.make_trees([("train", problem) for problem in TRAIN])
    search.sample(trees)
    search.explore(trees)
    return search, trees


@pytest.mark.parametrize("knobs", [{"temperature": 0.7}, {"temperature": 1.0}, {"top_p": 0.95, "top_k": 20}])
def test_priors_and_what_is_unseen_add_up(knobs: dict[str, float], layout: Layout, sandbox: Sandbox) -> None:
    expanded = 0
    for tree in grown(layout, sandbox, **knobs)[1]:
        for node in nodes_of(tree.root):
            assert node.pending == 0
            if node.children:
                rest = 1 - sum(child.prior for child in node.children)
                assert node.unexpanded == pytest.approx(rest, abs=1e-5 if node.unexpanded else NEGLIGIBLE + 1e-5)
                expanded += 1
            else:
                assert (node.terminal, node.unexpanded) == (True, 0)
    assert expanded > 10


def test_a_request_from_inside_the_tree_is_answered_with_its_prefix(layout: Layout, sandbox: Sandbox) -> None:
    search, trees = grown(layout, sandbox)
    wave = [(tree, rollout) for tree in trees for rollout in tree.propose(WAVE_SIZE, exploration=0.1)]
    requests = [search._request(tree, rollout) for tree, rollout in wave]
    found = sample(search.policy, requests, 1.0, 48, "test")
    assert len({node_id(rollout.from_node) for _, rollout in wave if rollout.from_node}) > 1
    assert len({request.seed for request in requests}) == len(requests)
    for (tree, rollout), request, completion in zip(wave, requests, found, strict=True):
        prefix = tree.prefix(rollout.from_node)
        assert request.prefix == prefix
        assert completion.tokens[: len(prefix.tokens)] == prefix.tokens
        assert completion.logprobs[: len(prefix.logprobs)] == prefix.logprobs


@pytest.mark.parametrize(("top_p", "top_k"), [(0.9, 0), (1.0, 3)])
def test_completions_are_recorded_with_their_kept_sets(top_p: float, top_k: int, layout: Layout) -> None:
    run(layout, params(top_p=top_p, top_k=top_k), 1)
    written = [c for w in index_of(layout, 1) for c in w.completions]
    assert {w.proposer for w in index_of(layout, 1)} == {"sample", "tree"}
    assert all(len(c.tokens) == len(c.logprobs) == len(c.kept) for c in written)
    assert all(token in own for c in written for token, own in zip(c.tokens, c.kept, strict=True))
    assert 1 < max(len(own) for c in written for own in c.kept) <= (top_k or 300)
    certain = [logprob for c in written for logprob, own in zip(c.logprobs, c.kept, strict=True) if len(own) == 1]
    assert set(certain) <= {0.0}


def test_the_tree_is_the_present_policys(layout: Layout, sandbox: Sandbox) -> None:
    def shape(tree: PolicyTree) -> list[tuple[str, float, int]]:
        return [(n.statement, round(n.prior, 4), n.visits) for n in nodes_of(tree.root)]

    first, again, other = (grown(layout, sandbox, folder)[1] for folder in (0, 0, 1))
    assert [shape(t) for t in first] == [shape(t) for t in again]
    for one, two in zip(first, other, strict=True):
        assert shape(one) != shape(two)


def test_each_round_searches_with_the_policy_of_the_round_before(layout: Layout) -> None:
    for number in (1, 2):
        run(layout, params(simulations=SAMPLES), number)
        policy = load_policy(layout.policy(number - 1))
        seed = derive_seed(0, "search", number, "product", 0)
        prompt = encode_prompt(policy, prompt_of(TRAIN[0].rotated(number).question, "scratch"))
        (expected,) = sample(policy, [Request(prompt, seed)], 1.0, 48, "test")
        assert any(
            [round(x, 3) for x in c.logprobs] == [round(x, 3) for x in expected.logprobs]
            for w in index_of(layout, number)
            if w.problem_id == "product"
            for c in w.completions
        )


def test_rounds_take_turns_with_the_quantities_of_each_sibling() -> None:
    own = [(TRAIN[0].question, TRAIN[0].answer), *((s.question, s.answer) for s in TRAIN[0].siblings)]
    turns = [TRAIN[0].rotated(number) for number in range(6)]
    assert turns[0] == TRAIN[0]
    assert [(t.question, t.answer) for t in turns] == own * 2
    assert all(sorted(zip(t.questions, t.answers, strict=True)) == sorted(own) for t in turns)


def test_the_same_seed_writes_the_same_bytes_and_another_seed_others(layout: Layout) -> None:
    written = []
    for seed in (0, 0, 1):
        run(layout, params().model_copy(update={"seed": seed}), 1)
        written.append((digest_path(layout.workflows(1)), digest_path(layout.metrics("search", 1))))
    assert written[0] == written[1]
    assert written[0][0] != written[2][0]


def test_without_a_selection_no_validation_problems_are_sampled(layout: Layout) -> None:
    layout.problems("validation").unlink()
    run(layout, params("none", simulations=SAMPLES), 1)
    assert {w.split for w in index_of(layout)} == {"train"}
    numbers = json.loads(layout.metrics("search", 1).read_text())
    assert numbers["problems"] == len(TRAIN)


def test_a_policy_that_is_always_right_is_not_searched_further(
    layout: Layout, make_solver: Callable[[Path, str], str]
) -> None:
    layout.policy(0).unlink()
    make_solver(layout.policy(0), CODES[0])
    known = Problem(problem_id="known", question="3 boxes of 4 pens?", answer=12, source="test")
    write_jsonl(layout.problems("train"), [known])
    run(layout, params(temperature=0.01), 1)
    (workflow,) = [w for w in index_of(layout) if w.split == "train"]
    assert (workflow.value, workflow.sampled, len(workflow.completions)) == (1.0, SAMPLES, SAMPLES)


def test_a_shard_of_each_problem_finds_what_one_of_all_finds(layout: Layout) -> None:
    """Tokens do not depend on the rest of a batch; the last digits of log-probabilities may."""
    run(layout, params(), 1)
    together = [(w.problem_id, w.workflow_id, w.proposer, w.visits) for w in index_of(layout)]
    numbers, nodes = layout.metrics("search", 1).read_text(), (layout.workflows(1) / "trees.jsonl").read_text()
    run(layout, params().model_copy(update={"shard_size": 1}), 1)
    assert [(w.problem_id, w.workflow_id, w.proposer, w.visits) for w in index_of(layout)] == together
    assert layout.metrics("search", 1).read_text() == numbers
    assert (layout.workflows(1) / "trees.jsonl").read_text().count("\n") == nodes.count("\n")


def searched_in(layout: Layout, number: int, **curriculum: float) -> set[str]:
    """The train problems that the stage searches with these params."""
    run(layout, params(curriculum=curriculum, simulations=SAMPLES), number)
    found = {w.problem_id for w in index_of(layout, number) if w.split == "train"}
    outcomes = [o for o in read_jsonl(layout.searches(number), SearchOutcome) if o.round == number]
    numbers = json.loads(layout.metrics("search", number).read_text())
    assert {o.problem_id for o in outcomes} == found
    assert sum(numbers[name] for name in ("problems", "left_out")) == len(TRAIN)
    assert (numbers["problems"], numbers["with_signal"]) == (len(found), sum(o.signal for o in outcomes))
    return found


def test_the_outcome_of_each_search_is_handed_to_the_next_round(layout: Layout) -> None:
    earlier = SearchOutcome(problem_id="product", round=0, samples=2, right=1, signal=True)
    write_jsonl(layout.searches(0), [earlier])
    run(layout, params(), 1)
    first, *outcomes = read_jsonl(layout.searches(1), SearchOutcome)
    assert first == earlier
    assert [o.problem_id for o in outcomes] == [p.problem_id for p in TRAIN]
    for outcome in outcomes:
        own = [w for w in index_of(layout) if w.problem_id == outcome.problem_id]
        assert outcome.samples == SAMPLES == sum(w.sampled for w in own)
        assert outcome.right == sum(w.sampled for w in own if w.value == 1)
        assert outcome.signal == (len({w.value for w in own}) > 1)
    assert len({o.signal for o in outcomes}) == 2


def test_each_param_of_the_curriculum_changes_who_is_searched(layout: Layout) -> None:
    names = {p.problem_id for p in TRAIN}
    dead = [SearchOutcome(problem_id=name, round=1, samples=100, right=0, signal=False) for name in names - {"product"}]
    half = SearchOutcome(problem_id="product", round=1, samples=100, right=50, signal=True)
    write_jsonl(layout.searches(1), [*dead, half])
    assert searched_in(layout, 2) == names
    assert searched_in(layout, 2, problems=1, discount=1.0) == {"product"}
    assert searched_in(layout, 2, problems=1, discount=0.0) != {"product"}
    assert searched_in(layout, 2, groups=1, discount=1.0) == {"product"}
    assert searched_in(layout, 2, groups=3) == names, "there are not three with a signal"


def test_problems_are_added_until_there_are_enough_groups_with_a_signal(layout: Layout) -> None:
    """Half of the problems have no signal; the same are searched, and written alike, whatever the shards."""
    problems = [
        each.model_copy(update={"problem_id": f"{each.problem_id}-{number}"})
        for number in range(6)
        for each in (TRAIN[0], TRAIN[2])
    ]
    write_jsonl(layout.problems("train"), problems)
    knobs, written = params(curriculum={"groups": 2}, simulations=8), []
    for size in (1, 2048):
        run(layout, knobs.model_copy(update={"shard_size": size}), 1)
        index = [(w.problem_id, w.workflow_id, w.visits) for w in index_of(layout)]
        written.append((index, layout.searches(1).read_bytes(), layout.metrics("search", 1).read_bytes()))
    assert written[0] == written[1]
    names = list(dict.fromkeys(name for name, _, _ in written[0][0]))
    order = [p.problem_id for p in [*problems, *VALIDATION]]
    assert names == [name for name in order if name in names]
    numbers = json.loads(layout.metrics("search", 1).read_text())
    assert numbers["with_signal"] >= 2
    assert 2 < numbers["problems"] < len(problems)


class Cut:
    """Ends after the first shard."""

    def map(self, function: Callable[[Any], Any], shards: Iterable[Any]) -> Iterator[Any]:
        yield function(next(iter(shards)))
        raise KeyboardInterrupt


def test_a_search_that_was_cut_short_repeats_no_finished_shard(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    small = params().model_copy(update={"shard_size": 1})
    run(layout, small, 1)
    undisturbed = digest_path(layout.workflows(1))
    with pytest.raises(KeyboardInterrupt), use_fan_out(Cut()):
        run(layout, small, 1)
    assert digest_path(layout.workflows(1)) == undisturbed, "the earlier result is still there"
    (left,) = layout.journals("search", 1).iterdir()
    assert left.name.endswith("-0.jsonl")
    capsys.readouterr()
    run(layout, small, 1)
    assert capsys.readouterr().err.count("completions of an interrupted search") == 1
    assert digest_path(layout.workflows(1)) == undisturbed
    assert not layout.journals("search", 1).exists()
