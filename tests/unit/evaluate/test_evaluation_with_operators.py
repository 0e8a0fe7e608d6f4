"""The stage `evaluate` with a policy whose workflows ask a model: a real policy, sandbox and server."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_jsonl, write_jsonl
from tasks.errors import GraftError
from tasks.evaluate.task import run
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.programs.operators.openai_model import OpenAiModel
from tasks.records.evaluation import ProblemOutcome
from tasks.records.problems import Problem
from tests.support.chat_server import chat_server
from tests.support.stage_params import stage_params


def params(url: str) -> Params:
    server = {"backend": "openai", "base_url": url, "model": "tiny"}
    changes = {"evaluation": {"samples": 2, "ks": [1]}, "policy": {"max_new_tokens": 96}}
    return stage_params("evaluate", operators=server, **changes)


def test_a_failing_server_is_never_scored_and_no_prompt_is_sent_twice(
    tmp_path: Path,
    make_solver: Callable[[Path, str], str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.model.rollouts.operator_model.OpenAiModel", partial(OpenAiModel, retries=0))
    layout = Layout(tmp_path)
    make_solver(layout.policy(0), "def solve(problem):\n    return answer(problem)\n")
    questions = ["3 boxes of 4 pens?", "5 boxes of 6 pens?"]
    problems = [Problem(problem_id=f"boxes-{q[0]}", question=q, answer=12, source="test") for q in questions]
    write_jsonl(layout.problems("test"), problems)
    broken = True

    def behave(prompt: str, _: int) -> tuple[int, str]:
        if broken and "5 boxes" in prompt:
            return 503, "overloaded"
        return 200, "3 boxes with 4 pens each. Answer: 12" if "3 boxes" in prompt else "Answer: 30"

    with chat_server(behave) as server:
        with pytest.raises(GraftError, match=r"problem boxes-5: over its workflow: answer\(\): no reply"):
            run(layout, params(server.url), 0)
        assert not layout.evaluation("before").exists()
        broken = False
        before = len(server.requests)
        run(layout, params(server.url), 0)
        assert all("5 boxes" in prompt for prompt in server.prompts[before:])
        written = digest_path(layout.root / "run")
        asked = len(server.requests)
        run(layout, params(server.url), 0)
        assert len(server.requests) == asked
    assert digest_path(layout.root / "run") == written
    outcomes = read_jsonl(layout.evaluation("before") / "outcomes.jsonl", ProblemOutcome)
    assert [outcome.greedy for outcome in outcomes] == [True, False]
    numbers = json.loads((layout.root / "run/metrics/evaluate@before.json").read_text())
    assert numbers["model_failed"] == 0
    assert numbers["model_calls"] >= 2
    assert "cost unknown" in capsys.readouterr().err
