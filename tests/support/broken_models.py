"""Model folders that cannot be used: each a change of a valid folder, and the words of the error that it gives."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Change = Callable[[Path], Any]


def save_model(folder: Path) -> None:
    """A valid folder: a tiny Llama with a byte-level tokenizer and a chat template."""
    from tasks.bootstrap.tokenizer import train_tokenizer
    from tests.support.policies import CORPUS, VOCABULARY, tiny_model

    tiny_model("llama").save_pretrained(folder)
    tokenizer = train_tokenizer(CORPUS, VOCABULARY)
    tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<me>"
    tokenizer.save_pretrained(folder)


def template(text: str) -> Change:
    return lambda folder: (folder / "chat_template.jinja").write_text(text)


def values(name: str, **more: Any) -> Change:
    def change(folder: Path) -> None:
        file = folder / name
        content = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(content | more))

    return change


def template_of_config(content: Any) -> Change:
    def change(folder: Path) -> None:
        (folder / "chat_template.jinja").unlink()
        values("tokenizer_config.json", chat_template=content)(folder)

    return change


def tokenizer_with(**more: Any) -> Change:
    return values("tokenizer.json", **more)


def adapter(**more: Any) -> Change:
    """An adapter of the folder's own model, of which only the configuration matters."""

    def change(folder: Path) -> None:
        from safetensors.torch import save_file
        from torch import zeros

        config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "target_modules": ["q_proj"]} | more
        (folder / "adapter_config.json").write_text(json.dumps(config))
        save_file({"base_model.model.x.lora_A.weight": zeros(2, 2)}, folder / "adapter_model.safetensors")

    return change


def index(**files: str) -> Change:
    def change(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder.parent / "elsewhere.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))

    return change


def write(name: str, content: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(content)


def gguf_of_many_tokens(folder: Path) -> Path:
    """A GGUF file whose list of tokens has five million entries."""
    import struct

    def text(value: bytes) -> bytes:
        return struct.pack("<Q", len(value)) + value

    name = text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
    tokens = text(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 5_000_000) + text(b"a") * 5_000_000
    file = folder / "many.gguf"
    file.write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 0, 2) + name + tokens)
    return file


NESTED = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{{ messages[0].content }}"
CHARSMAP = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}

BROKEN: dict[str, tuple[Change, str]] = {
    "a template that loops": (template(NESTED), "chat template took over"),
    "a template that recurses": (template("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}"), "chat template fails"),
    "a template with a syntax error": (template("{% for %}"), "chat template fails"),
    "a template that the sandbox refuses": (template("{{ messages.__class__.__mro__ }}"), "chat template"),
    "a template that takes all memory": (template("{{ 'a' * 10 ** 11 }}"), "chat template|takes over"),
    "a template that refuses": (template("{{ raise_exception('no') }}"), "chat template fails"),
    "a template that leaves out the question": (template("hello"), "leaves out the message"),
    "a template that is a number": (template_of_config(5), "chat template|cannot be read|no tokenizer"),
    "a template that is a list": (template_of_config([1]), "chat template|cannot be read|no tokenizer"),
    "a template that is bytes": (write("chat_template.jinja", b"\xff\xfe{{"), "no tokenizer|chat template"),
    "a charsmap that is none": (tokenizer_with(normalizer=CHARSMAP), "no tokenizer|cannot be read"),
    "a pattern that never ends": (tokenizer_with(pre_tokenizer={"type": "Split"}), "no tokenizer"),
    "100,000 layers": (values("config.json", num_hidden_layers=100_000), "more than any model has"),
    "another number of layers": (values("config.json", num_hidden_layers=3), "lack model"),
    "another size": (values("config.json", intermediate_size=64), "other sizes"),
    "no size": (values("config.json", hidden_size="wide"), "hidden_size"),
    "no configuration": (write("config.json", b"{"), "cannot be read|no causal language model|no tokenizer"),
    "an adapter pattern that never ends": (adapter(target_modules="([a-z0-9_.]+)+!"), "adapter.* took over"),
    "replicated layers": (adapter(layer_replication=[[0, 10**6]]), "layer_replication is set"),
    "an adapter of other weights": (adapter(), "is no adapter of"),
    "an index that names a pickle": (index(a="pytorch_model.bin"), "no safetensors file of this folder"),
    "an index that names another folder": (index(a="../elsewhere.safetensors"), "no safetensors file of this folder"),
    "cut weights": (write("model.safetensors", b"\x20\0\0\0\0\0\0\0{"), "no causal language model"),
    "an end token without an embedding": (values("config.json", vocab_size=1), "other sizes|embeddings"),
}
