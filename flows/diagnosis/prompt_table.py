"""Table of the prompt formats of `policy.base`, tried on a few train problems: `graft doctor --policy`."""

from pathlib import Path

from tasks.bootstrap.choose_prompt import formats_of, try_formats, worked_examples
from tasks.bootstrap.start import load_start
from tasks.coldstart.task import prompt_problems
from tasks.core.console import PlainConsole
from tasks.core.terminal import make_table
from tasks.environments.lookup import environment_in
from tasks.environments.prompts import SCRATCH
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.problems.task import read_problems


def print_trials(root: Path) -> None:
    """Try each format with the params as they are; writes nothing. Raises GraftError for a policy from scratch."""
    params = load_params(root / "params.yaml")
    if params.policy.base == SCRATCH:
        raise GraftError("policy.base: is scratch, whose prompt is the question; name a model in params.yaml")
    environment = environment_in(root, params)
    problems = read_problems(Layout(root), params)["train"]
    policy, _ = load_start(params.policy)
    tried = params.policy.prompt.model_copy(update={"style": "auto"})
    every = params.model_copy(update={"policy": params.policy.model_copy(update={"prompt": tried})})
    found = environment.solutions(prompt_problems(problems, params), params.sandbox)
    solved = [(problem, workflow.code) for problem in problems if (workflow := found.get(problem.problem_id))]
    forms = formats_of(every, policy, environment, worked_examples(root, params, environment, solved))
    table = make_table("style", "valid", "pass@1", "pass@8", "cut", "prompt tokens", "completion tokens")
    for trial in sorted(try_formats(every, policy, environment, forms, problems), key=lambda t: t.rank, reverse=True):
        shares = (trial.valid, trial.pass_at_1, trial.pass_at_k, trial.truncated)
        lengths = (trial.prompt_tokens, trial.completion_tokens)
        table.add_row(trial.form.style, *(f"{x:.2f}" for x in shares), *(f"{x:.0f}" for x in lengths))
    PlainConsole().print(table)
