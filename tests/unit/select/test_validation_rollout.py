"""The stage `select` samples the validation completions that it measures influence on."""

import pytest

from tasks.artifacts import digest_path, write_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import save_policy
from tasks.params.params import Params
from tasks.search.draw import draw_problems
from tasks.select import validation_rollout
from tasks.select.validation_rollout import sample_validation, write_validation
from tests.support.groups import read_rewarded
from tests.support.real_project import HELD_OUT, TRAIN, adder
from tests.support.stage_params import stage_params

COMPLETIONS = 3


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    layout = Layout(tmp_path_factory.mktemp("project"))
    save_policy(adder(TRAIN), layout.policy(0), parent=None, round=0)
    write_jsonl(layout.problems("validation"), HELD_OUT)
    return layout


def params(n: int, shard_size: int = 2048, selection: str = "positive") -> Params:
    return stage_params(
        "select",
        shard_size=shard_size,
        policy={"max_new_tokens": 48},
        sandbox={"allow_weak": True},
        influence={"selection": selection, "n": n, "completions": COMPLETIONS},
    )


def test_the_problems_that_a_round_draws_have_their_independent_samples(layout: Layout) -> None:
    digests = []
    for round, size in ((1, 2048), (1, 1), (1, 1)):
        rewarded = sample_validation(layout, params(len(HELD_OUT) - 1, size), round, 0, len(HELD_OUT))
        write_validation(layout, round, rewarded)
        assert list(read_rewarded(layout.trajectories(round, "validation"))) == rewarded
        drawn = draw_problems(HELD_OUT, len(HELD_OUT) - 1, 0, "validation", round)
        assert [("validation", t.problem) for t, _ in rewarded] == [(split, p.rotated(round)) for split, p in drawn]
        assert {t.split for t, _ in rewarded} == {"validation"}
        for trajectory, rewards in rewarded:
            assert [member.proposer for member in trajectory.members] == ["sample"] * COMPLETIONS
            assert all(reward.reward is not None for reward in rewards)
        digests.append(digest_path(layout.validation(round)))
    assert digests[1] == digests[2]


def test_a_part_gives_those_of_the_whole(layout: Layout) -> None:
    asked = params(len(HELD_OUT), shard_size=1)  # a shard's batches are its own
    whole = sample_validation(layout, asked, 1, 0, len(HELD_OUT))
    parts = [sample_validation(layout, asked, 1, *ends) for ends in ((0, 2), (2, len(HELD_OUT)))]
    assert parts[0] + parts[1] == whole
    assert sample_validation(layout, asked, 1, len(HELD_OUT), len(HELD_OUT) + 9) == []


def test_rewards_that_cannot_be_known_stop_the_stage(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = validation_rollout.sample_shard

    def failing(*arguments: object) -> object:
        shard = sampled(*arguments)  # type: ignore[arg-type]
        lost = [
            own._replace(rewards=[r.model_copy(update={"reward": None, "status": "failed"}) for r in own.rewards])
            for own in shard.rewarded
        ]
        return shard._replace(rewarded=lost, failure="the judge is away")

    monkeypatch.setattr(validation_rollout, "sample_shard", failing)
    with pytest.raises(GraftError, match=r"select@1: validation: .* could not be computed.* the judge is away"):
        sample_validation(layout, params(1), 1, 0, 1)
