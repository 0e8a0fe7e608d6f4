"""JSON over HTTP to one server, any number of requests at a time. Every fault is an error of one line."""

import os
import ssl
from typing import Any

import httpx
from anyio import fail_after
from anyio.from_thread import start_blocking_portal

from tasks.errors import GraftError, TransientError
from tasks.redaction import redacted

KEY = "VLLM_API_KEY"
"""Environment variable with the key of the server; vLLM itself reads it, too."""

BUSY = (408, 429)
"""Statuses of a server, or of what is in front of it, that has too much to do."""

SECONDS = 600
"""Longest wait for one answer: a long completion on a busy server takes minutes."""

LONGEST = 200
"""Characters of a server's own message in an error."""


class Refusal(GraftError):
    """The server refused a request: a status from 400 to 499."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class JsonClient:
    """Requests to a server below `address`, http(s)://HOST:PORT/PATH, each of which may take `seconds`."""

    def __init__(self, address: str, seconds: float = SECONDS) -> None:
        self.address = address.rstrip("/")
        self._seconds = seconds
        self._client = httpx.AsyncClient(
            timeout=None,  # of httpx each wait for a packet; `request` limits them all together
            limits=httpx.Limits(max_keepalive_connections=0),  # event loops share no connection
            verify=ssl.create_default_context(),
            trust_env=False,  # no proxy
        )

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """`request`, waited for."""
        with start_blocking_portal() as portal:
            return portal.call(self.request, path, body)

    async def request(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer to GET, with a body to POST; None where it is no JSON.

        `path` begins with a slash, with two where it is not below the address's own path. Raises Refusal for a status
        4xx, TransientError for no answer, BUSY and any other status but 2xx.
        """
        url = httpx.URL(self.address).join(path[1:]) if path.startswith("//") else f"{self.address}{path}"
        key = os.environ.get(KEY)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            with fail_after(self._seconds):
                response = await self._client.request(
                    "GET" if body is None else "POST", url, json=body, headers=headers
                )
        except TimeoutError:
            raise self._no_answer(f"no complete answer within {self._seconds:g} s") from None
        except httpx.HTTPError as error:
            raise self._no_answer(str(error) or type(error).__name__) from error
        if response.is_success:
            return _json(response)
        message = f"sampler: {self.address}{path} answers {response.status_code} ({_message(response)})"
        if response.is_client_error and response.status_code not in BUSY:
            raise Refusal(response.status_code, message)
        raise TransientError(f"{message}; see the log of that server, and start it again")

    def _no_answer(self, reason: str) -> TransientError:
        return TransientError(f"sampler: no answer from {self.address} ({reason}); start that server again")


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError):  # lists within lists, 100,000 deep
        return None


def _message(response: httpx.Response) -> str:
    """The server's own words, shortened; a server may repeat the key that it refuses."""
    answer = _json(response)
    error = answer.get("error", answer) if isinstance(answer, dict) else None
    text = error.get("message") if isinstance(error, dict) else None
    words = text if isinstance(text, str) else response.content.decode("utf-8", "replace")
    return redacted(" ".join(words.split()))[:LONGEST] or "no message"
