"""The law of sampling on many architectures: tokens and log-probabilities are those of plain forward passes."""

import logging
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch

from tasks.model.checkpoints.lora import attach_adapter
from tasks.model.cpu.decoder_blocks import decode_blocks, is_supported
from tasks.model.cuda import graph_decode
from tasks.model.cuda.graph_decode import decode_graph
from tasks.model.cuda.static_cache import StaticPrefix
from tasks.model.decoding.batch_state import BatchState, Request
from tasks.model.decoding.decode_loop import decode
from tasks.model.decoding.growing_cache import MIN_PREFIX, RowPrefix, SharedPrefix
from tasks.model.decoding.token_draw import uniforms
from tasks.model.hf_model import unwrap_model
from tasks.model.policy import Policy
from tasks.model.sampling.backends import decode_without_cache, pick_backend
from tasks.model.sampling.sampler import sample
from tasks.records.search import Completion
from tests.support.policies import SHARED, WIDE, MakePolicy

COMMON: dict[str, Any] = SHARED | WIDE
HEADS = {"num_key_value_heads": 2, "head_dim": 8}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}
CONFIGS: dict[str, dict[str, Any]] = {
    "qwen2": COMMON | HEADS,
    "qwen3": COMMON | HEADS,
    "llama": COMMON | HEADS,
    "gpt2": COMMON | GPT2,
    "gpt_neox": COMMON,
    "phi": COMMON,
    "bloom": COMMON | {"n_head": 4, "n_layer": 2},
    "mistral": COMMON | HEADS | {"sliding_window": 6},
    "gemma2": COMMON | HEADS | {"sliding_window": 6, "query_pre_attn_scalar": 8},
    "gemma3_text": COMMON | HEADS | {"sliding_window": 6, "query_pre_attn_scalar": 8},
    "mixtral": COMMON | HEADS | {"num_local_experts": 4, "sliding_window": None},
    "mamba": COMMON | {"state_size": 4},
    "rwkv": COMMON | {"attention_hidden_size": 32},
}
BLOCKS = {"qwen2", "llama"}
SHARING = {"qwen2", "qwen3", "llama", "gpt2", "gpt_neox", "phi", "mixtral"}
RECURRENT = {"mamba", "rwkv"}  # a state instead of keys and values
FAST = {"qwen2", "gpt2", "mistral", "mamba"}  # one for each way through the backends


def cases(rows: dict[str, Any]) -> list[Any]:
    """(family, value) rows; families that are not `FAST` are nightly."""
    return [
        pytest.param(kind, value, marks=() if kind in FAST else pytest.mark.nightly) for kind, value in rows.items()
    ]


def policy_of(kind: str, make_policy: MakePolicy, lora: bool = False) -> Policy:
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **CONFIGS[kind])).eval()
    if lora:
        model = attach_adapter(model, rank=4, alpha=8.0, seed=0)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(0, 0.05)
    return Policy(model, make_policy().tokenizer, "tiny", "scratch")


def requests(common: int = 0) -> list[Request]:
    """Prompts of unlike lengths that all begin with `common` tokens, most more than once, rows that end apart, one with
    a prefix."""
    begin = [(7 * i + 3) % 250 for i in range(common)]
    long, short = [5, 9, 200, 31, 77, 8, 12, 90, 41], [17, 4]
    prompts = [long, short, short, [7, 7, 7, 7, 250], long, long, short, long]
    lengths = [9, 3, 12, 5, 2, 11, 6, 1]
    rows = [
        Request([*begin, *prompt], seed, max_tokens=n)
        for seed, (prompt, n) in enumerate(zip(prompts, lengths, strict=True))
    ]
    return [*rows, Request([*begin, 17], 9, Completion(tokens=[4, 30], logprobs=[-1.0, -2.0]))]


def followed(policy: Policy, request: Request, temperature: float) -> tuple[list[int], list[float]]:
    """Token by token through plain forward passes without a cache, by the formula of the sampler in float64."""
    tokens, logprobs = [], []
    points = uniforms([request.seed], 12)[0].tolist()
    for point in points[: request.budget(12)]:
        with torch.no_grad():
            logits = unwrap_model(policy.model)(input_ids=torch.tensor([[*request.context, *tokens]])).logits[0, -1]
        scaled = (logits.double() / (temperature or 1.0)).log_softmax(-1)
        token = int((scaled.exp().cumsum(-1) > point).nonzero()[0]) if temperature else int(logits.argmax())
        tokens.append(token)
        logprobs.append(float(scaled[token]))
        if token == policy.tokenizer.eos_token_id:
            break
    return tokens, logprobs


def expect_the_law(policy: Policy, temperature: float = 0.8, common: int = 0) -> list[Completion]:
    found = sample(policy, requests(common), temperature, 12, "test")
    expect_followed(policy, found, temperature, common)
    return found


def expect_followed(policy: Policy, found: list[Completion], temperature: float = 0.8, common: int = 0) -> None:
    for request, completion in zip(requests(common), found, strict=True):
        tokens, logprobs = followed(policy, request, temperature)
        cut = len(request.prefix.tokens)
        assert completion.tokens[cut:] == tokens
        assert completion.logprobs[cut:] == pytest.approx(logprobs, abs=1e-5)


@pytest.mark.parametrize(("kind", "temperature"), cases({kind: (0.8, 0.0)[i % 2] for i, kind in enumerate(CONFIGS)}))
def test_every_architecture_keeps_the_law(kind: str, temperature: float, make_policy: MakePolicy, caplog: Any) -> None:
    policy = policy_of(kind, make_policy)
    found = expect_the_law(policy, temperature)
    assert [sample(policy, [r], temperature, 12, "test")[0].tokens for r in requests()] == [c.tokens for c in found]
    messages = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len([m for m in messages if "does not sample" in m]) == (kind in RECURRENT)  # once, however often sampled
    expected = decode_without_cache if kind in RECURRENT else decode_blocks if kind in BLOCKS else decode
    assert pick_backend(policy, [5]) is expected


@pytest.mark.parametrize(("kind", "temperature"), cases(dict.fromkeys(CONFIGS, 0.8)))
def test_every_architecture_keeps_it_where_all_prompts_begin_alike(
    kind: str, temperature: float, make_policy: MakePolicy
) -> None:
    """Their beginning is prefilled once, where the model's cache keeps all tokens."""
    expect_the_law(policy_of(kind, make_policy), temperature, MIN_PREFIX)


COPIED = {
    "qwen2": 0, "qwen3": 20, "llama": 10_000, "gpt2": 20, "gpt_neox": 0, "phi": 20, "mixtral": 10_000,
    "bloom": 20, "mistral": 0, "gemma2": 20, "gemma3_text": 0,
}  # fmt: skip


@pytest.mark.parametrize(("kind", "copied"), cases(COPIED))
def test_the_loop_keeps_it_with_shared_or_copied_contexts(kind: str, copied: int, make_policy: MakePolicy) -> None:
    policy = policy_of(kind, make_policy)
    batch = batch_of(policy, requests(), policy.tokenizer.eos_token_id)
    with spied(SharedPrefix) as shared, spied(RowPrefix) as rows:
        decode(policy.model, batch, copied)
    assert shared.called == (kind in SHARING and copied < 10_000)
    assert rows.called == (kind in SHARING and copied > 0)
    assert policy.model.config._attn_implementation != "row_prefix"
    expect_followed(policy, batch.completions())


@pytest.mark.parametrize(
    ("kind", "copied", "lora"),
    [
        ("qwen2", 0, True), ("qwen2", 20, False), ("qwen2", 10_000, True),
        ("llama", 0, False), ("llama", 20, True), ("llama", 10_000, False),
        ("mistral", 0, True), ("mistral", 20, True), ("mistral", 10_000, False),
    ],
)  # fmt: skip
def test_blocks_give_what_the_loop_gives(
    kind: str, copied: int, lora: bool, make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"attention_bias": True, "mlp_bias": True} if kind == "llama" else {"sliding_window": None}
    monkeypatch.setitem(CONFIGS, kind, CONFIGS[kind] | more)
    policy = policy_of(kind, make_policy, lora)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.add_(torch.rand_like(parameter), alpha=0.2)
    model = unwrap_model(policy.model)
    assert is_supported(model)
    ours, theirs = batch_of(policy, requests()), batch_of(policy, requests())
    decode_blocks(model, ours, copied)
    decode(model, theirs, copied)
    expect_alike(ours, theirs)


@pytest.mark.parametrize(
    ("kind", "temperature"),
    cases({kind: (0.8, 0.0)[i % 2] for i, kind in enumerate(sorted(SHARING))}),
)
def test_a_step_that_can_be_captured_gives_the_same(
    kind: str, temperature: float, make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows end between two looks at them, the cache grows, and rows are dropped."""
    monkeypatch.setattr(graph_decode, "STEPS", 3)
    monkeypatch.setattr(graph_decode, "ROOM", 4)
    policy = policy_of(kind, make_policy, lora=kind == "qwen2")
    for common in (0, MIN_PREFIX):
        batch = batch_of(policy, requests(common), policy.tokenizer.eos_token_id, temperature)
        with spied(StaticPrefix) as attention:
            decode_graph(unwrap_model(policy.model), batch)
        assert attention.called
        expect_followed(policy, batch.completions(), temperature, common)


@pytest.mark.parametrize("kind", ["mistral", "mamba"])
def test_a_model_whose_step_cannot_be_captured_is_refused(kind: str, make_policy: MakePolicy) -> None:
    policy = policy_of(kind, make_policy)
    with pytest.raises((ValueError, TypeError)):
        decode_graph(policy.model, batch_of(policy, requests()))


CHANGES: dict[str, Callable[[Any], object]] = {
    "a hook": lambda model: model.model.layers[0].mlp.register_forward_hook(lambda *_: None),
    "its own forward": lambda model: setattr(model.model.layers[0], "forward", model.model.layers[0].forward),
    "in training": lambda model: model.train(),
    "in bfloat16": lambda model: model.to(torch.bfloat16),
    "a rotation by length": lambda model: setattr(model.model.rotary_emb, "rope_type", "dynamic"),
    "another linear": lambda model: torch.nn.utils.parametrizations.weight_norm(model.model.layers[1].mlp.up_proj),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_model_that_is_not_as_transformers_made_it_is_not_replaced_by_blocks(
    change: Callable[[Any], object], make_policy: MakePolicy
) -> None:
    model = policy_of("qwen2", make_policy).model
    assert is_supported(model)
    change(model)
    assert not is_supported(model)


def spied(prefix: type) -> Any:
    return patch.object(prefix, "attend", autospec=True, side_effect=prefix.attend)  # type: ignore[attr-defined]


def expect_alike(ours: BatchState, theirs: BatchState) -> None:
    assert [c.tokens for c in ours.completions()] == [c.tokens for c in theirs.completions()]
    for a, b in zip(ours.completions(), theirs.completions(), strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-5)


def batch_of(policy: Policy, asked: list[Request], eos: int | None = None, temperature: float = 0.8) -> BatchState:
    return BatchState(asked, temperature, 12, [] if eos is None else [eos], policy.device)


def test_a_model_with_a_wrong_cache_is_sampled_without_it(
    make_policy: MakePolicy, caplog: pytest.LogCaptureFixture
) -> None:
    policy = policy_of("qwen2", make_policy)
    forward = type(policy.model).forward

    def forgets(input_ids: Any, cache: Any = None, use_cache: bool = False, **inputs: Any) -> Any:
        """Each new token as if it were the first one."""
        inputs.pop("position_ids", None)
        ids = torch.zeros_like(input_ids) if input_ids.shape[1] == 1 else None
        return forward(policy.model, input_ids, position_ids=ids, cache=cache, use_cache=use_cache, **inputs)

    policy.model.forward = forgets
    expect_the_law(policy)
    assert "backend loop does not sample it: its log-probabilities differ" in caplog.text
    assert pick_backend(policy, [5]) is decode_without_cache


def test_the_cache_is_passed_by_the_name_that_older_models_have_for_it(make_policy: MakePolicy) -> None:
    policy = policy_of("qwen2", make_policy)
    forward = type(policy.model).forward

    def older(
        input_ids: Any, attention_mask: Any = None, position_ids: Any = None, past_key_values: Any = None, **inputs: Any
    ) -> Any:
        return forward(policy.model, input_ids, attention_mask, position_ids, past_key_values, **inputs)

    policy.model.forward = older
    expect_the_law(policy)
    assert pick_backend(policy, [5]) is not decode_without_cache


def test_an_adapter_on_tied_weights_changes_the_head_only(make_policy: MakePolicy) -> None:
    from peft import LoraConfig, get_peft_model

    policy = make_policy()
    config = LoraConfig(r=4, target_modules=["lm_head"], task_type="CAUSAL_LM", init_lora_weights=False)
    policy.model = get_peft_model(policy.model.unload(), config).eval()
    assert unwrap_model(policy.model).config.tie_word_embeddings
    expect_the_law(policy)


def test_bfloat16_is_sampled_as_it_scores(make_policy: MakePolicy) -> None:
    policy = policy_of("qwen2", make_policy)
    policy.model.to(torch.bfloat16)
    for request, completion in zip(requests(), sample(policy, requests(), 1.0, 12, "test"), strict=True):
        ids = torch.tensor([[*request.prompt, *completion.tokens]])
        logits = policy.model(input_ids=ids).logits[0, len(request.context) - 1 : -1].float()
        expected = logits.log_softmax(-1).gather(-1, ids[0, len(request.context) :, None])[:, 0]
        found = torch.tensor(completion.logprobs[len(request.prefix.tokens) :])
        assert (found - expected).abs().mean() < 0.1
