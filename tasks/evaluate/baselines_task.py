"""Stage `baselines`: the rounds' workflows, the first policy and the test problems → `run/baselines/`.

What there is without training: as many stored workflows as the policy has tries, and samples of the first policy, as
many as the rounds took, up to `evaluation.budget` for each test problem. It reads the files of all rounds, of which DVC
tracks the curves: these change with any round's completions.
"""

from collections import Counter, defaultdict

from tasks.artifacts import atomic_folder, read_jsonl, stream_jsonl, write_json, write_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.environments.lookup import environment_in
from tasks.environments.runner import make_runner
from tasks.evaluate.baselines import greedy_cover, sample_metrics, stored_metrics
from tasks.evaluate.summary import problem_outcome
from tasks.layout import REWARDS, Layout
from tasks.model.rollouts.attempts import evaluate_policy, run_workflows
from tasks.params.params import Params
from tasks.records.evaluation import ProblemOutcome, StoredWorkflow
from tasks.records.problems import Problem
from tasks.records.search import Workflow
from tasks.seeds import derive_seed


def run(layout: Layout, params: Params, round: int | None) -> None:  # noqa: ARG001 (every stage has this signature)
    """Measure both, and write a line for each workflow and for each test problem.

    Workflows are stored only where completions are programs for other questions too. Where a model serves operators
    nothing is measured: its calls would cost more than the samples.
    """
    problems, rounds = read_jsonl(layout.problems("test"), Problem), range(1, params.rounds.last + 1)
    spent = sum(int(read_metrics(layout, f"search@{number}")["completions"]) for number in rounds)
    for number in rounds:
        with (layout.validation(number) / REWARDS).open("rb") as completions:
            spent += sum(1 for _ in completions)
    stored, outcomes, numbers = list[StoredWorkflow](), list[ProblemOutcome](), {"spent": float(spent)}
    if params.operators.backend == "none":
        stored = _stored_workflows(layout, params, problems)
        outcomes = _first_policy(layout, params, problems, min(spent // len(problems), params.evaluation.budget))
    if stored:
        numbers["tries"] = max(params.evaluation.ks)
        numbers |= stored_metrics([workflow.right for workflow in stored], params.seed)
    if outcomes:
        trained = read_jsonl(layout.evaluation("after") / "outcomes.jsonl", ProblemOutcome)
        numbers |= sample_metrics(outcomes, [float(outcome.greedy) for outcome in trained], params.seed)
    with atomic_folder(layout.baselines) as folder:
        write_jsonl(folder / "workflows.jsonl", stored)
        write_jsonl(folder / "outcomes.jsonl", outcomes)
    write_json(layout.metrics("baselines"), numbers)


def _stored_workflows(layout: Layout, params: Params, problems: list[Problem]) -> list[StoredWorkflow]:
    """As many as the policy has tries, chosen by the train problems that they solved together with all siblings."""
    environment, solved = environment_in(layout.root, params), defaultdict[str, set[str]](set)
    if not environment.asks_siblings:
        return []
    for number in range(1, params.rounds.last + 1):
        for workflow in stream_jsonl(layout.workflows(number) / "index.jsonl", Workflow):
            if workflow.value == 1:
                solved[workflow.code].add(workflow.problem_id)
    chosen = greedy_cover(solved, max(params.evaluation.ks))
    if not chosen:
        return []
    codes = Counter(dict(chosen).keys())
    with make_runner(environment, params.sandbox, None) as runner:
        tried = run_workflows(environment, problems, [chosen[0][0]] * len(problems), [codes] * len(problems), runner)
    right = [{attempt.code: attempt.right for attempt in attempts} for attempts in tried]
    return [StoredWorkflow(code=code, train_solved=gain, right=[each[code] for each in right]) for code, gain in chosen]


def _first_policy(layout: Layout, params: Params, problems: list[Problem], samples: int) -> list[ProblemOutcome]:
    """The outcomes of its samples, which are none of those of `evaluate@before`."""
    if not samples:
        return []
    drawn = params.model_copy(update={"seed": derive_seed(params.seed, "baselines")})
    temperature = params.evaluation.temperature
    rollouts = evaluate_policy(layout, drawn, layout.policy(0), problems, "baselines", samples, temperature)
    return [problem_outcome(*pair) for pair in zip(rollouts.problems, rollouts.attempts, strict=True)]
