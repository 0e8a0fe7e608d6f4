"""An out-of-memory error names the param to lower, and lowering it helps."""

import os
import resource
import sys
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

from tasks.core.out_of_memory import explain_out_of_memory
from tasks.errors import GraftError
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.update.step_plan import Step, UpdateGroup
from tasks.update.update import train
from tests.support.tiers import nightly_but_first
from tests.support.update_params import grpo_params


def test_a_refused_allocation_names_the_param_and_a_lower_value_other_errors_are_unchanged() -> None:
    message = r"update\.micro_batch_tokens: 2048 tokens at once .*(llocate|memory).* set it to 1024, or lower"
    with pytest.raises(GraftError, match=message), explain_out_of_memory(2048):
        torch.empty(10**15)  # more than there are addresses
    with pytest.raises(GraftError, match="set it to 64, or lower"), explain_out_of_memory(64):
        bytearray(10**18)
    with pytest.raises(GraftError, match=r"auto tokens .* set it to 1024"), explain_out_of_memory("auto"):
        torch.empty(10**15)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), explain_out_of_memory(2048):
        torch.ones(2, 3) @ torch.ones(2, 3)


def learn_in_little_memory(policy: Policy, samples: list[Sample], tokens: int) -> None:
    """Exits with 0 if an update finishes, with 3 if its error names the param to lower."""
    params = grpo_params(micro_batch_tokens=tokens, epochs=1)
    torch.set_num_threads(1)
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, 1.0, "rows", tokens)
    train(scorer, [Step(1, [UpdateGroup("p", samples[:2], 1)])], params, None)  # all code is loaded
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + 150 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        with explain_out_of_memory(tokens):
            train(scorer, [Step(1, [UpdateGroup("p", samples, 1)])], params, None)
    except GraftError as error:
        os._exit(3 if f"update.micro_batch_tokens: {tokens}" in str(error) else 4)
    os._exit(0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS and /proc")
@pytest.mark.parametrize(("tokens", "code"), nightly_but_first([(60_000, 3), (2_000, 0)]))
def test_an_update_that_does_not_fit_names_the_param_and_fits_when_it_is_lowered(
    tokens: int, code: int, policy: Policy, samples: list[Sample]
) -> None:
    row = replace(samples[0], completion=tuple(range(2, 242)))
    many = [replace(row, member=member, advantage=0.1 * member) for member in range(200)]
    child = get_context("forkserver").Process(target=learn_in_little_memory, args=(policy, many, tokens))
    child.start()
    child.join()
    assert child.exitcode == code
