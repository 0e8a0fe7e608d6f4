"""Choice of a base's prompt format: the one that `policy.prompt` names, or the best of a trial of all."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tasks.artifacts import read_jsonl
from tasks.bootstrap.prompt_formats import STYLES, prompt_format
from tasks.bootstrap.prompt_trials import PROBLEMS, PromptTrial, try_format
from tasks.bootstrap.solved_problems import select_solutions
from tasks.environments.protocol import Environment, Solved, with_checked_siblings
from tasks.environments.runner import make_runner
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy
from tasks.model.sampling.sampler import max_prompt_tokens
from tasks.model.text import encode_prompt, problem_prompt
from tasks.params.params import Params
from tasks.records.policy import PromptFormat, PromptStyle
from tasks.records.problems import Problem, WorkedExample


def choose_format(
    layout: Layout,
    params: Params,
    policy: Policy,
    environment: Environment,
    problems: Sequence[Problem],
    taught: Sequence[str] = (),
) -> tuple[PromptFormat, dict[str, float]]:
    """The format of `policy.prompt`, and the metrics of the trials if its style is auto.

    `problems`: the train problems, whose found workflows are the worked examples. `taught`: completions that the policy
    will learn in a warm start, after which it needs neither examples nor instructions: then auto is the short style, as
    a trial of what it can do before says nothing.
    """
    solutions = select_solutions(problems, layout.coldstart)
    examples = worked_examples(layout.root, params, environment, solutions)
    forms = formats_of(params, policy, environment, examples, taught)
    if params.policy.prompt.style != "auto" or (taught and not examples):
        return forms[0], {}
    trials = try_formats(params, policy, environment, forms, problems)
    return max(trials, key=lambda trial: trial.rank).form, {k: v for trial in trials for k, v in trial.metrics.items()}


def worked_examples(
    root: Path, params: Params, environment: Environment, solved: Sequence[Solved]
) -> list[WorkedExample]:
    """As many as `policy.prompt.examples`, of its file or of the environment.

    Raises GraftError where the file has fewer, or a line is no example.
    """
    own = params.policy.prompt
    if own.file is not None:
        path, count = root / own.file, own.examples
        found = read_jsonl(path, WorkedExample)
        if len(found) < count:
            raise GraftError(
                f"{path}: has {len(found)} worked examples, policy.prompt.examples is {count}; add some, or lower it"
            )
        return found[:count]
    pairs = environment.worked_examples(solved, own.examples, params.seed)
    return [WorkedExample(question=question, completion=completion) for question, completion in pairs]


def formats_of(
    params: Params,
    policy: Policy,
    environment: Environment,
    examples: Sequence[WorkedExample],
    taught: Sequence[str] = (),
) -> list[PromptFormat]:
    """The format of the style that `policy.prompt` names; with auto of each style that the tokenizer can write."""
    own, template = params.policy.prompt, policy.tokenizer.chat_template
    if own.style in ("chat", "turns") and not template:
        why = f"but the tokenizer of {policy.base!r} has no chat template"
        raise GraftError(f"policy.prompt.style: {own.style}, {why}; set it to plain")
    short: tuple[PromptStyle, ...] = ("plain",) if taught and not examples else STYLES
    styles = short if own.style == "auto" else (own.style,)
    known = [style for style in styles if template or style in ("plain", "raw")]
    return [prompt_format(style, policy.tokenizer, environment, own, examples, taught) for style in known]


def try_formats(
    params: Params,
    policy: Policy,
    environment: Environment,
    forms: Sequence[PromptFormat],
    problems: Sequence[Problem],
) -> list[PromptTrial]:
    """A trial of each format that fits on the last PROBLEMS problems: the examples are from the first ones."""
    tried = [with_checked_siblings(environment, problem) for problem in problems[-PROBLEMS:]]
    room = max_prompt_tokens(policy, params.policy.max_new_tokens)

    def longest(form: PromptFormat) -> int:
        asking = replace(policy, prompt_format=form)
        return max(len(encode_prompt(policy, problem_prompt(asking, environment, problem))) for problem in tried)

    fitting = [form for form in forms if longest(form) <= room]
    if not fitting:
        raise GraftError(
            f"policy.base: holds {room} tokens of a prompt, the shortest form of policy.prompt has "
            f"{min(map(longest, forms))}; lower policy.prompt.examples"
        )
    with make_runner(environment, params.sandbox, None) as runner:
        return [try_format(policy, environment, form, tried, runner, params) for form in fitting]
