"""Policies with and without an adapter, continued by later runs: plain libraries load them all."""

import re
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.artifacts import digest_path, read_json
from tasks.bootstrap.start import attach_lora, load_start
from tasks.errors import GraftError
from tasks.model.checkpoints.lora import linear_modules
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.params.file import load_params
from tasks.params.sections import Lora
from tasks.programs.contract import prompt_of
from tasks.records.policy import Lineage
from tests.support.models import logits, perturb, same_logits, save_base
from tests.support.params_file import override
from tests.support.policies import MakePolicy
from tests.support.stage_params import LORA, REPOSITORY, policy_params

FirstChampion = Callable[..., Policy]


def load_plainly(folder: Path) -> Any:
    """As docs/getting-started.md does it."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    weights = folder if (folder / "model.safetensors").exists() else read_json(folder / "lineage.json", Lineage).base
    model = AutoModelForCausalLM.from_pretrained(weights)
    return PeftModel.from_pretrained(model, folder / "adapter") if (folder / "adapter").exists() else model


@pytest.fixture
def hub(tmp_path: Path, make_policy: MakePolicy) -> Path:
    """A plain model folder."""
    return save_base(make_policy, tmp_path / "hub")


@pytest.fixture
def first_champion(hub: Path, tmp_path: Path, make_policy: MakePolicy) -> FirstChampion:
    """first_champion(root, form, name="champion"): the policy of the first run, saved under that name."""

    def saved(root: str, form: Lora | None, name: str = "champion") -> Policy:
        start = make_policy(full=True) if root == "scratch" else load_start(policy_params(hub, form))[0]
        policy = perturb(attach_lora(start, policy_params("scratch" if root == "scratch" else hub, form), seed=0))
        save_policy(policy, tmp_path / name, parent="p", round=3)
        return policy

    return saved


@pytest.mark.parametrize(
    ("root", "forms"),
    [*(("scratch", forms) for forms in ((LORA,), (LORA, LORA), (None, LORA, LORA)))]
    + [("hub", forms) for forms in ((None,), (LORA, LORA), (None, None), (None, LORA))],
)
def test_in_each_run_the_folder_loads_plainly_and_its_lineage_is_right(
    root: str, forms: tuple[Lora | None, ...], hub: Path, tmp_path: Path, first_champion: FirstChampion
) -> None:
    champion, folder = tmp_path / "champion", tmp_path / "policy"
    policy = first_champion(root, forms[0])
    for form in forms[1:]:
        continued, parent = load_start(policy_params(champion, form))
        assert parent == read_json(champion / "lineage.json", Lineage).version
        continued = attach_lora(continued, policy_params(champion, form), seed=1)
        assert same_logits(continued.model, policy.model)
        adapter = digest_path(champion / "adapter") if (champion / "adapter").exists() else None
        shutil.rmtree(champion)  # a promotion puts another in its place
        lineage = save_policy(continued, folder, parent, round=0)
        assert (lineage.parent, lineage.round) == (parent, 0)
        if adapter is not None:
            assert digest_path(folder / "adapter") == adapter  # the parent's, to the byte
        assert same_logits(load_policy(folder).model, policy.model)
        assert same_logits(load_plainly(folder), policy.model)
        policy = perturb(load_policy(folder))
        assert not same_logits(policy.model, load_plainly(folder))
        save_policy(policy, champion, lineage.version, round=1)
        shutil.rmtree(folder)
    lineage = read_json(champion / "lineage.json", Lineage)
    assert lineage.base == ("scratch" if root == "scratch" else str(hub))
    has_weights = root == "scratch" or None in forms
    assert lineage.holds == ["weights"] * has_weights + ["adapter"] * (forms[-1] is not None)
    assert (champion / "model.safetensors").exists() == has_weights
    assert (champion / "adapter").exists() == (forms[-1] is not None)
    back = load_policy(champion)
    assert same_logits(back.model, policy.model)
    assert same_logits(back.model, load_plainly(champion))
    assert (prompt_of("How many?", back.base) == "How many?\n") == (root == "scratch")


def origin(folder: Path) -> Lineage:
    """The lineage without the digests of files: transformers gives a tokenizer that it loads another class."""
    return read_json(folder / "lineage.json", Lineage).model_copy(update={"files": None})


@pytest.mark.parametrize("root", ["scratch", "hub"])
def test_full_fine_tuning_is_a_plain_model_whose_weights_are_written(
    root: str, tmp_path: Path, first_champion: FirstChampion
) -> None:
    folder = tmp_path / "champion"
    policy = first_champion(root, None)
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} - {"generation_config.json"}
    tokenizer = {"tokenizer.json", "tokenizer_config.json"}
    assert files == {"config.json", "model.safetensors", "lineage.json"} | tokenizer
    back = load_policy(folder)
    assert not back.has_adapter
    assert not back.model.training
    assert all(p.requires_grad for p in back.model.parameters())
    save_policy(load_policy(folder), tmp_path / "again", parent="p", round=3)
    for name in ("model.safetensors", "config.json"):
        assert digest_path(folder / name) == digest_path(tmp_path / "again" / name)
    assert origin(tmp_path / "again") == origin(folder)
    version = read_json(folder / "lineage.json", Lineage).version
    with torch.no_grad():
        next(policy.model.parameters()).view(-1)[0] += 0.01
    assert save_policy(policy, folder, parent="p", round=3).version != version


@pytest.mark.parametrize(("root", "form"), [("scratch", LORA), ("hub", LORA), ("hub", None)])
def test_a_policy_loaded_instead_of_another_is_the_same_as_loaded_alone(
    root: str, form: Lora | None, tmp_path: Path, first_champion: FirstChampion
) -> None:
    policy = first_champion(root, form, "0")
    save_policy(perturb(policy), tmp_path / "1", parent="p", round=1)
    discarded = load_policy(tmp_path / "0")
    weights = weakref.ref(next(discarded.model.parameters()))
    after = load_policy(tmp_path / "1", instead_of=discarded)
    assert discarded.model is None
    assert (weights() is None) == (form is None)  # freed, or in use again
    alone = load_policy(tmp_path / "1")
    assert torch.equal(logits(after.model), logits(alone.model))
    assert (after.version, after.base, after.holds) == (alone.version, alone.base, alone.holds)
    states = [{name: p.requires_grad for name, p in each.model.named_parameters()} for each in (after, alone)]
    assert states[0] == states[1]
    save_policy(after, tmp_path / "2", parent="p", round=1)
    assert origin(tmp_path / "2") == origin(tmp_path / "1")


# --- an adapter can only be continued in the form that it has


@pytest.mark.parametrize("change", [{"rank": 8}, {"alpha": 16.0}, {"targets": ["q_proj", "v_proj"]}, None])
def test_another_adapter_than_the_parents_is_refused_with_a_remedy_that_works(
    change: dict[str, Any] | None, tmp_path: Path, first_champion: FirstChampion
) -> None:
    champion, wanted = tmp_path / "champion", LORA.model_copy(update=change) if change else None
    first_champion("hub", LORA)
    with pytest.raises(GraftError) as error:
        attach_lora(load_start(policy_params(champion))[0], policy_params(champion, wanted), seed=0)
    is_now = "null" if wanted is None else f"{{rank: {wanted.rank}, alpha: {wanted.alpha:g}, targets: "
    has = r"\{rank: 4, alpha: 8, targets: all-linear\}"
    message = (
        rf"policy\.lora: is {re.escape(is_now)}.*, but the adapter of '.*champion'.* is {has}; set policy\.lora to"
    )
    assert re.match(message, str(error.value))
    remedy = re.search(has, str(error.value))
    assert remedy
    shutil.copyfile(REPOSITORY / "params.yaml", tmp_path / "params.yaml")
    override(tmp_path / "params.yaml", [f"policy.lora={remedy[0]}"])
    fixed = load_params(tmp_path / "params.yaml").policy.lora
    attach_lora(load_start(policy_params(champion))[0], policy_params(champion, fixed), seed=0)


def test_an_adapter_on_named_modules_is_continued_by_their_names_in_any_order(
    tmp_path: Path, first_champion: FirstChampion
) -> None:
    champion = tmp_path / "champion"
    policy = first_champion("hub", LORA.model_copy(update={"targets": ["q_proj", "v_proj"]}))
    reversed_order = LORA.model_copy(update={"targets": ["v_proj", "q_proj"]})
    found = attach_lora(load_start(policy_params(champion))[0], policy_params(champion, reversed_order), seed=0)
    assert same_logits(found.model, policy.model)
    with pytest.raises(GraftError, match=r"is \{rank: 4, alpha: 8, targets: \[q_proj, v_proj\]\}; set policy\.lora to"):
        attach_lora(load_start(policy_params(champion))[0], policy_params(champion), seed=0)


def test_an_adapter_of_unknown_origin_is_refused(tmp_path: Path, first_champion: FirstChampion) -> None:
    first_champion("scratch", LORA)
    (tmp_path / "champion" / "lineage.json").unlink()
    message = r"^policy\.base: '.*champion' has an adapter, but no lineage\.json .*; restore "
    with pytest.raises(GraftError, match=message):
        load_start(policy_params(tmp_path / "champion"))


# --- targets


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
def test_an_unknown_target_is_an_error_that_lists_the_linear_modules(kind: str, make_policy: MakePolicy) -> None:
    llama = "down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj"
    names = "c_attn, c_fc, c_proj" if kind == "gpt2" else llama
    known = names.split(", ")
    for wrong in ("query", "lm_head", "mlp", known[0][1:]):
        lora = LORA.model_copy(update={"targets": [known[0], wrong]})
        message = rf"^policy\.lora\.targets: '{wrong}' is no linear .* it has {names}: name"
        with pytest.raises(GraftError, match=message):
            attach_lora(make_policy(kind, full=True), policy_params("hub", lora), seed=0)


@pytest.mark.filterwarnings("ignore:fan_in_fan_out")
@pytest.mark.parametrize(
    ("kind", "targets", "per_layer"),
    [
        ("qwen2", "all-linear", 7), ("qwen2", ["q_proj", "v_proj"], 2), ("qwen2", ["self_attn.q_proj", "down_proj"], 2),
        ("qwen2", ["layers.1.mlp.up_proj"], 0.5), ("gpt2", "all-linear", 4), ("gpt2", ["c_proj"], 2),
    ],
)  # fmt: skip
def test_the_adapter_is_on_the_targets_only(kind: str, targets: Any, per_layer: float, make_policy: MakePolicy) -> None:
    policy = make_policy(kind, full=True)
    expected = linear_modules(policy.model, targets)
    assert len(expected) == 2 * per_layer
    attach_lora(policy, policy_params("hub", LORA.model_copy(update={"targets": targets})), seed=0)
    model = policy.model.get_base_model()
    found = {name.partition(".lora_A")[0] for name, _ in model.named_modules() if "lora_A" in name}
    assert found == expected == linear_modules(model, targets)
