"""The stage `search` with revisions that a server writes: HTTP on loopback, a real tiny policy, the real sandbox."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flows.reports.search_tree import draw_tree
from flows.stages.dvc_yaml import declared_params
from tasks.artifacts import digest_path, read_jsonl, write_jsonl
from tasks.collect import task as collecting
from tasks.collect.groups import SearchedProblem, build_trajectories
from tasks.environments.workflow import WorkflowEnvironment
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy, encode_completion, encode_prompt, load_policy
from tasks.model.rollouts import operator_model
from tasks.model.scoring.layouts import collate
from tasks.params.file import restrict
from tasks.params.params import Params
from tasks.programs.operators.model import Prompt, Reply
from tasks.programs.operators.openai_model import OpenAiModel
from tasks.programs.operators.reply_cache import CachedModel
from tasks.programs.sandbox.sandbox import Sandbox
from tasks.records import AskedProblem, Problem, TreeNode, Workflow
from tasks.reward import task as rewarding
from tasks.search.node import tree_records
from tasks.search.revisions import problem_revisions
from tasks.search.revisions.problem_revisions import Reviser
from tasks.search.task import run
from tasks.select import task as selecting
from tasks.update import task as updating
from tests.support.chat_server import ChatServer, chat_server
from tests.support.plain_scores import completion_logprobs
from tests.support.searches import make_problem, make_tree
from tests.support.stage_params import REPOSITORY, shipped_params

SAMPLES, REVISIONS = 2, 4
ENOUGH = 12  # revisions until a test's parent is drawn twice
BROKEN = "def solve(problem):\n    n = numbers(problem)\n    return n[0] * n[9]\n"
WRONG = "def solve(problem):\n    n = numbers(problem)\n    return n[0] + n[1]\n"
RIGHT = "def solve(problem):\n    n = numbers(problem)\n    return n[0] * n[1]\n"
TRIPLES = [(31, 41, 1271), (6, 212, 1272), (8, 77, 616)]

Answer = Callable[[str], str | None]


def problem(name: str) -> Problem:
    return make_problem(name, *[(f"{a} boxes of {b} {name}?", answer) for a, b, answer in TRIPLES])


PENS, CUPS = problem("pens"), problem("cups")


@pytest.fixture(autouse=True)
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One revision after the other, and a prompt is sent once."""
    monkeypatch.setattr(problem_revisions, "WAVE_SIZE", 1)
    monkeypatch.setattr(operator_model, "OpenAiModel", partial(OpenAiModel, retries=0, parallel=1))


def serving(answer: Answer) -> AbstractContextManager[ChatServer]:
    """A server that gives these answers, None as a 503."""

    def behave(prompt: str, _: int) -> tuple[int, str]:
        text = answer(prompt)
        return (503, "busy") if text is None else (200, text)

    return chat_server(behave)


def reply(change: str, code: str) -> str:
    return f"Change: {change}\n\n```python\n{code}```\n"


def all_params(url: str, revisions: int = REVISIONS, longest: int = 128) -> Params:
    shape = {"samples": SAMPLES, "simulations": SAMPLES + revisions, "revisions": revisions}
    return shipped_params(
        seed=0,
        search={**shape, "temperature": 0.01},
        policy={"max_new_tokens": longest},
        sandbox={"allow_weak": True},
        operators={"backend": "openai", "base_url": url, "model": "test"},
    )


def params(url: str, *knobs: int, **more: int) -> Params:
    return restrict(all_params(url, *knobs, **more), declared_params(REPOSITORY, "search"))


def revise(layout: Layout, answer: Answer, *knobs: int, **more: int) -> ChatServer:
    """Run the stage of round 3 with this server."""
    with serving(answer) as server:
        run(layout, params(server.url, *knobs, **more), 3)
    return server


@pytest.fixture
def layout(tmp_path: Path, make_solver: Callable[[Path, str], str]) -> Layout:
    """One train problem and a policy that writes BROKEN for any question. Round 3 asks the problem itself."""
    layout = Layout(tmp_path)
    for round in (0, 2):
        make_solver(layout.policy(round), BROKEN)
        write_jsonl(layout.searches(round), [])
    write_jsonl(layout.problems("train"), [PENS])
    return layout


def index_of(layout: Layout) -> dict[str, Workflow]:
    """Code → workflow."""
    return {w.code: w for w in read_jsonl(layout.workflows(3) / "index.jsonl", Workflow)}


def numbers_of(layout: Layout) -> dict[str, float]:
    numbers: dict[str, float] = json.loads(layout.metrics("search", 3).read_text())
    return numbers


def mending(prompt: str) -> str:
    """Given the error it adds; given that this did not help it multiplies."""
    if "IndexError" not in prompt:
        return reply("nothing", WRONG)
    before = "did not help; make none of them again:\n- add the first two" in prompt
    return reply("multiply the first two", RIGHT) if before else reply("add the first two", WRONG)


def test_an_error_of_the_parent_is_fixed_and_the_tree_is_drawn_with_the_revisions(layout: Layout) -> None:
    server = revise(layout, mending, ENOUGH)
    found = index_of(layout)
    expected = {BROKEN: ("sample", 0.0), WRONG: ("revision", 0.0), RIGHT: ("revision", 1.0)}
    assert {code: (w.proposer, w.value) for code, w in found.items()} == expected
    policy = load_policy(layout.policy(2))
    fixed = found[RIGHT]
    (completion,) = fixed.completions
    assert (completion.tokens, completion.logprobs) == (encode_completion(policy, RIGHT), [])
    assert (fixed.sampled, fixed.prior, fixed.visits) == (0, 1.0, 1)
    trees = {n.node_id: n for n in read_jsonl(layout.workflows(3) / "trees.jsonl", TreeNode)}
    (node,) = [n for n in trees.values() if n.statement == "multiply the first two"]
    assert (node.parent_id, node.value, node.visits, node.depth) == (fixed.parent_id, 1.0, 1, fixed.depth)
    numbers = numbers_of(layout)
    assert (numbers["solved"], numbers["solved_by_samples"], numbers["solved_by_revisions"]) == (1, 0, 1)
    assert numbers["completions"] == trees["0"].visits == SAMPLES + numbers["revisions"]
    assert len(server.prompts) == numbers["revisions"] < ENOUGH  # a solved problem is left alone
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(draw_tree(layout, "pens", 3), highlight=False)
    (line,) = [line for line in capture.get().splitlines() if "multiply the first two" in line]
    assert line.endswith("×1  value 1.00  p 1")


def test_identical_replies_are_run_once_and_counted_each_time(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem_revisions, "WAVE_SIZE", 3)
    asking, counts = "def solve(problem):\n    return ask('how many?', problem)\n", iter(range(100))

    def answer(prompt: str) -> str:
        return f"{prompt[:3]} 5" if prompt.startswith("how") else reply(f"change {next(counts)}", asking)

    server = revise(layout, answer)
    numbers = numbers_of(layout)
    assert (numbers["revisions"], numbers["revisions_repeated"]) == (REVISIONS, REVISIONS - 1)
    assert sum(p.startswith("how many?") for p in server.prompts) == len(PENS.questions)
    entry = json.loads((layout.replies / "ledger.jsonl").read_text().splitlines()[-1])
    assert entry["calls"] == REVISIONS + len(PENS.questions)
    once = index_of(layout)[asking]
    assert (once.visits, len(once.completions)) == (REVISIONS, 1)


def test_a_second_run_asks_nothing_and_writes_the_same_bytes(layout: Layout) -> None:
    counts = iter(range(100))  # a server that cannot repeat itself
    written = []
    with serving(lambda _: reply(f"{(n := next(counts))}", f"def solve(problem):\n    return {n}\n")) as server:
        for asked in (REVISIONS, REVISIONS):
            run(layout, params(server.url), 3)
            assert len(server.prompts) == asked
            written.append((digest_path(layout.workflows(3)), digest_path(layout.metrics("search", 3))))
    assert written[0] == written[1]


def test_a_server_that_is_down_stops_the_stage_with_one_line(layout: Layout) -> None:
    with serving(mending) as server:
        url = server.url
    message = r"^search\.revisions: no reply to any of 1 prompts \(no reply from http"
    with pytest.raises(GraftError, match=message) as stop:
        run(layout, params(url), 3)
    assert "\n" not in str(stop.value)
    assert "set search.revisions to 0" in str(stop.value)
    assert not layout.workflows(3).exists()


def test_a_prompt_without_a_reply_is_skipped_and_not_scored(layout: Layout) -> None:
    write_jsonl(layout.problems("train"), [PENS, CUPS])
    revise(layout, lambda prompt: None if "cups" in prompt else reply("add", WRONG))
    numbers = numbers_of(layout)
    assert (numbers["revisions"], numbers["revisions_skipped"]) == (REVISIONS, REVISIONS)
    assert numbers["completions"] == 2 * SAMPLES + REVISIONS
    roots = {n.problem_id: n for n in read_jsonl(layout.workflows(3) / "trees.jsonl", TreeNode) if not n.parent_id}
    assert roots["pens"].visits == SAMPLES + REVISIONS
    assert "cups" not in roots or roots["cups"].visits == SAMPLES
    kept = {w.workflow_id for w in read_jsonl(layout.workflows(3) / "index.jsonl", Workflow) if w.problem_id == "cups"}
    assert len(kept) == 1


def test_a_policy_that_was_made_from_scratch_is_not_asked_to_revise(layout: Layout) -> None:
    """Its lineage counts, not `policy.base`."""
    knobs = params("http://localhost", 4)
    knobs = knobs.model_copy(update={"operators": knobs.operators.model_copy(update={"backend": "policy"})})
    with pytest.raises(GraftError, match=r"^search\.revisions is 4, but policy\.base is a policy made from scratch, "):
        run(layout, knobs, 3)


def test_without_revisions_no_server_is_asked(layout: Layout) -> None:
    assert revise(layout, mending, 0).prompts == []
    assert "revisions" not in numbers_of(layout)


@pytest.mark.parametrize(("longest", "learnt"), [(128, True), (len(BROKEN) // 2, False)])
def test_a_revision_that_is_too_long_for_the_policy_is_kept_but_joins_no_group(
    layout: Layout, longest: int, learnt: bool
) -> None:
    long = RIGHT.replace("    return", "    # each box holds as many as the next one does\n    return")
    revise(layout, lambda _: reply("multiply", RIGHT if learnt else long), longest=longest)
    found = index_of(layout)
    revised = found[RIGHT if learnt else long]
    assert (revised.value, len(revised.completions), revised.visits) == (1.0, int(learnt), 1)
    assert numbers_of(layout)["revisions_too_long"] == (not learnt)
    (asked,) = read_jsonl(layout.workflows(3) / "problems.jsonl", AskedProblem)
    tried = SearchedProblem(asked, list(found.values()))
    (trajectory,) = build_trajectories(WorkflowEnvironment(), [tried], "v", 12, 0)
    assert [member.proposer for member in trajectory.members] == ["sample"] * SAMPLES + ["revision"] * learnt
    assert [member.logprobs for member in trajectory.members[SAMPLES:]] == [[]] * learnt


def test_the_policy_learns_what_a_revision_solved(layout: Layout) -> None:
    with serving(mending) as server:
        knobs = all_params(server.url, ENOUGH)
        changes: dict[str, dict[str, Any]] = {
            "search": {"temperature": 1.0},  # the update scores at it too
            "influence": {"selection": "none"},
            "update": {"group_size": 4, "epochs": 4, "learning_rate": 0.01, "negative_weight": 0.0},
        }
        knobs = knobs.model_copy(update={k: getattr(knobs, k).model_copy(update=v) for k, v in changes.items()})
        run(layout, knobs, 3)
    assert index_of(layout)[RIGHT].proposer == "revision"
    write_jsonl(layout.problems("validation"), [])
    for stage in (collecting, rewarding, selecting, updating):
        stage.run(layout, knobs, 3)
    numbers = json.loads(layout.metrics("update", 3).read_text())
    assert (numbers["first_ratio"], numbers["samples"] > 0) == (pytest.approx(1, abs=1e-5), True)
    before, after = (chance_of(RIGHT, load_policy(layout.policy(number))) for number in (2, 3))
    assert after > before + 1


def chance_of(code: str, policy: Policy) -> float:
    """Log-probability of a workflow for PENS."""
    prompt, completion = encode_prompt(policy, f"{PENS.question}\n"), encode_completion(policy, code)
    rows = collate([prompt], [completion], 0, policy.device)
    return float(completion_logprobs(policy.model, rows, 1.0).sum().detach())


# --- many problems at once


class Written:
    """A model whose replies are a function of the prompt; it notes how many it is asked at once."""

    name = "written"

    def __init__(self) -> None:
        self.batches: list[int] = []

    def complete(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        self.batches.append(len(prompts))
        for place, prompt in enumerate(prompts):
            number = (len(prompt.text) * 7 + prompt.nth) % 10
            yield place, Reply(reply(f"times {number}", RIGHT.replace("n[1]", f"{number}")))


def revised(problems: Sequence[Problem], sandbox: Sandbox, folder: Path) -> tuple[dict[str, list[TreeNode]], list[int]]:
    trees = [make_tree(p, 8) for p in problems]
    model, knobs = Written(), params("http://unused")
    served = CachedModel(model, knobs.operators, folder)
    Reviser(WorkflowEnvironment(), served, sandbox, lambda code: list(code.encode()), knobs, 3).revise(trees)
    return {t.problem.problem_id: list(tree_records(t.problem.problem_id, t.root)) for t in trees}, model.batches


def test_a_wave_is_one_batch_and_no_problem_depends_on_the_others(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problem_revisions, "WAVE_SIZE", 2)
    both, batches = revised([PENS, CUPS], sandbox, tmp_path / "both")
    assert batches == [4, 4]
    turned, _ = revised([CUPS, PENS], sandbox, tmp_path / "turned")
    assert turned == both
    for each in (PENS, CUPS):
        alone, _ = revised([each], sandbox, tmp_path / each.problem_id)
        assert alone[each.problem_id] == both[each.problem_id]
        assert len(alone[each.problem_id]) > 1
