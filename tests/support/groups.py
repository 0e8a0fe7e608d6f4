"""Groups of completions with plausible defaults, with and without rewards, and their files."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tasks.artifacts import write_jsonl
from tasks.layout import REWARDS, Layout
from tasks.records.problems import Problem, Sibling, Split
from tasks.records.programs import Result
from tasks.trajectories import Member, Reward, RewardedTrajectory, Trajectory, read_numbered_rewarded


def make_group(codes: Sequence[str], results: Sequence[Result], siblings: int = 0, **fields: Any) -> Trajectory:
    """A train group of the problem `2 and 3?` (5), with as many equal siblings as asked.

    Any field can be given; one of the members as a list.
    """
    others = [Sibling(question="4 and 1?", answer=5)] * siblings
    problem = Problem(problem_id="p", question="2 and 3?", answer=5, source="test", siblings=others)
    members = [
        Member(
            workflow_id=code,
            code=code,
            proposer="sample",
            result=result,
            sibling_results=[],
            tokens=[1],
            logprobs=[-0.1],
        )
        for code, result in zip(codes, results, strict=True)
    ]
    group = Trajectory(
        split="train",
        problem=problem,
        prompt=f"{problem.question}\n",
        prompt_tokens=[5, 6],
        members=members,
        policy_version="v",
    )
    return with_fields(group, **fields)


def with_fields(group: Trajectory, **fields: Any) -> Trajectory:
    """The group with other fields; one of the members as a list."""
    lists = {name: values for name, values in fields.items() if name in Member.model_fields}
    members = [
        member.model_copy(update={name: values[place] for name, values in lists.items()})
        for place, member in enumerate(group.members)
    ]
    others = {name: value for name, value in fields.items() if name not in lists}
    return group.model_copy(update={"members": members, **others})


def with_rewards(
    group: Trajectory, rewards: Sequence[float | None], terms: Sequence[dict[str, float | None]] | None = None
) -> RewardedTrajectory:
    """The group with these rewards, None = failed; each is its term `correctness` unless terms are given."""
    return RewardedTrajectory(
        group,
        [
            Reward(
                problem_id=group.problem_id,
                split=group.split,
                member=place,
                workflow_id=member.workflow_id,
                reward=reward,
                terms=terms[place] if terms is not None else {"correctness": reward},
                status="failed" if reward is None else "ok",
            )
            for place, (member, reward) in enumerate(zip(group.members, rewards, strict=True))
        ],
    )


def changed(rewarded: RewardedTrajectory, **fields: Any) -> RewardedTrajectory:
    """`with_fields`, with the same rewards."""
    rewards = rewarded.rewards
    return with_rewards(
        with_fields(rewarded.trajectory, **fields),
        [reward.reward for reward in rewards],
        [reward.terms for reward in rewards],
    )


def write_rewarded(path: Path, rewarded: Iterable[RewardedTrajectory]) -> None:
    """A file of trajectories with their rewards beside it."""
    listed = list(rewarded)
    write_jsonl(path, [trajectory for trajectory, _ in listed])
    write_jsonl(path.with_name(REWARDS), [reward for _, rewards in listed for reward in rewards])


def write_round(layout: Layout, rewarded: Iterable[RewardedTrajectory], round: int = 1) -> None:
    """The files of a round's train and validation completions."""
    listed, splits = list(rewarded), list[Split](["train", "validation"])
    for split in splits:
        write_rewarded(layout.trajectories(round, split), [own for own in listed if own.trajectory.split == split])


def read_rewarded(trajectories: Path) -> Iterator[RewardedTrajectory]:
    """The groups of a file, one at a time."""
    return (rewarded for _, rewarded in read_numbered_rewarded(trajectories))
