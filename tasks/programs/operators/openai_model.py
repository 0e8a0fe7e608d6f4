"""A model on any server with OpenAI's chat completions API."""

import asyncio
import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from tasks.errors import GraftError
from tasks.params.sections import Operators
from tasks.programs.operators.model import NO_REPLY, RETRIES, Prompt, Reply
from tasks.redaction import redacted
from tasks.seeds import derive_seed

KEY = "OPENAI_API_KEY"

SECONDS = 60.0
"""Longest wait for one reply."""

PARALLEL = 8
"""Prompts that are sent at a time, which servers with a limit for each user accept."""

GIVE_UP = 4
"""Failures in a row after which the rest of a batch fails without a request: each has cost all retries."""

LONGEST_NAME = 1000
"""Characters of what a server says of its model."""

_PERMANENT = (400, 401, 403, 404, 422)  # a retry gives the same
_TOO_LONG = re.compile(r"context.?length|maximum context|too long|too many tokens", re.IGNORECASE)

TokenCount = Annotated[int, Field(ge=0, le=2**53)]


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: TokenCount = 0
    completion_tokens: TokenCount = 0


class _Answer(BaseModel):
    """The parts of a response that are read. The openai library does not validate what a server sends."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None
    model: str | None = None


class _Sizes(BaseModel):
    n_params: int | None = None
    n_vocab: int | None = None
    size: int | None = None  # bytes


class _ListedModel(BaseModel):
    """A model in the server's list: its name, and what vLLM (root: the folder) and llama.cpp (meta: sizes) add."""

    id: str
    root: str | None = None
    meta: _Sizes | None = None


class _ModelList(BaseModel):
    data: list[_ListedModel]


class OpenAiModel:
    """`params.model` at `params.base_url`; the key is read from the environment and stored nowhere.

    `retries`: after no reply, and after an empty one. Raises GraftError if there is neither a key nor a base URL.
    """

    def __init__(
        self, params: Operators, retries: int = RETRIES, seconds: float = SECONDS, parallel: int = PARALLEL
    ) -> None:
        from httpx2 import ReadTimeout, Request, Response  # what openai is built on
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        class Client(DefaultAsyncHttpxClient):
            """Ends a request after `seconds`; httpx alone limits the wait for each packet, and a server may drip."""

            async def send(self, request: Request, **options: Any) -> Response:
                try:
                    async with asyncio.timeout(seconds):
                        return await super().send(request, **options)
                except TimeoutError:
                    raise ReadTimeout(f"no complete answer within {seconds:g} s", request=request) from None

        if params.base_url is None and not os.environ.get(KEY):
            raise GraftError(
                f"operators.backend: openai, but {KEY} is not set; export the key, or name a server with "
                "-S operators.base_url=http://…/v1"
            )
        self._params, self._retries, self._parallel = params, retries, parallel
        try:
            http_client = Client()
        except ImportError as error:  # a SOCKS proxy in the environment
            raise GraftError(f"operators: {error}; pip install socksio, or unset that proxy") from error
        self._client = AsyncOpenAI(
            base_url=params.base_url,
            api_key=os.environ.get(KEY) or "none",
            timeout=seconds,
            max_retries=retries,  # after no response, 408, 409, 429 or 5xx, with back-off
            http_client=http_client,
        )
        self._loop = asyncio.new_event_loop()  # one for all calls: the client's connections belong to it
        self._failures = 0  # in a row
        self._listed: str | None = None  # the model in the server's list of models

    @property
    def name(self) -> str:
        params = self._params
        return f"{params.base_url or 'openai'} {params.model} t={params.temperature:g} n={params.max_tokens}"

    def complete(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        """Up to `parallel` requests at once. Raises GraftError if the server refuses key or model."""
        self._failures = 0
        waiting = iter(enumerate(prompts))
        replies: asyncio.Queue[tuple[int, Reply | Exception]] = asyncio.Queue()

        async def send() -> None:
            for place, prompt in waiting:
                try:
                    await replies.put((place, await self._reply(prompt)))
                except Exception as error:  # noqa: BLE001 (raised below: a sender that ended would be waited for)
                    await replies.put((place, error))

        senders = [self._loop.create_task(send()) for _ in range(self._parallel)]
        try:
            for _ in prompts:
                place, reply = self._loop.run_until_complete(replies.get())
                if isinstance(reply, Exception):
                    raise reply
                yield place, reply
        finally:
            for sender in senders:
                sender.cancel()
            self._loop.run_until_complete(asyncio.gather(*senders, return_exceptions=True))

    async def _reply(self, prompt: Prompt) -> Reply:
        import openai

        if self._failures >= GIVE_UP:
            return Reply(failed=f"{NO_REPLY} {self._where}, {GIVE_UP} times in a row")
        try:
            reply = await self._nonempty_reply(prompt)
        except openai.OpenAIError as error:
            if isinstance(error, openai.BadRequestError) and _TOO_LONG.search(str(error)):
                reply = Reply(refused=_line(error))
            elif isinstance(error, openai.APIStatusError) and error.status_code in _PERMANENT:
                raise GraftError(
                    f"operators: {self._where} refuses ({_line(error)}); fix {KEY} or the params under operators"
                ) from error
            else:
                reply = Reply(failed=f"{NO_REPLY} {self._where}: {_line(error)}")
        self._failures = self._failures + 1 if reply.failed else 0
        return reply

    async def _nonempty_reply(self, prompt: Prompt) -> Reply:
        """Retries empty texts: they come from reasoning models that ran out of tokens, and are no wrong answers."""
        spent = [0, 0]
        reason = ""
        for attempt in range(self._retries + 1):
            answer = await self._request(prompt, attempt)
            usage = answer.usage or _Usage()
            spent = [spent[0] + usage.prompt_tokens, spent[1] + usage.completion_tokens]
            choice = answer.choices[0]
            text = choice.message.content
            if text and text.strip():
                served = await self._served(answer.model)
                return Reply(text=text, prompt_tokens=spent[0], completion_tokens=spent[1], served=served)
            reason = f" (finish_reason {choice.finish_reason})"
        return Reply(
            failed=f"{self._where} gave empty text {self._retries + 1} times{reason}; "
            "raise operators.max_tokens if it was cut",
            prompt_tokens=spent[0],
            completion_tokens=spent[1],
        )

    async def _request(self, prompt: Prompt, attempt: int) -> _Answer:
        params = self._params
        # OpenAI and other servers each accept only one of the two
        length = "max_tokens" if params.base_url else "max_completion_tokens"
        request: dict[str, Any] = {
            "model": params.model,
            "messages": [{"role": "user", "content": prompt.text}],
            "temperature": params.temperature,
            length: params.max_tokens,
            "seed": derive_seed("operators", prompt.text, prompt.nth, attempt) % 2**31,
        }
        answer: Any = await self._client.chat.completions.with_raw_response.create(**request)
        try:
            return _Answer.model_validate_json(answer.content)
        except (ValidationError, RecursionError):
            raise GraftError(
                f"operators: {self._where} does not answer with chat completions; operators.base_url mostly ends in /v1"
            ) from None

    async def _served(self, answered: str | None) -> str | None:
        """What the server says of the model that answered: its name, and what the list of models adds; redacted."""
        if self._listed is None:
            self._listed = await self._list_model()
        return redacted(", ".join(filter(None, (answered, self._listed))))[:LONGEST_NAME] or None

    async def _list_model(self) -> str:
        """The model in the server's list of models; "" where there is none, since not every server has one."""
        import openai

        client = self._client.with_options(max_retries=0)
        try:
            answer: Any = await client.models.with_raw_response.list()
            cards = _ModelList.model_validate_json(answer.content).data
        except (openai.OpenAIError, ValidationError, RecursionError):
            return ""
        card = next((card for card in cards if card.id == self._params.model), None)
        return json.dumps(card.model_dump(exclude={"id"}, exclude_none=True), sort_keys=True) if card else ""

    @property
    def _where(self) -> str:
        return self._params.base_url or "OpenAI's server"


def _line(error: Exception) -> str:
    """Shortened and redacted, as it is written to files: a server may repeat the key that it refuses."""
    return redacted(" ".join(str(error).split()))[:200]
