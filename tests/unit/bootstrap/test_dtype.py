"""Types of a base: a frozen one may be bfloat16, weights that are trained are float32, in each later load too."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.bootstrap.start import attach_lora, load_start
from tasks.errors import GraftError
from tasks.model.checkpoints import base_model
from tasks.model.checkpoints.version import verify_policy
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.params.sections import PolicyParams
from tests.support.models import same_logits, save_base
from tests.support.policies import MakePolicy
from tests.support.stage_params import SHIPPED


@pytest.fixture
def base(tmp_path: Path, make_policy: MakePolicy) -> Path:
    """A checkpoint in bfloat16, as most are."""
    save_base(make_policy, tmp_path / "base", dtype="bfloat16")
    return tmp_path / "base"


def params(base: Path, **changes: Any) -> PolicyParams:
    return SHIPPED.policy.model_copy(update={"base": str(base), **changes})


def types_of(policy: Policy) -> tuple[set[torch.dtype], set[torch.dtype]]:
    """The types of frozen and of trained weights."""
    weights = list(policy.model.parameters())
    return {w.dtype for w in weights if not w.requires_grad}, {w.dtype for w in weights if w.requires_grad}


def started(params: PolicyParams) -> Policy:
    return attach_lora(load_start(params)[0], params, 0)


def test_the_type_of_a_frozen_base_is_kept_in_its_policy(base: Path, tmp_path: Path) -> None:
    narrow, wide = started(params(base, dtype="bfloat16")), started(params(base))
    assert types_of(narrow) == ({torch.bfloat16}, {torch.float32})
    assert types_of(wide) == ({torch.float32}, {torch.float32})
    versions = [save_policy(p, tmp_path / n, None, 0).version for p, n in ((narrow, "narrow"), (wide, "wide"))]
    assert versions[0] != versions[1]
    assert verify_policy(tmp_path / "narrow").dtype == "bfloat16"
    assert "dtype" not in (tmp_path / "wide" / "lineage.json").read_text()
    loaded = load_policy(tmp_path / "narrow")
    assert types_of(loaded) == types_of(narrow)
    assert same_logits(loaded.model, narrow.model)
    assert types_of(load_start(params(tmp_path / "narrow", dtype="bfloat16"))[0]) == types_of(narrow)
    with pytest.raises(GraftError, match=r"^policy\.dtype: auto, but .* trained with bfloat16; set policy\.dtype to b"):
        load_start(params(tmp_path / "narrow"))


def test_weights_that_are_trained_are_float32_on_every_device(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where a model otherwise keeps the checkpoint's type."""
    monkeypatch.setattr(base_model, "device_of", lambda _: "meta")
    model = base_model.load_model(str(base))
    assert {w.dtype for w in model.parameters()} == {torch.bfloat16}
    monkeypatch.undo()
    whole = started(params(base, lora=None))
    assert types_of(whole) == (set(), {torch.float32})
    save_policy(whole, tmp_path / "whole", None, 0)
    assert types_of(load_policy(tmp_path / "whole")) == (set(), {torch.float32})
    monkeypatch.setattr(base_model, "device_of", lambda _: "meta")
    assert types_of(load_policy(tmp_path / "whole")) == (set(), {torch.float32})
