"""The formula for the operations of an update, by which a card's share of its peak is measured."""

import pytest

from tests.support.update_flop import update_flop


@pytest.mark.slow
def test_the_operations_of_an_update_are_those_that_torch_counts() -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import Qwen2Config, Qwen2ForCausalLM

    prompt, length = 40, 16
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=2048,
            hidden_size=256,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=688,
        )
    ).requires_grad_(False)
    inputs = model.get_input_embeddings()(torch.arange(prompt + length)[None]).requires_grad_()
    with FlopCounterMode(display=False) as counter:
        model(inputs_embeds=inputs, logits_to_keep=length).logits.sum().backward()
    expected = update_flop(model, prompt, completions=1, length=length)
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.05)
