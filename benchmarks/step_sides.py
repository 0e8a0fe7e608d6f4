"""Child process of `benchmarks.grpo_step` that takes complete GRPO steps with TRL's trainer or Graft.

    python -m benchmarks.step_sides trl|graft SHAPE

A step: draw the completions of some prompts, reward them, make advantages, update the LoRA adapter once. Both sides
have the same model, prompts, rewards and numbers of tokens; no completion ends by chance. SHAPE is one JSON object. For
each line that comes in, one step is taken and one JSON object with its numbers goes out.
"""

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.params.sections import Update
    from tasks.records.search import Completion
    from tasks.update.step_plan import UpdateGroup

os.environ.update(
    {"CI": "1", "HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "OMP_WAIT_POLICY": "PASSIVE"}
)  # nobody is told, nothing is fetched, and both sides have the faster way of waiting

ALPHA, RATE = 16.0, 1e-4
PAD, EOS, FIRST = 0, 1, 3


@dataclass(frozen=True)
class Shape:
    """Model, lengths and threads of a measurement."""

    prompt: int  # tokens of each prompt
    skewed: bool  # lengths: most are short, one is `longest`; else all are `longest`
    threads: int
    vocabulary: int
    hidden: int = 0
    layers: int = 0
    intermediate: int = 0
    heads: int = 4
    key_heads: int = 2
    tied: bool = False  # embeddings and head are one matrix
    base: str = ""  # folder of a pretrained model, instead of a random one of these sizes
    prompts: int = 8
    completions: int = 8  # of each prompt
    longest: int = 64  # tokens
    common: int = 0  # tokens that all prompts begin with, as worked examples are
    rank: int = 8  # of the LoRA adapter
    micro_batch_tokens: int = 2048  # of Graft's forward passes
    accumulation: int = 1  # parts in which TRL computes a step, whose logits of all rows would not fit into memory


@dataclass
class Clock:
    """Processor and wall seconds of one step, whole and by part; most memory since the first step."""

    cpu: float = 0.0
    wall: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)  # processor seconds

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the block's processor seconds to a part."""
        start = time.process_time()
        yield
        self.parts[name] = self.parts.get(name, 0.0) + time.process_time() - start

    @contextmanager
    def whole(self) -> Iterator[None]:
        """The block is the step."""
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.cpu, self.wall = time.process_time() - cpu, time.perf_counter() - wall


def lengths_of(shape: Shape, step: int) -> list[int]:
    """Tokens of each of the step's completions, those of a prompt together."""
    count = shape.prompts * shape.completions
    if not shape.skewed:
        return [shape.longest] * count
    rng = random.Random(step)
    return [shape.longest, *(max(4, int(rng.random() ** 3 * shape.longest)) for _ in range(count - 1))]


def prompts_of(shape: Shape, count: int) -> list[list[int]]:
    """Token ids of prompts."""
    rng = random.Random(0)
    common = [rng.randrange(FIRST, shape.vocabulary) for _ in range(shape.common)]
    own = shape.prompt - shape.common
    return [[*common, *(rng.randrange(FIRST, shape.vocabulary) for _ in range(own))] for _ in range(count)]


def reward(tokens: Sequence[int]) -> float:
    """Share of different tokens: something that has a signal in each group."""
    return len(set(tokens)) / len(tokens)


def model_of(shape: Shape) -> Any:
    """A random Qwen2, or the pretrained model without its own settings of sampling."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig, Qwen2Config, Qwen2ForCausalLM

    if shape.base:
        model = AutoModelForCausalLM.from_pretrained(shape.base, dtype=torch.float32)
        model.generation_config = GenerationConfig()
        return model
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        intermediate_size=shape.intermediate,
        max_position_embeddings=2048,
        tie_word_embeddings=shape.tied,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=None,
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig()  # each side has its own end of a completion
    return model


def tokenizer_of(shape: Shape) -> Any:
    """A word for each token."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"<pad>": PAD, "<eos>": EOS, "<unk>": 2} | {f"w{i}": i for i in range(FIRST, shape.vocabulary)}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    named = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>", "padding_side": "left"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **named)


def trainer_of(shape: Shape, model: Any, rewards: Callable[..., list[float]], callback: Any, **more: Any) -> Any:
    """TRL's GRPOTrainer for steps of this shape; `more`: of its config."""
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOConfig, GRPOTrainer

    plain: dict[str, Any] = {
        "output_dir": tempfile.mkdtemp(),
        "report_to": [],
        "bf16": False,
        "gradient_checkpointing": False,
        "per_device_train_batch_size": shape.prompts * shape.completions // shape.accumulation,
        "gradient_accumulation_steps": shape.accumulation,
        "num_generations": shape.completions,
        "max_completion_length": shape.longest,
        "loss_type": "dapo",
        "beta": 0.0,
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": 1,
        "max_steps": 10_000,
        "learning_rate": RATE,
        "lr_scheduler_type": "constant",
    }
    return GRPOTrainer(
        model=model,
        reward_funcs=rewards,
        args=GRPOConfig(**plain | more),
        train_dataset=Dataset.from_dict(
            {"prompt": [" ".join(f"w{i}" for i in prompt) for prompt in prompts_of(shape, 256)]}
        ),
        processing_class=tokenizer_of(shape),
        peft_config=LoraConfig(r=shape.rank, lora_alpha=ALPHA, target_modules="all-linear", task_type="CAUSAL_LM"),
        callbacks=[callback],
    )


def update_params() -> "Update":
    """`update` of the shipped params with the loss of TRL's defaults, so that both sides do the same work."""
    from tasks.params.file import load_params

    plain = {"learning_rate": RATE, "negative_weight": 1.0, "beta": 0.0, "entropy": 0.0, "loss": "dapo"}
    more = {
        "schedule": "constant",
        "warmup_steps": 0,
        "clip_low": 0.2,
        "clip_high": 0.2,
        "importance": "token",
    }
    return load_params(Path(__file__).parents[1] / "params.yaml").update.model_copy(update=plain | more)


def groups_of(prompts: Sequence[Sequence[int]], completions: "Sequence[Completion]") -> "list[UpdateGroup]":
    """A group of each prompt; `completions` are in the order of the prompts, as many of each."""
    from tasks.model.sample import Sample
    from tasks.objective.advantages import advantages_of
    from tasks.update.step_plan import UpdateGroup

    size, groups = len(completions) // len(prompts), []
    for p, prompt in enumerate(prompts):
        members = completions[p * size : (p + 1) * size]
        (gains,) = advantages_of("group", [[reward(c.tokens) for c in members]])
        samples = [
            Sample(str(p), m, tuple(prompt), tuple(c.tokens), tuple(c.logprobs), gain)
            for m, (c, gain) in enumerate(zip(members, gains, strict=True))
        ]
        groups.append(UpdateGroup(str(p), samples, sum(len(s.completion) for s in samples)))
    return groups


Answer = Callable[[Clock], None]


def trl(shape: Shape, wait: Callable[[], None], answer: Answer) -> None:
    """TRL's GRPOTrainer, with its defaults but for bf16 and gradient checkpointing, which are slower here."""
    from transformers import LogitsProcessor, LogitsProcessorList, TrainerCallback

    clock, step = Clock(), 0

    class Lengths(LogitsProcessor):  # type: ignore[misc]
        """Ends each completion at its length, and none before."""

        def __init__(self) -> None:
            import torch

            self.lengths = torch.tensor(lengths_of(shape, step))

        def __call__(self, ids: Any, scores: Any) -> Any:
            ends = self.lengths == ids.shape[1] - shape.prompt + 1
            scores[:, EOS] = float("-inf")
            scores[ends] = float("-inf")
            scores[ends, EOS] = 0.0
            return scores

    class Steps(TrainerCallback):  # type: ignore[misc]
        """Lets each step wait for its request."""

        def on_step_begin(self, *_args: Any, **_more: Any) -> None:
            nonlocal clock
            wait()
            clock = Clock()
            self.timing = clock.whole()
            self.timing.__enter__()

        def on_step_end(self, *_args: Any, **_more: Any) -> None:
            nonlocal step
            self.timing.__exit__(None, None, None)
            answer(clock)
            step += 1

    def rewards(completion_ids: list[list[int]], **_more: Any) -> list[float]:
        assert [len(ids) for ids in completion_ids] == lengths_of(shape, step)
        return [reward(ids) for ids in completion_ids]

    def timed(owner: Any, name: str, part: str) -> None:
        plain = getattr(owner, name)

        def run(*args: Any, **more: Any) -> Any:
            with clock.part(part):
                return plain(*args, **more)

        setattr(owner, name, run)

    trainer = trainer_of(shape, model_of(shape), rewards, Steps(), use_cpu=True, dataloader_pin_memory=False)
    generate = trainer.model.generate
    trainer.model.generate = lambda *args, **more: generate(
        *args, logits_processor=LogitsProcessorList([Lengths()]), **more
    )
    timed(trainer, "_generate_single_turn", "sample")
    timed(trainer, "_compute_loss", "forward")
    timed(trainer.accelerator, "backward", "backward")
    trainer.train()


def graft(shape: Shape, wait: Callable[[], None], answer: Answer) -> None:
    """Graft's sampler, advantages and update."""
    from tasks.model.checkpoints.lora import attach_adapter
    from tasks.model.policy import Policy
    from tasks.model.sampling.sampler import Request, Sampler
    from tasks.model.scoring.scorer import Scorer, scorer_for
    from tasks.objective.recorded_logprobs import behaviour_logprobs
    from tasks.update.step_plan import Step
    from tasks.update.update import optimizer_step, start_training

    params = update_params()
    tokenizer = tokenizer_of(shape)
    policy = Policy(attach_adapter(model_of(shape), shape.rank, ALPHA, 0), tokenizer, "", "scratch")
    tokenizer.add_special_tokens({"eos_token": "<never>"})  # no token of the model: a completion ends at its length
    prompts = prompts_of(shape, 256)
    training = start_training(policy.model, params, steps=10_000)
    scorer: Scorer | None = None
    step = 0
    while True:
        wait()
        clock = Clock()
        with clock.whole():
            own = [prompts[(step * shape.prompts + p) % len(prompts)] for p in range(shape.prompts)]
            lengths = lengths_of(shape, step)
            with clock.part("sample"):
                requests = [
                    Request(own[i // shape.completions], step * 1000 + i, max_tokens=n) for i, n in enumerate(lengths)
                ]
                sampler = Sampler(policy, 1.0, shape.longest)
                written: dict[int, Any] = {}
                for rows in sampler.batches(requests):
                    written.update(zip(rows, sampler.complete([requests[i] for i in rows]), strict=True))
            groups = groups_of(own, [written[i] for i in range(len(lengths))])
            # once, as in a round
            scorer = scorer or scorer_for(policy, groups[0].samples, 1.0, shape.micro_batch_tokens)
            with clock.part("update"):
                taken = Step(1, groups)
                optimizer_step(training, scorer, taken, behaviour_logprobs(scorer, taken.samples), None, params)
        assert [len(written[i].tokens) for i in range(len(lengths))] == lengths
        answer(clock)
        step += 1


def forget_peak() -> None:
    """Let the most memory of this process be what it holds now. Linux only."""
    Path("/proc/self/clear_refs").write_text("5")


def memory() -> tuple[float, float]:
    """MB that this process holds now, and the most since `forget_peak`. Linux only."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return float(status["VmRSS"].split()[0]) / 1024, float(status["VmHWM"].split()[0]) / 1024


def main() -> None:
    """Take a step for each line."""
    import torch

    shape = Shape(**json.loads(sys.argv[2]))
    torch.set_num_threads(shape.threads)
    out = os.fdopen(os.dup(1), "w")  # what libraries print stays out of the answers
    taken = 0
    held = 0.0

    def wait() -> None:
        nonlocal held
        if not sys.stdin.readline():
            sys.exit(0)
        if not taken:
            forget_peak()
            held = memory()[0]

    def answer(clock: Clock) -> None:
        nonlocal taken
        taken += 1
        print(json.dumps(asdict(clock) | {"memory": memory()[1] - held}), file=out, flush=True)

    with redirect_stdout(sys.stderr):
        {"trl": trl, "graft": graft}[sys.argv[1]](shape, wait, answer)


if __name__ == "__main__":
    main()
