"""The model behind the operators, by `operators.backend`: none, the policy itself, or a server."""

from collections.abc import Iterator, Sequence

from tasks.core.terminal import print_remark
from tasks.layout import Layout
from tasks.model.policy import Policy
from tasks.model.sampling.sampler import Request, max_prompt_tokens, sample
from tasks.model.text import chat_prompt, decode, encode_prompt
from tasks.params.sections import Operators
from tasks.programs.operators.model import RETRIES, CachedModel, Model, Prompt, Reply
from tasks.programs.operators.openai_model import OpenAiModel
from tasks.seeds import derive_seed


class PolicyModel:
    """The policy itself answers the prompts of its workflows, in batches."""

    def __init__(self, policy: Policy, params: Operators, retries: int = RETRIES) -> None:
        self._policy, self._params, self._retries = policy, params, retries

    @property
    def name(self) -> str:
        by = f" by {self._policy.served.engine}" if self._policy.served else ""
        return f"policy {self._policy.version}{by} t={self._params.temperature:g} n={self._params.max_tokens}"

    def complete(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        """Replies by index of the prompt. An empty text is sampled again, up to `retries` times."""
        room = max_prompt_tokens(self._policy, self._params.max_tokens)
        waiting: dict[int, list[int]] = {}  # index of a prompt → its tokens
        for place, prompt in enumerate(prompts):
            tokens = encode_prompt(self._policy, chat_prompt(self._policy, prompt.text))
            if 0 < len(tokens) <= room:
                waiting[place] = tokens
            else:
                yield place, Reply(refused=f"a prompt of {len(tokens)} tokens; the policy reads 1 to {room}")
        draws = self._retries + 1 if self._params.temperature else 1  # greedy tokens would not change
        for draw in range(draws):
            if not waiting:
                return
            for place, reply in self._draw(prompts, dict(waiting), draw):
                if reply.text and reply.text.strip():
                    del waiting[place]
                    yield place, reply
        for place in waiting:
            yield place, Reply(failed=f"the policy gave empty text {draws} times")

    def _draw(self, prompts: Sequence[Prompt], waiting: dict[int, list[int]], draw: int) -> Iterator[tuple[int, Reply]]:
        """A reply to each waiting prompt; the seed depends on `draw`."""
        requests = [
            Request(tokens, derive_seed("operators", prompts[place].text, prompts[place].nth, draw))
            for place, tokens in waiting.items()
        ]
        completions = sample(self._policy, requests, self._params.temperature, self._params.max_tokens, "operators")
        for (place, tokens), completion in zip(waiting.items(), completions, strict=True):
            text = decode(self._policy, completion.tokens)
            yield place, Reply(text, prompt_tokens=len(tokens), completion_tokens=len(completion.tokens))


def log_usage(served: CachedModel | None, layout: Layout, stage: str) -> dict[str, float]:
    """Write a stage's model calls to the ledger and to stderr; returns its metrics, {} without a model."""
    if served is None:
        return {}
    served.log_usage(layout.replies / "ledger.jsonl", stage)
    print_remark(f"{stage}: {served.describe()}")
    return served.metrics


def operator_model(policy: Policy, params: Operators, layout: Layout) -> CachedModel | None:
    """The model behind the operators of `policy`'s workflows. Raises GraftError if a server's params are incomplete."""
    if params.backend == "none":
        return None
    model: Model = PolicyModel(policy, params) if params.backend == "policy" else OpenAiModel(params)
    return CachedModel(model, params, layout.replies)
