"""Names of runs: the number, what changed in the fewest words that are unambiguous, and the result."""

import pytest

from flows.history.changes import RunInputs
from flows.history.run_history import run_name, summarise_change
from tasks.problems.digests import ProblemFile

PARAMS = {
    "update.learning_rate": "0.001",
    "bootstrap.learning_rate": "0.002",
    "update.beta": "0.01",
    "rounds.last": "3",
    "rounds.start.3": "2",
    "policy.base": "scratch",
    "rewards.own": "[]",
    "seed": "0",
}


FILES = {"policy.base": "1", "rewards.own": "1"}


def inputs(problems: str = "a", source: str = "1", files: dict[str, str] = FILES, **params: str) -> RunInputs:
    named = {key.replace("__", "."): value for key, value in params.items()}
    file = {"data/a.jsonl": ProblemFile(sha256=problems, problems=3)}
    return RunInputs(problems=file, params=PARAMS | named, sources={"tasks/a.py": source}, files=files)


@pytest.mark.parametrize(
    ("now", "change"),
    [
        (inputs(), "same params"),
        (inputs(update__beta="0.05"), "beta 0.05"),
        (inputs(update__learning_rate="0.0005"), "update.learning_rate 0.0005"),
        (inputs(rounds__last="4", rounds__start__4="3"), "rounds 4"),
        (inputs(seed="1", update__beta="0"), "seed 1, beta 0"),
        (
            inputs(
                seed="1", update__beta="0", rounds__last="4", update__learning_rate="1", bootstrap__learning_rate="2"
            ),
            "bootstrap.learning_rate 2, rounds 4, seed 1, +2",
        ),
        (inputs(problems="b"), "other problems"),
        (inputs(source="2"), "other source"),
        (inputs(problems="b", source="2", seed="1"), "seed 1, other problems, other source"),
        (inputs(policy__base="someone/model", files=FILES | {"policy.base": "2"}), "base someone/model"),
        (inputs(files=FILES | {"rewards.own": "2"}), "other own"),
        (inputs(rewards__own="[" + "x" * 99), "own [xxxxxxxxxxxxxxxxxxxxxx…"),
    ],
)
def test_the_change_is_named_in_few_words(now: RunInputs, change: str) -> None:
    assert summarise_change(inputs(), now) == change


def test_the_first_run_says_so() -> None:
    assert summarise_change(None, inputs()) == "first run"


def test_a_name_is_completed_by_the_result() -> None:
    assert run_name(12, "beta 0.05") == "12 · beta 0.05"
    assert run_name(12, "beta 0.05", {"before": 0.4951, "greedy": 0.575}) == "12 · beta 0.05 · 0.495 → 0.575"
