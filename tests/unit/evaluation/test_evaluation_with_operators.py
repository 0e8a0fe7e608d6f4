"""The stage `evaluate` with a policy whose workflows ask a model: a real policy, sandbox and server."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_jsonl, write_jsonl
from tasks.errors import GraftError
from tasks.evaluation.evaluate_task import run
from tasks.layout import Layout
from tasks.params.file import load_params, restrict
from tasks.params.params import Params
from tasks.params.sections import Operators
from tasks.records import Problem, ProblemOutcome
from tests.support.chat_server import chat_server

SHIPPED = load_params(Path(__file__).parents[3] / "params.yaml")
ASKING = "def solve(problem):\n    return answer(problem)\n"


def params(url: str) -> Params:
    plain = {"backend": "openai", "base_url": url, "model": "tiny", "retries": 0, "seconds": 5.0}
    changes = {
        "evaluation": SHIPPED.evaluation.model_copy(update={"samples": 2, "ks": [1]}),
        "policy": SHIPPED.policy.model_copy(update={"max_new_tokens": 96}),
        "operators": Operators.model_validate({**SHIPPED.operators.model_dump(), **plain}),
    }
    keys = ["seed", "environment", "environment_sha256", "policy.base", "policy.max_new_tokens", "sandbox", "operators"]
    keys += [f"evaluation.{key}" for key in ("samples", "ks", "temperature", "resamples", "confidence")]
    return restrict(SHIPPED.model_copy(update=changes), keys)


def test_a_server_that_fails_is_never_scored_and_nothing_is_asked_twice(
    tmp_path: Path, make_solver: Callable[[Path, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(tmp_path)
    questions = ["3 boxes of 4 pens?", "5 boxes of 6 pens?"]
    make_solver(layout.policy(0), ASKING)
    write_jsonl(
        layout.problems("test"),
        [Problem(problem_id=f"boxes-{q[0]}", question=q, answer=12, source="test") for q in questions],
    )
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
