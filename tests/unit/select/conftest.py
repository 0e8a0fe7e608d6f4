"""A folder for the stage `select`, an exact policy, and other samples."""

import pytest

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.select_layout import layout

__all__ = ["layout"]


@pytest.fixture
def exact(make_policy: MakePolicy) -> Policy:
    """gpt2 in float64: the other architectures compute norms in float32 whatever the type of their weights."""
    return make_policy("gpt2", "float64")


@pytest.fixture
def others(make_samples: MakeSamples) -> list[Sample]:
    """To validate with."""
    return make_samples(seed=1)


@pytest.fixture(params=["merged", "hooks"])
def lora_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients come from merged LoRA matrices, as in small models, or from hooks."""
    limit = 500_000_000 if request.param == "merged" else 0
    monkeypatch.setattr("tasks.model.layers.lora_linears.MERGED_PARAMETERS", limit)
