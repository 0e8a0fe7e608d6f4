"""Trials of prompt formats on a few train problems: the share of valid and of right completions of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.environments.protocol import Environment, solved_share
from tasks.environments.runner import Runner, program_of
from tasks.model.decoding.token_draw import Truncation
from tasks.model.policy import Policy
from tasks.model.sampling.sampler import Request, sample
from tasks.model.text import completion_text, encode_prompt, is_truncated, problem_prompt
from tasks.params.params import Params
from tasks.records.policy import PromptFormat
from tasks.records.problems import Problem
from tasks.seeds import derive_seed

PROBLEMS = 8
SAMPLES = 8


@dataclass(frozen=True)
class PromptTrial:
    """What a format gives on a few problems; shares of all completions, but for `pass_at_k` of the problems."""

    form: PromptFormat
    valid: float  # returned a value, or an answer was read
    pass_at_1: float
    pass_at_k: float  # k = SAMPLES
    truncated: float
    prompt_tokens: float  # mean
    completion_tokens: float  # mean

    @property
    def rank(self) -> tuple[float, ...]:
        """The larger the better: solved problems, right completions, valid ones, then the shorter prompt."""
        return (self.pass_at_k, self.pass_at_1, self.valid, -self.prompt_tokens)

    @property
    def metrics(self) -> dict[str, float]:
        """The shares and lengths, by `prompt/STYLE/NAME`."""
        return {f"prompt/{self.form.style}/{name}": value for name, value in vars(self).items() if name != "form"}


def try_format(
    policy: Policy,
    environment: Environment,
    form: PromptFormat,
    problems: Sequence[Problem],
    runner: Runner,
    params: Params,
) -> PromptTrial:
    """Sample SAMPLES completions of each problem, as search does, and check them on the problem and its siblings."""
    policy = replace(policy, prompt_format=form)
    prompts = [encode_prompt(policy, problem_prompt(policy, environment, each, runner.serves)) for each in problems]
    requests = [
        Request(prompt, derive_seed(params.seed, "prompt", problem.problem_id, row), temperature=problem.temperature)
        for problem, prompt in zip(problems, prompts, strict=True)
        for row in range(SAMPLES)
    ]
    search, longest = params.search, params.policy.max_new_tokens
    truncation = Truncation(search.top_p, search.top_k)
    written = sample(policy, requests, search.temperature, longest, f"prompt {form.style}", truncation)
    asked = [problem for problem in problems for _ in range(SAMPLES)]
    texts = [completion_text(policy, completion.tokens) for completion in written]
    codes = [environment.text_for(problem, text) for problem, text in zip(asked, texts, strict=True)]
    results = runner.run([program_of(code, problem) for code, problem in zip(codes, asked, strict=True)])
    right = [solved_share(environment, problem, own) == 1 for own, problem in zip(results, asked, strict=True)]
    count = len(requests)
    return PromptTrial(
        form=form,
        valid=sum(own[0].status == "ok" for own in results) / count,
        pass_at_1=sum(right) / count,
        pass_at_k=sum(any(right[i : i + SAMPLES]) for i in range(0, count, SAMPLES)) / len(problems),
        truncated=sum(is_truncated(policy, completion.tokens) for completion in written) / count,
        prompt_tokens=sum(map(len, prompts)) / len(prompts),
        completion_tokens=sum(len(completion.tokens) for completion in written) / count,
    )
