"""Check of a base before anything is computed from it, by a child process with limits of time and memory.

A base comes from strangers, and a library that reads it may loop, take all memory or end the process. The child reads
all but the weights: configuration, names and sizes of weights, adapter, tokenizer, a chat by the template, and the
number of tokens of some questions.

    parent ── params of the policy, questions ──► child: `main`
           ◄── what is read now; at the end the error, or none ──
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from resource import RLIMIT_CPU, RLIMIT_DATA, RUSAGE_SELF, getrusage, setrlimit
from subprocess import DEVNULL, PIPE
from tempfile import NamedTemporaryFile
from typing import Any, get_args

from tasks.artifacts import read_json, read_jsonl
from tasks.bootstrap.prompt_formats import render_question
from tasks.bootstrap.scratch_model import CONTEXT
from tasks.bootstrap.start import load_start
from tasks.bootstrap.tokenizer import fewest_tokens
from tasks.core.child_process import end_with_parent, kill_tree, spawn
from tasks.environments.prompts import SCRATCH
from tasks.errors import GraftError, TransientError
from tasks.layout import Layout
from tasks.model.checkpoints.base_adapter import adapter_folder, tokenizer_of_adapter
from tasks.model.checkpoints.base_model import load_tokenizer
from tasks.model.checkpoints.gguf import MAX_LAYERS, is_converted, is_gguf, load_gguf_tokenizer
from tasks.model.checkpoints.load_errors import translate_errors
from tasks.model.checkpoints.version import LINEAGE, verify_policy
from tasks.model.policy import Policy
from tasks.params.sections import PolicyParams
from tasks.records.policy import Lineage
from tasks.records.problems import Problem, Split

BLOCKED_SECONDS = 600.0
"""By the clock, for a child that waits for the hub or a disk."""

MEMORY = 4 << 30  # bytes, besides what the libraries take

PARTS = {
    "tokenizer": (30, "its tokenizer"),
    "model": (5, "its configuration, its adapter or the names of its weights"),
    "template": (1, "its chat template"),
    "questions": (30, "questions with its tokenizer"),
}
"""Part of a base → most CPU seconds, and its name. The largest vocabularies take about one, the rest less."""

ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


CHECKED = set[str]()
"""Params of bases that were read in this process: `graft retrain` checks before anything runs, and the stage does it
where it runs alone."""


def check_base(params: PolicyParams, questions: Mapping[str, str] | None = None, download: bool = True) -> None:
    """Raises GraftError, as the stages would, if the base is no model, or cannot be read within the limits.

    `questions`, by their places in files: also if it has no room for one of them and a completion, with that place at
    the beginning; of scratch, which has no tokenizer yet, by its words. `download`: False takes a base of the hub from
    the cache alone.
    """
    if params.base == SCRATCH:
        check_room(questions or {}, fewest_tokens, CONTEXT, params)
        return
    policy = params.model_dump_json()
    if not questions and policy in CHECKED:
        return
    with NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(dict(questions or {}), file)
        file.flush()
        _check(policy, file.name, ENVIRONMENT if download else {**ENVIRONMENT, "HF_HUB_OFFLINE": "1"})
    CHECKED.add(policy)


def _check(params: str, questions: str, environment: Mapping[str, str]) -> None:
    process = spawn("tasks.bootstrap.base_check", params, questions, env=environment, stdout=PIPE, stderr=DEVNULL)
    alarm = threading.Timer(BLOCKED_SECONDS, kill_tree, (process,))
    alarm.start()
    try:
        lines = process.stdout.read().decode().splitlines()  # type: ignore[union-attr]
    finally:
        alarm.cancel()
        kill_tree(process)
    last = json.loads(lines[-1]) if lines else {}
    base = json.loads(params)["base"]
    if "part" in last:
        seconds, what = PARTS[last["part"]]
        raise GraftError(
            f"policy.base: {base!r}: reading {what} took over {seconds} s or {MEMORY >> 30} GB, or ended the process; "
            "restore it from a copy, or name another"
        )
    if "error" not in last:
        raise GraftError(f"policy.base: {base!r} could not be checked; run graft doctor, or free some memory")
    if last["error"] is not None:
        raise (TransientError if last["transient"] else GraftError)(last["error"])
    if Path(base, LINEAGE).exists():
        verify_policy(Path(base))


def main() -> None:
    """Read the base of the params in the first argument, with the questions in the file of the second, and report."""
    end_with_parent()
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the libraries print
    params = PolicyParams.model_validate_json(sys.argv[1])
    questions = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: F401 (before the limits: not the base's part)

    adapters = (f"{params.base}/adapter", f"{params.base}/adapter_config.json")
    if any(map(os.path.exists, adapters)) or not os.path.exists(params.base):  # a Hugging Face id may be an adapter
        import peft  # noqa: F401

    def report(**line: Any) -> None:
        print(json.dumps(line), file=reports, flush=True)

    read_limited(params, questions, report)
    os._exit(0)  # without the clean-up of libraries that may be broken


def read_limited(params: PolicyParams, questions: Mapping[str, str], report: Callable[..., None]) -> None:
    """Read the base in this process, whose limits are set, and report the parts as they begin, then the error."""
    data = int(Path("/proc/self/status").read_text().partition("VmData:")[2].split()[0]) << 10
    setrlimit(RLIMIT_DATA, (data + MEMORY, data + MEMORY))

    def begin(part: str, more: float = 0.0) -> None:
        report(part=part)
        used = getrusage(RUSAGE_SELF)
        setrlimit(RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + more + PARTS[part][0]) + 1, -1))

    try:
        read_base(params, begin, questions)
    except GraftError as error:
        report(error=str(error), transient=isinstance(error, TransientError))
    else:
        report(error=None, transient=False)


def read_base(params: PolicyParams, begin: Callable[..., None], questions: Mapping[str, str]) -> None:
    """Read all but the weights, and call `begin` before each part.

    Raises GraftError if the base is no model, or has no room for a question.
    """
    problem = f"policy.base: {params.base!r} cannot be read"
    with translate_errors(problem, "restore it from a copy, or name another"):
        try:
            begin("tokenizer")
            began = time.process_time()
            tokenizer = _tokenizer(params.base)
            begin("model", time.process_time() - began)  # it is loaded again
            policy = None
            if not is_gguf(params.base) or is_converted(params.base):
                _check_layers(params.base)
                policy, _ = load_start(params, "meta")
                tokenizer = policy.tokenizer
            if tokenizer.chat_template and params.prompt.style not in ("plain", "raw"):
                begin("template")
                render_question(tokenizer)
            if policy and questions:
                begin("questions")
                _check_room(policy, questions, params)
        except MemoryError as error:
            raise ValueError(f"it takes over {MEMORY >> 30} GB without its weights") from error


def _check_room(policy: Policy, questions: Mapping[str, str], params: PolicyParams) -> None:
    from tasks.model.sampling.sampler import max_prompt_tokens

    context = max_prompt_tokens(policy, params.max_new_tokens) + params.max_new_tokens
    check_room(questions, partial(count_tokens, policy.tokenizer), context, params)


def count_tokens(tokenizer: Any, text: str) -> int:
    """Number of tokens of a text alone."""
    return len(tokenizer(text, add_special_tokens=False)["input_ids"])


def check_room(questions: Mapping[str, str], count: Callable[[str], int], context: int, params: PolicyParams) -> None:
    """Raise GraftError if a question, of `count` tokens, and a completion take more than the `context` of the base.

    What a prompt has besides its question, such as instructions and worked examples, is not counted.
    """
    for place, question in questions.items():
        if (tokens := count(question)) > context - params.max_new_tokens:
            raise GraftError(
                f"{place}: a question of {tokens} tokens, but {params.base} holds {context}, {params.max_new_tokens} "
                "of them for a completion (policy.max_new_tokens); leave it out, or take a base that holds more"
            )


def check_splits(layout: Layout, tokenizer: Any, params: PolicyParams) -> None:
    """Raise GraftError if a question of any split has more tokens than a model from scratch has room for.

    Only a refusal depends on the splits that are not trained on, no output: they are no dependencies of the stage.
    """
    files = {split: layout.problems(split) for split in get_args(Split)}
    questions = {
        f"{problem.source}: {split} problem {problem.problem_id}": question
        for split, file in files.items()
        for problem in (read_jsonl(file, Problem) if file.exists() else [])
        for question in problem.questions
        if len(question.encode()) > CONTEXT - params.max_new_tokens  # a token has a byte or more
    }
    check_room(questions, partial(count_tokens, tokenizer), CONTEXT, params)


def _tokenizer(base: str) -> Any:
    if is_gguf(base) and not is_converted(base):
        return load_gguf_tokenizer(base)
    folder = Path(base)
    if (folder / LINEAGE).exists():
        return load_tokenizer(base, read_json(folder / LINEAGE, Lineage).base)
    adapter = None if (folder / "adapter").exists() else adapter_folder(base)
    return load_tokenizer(tokenizer_of_adapter(adapter), base) if adapter else load_tokenizer(base)


def _check_layers(base: str) -> None:
    """Raises GraftError if a folder's configuration has more layers than any model: making them takes minutes."""
    file = Path(base, "config.json")
    if not file.is_file():
        return
    config = json.loads(file.read_bytes())
    for part in [config, *config.values()] if isinstance(config, dict) else []:
        for name in ("num_hidden_layers", "n_layer", "n_layers", "num_layers"):
            count = part.get(name) if isinstance(part, dict) else None
            if isinstance(count, int) and count > MAX_LAYERS:
                raise GraftError(f"{file}: {name}: {count}, more than any model has; correct it, or name another base")


if __name__ == "__main__":
    main()
