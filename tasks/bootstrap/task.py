"""Stage `bootstrap`: the policy that the run starts from.

`policy.base: scratch` trains a tokenizer and a small model on the workflows that cold-start search found; any
other base is passed through, and an earlier policy is continued. It is the reference of all rounds.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from tasks.artifacts import read_jsonl, write_json, write_jsonl
from tasks.bootstrap.scratch_model import scratch_model
from tasks.bootstrap.start import formed, start_of
from tasks.bootstrap.supervised import Example, warm_up
from tasks.bootstrap.tokenizer import train_tokenizer
from tasks.environments.lookup import environment_in
from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.lora import linear_modules
from tasks.model.policy import (
    SCRATCH,
    Policy,
    encode_completion,
    encode_prompt,
    save_policy,
)
from tasks.params.params import Params
from tasks.programs.integrity import integrity_error, workflow_location
from tasks.records import Problem, Workflow
from tasks.seeds import SEED_BITS, derive_seed

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:  # noqa: ARG001
    """Make, pass through or continue the base in the form that `policy.lora` says, write round 0's policy."""
    metrics: dict[str, float] = {}
    parent = None
    if params.policy.base == SCRATCH:
        policy = _from_scratch(layout, params, metrics)
    else:
        policy, parent = start_of(params.policy)
    policy = formed(policy, params.policy, derive_seed(params.seed, "adapter"))
    adapter = sum(p.numel() for p in policy.model.parameters() if p.requires_grad) if policy.has_adapter else 0
    metrics["parameters"] = sum(p.numel() for p in policy.model.parameters()) - adapter
    metrics["adapter_parameters"] = adapter
    save_policy(policy, layout.policy(0), parent, round=0)
    write_jsonl(layout.standings(0), [])  # no round has been measured yet
    write_json(layout.metrics("bootstrap"), metrics)


def _from_scratch(layout: Layout, params: Params, metrics: dict[str, float]) -> Policy:
    environment = environment_in(layout.root, params)
    problems = read_jsonl(layout.problems("train"), Problem)
    found = solved(problems, layout.coldstart)
    pairs = demonstrations(environment, found, params.bootstrap.malformed_share, params.seed)
    if not pairs:
        raise GraftError(
            "bootstrap: cold-start search solved none of the train problems, so there is nothing to learn from; "
            "raise coldstart.operations, or give policy.base a model"
        )
    texts = [environment.prompt(question, SCRATCH) + text for question, text in pairs]
    tokenizer = train_tokenizer(texts, params.bootstrap.vocabulary, environment.parts)
    model = scratch_model(
        tokenizer, params.bootstrap.hidden, params.bootstrap.layers, derive_seed(params.seed, "scratch")
    )
    if params.policy.lora is not None:
        linear_modules(model, params.policy.lora.targets)  # a wrong name is told before the training, not after it
    policy = Policy(model, tokenizer, "", SCRATCH)
    examples = [
        Example(encode_prompt(policy, environment.prompt(question, SCRATCH)), encode_completion(policy, text))
        for question, text in pairs
    ]
    metrics["pairs"] = len(pairs)
    metrics["loss"] = warm_up(
        model,
        examples,
        params.bootstrap.epochs,
        params.bootstrap.learning_rate,
        params.bootstrap.batch,
        tokenizer.pad_token_id,
        derive_seed(params.seed, "bootstrap"),
    )
    return policy


def demonstrations(
    environment: Environment, solved: Sequence[tuple[Problem, str]], spoilt: float, seed: int
) -> list[tuple[str, str]]:
    """(question, what the policy should write) for each problem with the workflow that solves it.

    A workflow stands for itself, and siblings are kept for the rounds: they ask in turn. Answers are worked out for the
    siblings too, as reckoning takes many examples; a share of `spoilt` of them, by lot, are badly formatted.
    """
    pairs = []
    for problem, code in solved:
        questions = problem.questions[:1] if environment.asks_siblings else problem.questions
        for question in questions:
            lot = derive_seed(seed, "spoilt", question)
            pairs.append(
                (question, environment.demonstration(code, question, lot if lot < spoilt * 2**SEED_BITS else None))
            )
    return pairs


def solved(problems: Sequence[Problem], workflows: Path) -> list[tuple[Problem, str]]:
    """Each solved problem with its shortest code. A workflow whose code is not what the search ran is left out."""
    found: dict[str, list[Workflow]] = {problem.problem_id: [] for problem in problems}
    index = workflows / "index.jsonl"
    for workflow in read_jsonl(index, Workflow):
        found.setdefault(workflow.problem_id, []).append(workflow)
    pairs = []
    for problem in problems:
        for workflow in sorted(found[problem.problem_id], key=lambda w: (w.depth, -w.prior)):
            fault = integrity_error(workflow)
            if fault is None:
                pairs.append((problem, workflow.code))
                break
            logger.warning("%s: %s; run graft stage coldstart again", workflow_location(workflow, index), fault)
    return pairs
