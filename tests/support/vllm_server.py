"""A server on loopback with the requests of vLLM's that Graft makes, behind which is Graft's own sampler.

    python -m tests.support.vllm_server --model FOLDER --port N …    # other flags are ignored

Its options are the mistakes that a server can make without an error: `check_sampler` has to find them.
"""

import json
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

from tasks.model.checkpoints.base_model import load_tokenizer
from tasks.model.decoding.batch_state import BatchState, Request
from tasks.model.hf_model import unwrap_model
from tasks.model.policy import Policy
from tasks.model.sampling.backends import pick_backend
from tasks.model.sampling.sampler import stop_criterion
from tasks.params.machine import VllmServer as VllmServerParams
from tasks.records.search import Completion

Behave = Callable[[int], "tuple[int, Any] | None"]
"""Number of a request for a completion → (HTTP status, answer), status 0: none; None: as vLLM answers."""

BASE = "base"


@dataclass
class VllmServer:
    """`requests` holds the paths and bodies as they came; `adapters` what is loaded, by name."""

    root: Path
    raw: bool = False  # log-probabilities at temperature 1, vLLM's default
    shifted: bool = False  # each token has the log-probability of the one before
    bare: bool = False  # the base in place of any adapter
    adapter: Path | None = None  # this one in place of any
    noise: float = 0.0  # standard deviation of what is added to log-probabilities
    max_model_len: int = 256
    key: str = ""
    behave: Behave = lambda number: None  # noqa: ARG005
    replies: dict[str, tuple[int, Any]] = field(default_factory=dict)  # by path, in place of vLLM's
    address: str = ""
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    adapters: dict[str, Path] = field(default_factory=dict)
    asleep: bool = False
    _policies: dict[Path | None, Policy] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        with self._lock:
            number = self.paths().count("/v1/completions")
            self.requests.append((path, body))
        if path == "/v1/completions" and (found := self.behave(number)) is not None:
            return found
        with self._lock:
            if path in self.replies:
                return self.replies[path]
            if path in ("/sleep?level=1", "/wake_up"):
                self.asleep = path != "/wake_up"
                return 200, None
            if self.asleep:
                return _error(500, "asleep")
            if path == "/v1/completions":
                return self._complete(body)
            if path == "/v1/load_lora_adapter":
                return self._load(body)
            if path == "/v1/unload_lora_adapter":
                return (200, {}) if self.adapters.pop(body["lora_name"], None) else _error(404, "no such adapter")
            card = {"id": BASE, "root": str(self.root), "parent": None, "max_model_len": self.max_model_len}
            more = [{"id": name, "root": str(at), "parent": BASE} for name, at in self.adapters.items()]
            answers = {"/v1/models": {"data": [card, *more]}, "/version": {"version": "0.32.0"}, "/health": {}}
            return (200, answers[path]) if path in answers else _error(404, f"no {path}")

    def _load(self, body: dict[str, Any]) -> tuple[int, Any]:
        name, path = body["lora_name"], Path(body["lora_path"])
        if name in self.adapters:
            return _error(400, f"The lora adapter '{name}' has already been loaded.")
        if not (path / "adapter_config.json").exists():
            return _error(404, f"No adapter found for {path}")
        self.adapters[name] = path
        return 200, None

    def _complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        if body["model"] not in (BASE, *self.adapters):
            return _error(404, f"The model `{body['model']}` does not exist.")
        if len(body["prompt"]) + body["max_tokens"] > self.max_model_len:
            return _error(400, f"This model's maximum context length is {self.max_model_len} tokens.")
        assert -(2**63) <= body["seed"] < 2**63
        assert body["n"] == 1
        assert body["ignore_eos"]
        policy = self._policy(None if self.bare else self.adapter or self.adapters.get(body["model"]))
        completion = _sample(policy, body)
        logprobs = _at_temperature_1(policy, body, completion) if self.raw else completion.logprobs
        if self.shifted:
            logprobs = [*logprobs[-1:], *logprobs[:-1]]
        rng = random.Random(body["seed"])
        logprobs = [min(x + rng.gauss(0, self.noise), 0.0) for x in logprobs] if self.noise else logprobs
        ended = completion.tokens[-1] in body["stop_token_ids"] or len(completion.tokens) < body["max_tokens"]
        choice = {
            "token_ids": completion.tokens if body["return_token_ids"] else None,
            "logprobs": {"token_logprobs": logprobs},
            "finish_reason": "stop" if ended else "length",
        }
        return 200, {"choices": [choice], "system_fingerprint": "vllm-0.32.0"}

    def _policy(self, adapter: Path | None) -> Policy:
        """The base, with an adapter."""
        if adapter not in self._policies:
            from peft import PeftModel
            from transformers import AutoModelForCausalLM

            model = AutoModelForCausalLM.from_pretrained(self.root).eval()
            model = model if adapter is None else PeftModel.from_pretrained(model, str(adapter)).eval()
            self._policies[adapter] = Policy(model, load_tokenizer(str(self.root)), "", "scratch")
        return self._policies[adapter]


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # waited for: torch may not be at work when Python ends
    request_queue_size = 256  # as many as Graft asks at a time: a busy machine breaks connections that do not fit


@contextmanager
def vllm_server(root: Path, port: int = 0, **options: Any) -> Iterator[VllmServer]:
    """The server of the base in `root`, inside the block; on any free port by default."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: dict[str, Any]) -> None:
            server.keys.append(self.headers.get("Authorization", ""))
            refused = server.key and self.path.startswith("/v1/") and server.keys[-1] != f"Bearer {server.key}"
            status, answer = _error(401, "Unauthorized") if refused else server.answer(self.path, body)
            if status == 0:  # the connection breaks, as where the server is killed
                self.close_connection = True
                return
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            with suppress(OSError):  # Graft ends its other requests after the first fault
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing on the terminal."""

    server = VllmServer(root.resolve(), **options)
    with _Server(("127.0.0.1", port), Handler) as http:
        server.address = f"http://127.0.0.1:{http.server_address[1]}/v1"
        threading.Thread(target=http.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            http.shutdown()


def _sample(policy: Policy, body: dict[str, Any]) -> Completion:
    request = Request(body["prompt"], body["seed"])
    stop = stop_criterion(policy, body["stop"]) if body.get("stop") else None
    ends = body["stop_token_ids"]
    state = BatchState([request], body["temperature"], body["max_tokens"], ends, policy.device, stop)
    pick_backend(policy, request.prompt)(unwrap_model(policy.model), state)
    return state.completions()[0]


def _at_temperature_1(policy: Policy, body: dict[str, Any], completion: Completion) -> list[float]:
    import torch

    ids = torch.tensor([[*body["prompt"], *completion.tokens]], device=policy.device)
    with torch.inference_mode():
        logits = policy.model(input_ids=ids).logits[0, len(body["prompt"]) - 1 : -1]
    return [float(x) for x in logits.log_softmax(-1).gather(-1, ids[0, len(body["prompt"]) :, None])[:, 0]]


def _error(status: int, message: str) -> tuple[int, Any]:
    return status, {"error": {"message": message, "code": status}}


def served(policy: Policy, server: VllmServer, name: str = BASE, dtype: str = "float32") -> Policy:
    """The policy, to be sampled by the server as `name`."""
    from tasks.model.policy import ServedModel
    from tasks.records.search import Engine

    engine = Engine(name="vllm", version="0.32.0", dtype=dtype)
    return replace(policy, served=ServedModel(server.address, name, engine, server.max_model_len))


def server_at(address: str) -> VllmServerParams:
    """The section `machine.vllm` that names a server which is there."""
    return VllmServerParams(address=address, command=None)


if __name__ == "__main__":
    flags = dict(pairwise(sys.argv))
    with vllm_server(Path(flags["--model"]), int(flags["--port"]), key=os.environ.get("VLLM_API_KEY", "")):
        threading.Event().wait()
