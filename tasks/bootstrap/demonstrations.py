"""Demonstrations that the first policy learns: questions with completions, and these as a base is asked them."""

import logging
from collections.abc import Sequence

from tasks.artifacts import read_json
from tasks.bootstrap.solved_problems import select_solutions
from tasks.bootstrap.supervised import TrainingExample
from tasks.environments.prompts import SCRATCH
from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.known_problems import question_key
from tasks.layout import Layout
from tasks.model.policy import Policy
from tasks.model.sampling.sampler import max_prompt_tokens
from tasks.model.text import encode_completion, encode_prompt, problem_prompt
from tasks.params.params import Params
from tasks.records.problems import Demonstrations, Problem

logger = logging.getLogger(__name__)

Pair = tuple[str, str]
"""A question and the completion that solves it."""


def pairs_of(layout: Layout, params: Params, environment: Environment, problems: Sequence[Problem]) -> list[Pair]:
    """Those of `bootstrap.demonstrations`; without it worked solutions of the train problems' own file, and for the
    other problems what the environment makes of the programs that cold-start search found.

    Raises GraftError if there are none.
    """
    is_scratch, file = params.policy.base == SCRATCH, params.bootstrap.demonstrations
    known = Demonstrations() if is_scratch and file is None else read_json(layout.demonstrations, Demonstrations)
    pairs = [(example.question, example.completion) for example in known.examples]
    if file is None:
        worked, repeats = {question for question, _ in pairs}, set(known.repeats)
        solved = [
            (problem, code)
            for problem, code in select_solutions(problems, layout.coldstart)
            if problem.problem_id not in repeats and problem.question not in worked
        ]
        if solved or not pairs:
            pairs += environment.demonstrations(solved, params.seed)
    tested = set(known.tested)
    left = [pair for pair in pairs if question_key(pair[0]) not in tested] if tested else pairs
    if len(left) < len(pairs):
        logger.warning("%d demonstrations of the environment ask what is tested on: not learnt", len(pairs) - len(left))
    if not left:
        remedy = "set policy.base to a model" if is_scratch else "set bootstrap.epochs to 0"
        raise GraftError(
            f"bootstrap: cold-start search solved none of the train problems (answers of the kind "
            f"{problems[0].evaluator}), so there is nothing to learn from; {remedy}, name a file as "
            "bootstrap.demonstrations, or raise environment.enumerated_operations if the answers are numbers"
        )
    return left


def examples_of(
    policy: Policy, environment: Environment, problems: Sequence[Problem], pairs: Sequence[Pair], params: Params
) -> list[TrainingExample]:
    """The pairs as a base learns them: its prompts are those of the rounds.

    Left out are those that the policy could never write, as `policy.max_new_tokens` or its context is too short. Raises
    GraftError if none is left.
    """
    asked = {variant.question: variant for problem in problems for variant in problem.variants}
    served, longest = params.operators.backend != "none", params.policy.max_new_tokens
    room, examples = max_prompt_tokens(policy, longest), list[TrainingExample]()
    for question, text in pairs:
        other = Problem(problem_id="demonstration", question=question, answer=0, source="demonstrations")
        prompt = problem_prompt(policy, environment, asked.get(question, other), served)
        example = TrainingExample(encode_prompt(policy, prompt), encode_completion(policy, text))
        if len(example.completion) <= longest and len(example.prompt) <= room:
            examples.append(example)
    what = (
        f"{len(pairs) - len(examples)} of {len(pairs)} demonstrations are longer than policy.max_new_tokens "
        f"({longest}), or their prompts than {room} tokens"
    )
    if not examples:
        raise GraftError(f"bootstrap: {what}: none is left; raise it, or shorten them")
    if len(examples) < len(pairs):
        logger.warning("%s: not learnt", what)
    return examples
