"""A server on loopback that speaks OpenAI's chat completions; what it replies is a function of the test's."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behave = Callable[[str, int], "tuple[int, str | bytes]"]
"""(prompt, so many requests came before) → (HTTP status, text of the reply, or bytes that are sent as they are)."""


@dataclass
class ChatServer:
    """`requests` holds the bodies as they came, `keys` what they were authorised with."""

    url: str
    model: str = "tiny"  # as the server calls what it serves
    root: str | None = None  # of that model in the list of models; None: there is no list
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    @property
    def prompts(self) -> list[str]:
        return [request["messages"][0]["content"] for request in self.requests]


@contextmanager
def chat_server(behave: Behave) -> Iterator[ChatServer]:
    """The server runs inside the block."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body are two packets

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                before = len(server.requests)
                server.requests.append(body)
                server.keys.append(self.headers.get("Authorization", ""))
            status, reply = behave(body["messages"][0]["content"], before)
            if isinstance(reply, str):
                reply = json.dumps(
                    _completion(reply, server.model) if status == 200 else {"error": {"message": reply}}
                ).encode()
            self._answer(status, reply)

        def do_GET(self) -> None:
            cards = {"object": "list", "data": [{"id": "tiny", "object": "model", "root": server.root}]}
            status = 404 if server.root is None or self.path != "/v1/models" else 200
            self._answer(status, json.dumps(cards if status == 200 else {}).encode())

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            if status == 429:
                self.send_header("Retry-After", "0.1")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        server = ChatServer(f"http://127.0.0.1:{http.server_address[1]}/v1")
        threading.Thread(target=http.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            http.shutdown()


def _completion(text: str, model: str) -> dict[str, Any]:
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13},
    }
