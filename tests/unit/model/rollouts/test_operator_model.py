"""The policy as the model behind its own workflows' operators."""

from pathlib import Path
from typing import Any

import pytest

from tasks.layout import Layout
from tasks.model.policy import Policy
from tasks.model.rollouts.operator_model import PolicyModel, log_usage, operator_model
from tasks.params.sections import Operators
from tasks.programs.operators.model import Prompt
from tasks.programs.operators.openai_model import KEY
from tasks.programs.sandbox.sandbox import Program, Sandbox
from tests.support.policies import MakePolicy
from tests.support.stage_params import SHIPPED


def params(**changes: Any) -> Operators:
    return Operators.model_validate({**SHIPPED.operators.model_dump(), "backend": "policy", "max_tokens": 6, **changes})


def test_a_reply_depends_on_its_prompt_alone(make_policy: MakePolicy) -> None:
    """Not on the other prompts or their order."""
    model = PolicyModel(make_policy(), params())
    prompts = [Prompt("ask", "1 + 2"), Prompt("ask", "def"), Prompt("ask", "1 + 2", 1), Prompt("answer", "solve(1)")]
    together = dict(model.complete(prompts))
    for place, prompt in enumerate(prompts):
        assert dict(model.complete([prompt]))[0] == together[place]
    backwards = dict(model.complete(prompts[::-1]))
    assert [backwards[3 - place] for place in range(4)] == [together[place] for place in range(4)]
    assert together[0].text != together[2].text


def test_temperature_and_length_count(policy: Policy) -> None:
    prompts = [Prompt("ask", "1 + 2", nth) for nth in range(3)]
    greedy = dict(PolicyModel(policy, params(temperature=0.0)).complete(prompts))
    assert len({reply.text for reply in greedy.values()}) == 1
    short = dict(PolicyModel(policy, params(max_tokens=2)).complete(prompts))
    assert all(reply.completion_tokens <= 2 for reply in short.values())


def test_a_prompt_that_is_too_long_is_refused_and_the_others_are_answered(policy: Policy) -> None:
    given = dict(PolicyModel(policy, params()).complete([Prompt("ask", "1 " * 300), Prompt("ask", "1")]))
    assert "the policy reads 1 to 250" in str(given[0].refused)
    assert given[1].text is not None


def test_an_empty_text_is_sampled_again_and_is_never_a_reply(make_policy: MakePolicy) -> None:
    """With equal logits the greedy token is the first one, which is no text; sampled tokens sometimes are."""
    policy = make_policy("llama")
    policy.model.get_base_model().lm_head.weight.data.zero_()
    prompts = [Prompt("ask", "1 + 2", nth) for nth in range(400)]
    greedy = dict(PolicyModel(policy, params(temperature=0.0, max_tokens=1)).complete(prompts[:3]))
    assert {reply.failed for reply in greedy.values()} == {"the policy gave empty text 1 times"}
    once = dict(PolicyModel(policy, params(temperature=1.0, max_tokens=1), 0).complete(prompts))
    again = dict(PolicyModel(policy, params(temperature=1.0, max_tokens=1), 9).complete(prompts))
    empty = [place for place, reply in once.items() if reply.failed]
    assert empty
    assert all(reply.text and reply.text.strip() for reply in again.values())
    assert all(again[place] == once[place] for place in again if place not in empty)


def test_a_workflow_asks_its_own_policy(make_policy: MakePolicy, tmp_path: Path) -> None:
    layout, policy = Layout(tmp_path), make_policy()
    code = "def solve(problem):\n    return ask(problem) + '|' + ask(problem)\n"
    results = []
    for _ in range(2):
        served = operator_model(policy, params(), layout)
        with Sandbox(2.0, 256, allow_weak=True, workers=1, model=served) as sandbox:
            assert sandbox.serves
            results += sandbox.run([Program(code, ("1 + 2", "def"))])
        numbers = log_usage(served, layout, "search@1")
    assert results[0] == results[1]
    assert [result.status for result in results[0]] == ["ok", "ok"]
    assert numbers["model_calls"] == 4
    assert len((layout.replies / "ledger.jsonl").read_text().splitlines()) == 2


def test_each_backend(make_policy: MakePolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "sk-test")
    layout, policy = Layout(tmp_path), make_policy()
    assert operator_model(policy, params(backend="none"), layout) is None
    assert log_usage(None, layout, "search@1") == {}
    assert operator_model(policy, params(backend="openai", model="m"), layout) is not None
    with pytest.raises(ValueError, match=r"set operators\.model to its name"):
        params(backend="openai", model="")
