"""The model behind the operators, as `params.yaml` names it: none, the policy itself, or a server."""

import sys
from collections.abc import Iterator, Sequence

from tasks.layout import Layout
from tasks.params import Operators
from tasks.policy.base import Policy, decode, encode_prompt
from tasks.policy.sampler import Request, room_of, sample
from tasks.seeds import derive_seed
from tasks.workflows.model import Model, Prompt, Reply
from tasks.workflows.openai_model import OpenAiModel
from tasks.workflows.served import Served


class PolicyModel:
    """The policy replies to its own workflows: a batch of prompts at a time."""

    def __init__(self, policy: Policy, params: Operators) -> None:
        self._policy, self._params = policy, params

    @property
    def name(self) -> str:
        return f"policy {self._policy.version} t={self._params.temperature:g} n={self._params.max_tokens}"

    def complete(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        """A reply may be empty: the policy will not say more when it is asked again."""
        params = self._params
        room = room_of(self._policy, params.max_tokens)
        fitting: list[tuple[int, Request]] = []
        for place, prompt in enumerate(prompts):
            tokens = encode_prompt(self._policy, prompt.text)
            if 0 < len(tokens) <= room:
                seed = derive_seed("operators", prompt.text, prompt.nth)
                fitting.append((place, Request(tokens, seed)))
            else:
                yield place, Reply(refused=f"a prompt of {len(tokens)} tokens; the policy reads 1 to {room}")
        requests = [request for _, request in fitting]
        completions = sample(self._policy, requests, params.temperature, params.max_tokens, "operators")
        for (place, request), completion in zip(fitting, completions, strict=True):
            text = decode(self._policy, completion.tokens)
            yield place, Reply(text, prompt_tokens=len(request.prompt), completion_tokens=len(completion.tokens))


def entered(served: Served | None, layout: Layout, stage: str) -> dict[str, float]:
    """A stage's numbers of what it asked, {} where nothing serves. The ledger has its line then, and the user."""
    if served is None:
        return {}
    served.enter(layout.replies / "ledger.jsonl", stage)
    print(f"{stage}: {served.describe()}", file=sys.stderr)
    return served.numbers


def served_by(policy: Policy, params: Operators, layout: Layout) -> Served | None:
    """What serves the operators of `policy`'s workflows. Raises GraftError where a server is not well described."""
    if params.backend == "none":
        return None
    model: Model = PolicyModel(policy, params) if params.backend == "policy" else OpenAiModel(params)
    return Served(model, params, layout.replies)
