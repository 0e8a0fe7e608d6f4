"""Problems without siblings, from the stage `search` with a real tiny policy to the rewards of their groups."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_jsonl, write_jsonl
from tasks.bootstrap.scratch_model import build_scratch_model
from tasks.bootstrap.supervised import TrainingExample, train_supervised
from tasks.bootstrap.tokenizer import train_tokenizer
from tasks.layout import Layout
from tasks.model.policy import Policy, attach_adapter, encode_completion, encode_prompt, save_policy
from tasks.params.file import load_params
from tasks.params.params import Params
from tasks.programs.contract import HEADER, prompt_of
from tasks.programs.sandbox.sandbox import Program, Sandbox
from tasks.records import Problem, RewardedTrajectory, Sibling, Trajectory, Workflow
from tasks.rewards.task import run as reward
from tasks.search.answer_support import count_support
from tasks.search.perturbed_questions import TEXTS, perturb_question
from tasks.search.task import run as search
from tasks.trajectories.task import run as collect

SHIPPED = load_params(Path(__file__).parents[3] / "params.yaml")
PRODUCT, MIRRORED = HEADER + "    return n[0] * n[1]\n", HEADER + "    return n[1] * n[0]\n"
SUM, CONSTANT = HEADER + "    return n[0] + n[1] + n[2]\n", HEADER + "    return 12\n"
CODES = [PRODUCT, MIRRORED, SUM, CONSTANT]

CHANCE = Problem(problem_id="chance", question="3 boxes, 4 pens and 5 more?", answer=12, source="test")
PLAIN = Problem(problem_id="plain", question="6 boxes, 2 pens and 9 more?", answer=17, source="test")
HOPELESS = Problem(problem_id="hopeless", question="8 boxes, 7 pens and 2 more?", answer=-1, source="test")
SURE = Problem(
    problem_id="sure",
    question="5 boxes, 8 pens and 3 more?",
    answer=40,
    source="test",
    siblings=[Sibling(question="4 boxes, 6 pens and 2 more?", answer=24)],
)
TRAIN = [CHANCE, PLAIN, HOPELESS, SURE]


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy folder; it writes all CODES, whatever it is asked."""
    tokenizer = train_tokenizer([prompt_of(p.question, "scratch") for p in TRAIN] + CODES, 300)
    policy = Policy(build_scratch_model(tokenizer, hidden=32, layers=1, seed=0), tokenizer, "", "scratch")
    prompts = [encode_prompt(policy, prompt_of(p.question, "scratch")) for p in TRAIN]
    rows = [
        TrainingExample(prompt, encode_completion(policy, code)) for prompt in prompts for code in [PRODUCT, *CODES]
    ]
    train_supervised(policy.model, rows, epochs=120, learning_rate=0.02, batch=20, pad=tokenizer.pad_token_id, seed=0)
    policy.model = attach_adapter(policy.model, rank=2, alpha=2.0, seed=0)
    folder = tmp_path_factory.mktemp("policy") / "0"
    save_policy(policy, folder, parent=None, round=0)
    return folder


def params(agreement: bool = True) -> Params:
    changes = {
        "policy": SHIPPED.policy.model_copy(update={"max_new_tokens": 48}),
        "search": SHIPPED.search.model_copy(update={"samples": 32, "simulations": 36, "temperature": 1.0}),
        "sandbox": SHIPPED.sandbox.model_copy(update={"allow_weak": True}),
        "influence": SHIPPED.influence.model_copy(update={"validation": "held_out"}),
        "grpo": SHIPPED.grpo.model_copy(update={"group_size": 36}),
        "rewards": SHIPPED.rewards.model_copy(
            update={"correctness": 1.0, "runs": 0.0, "length": 0.0, "agreement": agreement}
        ),
    }
    return SHIPPED.model_copy(update=changes)


def layout_of(root: Path, writer: Path, train: list[Problem]) -> Layout:
    layout = Layout(root)
    write_jsonl(layout.problems("train"), train)
    write_jsonl(layout.problems("validation"), [CHANCE.model_copy(update={"problem_id": "held-out"})])
    layout.policy(0).parent.mkdir(parents=True)
    layout.policy(0).symlink_to(writer)
    return layout


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory, writer: Path) -> Layout:
    layout = layout_of(tmp_path_factory.mktemp("searched"), writer, TRAIN)
    search(layout, params(), 1)
    return layout


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(2.0, 256, allow_weak=True, workers=1) as sandbox:
        yield sandbox


def index_of(layout: Layout) -> list[Workflow]:
    return read_jsonl(layout.workflows(1) / "index.jsonl", Workflow)


def test_right_workflows_are_run_on_the_perturbed_questions_and_no_others_are(
    searched: Layout, sandbox: Sandbox
) -> None:
    problems = {p.problem_id: p for p in [*TRAIN, CHANCE.model_copy(update={"problem_id": "held-out"})]}
    index = index_of(searched)
    assert {w.split for w in index if w.perturbed_results} == {"train", "validation"}
    for w in index:
        problem = problems[w.problem_id]
        assert bool(w.perturbed_results) == (w.value == 1 and not problem.siblings)
        if w.perturbed_results:
            texts = perturb_question(problem.question, problem.problem_id)
            assert len(texts) == TEXTS
            assert sandbox.run([Program(w.code, texts)]) == [w.perturbed_results]


def test_the_metrics_say_what_the_solved_problems_rest_on(searched: Layout) -> None:
    numbers = json.loads(searched.metrics("search", 1).read_text())
    assert numbers["solved"] == 3
    support = {name: number for name, number in numbers.items() if name.startswith("solved_by_") and "samp" not in name}
    assert support == {"solved_by_siblings": 1, "solved_by_agreement": 1, "solved_by_one_answer": 1}


def test_what_solved_problems_rest_on_adds_up_over_shards(searched: Layout) -> None:
    with_siblings = count_support([w for w in index_of(searched) if w.sibling_results])
    assert with_siblings == {"solved_by_siblings": 1, "solved_by_agreement": 0, "solved_by_one_answer": 0}
    hopeless = [w for w in index_of(searched) if w.problem_id == "hopeless"]
    assert set(count_support(hopeless).values()) == {0}


def rewarded(layout: Layout, agreement: bool) -> dict[str, dict[str, float | None]]:
    """Problem → code → its reward."""
    collect(layout, params(agreement), 1)
    reward(layout, params(agreement), 1)
    groups = read_jsonl(layout.rewarded(1), RewardedTrajectory)
    return {group.problem_id: dict(zip(group.workflow_codes, group.rewards, strict=True)) for group in groups}


def test_a_right_answer_earns_as_much_as_others_agree(searched: Layout) -> None:
    visits = {(w.problem_id, w.code): w.visits for w in index_of(searched)}
    told = rewarded(searched, agreement=True)
    products, sums = visits["chance", PRODUCT] + visits["chance", MIRRORED], visits["chance", SUM]
    assert told["chance"][PRODUCT] == told["chance"][MIRRORED] == products / max(products, sums)
    assert told["chance"][SUM] == sums / max(products, sums)
    assert told["chance"][CONSTANT] == 0
    assert told["plain"][SUM] == 1
    assert set(told["hopeless"].values()) == {0}
    assert told["sure"][PRODUCT] == 1
    (validation,) = [t for t in read_jsonl(searched.trajectories(1), Trajectory) if t.split == "validation"]
    assert len(validation.agreement) == len(validation.workflow_ids)
    counted = rewarded(searched, agreement=False)
    assert {counted["chance"][code] for code in CODES} == {1}
    assert counted["sure"] == told["sure"]


def test_where_all_have_siblings_nothing_is_written_of_it(tmp_path: Path, writer: Path) -> None:
    """The same bytes with and without agreement, and no field of it anywhere."""
    layout = layout_of(tmp_path, writer, [SURE])
    write_jsonl(layout.problems("validation"), [SURE.model_copy(update={"problem_id": "held-out"})])
    search(layout, params(), 1)
    assert "solved_by_one_answer" not in layout.metrics("search", 1).read_text()
    assert "perturbed" not in (layout.workflows(1) / "index.jsonl").read_text()
    written = []
    for agreement in (True, False):
        rewarded(layout, agreement)
        assert "agreement" not in layout.rewarded(1).read_text()
        written.append([digest_path(layout.trajectories(1)), digest_path(layout.rewarded(1))])
    assert written[0] == written[1]
