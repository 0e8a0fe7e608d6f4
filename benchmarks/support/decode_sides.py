"""Child process of `benchmarks.real_model` that samples completions with Graft or CTranslate2, in float32.

    python -m benchmarks.support.decode_sides graft|ctranslate2 DECODING

Both sides sample the same number of tokens from the model's whole distribution; no completion ends by chance. DECODING
is one JSON object. For each line that comes in, one batch is sampled and one JSON object with its seconds goes out.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.update({"HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"})


@dataclass(frozen=True)
class Decoding:
    """A batch of completions."""

    base: str  # folder of the model
    rows: int
    prompt: int  # tokens of each prompt
    tokens: int  # of each completion
    threads: int


Batch = Callable[[], int]
"""Samples one batch; returns its number of tokens."""


def prompts_of(shape: Decoding, vocabulary: int) -> list[list[int]]:
    """Random token ids, a prompt for each row."""
    rng = random.Random(0)
    return [[rng.randrange(100, vocabulary) for _ in range(shape.prompt)] for _ in range(shape.rows)]


def graft(shape: Decoding) -> Batch:
    """Graft's sampler."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from tasks.model.policy import Policy
    from tasks.model.sampling.sampler import Request, Sampler

    torch.set_num_threads(shape.threads)
    model = AutoModelForCausalLM.from_pretrained(shape.base, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(shape.base)
    tokenizer.add_special_tokens({"eos_token": "<never>"})  # no token of the model: a completion ends at its length
    model.generation_config.eos_token_id = None
    sampler = Sampler(Policy(model, tokenizer, "", "scratch"), 1.0, shape.tokens)
    prompts = prompts_of(shape, model.config.vocab_size)

    def batch() -> int:
        requests = [Request(prompt, row) for row, prompt in enumerate(prompts)]
        return sum(len(completion.tokens) for completion in sampler.complete(requests))

    return batch


def ctranslate2(shape: Decoding) -> Batch:
    """CTranslate2's generator, with the converted model."""
    import ctranslate2 as peer
    from ctranslate2.converters import TransformersConverter
    from transformers import AutoTokenizer

    with TemporaryDirectory() as temporary:
        converted = TransformersConverter(shape.base).convert(str(Path(temporary, "model")))
        generator = peer.Generator(converted, device="cpu", compute_type="float32", intra_threads=shape.threads)
    tokenizer = AutoTokenizer.from_pretrained(shape.base)
    prompts = [tokenizer.convert_ids_to_tokens(prompt) for prompt in prompts_of(shape, len(tokenizer))]

    def batch() -> int:
        results = generator.generate_batch(
            prompts,
            min_length=shape.tokens,
            max_length=shape.tokens,
            sampling_topk=0,
            include_prompt_in_result=False,
        )
        return sum(len(result.sequences_ids[0]) for result in results)

    return batch


def main() -> None:
    """Sample a batch for each line."""
    shape = Decoding(**json.loads(sys.argv[2]))
    out = os.fdopen(os.dup(1), "w")  # what libraries print stays out of the answers
    with redirect_stdout(sys.stderr):
        batch = {"graft": graft, "ctranslate2": ctranslate2}[sys.argv[1]](shape)
        while sys.stdin.readline():
            cpu, wall = time.process_time(), time.perf_counter()
            tokens = batch()
            assert tokens == shape.rows * shape.tokens
            numbers = {"tokens": tokens, "cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
            print(json.dumps(numbers), file=out, flush=True)


if __name__ == "__main__":
    main()
