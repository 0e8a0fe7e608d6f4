"""Samples completions on a server of vLLM: one request for each row, with the row's own seed.

    POST /v1/completions    prompt: token ids; seed; stop_token_ids: our end tokens, with ignore_eos, since the model's
                            own may be others; logprobs: 0, of the drawn token alone
    answer                  token_ids, the end token among them, and their log-probabilities

Log-probabilities have to be those of the distribution that was drawn from (`--logprobs-mode processed_logprobs`), at
temperature 1 for greedy decoding: no answer shows that, so the select stage compares them with the policy's own
(tasks/model/scoring/mismatch.py). Everything that a server's own settings might change is in the request.
"""

from asyncio import Semaphore
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from math import isfinite
from typing import Any

from anyio.from_thread import start_blocking_portal
from pydantic import BaseModel, Field, ValidationError

from tasks.errors import GraftError, TransientError
from tasks.model.decoding.batch_state import Request
from tasks.model.policy import Policy, ServedModel
from tasks.model.sampling.vllm.json_client import JsonClient, Refusal
from tasks.records.search import Completion

PARALLEL = 256
"""Completions that are asked for at a time: vLLM's own bound, --max-num-seqs, is as high."""

MAX_LOGPROB = 1e-3
"""A log-probability may be above 0 by no more: rounding."""

PLAIN: dict[str, Any] = {
    **{"n": 1, "top_p": 1.0, "top_k": 0, "min_p": 0.0},
    **{"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "min_tokens": 0},
    **{"logprobs": 0, "return_token_ids": True, "ignore_eos": True},
    **{"skip_special_tokens": False, "spaces_between_special_tokens": False},
}
"""Fields of every request: nothing changes the distribution but the temperature."""


class _Logprobs(BaseModel):
    token_logprobs: list[float | None]


class _CompletionChoice(BaseModel):
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _CompletionAnswer(BaseModel):
    """The parts of an answer that are read."""

    choices: list[_CompletionChoice] = Field(min_length=1, max_length=1)


def sample_on_server(
    policy: Policy,
    requests: Sequence[Request],
    temperature: float,
    max_new_tokens: int,
    report: Callable[[int], None] = lambda _: None,
) -> list[Completion]:
    """A completion for each request, in order; each has a budget of 1 or more. `report`: of the number of finished.

    Raises TransientError where the server does not answer or has lost the policy, GraftError where its answer is none.
    The first error ends the other requests.
    """
    served = policy.served
    assert served is not None
    client, parallel = JsonClient(served.address), Semaphore(PARALLEL)

    async def complete(request: Request) -> Completion:
        async with parallel:
            return await _complete(client, policy, served, request, temperature, max_new_tokens)

    completions: dict[int, Completion] = {}
    with start_blocking_portal() as portal:  # an error in the block cancels what is still running
        futures = {portal.start_task_soon(complete, request): place for place, request in enumerate(requests)}
        for future in as_completed(futures):
            completions[futures[future]] = future.result()
            report(len(completions))
    return [completions[place] for place in range(len(requests))]


def body_of(
    policy: Policy, served: ServedModel, request: Request, temperature: float, max_new_tokens: int
) -> dict[str, Any]:
    """The request to the server."""
    return {
        **PLAIN,
        "model": served.name,
        "prompt": list(request.context),
        "max_tokens": request.budget(max_new_tokens),
        "seed": request.seed,
        "temperature": request.temperature_or(temperature),
        "stop_token_ids": policy.end_tokens,
        **({"stop": policy.stop, "include_stop_str_in_output": True} if policy.stop else {}),
    }


async def _complete(
    client: JsonClient,
    policy: Policy,
    served: ServedModel,
    request: Request,
    temperature: float,
    max_new_tokens: int,
) -> Completion:
    body = body_of(policy, served, request, temperature, max_new_tokens)
    try:
        answer = await client.request("/completions", body)
    except Refusal as error:
        if error.status == 404:
            raise TransientError(
                f"sampler: {client.address} no longer has {served.name} (404): somebody unloaded it, or another server "
                "took its place; run again, and the stage loads it"
            ) from error
        raise GraftError(f"{error}; correct machine.vllm.address, or what that server was started with") from error
    choice = _choice_of(answer)
    if choice is None or (fault := _fault(choice, policy, body)):
        raise GraftError(
            f"sampler: {client.address} answers {fault if choice else 'with something else than completions'}; "
            "name a server of vLLM 0.10.2 or newer, whose address mostly ends in /v1"
        )
    prefix, tokens, logprobs = request.prefix, choice.token_ids or [], _logprobs_of(choice)
    return Completion(
        tokens=[*prefix.tokens, *tokens], logprobs=[*prefix.logprobs, *(round(x or 0.0, 6) for x in logprobs)]
    )


def _choice_of(answer: Any) -> _CompletionChoice | None:
    try:
        return _CompletionAnswer.model_validate(answer).choices[0]
    except ValidationError:
        return None


def _logprobs_of(choice: _CompletionChoice) -> list[float | None]:
    return choice.logprobs.token_logprobs if choice.logprobs else []


def _fault(choice: _CompletionChoice, policy: Policy, body: dict[str, Any]) -> str | None:
    """What is wrong with an answer, or None."""
    tokens, logprobs, most = choice.token_ids, _logprobs_of(choice), body["max_tokens"]
    if tokens is None:
        return "without token_ids"
    if not 1 <= len(tokens) <= most:
        return f"with {len(tokens)} tokens where 1 to {most} were asked for"
    if len(logprobs) != len(tokens):
        return f"with {len(logprobs)} log-probabilities for {len(tokens)} tokens"
    if wrong := [x for x in logprobs if x is None or not isfinite(x) or x > MAX_LOGPROB]:
        return f"with the log-probability {wrong[0]}, which is none"
    if strange := [token for token in tokens if not 0 <= token < policy.vocabulary]:
        return f"with token {strange[0]}, which is not in the policy's vocabulary of {policy.vocabulary}"
    by_text = "stop" in body and choice.finish_reason == "stop"
    ended = len(tokens) == most or tokens[-1] in policy.end_tokens or by_text
    return None if ended else f"with a completion that neither ends nor was cut (finish_reason {choice.finish_reason})"
