"""Policies with one damaged file, given to whatever takes a policy: each has to refuse them."""

import json
import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from flows.ask import ask
from flows.champion import export
from tasks.artifacts import copy_folder, write_bytes
from tasks.bootstrap.base_check import check_base
from tasks.bootstrap.start import load_start
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import save_policy
from tasks.model.sampling.vllm.serve import serve_policy
from tasks.model.sampling.vllm.server import use_server
from tasks.params.sections import PolicyParams
from tasks.promote.challenger import approve_challenger, keep_challenger
from tasks.promote.champion import promote_policy, roll_back
from tasks.records.policy import PromptFormat
from tests.support.champions import NOW, better_policy, waiting
from tests.support.policies import tiny_policy
from tests.support.stage_params import SHIPPED
from tests.support.vllm_server import server_at

PROMPT = PromptFormat(style="plain", examples=0, instructions=True, before="Q: ", after="\nA:", prefill="", stop=["\n"])


def save_whole_policy(folder: Path, seed: int = 0) -> None:
    """A policy with all files that one can have."""
    policy = tiny_policy(seed=seed)
    policy.prompt_format = PROMPT
    save_policy(policy, folder, None, 1, lambda new: write_bytes(new / "value_head.safetensors", b"a head's weights"))


def _flipped(place: Callable[[bytes], int]) -> Callable[[bytes], bytes]:
    def damage(content: bytes) -> bytes:
        at = place(content)
        return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]

    return damage


def _swapped(content: bytes) -> bytes:
    """Two tokens of a tokenizer, else the values of two keys, else two bytes have changed places."""
    parsed = _parsed(content)
    if not parsed:
        other = next(place for place, byte in enumerate(content) if byte != content[0])
        return bytes([content[other]]) + content[1:other] + content[:1] + content[other + 1 :]
    part = parsed["model"]["vocab"] if "model" in parsed else parsed
    names = list(part)
    one, other = next((a, b) for a, b in pairwise(names) if part[a] != part[b])
    part[one], part[other] = part[other], part[one]
    return json.dumps(parsed, indent=2).encode()


def _with_key(content: bytes) -> bytes:
    parsed = _parsed(content)
    return json.dumps({**parsed, "zz": 0}, indent=2).encode() if parsed else b"zz" + content


def _without_key(content: bytes) -> bytes:
    parsed = _parsed(content)
    return json.dumps(dict(list(parsed.items())[1:]), indent=2).encode() if parsed else content[8:]


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda _: b"",
    "halved": lambda content: content[: len(content) // 2],
    "cut at the end": lambda content: content[:-2],
    "first byte flipped": _flipped(lambda _: 0),
    "byte of the middle flipped": _flipped(lambda content: len(content) // 2),
    "last byte flipped": _flipped(lambda content: len(content) - 1),
    "a byte more": lambda content: content + b"x",
    "twice": lambda content: content * 2,
    "filled with zeros": lambda content: bytes(len(content)),
    "two tokens swapped": _swapped,
    "a key more": _with_key,
    "a key less": _without_key,
}


def damages(folder: Path) -> Iterator[str]:
    """Damage a policy folder in one way at a time, told by name, and mend it again."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for file in files:
        content = file.read_bytes()
        for name, damage in WAYS.items():
            damaged = damage(content)
            assert damaged != content, (file, name)
            write_bytes(file, damaged, durable=False)  # by another name: earlier champions may be hard links
            yield f"{file.relative_to(folder)}: {name}"
        file.unlink()
        yield f"{file.relative_to(folder)}: removed"
        os.symlink("/nothing/there", file)
        yield f"{file.relative_to(folder)}: a link to nothing"
        file.unlink()
        write_bytes(file, content, durable=False)
    more = folder / "added_tokens.json"
    write_bytes(more, b'{"a": 1}')
    yield "a file more"
    more.unlink()


def project_of_policies(root: Path) -> None:
    """A champion, an earlier one, and a better one that waits."""
    for seed in range(3):
        save_whole_policy(root / "run" / "policy", seed)
        challenger = better_policy(root, f"seed {seed}")
        if seed < 2:
            promote_policy(root / "champion", challenger, NOW)
        else:
            keep_challenger(Layout(root), waiting(challenger))


def _params(folder: Path) -> PolicyParams:
    return SHIPPED.policy.model_copy(update={"base": str(folder), "lora": None})


def _serve(root: Path) -> None:
    params = server_at("http://127.0.0.1:9/v1")  # nobody answers: no policy gets so far
    with use_server(params), serve_policy(Layout(root), "float32", root / "run" / "policy", "search@1"):
        pass


TAKERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "export": ("champion/policy", lambda root: export(Layout(root), None, root / "out", "merged", False)),
    "export of another": (
        "run/policy",
        lambda root: export(Layout(root), root / "run" / "policy", root / "out", "merged", False),
    ),
    "question": ("champion/policy", lambda root: list(ask(Layout(root), SHIPPED, ["2 + 2?"], None, 0, False))),
    "approval": ("challenger/policy", lambda root: approve_challenger(Layout(root), _version(root), "", NOW)),
    "rollback": ("champion/previous/1/policy", lambda root: roll_back(root / "champion", None, "", NOW)),
    "start of a run": ("run/policy", lambda root: load_start(_params(root / "run" / "policy"))),
    "server": ("run/policy", _serve),
}
"""Name → the folder of a project that is taken, and the function that takes it."""

BEFORE_A_RUN = ("run/policy", lambda root: check_base(_params(root / "run" / "policy")))


def _version(root: Path) -> str:
    return str(json.loads((root / "challenger" / "promotion.json").read_bytes())["version"])


def refuses(take: Callable[[Path], object], root: Path, folder: Path) -> bool:
    """Whether a damaged policy is refused in one line that names it."""
    try:
        take(root)
    except GraftError as error:
        line = str(error)
        return str(folder) in line and "\n" not in line
    return False


def accepted(root: Path) -> list[str]:
    """Damaged policies that are taken, over all takers, files and ways."""
    project_of_policies(root / "whole")
    found = []
    for name, (place, take) in TAKERS.items():
        copy = root / name.replace(" ", "-")
        copy_folder(root / "whole", copy)
        found += [f"{name}: {damage}" for damage in damages(copy / place) if not refuses(take, copy, copy / place)]
    return found
