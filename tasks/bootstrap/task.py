"""Stage `bootstrap`: the policy of round 0, the reference of all rounds.

`policy.base: scratch` trains a tokenizer and a small model on demonstrations. An earlier policy is continued. Any other
base is copied, or with a warm start trained on demonstrations as well: its adapter, or all its weights without one.
"""

import shutil

from tasks.artifacts import read_jsonl, write_json, write_jsonl, write_text
from tasks.bootstrap.base_check import check_base, check_splits
from tasks.bootstrap.choose_prompt import choose_format
from tasks.bootstrap.demonstrations import examples_of, pairs_of
from tasks.bootstrap.scratch_model import build_scratch_model
from tasks.bootstrap.start import attach_lora, load_start
from tasks.bootstrap.supervised import TrainingExample
from tasks.bootstrap.tokenizer import train_tokenizer
from tasks.bootstrap.training import train_base, train_on
from tasks.environments.lookup import environment_in
from tasks.environments.prompts import SCRATCH
from tasks.layout import Layout
from tasks.model.checkpoints.lora import linear_modules
from tasks.model.device import device_for
from tasks.model.policy import Policy, save_policy
from tasks.model.text import encode_completion, encode_prompt, quote
from tasks.params.params import Params
from tasks.records.problems import Problem
from tasks.seeds import derive_seed
from tasks.statistics.learning_curves import HEADER
from tasks.warm_start import has_warm_start


def run(layout: Layout, params: Params, round: int | None) -> None:  # noqa: ARG001
    """Train, copy or continue the base, with the adapter of `policy.lora`; write round 0's policy."""
    metrics: dict[str, float] = {}
    parent, write_base = None, None
    if params.policy.base == SCRATCH:
        policy = _train_from_scratch(layout, params, metrics)
    else:
        check_base(params.policy)
        policy, parent = load_start(params.policy)
        environment, problems = environment_in(layout.root, params), read_jsonl(layout.problems("train"), Problem)
        is_taught = has_warm_start(layout.root, params)
        pairs = pairs_of(layout, params, environment, problems) if is_taught else []
        if policy.prompt_format is None and policy.base != SCRATCH:
            completions = [completion for _, completion in pairs]
            policy.prompt_format, metrics = choose_format(layout, params, policy, environment, problems, completions)
        policy = attach_lora(policy, params.policy, derive_seed(params.seed, "adapter"))
        if is_taught:
            examples = examples_of(policy, environment, problems, pairs, params)
            write_base = train_base(examples, layout, params, policy, metrics)
    adapter = sum(p.numel() for p in policy.model.parameters() if p.requires_grad) if policy.has_adapter else 0
    model = policy.model.get_base_model() if policy.has_adapter else policy.model
    metrics["parameters"] = model.num_parameters() - adapter  # of quantized weights too
    metrics["adapter_parameters"] = adapter
    save_policy(policy, layout.policy(0), parent, 0, write_base)
    write_jsonl(layout.standings(0), [])  # no round has been measured yet
    write_text(layout.curves(0), HEADER)
    write_json(layout.metrics("bootstrap"), metrics)
    shutil.rmtree(layout.journals("bootstrap", 0), ignore_errors=True)


def _train_from_scratch(layout: Layout, params: Params, metrics: dict[str, float]) -> Policy:
    environment = environment_in(layout.root, params)
    pairs = pairs_of(layout, params, environment, read_jsonl(layout.problems("train"), Problem))
    texts = [environment.prompt(question, SCRATCH) + text for question, text in pairs]
    tokenizer = train_tokenizer(texts, params.bootstrap.vocabulary, environment.parts)
    check_splits(layout, tokenizer, params.policy)
    model = build_scratch_model(
        tokenizer, params.bootstrap.hidden, params.bootstrap.layers, derive_seed(params.seed, "scratch")
    )
    model.to(device_for(model.num_parameters()))
    if params.policy.lora is not None:
        linear_modules(model, params.policy.lora.targets)  # a wrong name fails before the training, not after it
    policy = Policy(model, tokenizer, "", SCRATCH)
    asked = [quote(tokenizer, environment.prompt(question, SCRATCH)) for question, _ in pairs]
    examples = [
        TrainingExample(encode_prompt(policy, prompt), encode_completion(policy, text))
        for prompt, (_, text) in zip(asked, pairs, strict=True)
    ]
    train_on(examples, layout, params, policy, None, metrics)
    return attach_lora(policy, params.policy, derive_seed(params.seed, "adapter"))
