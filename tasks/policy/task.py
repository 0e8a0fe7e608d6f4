"""Stage `bootstrap`: the policy that the run starts from.

`policy.base: scratch` trains a tokenizer and a small model on the workflows that cold-start search found; any
other base is passed through, and an earlier policy is continued. It is the reference of all rounds.
"""

import logging
from pathlib import Path

from tasks.artifacts import read_jsonl, write_json, write_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params import Params
from tasks.policy.base import (
    SCRATCH,
    Policy,
    encode_completion,
    encode_prompt,
    save_policy,
)
from tasks.policy.lora import linear_modules
from tasks.policy.scratch import scratch_model
from tasks.policy.start import formed, start_of
from tasks.policy.tokenizer import train_tokenizer
from tasks.policy.warmup import Example, warm_up
from tasks.records import Problem, Workflow
from tasks.seeds import derive_seed
from tasks.workflows.contract import prompt_of
from tasks.workflows.stored import read_code

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
    pairs = training_pairs(read_jsonl(layout.problems("train"), Problem), layout.coldstart)
    if not pairs:
        raise GraftError(
            "bootstrap: cold-start search solved none of the train problems, so there is nothing to learn from; "
            "raise coldstart.operations, or give policy.base a model"
        )
    texts = [prompt_of(question, SCRATCH) + code for question, code in pairs]
    tokenizer = train_tokenizer(texts, params.bootstrap.vocabulary)
    model = scratch_model(
        tokenizer, params.bootstrap.hidden, params.bootstrap.layers, derive_seed(params.seed, "scratch")
    )
    if params.policy.lora is not None:
        linear_modules(model, params.policy.lora.targets)  # a wrong name is told before the training, not after it
    policy = Policy(model, tokenizer, "", SCRATCH)
    examples = [
        Example(encode_prompt(policy, prompt_of(question, SCRATCH)), encode_completion(policy, code))
        for question, code in pairs
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


def training_pairs(problems: list[Problem], workflows: Path) -> list[tuple[str, str]]:
    """(question, shortest code) of each solved problem. Its siblings are kept for the rounds: they ask in turn.

    A workflow whose file is missing or damaged is left out.
    """
    found: dict[str, list[Workflow]] = {problem.problem_id: [] for problem in problems}
    for workflow in read_jsonl(workflows / "index.jsonl", Workflow):
        found.setdefault(workflow.problem_id, []).append(workflow)
    pairs = []
    for problem in problems:
        for workflow in sorted(found[problem.problem_id], key=lambda w: (w.depth, -w.prior)):
            code, fault = read_code(workflows, workflow)
            if fault is None:
                pairs.append((problem.question, code))
                break
            logger.warning("%s: %s; run graft stage coldstart again", workflows / workflow.path, fault)
    return pairs
