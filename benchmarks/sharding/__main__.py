"""A base sharded over two gloo processes against one process that holds it whole, and activation checkpointing.

    python -m benchmarks.sharding            # 537M parameters, 2.1 GB of float32; a few minutes on free cores
    python -m benchmarks.sharding --tiny     # does it run?

Each case is a process of its own (two if sharded), whose peak is its resident memory, libraries and pages of the mapped
weights included. All of them return freed memory to the system at once, as the processes of a sharded stage do.
`load_excess_mib` is the anonymous memory at the peak of loading above this process's part of the layers and what is
whole. The last line of standard output is one JSON object.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tasks.model.distributed.processes import LOOPBACK, RETURN_MEMORY

LARGE = {"hidden_size": 1280, "num_hidden_layers": 25, "num_attention_heads": 20, "intermediate_size": 3456}
DEEP = {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "intermediate_size": 1536}
TINY = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96}
VOCABULARY = 32_000
SAMPLES = {"large": (3, 4, 40, 24), "deep": (4, 6, 100, 60)}
"""By model: problems, completions of each, tokens of a prompt and of a completion."""

Figures = dict[str, Any]


def save_policy_of(folder: Path, shape: dict[str, int]) -> None:
    """A policy folder of a random Llama with tied embeddings and an adapter whose B is not 0."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from tasks.bootstrap.tokenizer import train_tokenizer
    from tasks.model.policy import Policy, attach_adapter, save_policy

    torch.manual_seed(0)
    config = LlamaConfig(
        **shape, vocab_size=VOCABULARY, num_key_value_heads=shape["num_attention_heads"], tie_word_embeddings=True
    )
    model = attach_adapter(LlamaForCausalLM(config).eval(), rank=16, alpha=32.0, seed=0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(0, 0.02)
    policy = Policy(model, train_tokenizer(["def solve(problem): 1 + 2"], 300), "random", "scratch")
    save_policy(policy, folder, parent=None, round=0)


def samples_of(kind: str) -> list[Any]:
    """Random tokens with advantages of both signs."""
    import random

    from tasks.model.sample import Sample

    rng, (problems, group, prompt, completion) = random.Random(0), SAMPLES[kind]

    def draw(length: int) -> tuple[int, ...]:
        return tuple(rng.randrange(2, VOCABULARY) for _ in range(length))

    return [
        Sample(f"p{p}", m, own, draw(completion), (), rng.gauss(0, 1))
        for p in range(problems)
        for own in [draw(prompt)]
        for m in range(group)
    ]


class AnonymousPeak:
    """The most anonymous memory of this process in a block, in MiB, above that at its start."""

    def __enter__(self) -> "AnonymousPeak":
        self._start = self.peak = _status("RssAnon")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self.peak = max(self.peak, _status("RssAnon"))

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.peak -= self._start


def _status(name: str) -> float:
    """A figure of this process's memory, in MiB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def compute(folder: Path, kind: str, sharded: bool, checkpointing: bool, influence: bool) -> Figures:
    """One process's part of a case: gradient and log-probabilities, or influence with its certificate."""
    from dataclasses import replace

    import torch

    from tasks.model.distributed.sharding import shard_base
    from tasks.model.policy import load_policy
    from tasks.model.scoring.scorer import scorer_for
    from tasks.objective.recorded_logprobs import behaviour_logprobs
    from tasks.objective.token_weights import TokenWeights
    from tasks.params.file import load_params
    from tasks.select.certificate import certify
    from tasks.select.losses import Validation
    from tasks.select.tracin import influences
    from tasks.update.gradient import accumulate_gradient
    from tasks.update.step_plan import UpdateGroup

    with AnonymousPeak() as loading:
        policy = load_policy(folder, shard=shard_base if sharded else None)
    local = [getattr(weight, "_local_tensor", weight) for weight in policy.model.parameters()]
    held = sum(weight.nbytes for weight in local) / 2**20
    samples = samples_of(kind)
    scorer = replace(scorer_for(policy, samples, 1.0), checkpointing=checkpointing)
    started = time.monotonic()
    found: Figures = {"held_mib": held, "load_excess_mib": loading.peak - held}
    by_token = TokenWeights("dapo", longest=64)
    update = load_params(Path("params.yaml")).update.model_copy(update={"beta": 0.0, "negative_weight": 1.0})
    if influence:
        train, held_out = samples[: len(samples) // 2], samples[len(samples) // 2 :]
        validation = Validation(held_out, [s.advantage for s in held_out])
        each = influences(scorer, train, by_token, validation).each
        products = [s.product or 0.0 for s in each]
        found["slope"] = certify(scorer, train, products, validation, update, 64, seed=0).slope
        found["values"] = torch.tensor(products)
    else:
        names = dict.fromkeys(s.problem_id for s in samples)
        groups = [UpdateGroup(n, [s for s in samples if s.problem_id == n], 100) for n in names]
        logprobs = behaviour_logprobs(scorer, samples)
        accumulate_gradient(scorer, groups, logprobs, None, update)
        found["values"] = torch.cat([w.grad.flatten() for w in policy.model.parameters() if w.grad is not None])
        found["logprobs"] = torch.cat(list(logprobs.values()))
    found["seconds"] = time.monotonic() - started
    found["peak_mib"] = _status("VmHWM")  # ru_maxrss would be the parent's, if that has more
    return found


def child(order: Figures) -> None:
    """Compute a case, in the group of processes if it is sharded, and leave its figures in a file."""
    import torch

    from tasks.model.distributed.collectives import process_group

    folder = Path(order["folder"])
    asked = (folder / order["policy"], order["kind"], order["sharded"], order["checkpointing"], order["influence"])
    if order["sharded"]:
        with process_group(folder / "store", int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])):
            found = compute(*asked)
    else:
        found = compute(*asked)
    torch.save(found, folder / f"figures-{os.environ.get('RANK', '0')}.pt")


def case(folder: Path, policy: str, kind: str, processes: int = 1, **flags: bool) -> list[Figures]:
    """The figures of each process of a case."""
    import torch

    (folder / "store").unlink(missing_ok=True)
    order = {"folder": str(folder), "policy": policy, "kind": kind, "sharded": processes > 1}
    order |= {"checkpointing": False, "influence": False} | flags
    children = []
    for rank in range(processes):
        env = {**os.environ, **LOOPBACK, **RETURN_MEMORY, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        if processes > 1:
            env |= {"RANK": str(rank), "WORLD_SIZE": str(processes)}
        command = [sys.executable, "-m", "benchmarks.sharding", "--child", json.dumps(order)]
        children.append(subprocess.Popen(command, env=env))
    codes = [process.wait() for process in children]
    if any(codes):
        raise SystemExit("benchmarks.sharding: a process failed; its error is above")
    return [torch.load(folder / f"figures-{rank}.pt") for rank in range(processes)]


def measure(folder: Path, tiny: bool) -> dict[str, float]:
    """All figures."""
    save_policy_of(folder / "large", TINY if tiny else LARGE)
    whole, shards = case(folder, "large", "large"), case(folder, "large", "large", 2)
    alone, together = (case(folder, "large", "large", n, influence=True) for n in (1, 2))
    save_policy_of(folder / "deep", TINY if tiny else DEEP)
    plain, again = (case(folder, "deep", "deep", checkpointing=own)[0] for own in (False, True))
    values = alone[0]["values"]
    return {
        "gradient_error": max(float((own["values"] - whole[0]["values"]).abs().max()) for own in shards),
        "logprob_error": max(float((own["logprobs"] - whole[0]["logprobs"]).abs().max()) for own in shards),
        "influence_error": max(float((own["values"] - values).abs().max() / values.abs().max()) for own in together),
        "certificate_slope": together[0]["slope"],
        "held_ratio": max(own["held_mib"] for own in shards) / whole[0]["held_mib"],
        "load_excess_mib": max(own["load_excess_mib"] for own in shards),
        "peak_mib": whole[0]["peak_mib"],
        "peak_ratio": max(own["peak_mib"] for own in shards) / whole[0]["peak_mib"],
        "influence_peak_ratio": max(own["peak_mib"] for own in together) / alone[0]["peak_mib"],
        "time_ratio": max(own["seconds"] for own in shards) / whole[0]["seconds"],
        "checkpointing_equal": float(bool((plain["values"] == again["values"]).all())),
        "checkpointing_peak_ratio": again["peak_mib"] / plain["peak_mib"],
        "checkpointing_time_ratio": again["seconds"] / plain["seconds"],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(json.loads(asked.child))
        return
    with tempfile.TemporaryDirectory(prefix="graft-sharding-") as name:
        figures = measure(Path(name), asked.tiny)
    for key, value in figures.items():
        print(f"{key:28} {value:.3g}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
