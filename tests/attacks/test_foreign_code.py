"""Law: a base or a policy folder is data; its code runs only where the user names it."""

import json
import os
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tasks.errors import GraftError
from tasks.model.checkpoints.base_model import load_model
from tasks.model.checkpoints.foreign_files import REMOTE_CODE
from tasks.model.policy import load_policy, load_tokenizer
from tests.support.broken_files import broken, case_numbers

MODELING = """
import os
os.mkdir({marker!r})
from transformers import Qwen2Config, Qwen2ForCausalLM

class OddConfig(Qwen2Config):
    model_type = "odd"

class Odd(Qwen2ForCausalLM):
    config_class = OddConfig
"""


class Malice:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.marker),)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "ran"


@pytest.fixture
def base(tmp_path: Path, save_tiny: Callable[..., None]) -> Path:
    """An undamaged base."""
    save_tiny(tmp_path / "base", full=True)
    load_model(str(tmp_path / "base"))
    return tmp_path / "base"


def pickled(base: Path, content: bytes) -> None:
    (base / "model.safetensors").unlink()
    (base / "pytorch_model.bin").write_bytes(content)


def foreign(base: Path, marker: Path) -> None:
    """The same model, of a type that only its own code defines."""
    config = json.loads((base / "config.json").read_text())
    own = {"AutoConfig": "odd.OddConfig", "AutoModelForCausalLM": "odd.Odd"}
    own |= {"AutoModelForSequenceClassification": "odd.Odd"}
    (base / "config.json").write_text(json.dumps(config | {"model_type": "odd", "auto_map": own}))
    (base / "odd.py").write_text(MODELING.format(marker=str(marker)))


@pytest.mark.parametrize("kind", ["honest", "malicious", "plain pickle"])
def test_a_pickle_of_weights_is_refused_and_not_run(kind: str, base: Path, marker: Path, tmp_path: Path) -> None:
    torch.save({"x": torch.ones(2) if kind == "honest" else Malice(marker)}, tmp_path / "weights")
    content = pickle.dumps(Malice(marker)) if kind == "plain pickle" else (tmp_path / "weights").read_bytes()
    pickled(base, content)
    for read in (lambda: load_model(str(base)), lambda: load_policy(base)):
        with pytest.raises(GraftError) as caught:
            read()
        assert "\n" not in str(caught.value)
    with pytest.raises(GraftError, match=r"weights are read from safetensors only.*: convert it, or choose another"):
        load_model(str(base))
    assert not marker.exists()


def test_code_of_a_base_does_not_run_and_no_question_is_asked(
    base: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign(base, marker)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("the terminal was asked"))
    message = rf"comes with Python code, which is not run: .*{REMOTE_CODE}=BASE"
    with pytest.raises(GraftError, match=message) as caught:
        load_model(str(base))
    assert "\n" not in str(caught.value)
    with pytest.raises(GraftError, match=message):
        load_policy(base)
    monkeypatch.setenv(REMOTE_CODE, "some/other")
    with pytest.raises(GraftError, match=message):
        load_model(str(base))
    assert not marker.exists()


def test_code_of_the_base_that_is_named_runs(
    base: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    foreign(base, marker)
    monkeypatch.setenv(REMOTE_CODE, str(base))
    assert type(load_model(str(base))).__name__ == "Odd"
    assert marker.exists()


@pytest.mark.parametrize("code", ["a file of its own", "another repository", "a function of generation"])
def test_code_of_a_folder_made_of_a_trusted_base_does_not_run(
    code: str, marker: Path, tmp_path: Path, save_tiny: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lineage is data: it names a base, and anyone can write it."""
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setenv(REMOTE_CODE, "some/trusted")
    policy = tmp_path / "policy"
    save_tiny(policy, full=True)
    lineage = json.loads((policy / "lineage.json").read_text())
    (policy / "lineage.json").write_text(json.dumps(lineage | {"base": "some/trusted"}))
    load_policy(policy)
    if code == "a function of generation":
        (policy / "custom_generate").mkdir()
        (policy / "custom_generate" / "generate.py").write_text(MODELING.format(marker=str(marker)))
    elif code == "another repository":
        foreign(policy, marker)
        (policy / "odd.py").rename(tmp_path / "odd.py")
        config = json.loads((policy / "config.json").read_text())
        own = {name: f"{tmp_path}--{value}" for name, value in config["auto_map"].items()}
        (policy / "config.json").write_text(json.dumps(config | {"auto_map": own}))
    else:
        foreign(policy, marker)
    try:
        load_policy(policy)  # without a type of its own the model is one that transformers has
    except GraftError as error:
        assert REMOTE_CODE in str(error)  # noqa: PT017 (either is right)
    assert not marker.exists()


def test_code_of_a_tokenizer_does_not_run(base: Path, marker: Path) -> None:
    config = json.loads((base / "tokenizer_config.json").read_text())
    own = {"auto_map": {"AutoTokenizer": ["odd.OddTokenizer", "odd.OddTokenizer"]}, "tokenizer_class": "OddTokenizer"}
    (base / "tokenizer_config.json").write_text(json.dumps(config | own))
    (base / "odd.py").write_text(MODELING.format(marker=str(marker)))
    try:
        load_tokenizer(str(base))  # by tokenizer.json, which is data
    except GraftError as error:
        assert REMOTE_CODE in str(error)  # noqa: PT017 (either is right)
    assert not marker.exists()


def test_an_adapter_that_lacks_weights_is_no_adapter(tmp_path: Path, save_tiny: Callable[..., None]) -> None:
    save_tiny(tmp_path / "policy")
    file = tmp_path / "policy" / "adapter" / "adapter_model.safetensors"
    weights = load_file(file)
    del weights[sorted(weights)[0]]
    save_file(weights, file)
    with pytest.raises(GraftError, match=r"no complete policy .*Found missing adapter keys"):
        load_policy(tmp_path / "policy")


FILES = ["config.json", "tokenizer.json", "tokenizer_config.json", "lineage.json", "adapter/adapter_config.json"]
FILES += ["model.safetensors", "adapter/adapter_model.safetensors"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_of_a_policy_is_one_line(name: str, tmp_path: Path, save_tiny: Callable[..., None]) -> None:
    save_tiny(tmp_path / "policy")
    file = tmp_path / "policy" / name
    if not file.exists():
        pytest.skip(f"a policy of this kind has no {name}")
    valid = file.read_bytes()
    load_policy(tmp_path / "policy")
    for number in case_numbers():
        file.write_bytes(broken(valid, random.Random(number)))
        try:
            load_policy(tmp_path / "policy")
        except GraftError as error:
            assert str(error).isprintable(), number  # noqa: PT017 (to be read is as right)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} in case {number}") from error
