"""The stages `validate` and `choose` with trained policies, each of which always writes one workflow."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_json, read_jsonl, write_json, write_jsonl, write_text
from tasks.errors import GraftError
from tasks.evaluate import choose_task as choose
from tasks.evaluate import validate_task as validate
from tasks.known_problems import NOTHING, KnownProblems, read_known
from tasks.layout import KNOWN, REPLAY, Layout
from tasks.model.checkpoints.version import LINEAGE, verify_policy
from tasks.params.params import Params
from tasks.records.evaluation import Choice, Standing
from tasks.records.policy import Lineage
from tasks.records.problems import Problem
from tasks.statistics.learning_curves import HEADER
from tests.support.stage_params import stage_params

PRODUCT = "def solve(problem):\n    n = numbers(problem)\n    return n[0] * n[1]\n"
WRITES = {1: PRODUCT.replace("*", "+"), 2: PRODUCT, 3: PRODUCT}
"""What the policy of each round writes."""
QUESTIONS = ["3 boxes of 4 pens?", "2 bags of 9 nuts?"]


def params(stage: str, every: int, last: int = 3) -> Params:
    evaluation = {"samples": 4, "ks": [1, 2], "every": every}
    return stage_params(stage, policy={"max_new_tokens": 96}, evaluation=evaluation, rounds={"last": last})


@pytest.fixture
def layout(tmp_path: Path, make_solver: Callable[[Path, str], str]) -> Layout:
    """Three rounds, of which the second and third solve the dev problems."""
    layout = Layout(tmp_path)
    problems = [
        Problem(problem_id=f"dev-{q[0]}", question=q, answer=int(q[0]) * int(q.split()[3]), source="t")
        for q in QUESTIONS
    ]
    write_jsonl(layout.problems("dev"), problems)
    write_json(layout.carried(KNOWN), KnownProblems(learnt=["a", "b"], tested=["c"]))
    write_jsonl(layout.carried(REPLAY), [])
    write_jsonl(layout.standings(0), [])
    write_text(layout.curves(0), HEADER)
    for round, code in WRITES.items():
        make_solver(layout.policy(round), code)
        write_json(
            layout.metrics("reward", round),
            {"epoch/mean_reward": round / 4, "epoch/reward_std": 0.4, "solved_share": 0.5},
        )
        write_json(layout.metrics("select", round), {"selected_share": 1.0})
        write_json(layout.metrics("update", round), {} if round == 2 else {"kl": 0.25, "entropy": 1.5})
    return layout


def play(layout: Layout, every: int, last: int = 3) -> None:
    for round in range(1, last + 1):
        validate.run(layout, params("validate", every, last), round)
    choose.run(layout, params("choose", every, last), None)


def files_of(policy: Path) -> dict[str, str]:
    """The digests of a policy's files, but for what it carries of problems and the lineage, which counts that."""
    own = verify_policy(policy).files or {}
    return {name: digest for name, digest in own.items() if name not in (KNOWN, REPLAY, LINEAGE)}


def metrics(layout: Layout, *address: str | int) -> dict[str, float]:
    return dict(json.loads(layout.metrics(*address).read_text()))  # type: ignore[arg-type]


def test_the_first_of_the_best_rounds_is_kept_and_named(layout: Layout) -> None:
    play(layout, every=1)
    written = digest_path(layout.root / "run")
    play(layout, every=1)
    assert digest_path(layout.root / "run") == written
    standings = read_jsonl(layout.standings(3), Standing)
    assert [(s.round, s.correct) for s in standings] == [(1, [0, 0]), (2, [4, 4]), (3, [4, 4])]
    for s in standings:
        assert s.policy_sha256 == digest_path(layout.policy(s.round))
        assert metrics(layout, "validate", s.round)["pass_at_1"] == s.pass_at_1
        assert {"pass_at_1_low", "pass_at_1_high", "pass_at_2"} <= metrics(layout, "validate", s.round).keys()
    assert files_of(layout.run_policy) == files_of(layout.policy(2))
    choice = read_json(layout.best, Choice)
    assert (choice.round, choice.version) == (2, read_json(layout.policy(2) / "lineage.json", Lineage).version)
    reason = "round 2 has the highest pass@1 on 2 dev problems: 1.000, against 1.000 of the last"
    assert choice.reason.startswith(reason)
    assert metrics(layout, "choose") == {"round": 2, "pass_at_1": 1.0, "last_pass_at_1": 1.0}


def test_without_validation_the_last_round_is_chosen_without_any_problem(layout: Layout) -> None:
    write_jsonl(layout.problems("dev"), [])
    play(layout, every=0)
    assert read_json(layout.best, Choice).round == 3
    assert files_of(layout.run_policy) == files_of(layout.policy(3))
    assert [metrics(layout, "validate", round) for round in (1, 2, 3)] == [{}, {}, {}]
    assert metrics(layout, "choose") == {"round": 3}


def test_the_final_policy_carries_what_its_lineage_knows_and_damage_to_that_is_noticed(layout: Layout) -> None:
    play(layout, every=1)
    assert read_known(layout.run_policy) == KnownProblems(learnt=["a", "b"], tested=["c"])
    assert read_known(layout.policy(2)) == NOTHING
    assert verify_policy(layout.run_policy).version == verify_policy(layout.policy(2)).version
    write_json(layout.run_policy / KNOWN, NOTHING)
    with pytest.raises(GraftError, match=r"policy/known\.json: is damaged, by the digests in lineage\.json"):
        verify_policy(layout.run_policy)


def test_a_policy_that_differs_from_the_measured_one_is_refused(layout: Layout) -> None:
    for round in WRITES:
        validate.run(layout, params("validate", every=1), round)
    write_text(layout.policy(2) / "adapter" / "adapter_model.safetensors", "damaged")
    with pytest.raises(GraftError, match=r"2/policy: not the policy that was measured; run graft stage update@2 val"):
        choose.run(layout, params("choose", every=1), None)
    assert not layout.run_policy.exists()
