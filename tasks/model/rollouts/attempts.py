"""Let a policy attempt problems: sample workflows, run the distinct ones, check their answers.

`evaluate_policy` does so with a saved policy, for the stages that measure one.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tasks.environments.lookup import environment_in
from tasks.environments.protocol import Environment, with_checked_siblings
from tasks.environments.runner import Runner, make_runner, program_of
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy
from tasks.model.rollouts.operator_model import log_usage, operator_model
from tasks.model.sampling.sampler import Request, max_prompt_tokens, sample
from tasks.model.sampling.vllm.serve import load_sampled_policy, serve_policy
from tasks.model.text import completion_text, encode_prompt, is_truncated, problem_prompt
from tasks.params.params import Params
from tasks.programs.answer_check import failure_reason
from tasks.programs.operators.model import exception_for
from tasks.programs.sandbox.sandbox import Program
from tasks.records.evaluation import Attempt
from tasks.records.problems import NUMBER, Problem
from tasks.records.programs import Result
from tasks.records.search import Completion
from tasks.seeds import derive_seed


def attempt_problems(
    policy: Policy,
    environment: Environment,
    problems: Sequence[Problem],
    runner: Runner,
    max_new_tokens: int,
    samples: int,
    temperature: float,
    seed: int,
) -> list[list[Attempt]]:
    """The distinct workflows that the policy writes for each problem: the greedy one first, then by frequency.

    In addition to the greedy one, `samples` completions per problem at `temperature`, each with its own seed. The
    greedy workflow is run on the siblings too, the others on the problem's question only. Raises GraftError if the
    sandbox failed or a model did not reply, so that a workflow has no result.
    """
    code_of = partial(_code, policy, environment)
    prompts = [encode_prompt(policy, problem_prompt(policy, environment, p, runner.serves)) for p in problems]
    requests = [Request(prompt, 0, temperature=0.0) for prompt in prompts]
    requests += [
        Request(prompt, derive_seed(seed, "evaluate", problem.problem_id, row))
        for problem, prompt in zip(problems, prompts, strict=True)
        for row in range(samples)
    ]
    # Together: a prompt is computed once, and a greedy completion goes the way of a sampled one for a while.
    written = sample(policy, requests, temperature if samples else 0.0, max_new_tokens, "completions")
    sampled = written[len(problems) :]
    greedy = list(map(code_of, problems, written[: len(problems)]))
    asked = [problem for problem in problems for _ in range(samples)]
    codes = list(map(code_of, asked, sampled))
    slices = [slice(i * samples, (i + 1) * samples) for i in range(len(problems))]
    attempts = run_workflows(environment, problems, greedy, [Counter(codes[rows]) for rows in slices], runner)
    cut = [code if is_truncated(policy, c.tokens) else None for code, c in zip(codes, sampled, strict=True)]
    return [
        [attempt.model_copy(update={"cut": cut[rows].count(attempt.code)}) for attempt in of_problem]
        for rows, of_problem in zip(slices, attempts, strict=True)
    ]


def complete_questions(
    policy: Policy, environment: Environment, questions: Sequence[str], max_new_tokens: int, serves: bool
) -> list[str]:
    """The greedy completion of each question, as the environment records it."""
    asked = list(map(problem_without_key, questions))
    prompts = [encode_prompt(policy, problem_prompt(policy, environment, problem, serves)) for problem in asked]
    written = sample(policy, [Request(prompt, 0) for prompt in prompts], 0.0, max_new_tokens, "play")
    return list(map(partial(_code, policy, environment), asked, written))


def problem_without_key(question: str, evaluator: str = NUMBER) -> Problem:
    """A question as a problem whose answer nobody knows: it can be asked, not scored."""
    return Problem(problem_id="question", question=question, evaluator=evaluator, answer=0, source="an environment")


class PolicyAnswer(NamedTuple):
    """What a policy wrote for a question, and what that gives."""

    code: str
    result: Result


def answer_problem(
    policy: Policy,
    environment: Environment,
    problem: Problem,
    runner: Runner,
    max_new_tokens: int,
    samples: int,
    temperature: float,
) -> list[PolicyAnswer]:
    """The greedy answer, as `attempt_problems` has it, then `samples` at `temperature`, seeded by question and place.

    Raises GraftError where the policy has no room for the question.
    """
    prompt = encode_prompt(policy, problem_prompt(policy, environment, problem, runner.serves))
    if len(prompt) > (room := max_prompt_tokens(policy, max_new_tokens)):
        raise GraftError(
            f"question: {problem.question:.40} … makes a prompt of {len(prompt)} tokens, and the policy has room for "
            f"{room} before its answer (policy.max_new_tokens: {max_new_tokens}); ask a shorter one"
        )
    requests = [Request(prompt, 0, temperature=0.0)]
    requests += [Request(prompt, derive_seed("ask", problem.question, place)) for place in range(samples)]
    written = sample(policy, requests, temperature if samples else 0.0, max_new_tokens, "answers")
    codes = [_code(policy, environment, problem, completion) for completion in written]
    distinct = list(dict.fromkeys(codes))
    results = dict(zip(distinct, runner.run([program_of(code, problem) for code in distinct]), strict=True))
    return [PolicyAnswer(code, results[code][0]) for code in codes]


def run_workflows(
    environment: Environment,
    problems: Sequence[Problem],
    greedy: Sequence[str],
    counts: Sequence[Counter[str]],
    runner: Runner,
) -> list[list[Attempt]]:
    """Run each problem's greedy code and its sampled codes, each distinct one once, and check the answers."""
    places: list[tuple[int, str]] = []
    programs: list[Program] = []
    for i, (problem, first, others) in enumerate(zip(problems, greedy, counts, strict=True)):
        for code in [first, *sorted(others.keys() - {first}, key=lambda code: (-others[code], code))]:
            places.append((i, code))
            programs.append(program_of(code, problem, siblings=code == first))
    attempts: list[list[Attempt]] = [[] for _ in problems]
    for (i, code), results in zip(places, runner.run(programs), strict=True):
        if why := failure_reason(results):
            raise exception_for(why)(f"problem {problems[i].problem_id}: over its workflow: {why}; run the stage again")
        attempts[i].append(_attempt(environment, problems[i], code, code == greedy[i], counts[i][code], results))
    return attempts


def _code(policy: Policy, environment: Environment, problem: Problem, completion: Completion) -> str:
    return environment.text_for(problem, completion_text(policy, completion.tokens))


def _attempt(
    environment: Environment, problem: Problem, code: str, greedy: bool, samples: int, results: Sequence[Result]
) -> Attempt:
    pairs = zip(problem.variants, results, strict=False)  # without sibling results there is one pair
    right, *others = (environment.is_right(asked, result) for asked, result in pairs)
    return Attempt(
        problem_id=problem.problem_id,
        code=code,
        greedy=greedy,
        samples=samples,
        right=right,
        siblings_passed=right and all(others) if len(results) > 1 else None,
        result=results[0],
    )


class Rollouts(NamedTuple):
    """The problems with their checked siblings, the distinct workflows of each, and the metrics of model calls.

    `played`: what the environment's `play` measured, if it was asked to.
    """

    problems: list[Problem]
    attempts: list[list[Attempt]]
    usage: dict[str, float]
    played: dict[str, float]


def evaluate_policy(
    layout: Layout,
    params: Params,
    folder: Path,
    problems: Sequence[Problem],
    stage_id: str,
    samples: int = 0,
    temperature: float = 1.0,
    play: bool = False,
) -> Rollouts:
    """Let the policy in `folder` attempt the problems, greedily and with `samples` samples; for the stage `stage_id`.

    `play`: let the environment measure it in play, too.

    Raises GraftError if the folder is no policy, or one of its workflows has no result.
    """
    environment = environment_in(layout.root, params)
    checked = [with_checked_siblings(environment, problem) for problem in problems]
    with serve_policy(layout, params.vllm, folder, stage_id) as served:
        policy = load_sampled_policy(folder, served)
        operators = operator_model(policy, params.operators, layout)
        with make_runner(environment, params.sandbox, operators) as runner:
            length = params.policy.max_new_tokens
            attempts = attempt_problems(policy, environment, checked, runner, length, samples, temperature, params.seed)
            complete = partial(complete_questions, policy, environment, max_new_tokens=length, serves=runner.serves)
            played = environment.play(checked, complete) if play else {}
    return Rollouts(checked, attempts, log_usage(operators, layout, stage_id), played)
