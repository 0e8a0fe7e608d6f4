"""Rows that have the same tokens so far are computed once, and sample what they sample when each is computed."""

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.model.cpu.decoder_blocks import LlamaBlocks, decode_blocks
from tasks.model.decoding.batch_state import BatchState, Request
from tasks.model.decoding.equal_rows import FEWEST, EqualRows
from tasks.model.hf_model import unwrap_model
from tests.support.policies import MakePolicy

ROWS, STEPS = 3 * FEWEST, 5


@given(draws=st.lists(st.lists(st.integers(0, 2), min_size=ROWS, max_size=ROWS), min_size=STEPS, max_size=STEPS))
@settings(max_examples=30, deadline=None)
def test_each_row_finds_one_with_its_tokens_and_context(draws: list[list[int]]) -> None:
    owner = [row % 2 for row in range(ROWS)]
    equal, histories = EqualRows(torch.tensor(owner)), [(context,) for context in owner]
    ended = [False] * ROWS
    for step, tokens in enumerate(draws):
        histories = [(*history, token) for history, token in zip(histories, tokens, strict=True)]
        ended = [was or (row + step) % 7 == 0 for row, was in enumerate(ended)]
        found = equal.append(torch.tensor(tokens), ~torch.tensor(ended))
        unfinished = {history for history, has_ended in zip(histories, ended, strict=True) if not has_ended}
        if found is None:
            assert len(unfinished) + any(ended) > 0.75 * len(histories)
        else:
            assert len(found.rows) == max(len(unfinished) + any(ended), FEWEST)
            for row, place in enumerate(found.places.tolist()):
                assert ended[row] or histories[row] == histories[int(found.rows[place])]
        if step == 2:
            kept = [row for row in range(ROWS) if not ended[row]]
            equal.keep(torch.tensor(kept))
            draws[3:] = [[later[row] for row in kept] for later in draws[3:]]
            histories, ended = [histories[row] for row in kept], [False] * len(kept)


@pytest.mark.parametrize("temperature", [0.3, 0.0])
@pytest.mark.parametrize("copied", [0, 100, 10_000])
def test_joined_rows_sample_what_each_samples_alone(temperature: float, copied: int, make_policy: MakePolicy) -> None:
    """With shared contexts, with some that are copied later, and with a copy for each row."""
    model = unwrap_model(make_policy("llama").model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # peaked, so that rows begin alike
    prompts = [[5, 9, 200, 31], [5, 9, 17], [7]]
    asked = [
        Request(prompt, seed, max_tokens=3 + seed % 9) for prompt in prompts for seed in range(2 * FEWEST)
    ]  # fmt: skip
    computed: list[int] = []
    hidden = LlamaBlocks._hidden

    def count(blocks: LlamaBlocks, ids: torch.Tensor, *inputs: object) -> torch.Tensor:
        computed.append(len(ids))
        return hidden(blocks, ids, *inputs)  # type: ignore[arg-type]

    def sampled() -> BatchState:
        state = BatchState(asked, temperature, 12, (), "cpu")
        with patch.object(LlamaBlocks, "_hidden", count):
            decode_blocks(model, state, copied)
        return state

    joined, rows = sampled(), sum(computed)
    with patch.object(EqualRows, "append", return_value=None):
        apart = sampled()
    assert rows < 0.75 * (sum(computed) - rows)
    assert [c.tokens for c in joined.completions()] == [c.tokens for c in apart.completions()]
    for ours, theirs in zip(joined.completions(), apart.completions(), strict=True):
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-5 / (temperature or 1))
