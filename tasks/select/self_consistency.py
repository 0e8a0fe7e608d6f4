"""Features of a completion that say how likely it is right without its reward: above all, how many others agree.

Completions of a problem that give the same results are more often right than those that stand alone (Wang et al. 2023,
Self-Consistency Improves Chain of Thought Reasoning in Language Models). Results are compared on the problem and on all
its siblings. The votes are those of independent samples: what a tree search wrote follows what was rewarded before.
"""

from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING

from tasks.trajectories import Member, Trajectory

if TYPE_CHECKING:
    from tasks.statistics.logistic_regression import Floats


def voters_of(trajectory: Trajectory, most: int) -> list[int]:
    """The places of the first independent samples of the group, at most `most`."""
    return [place for place, member in enumerate(trajectory.members) if member.proposer == "sample"][:most]


def consistency_features(trajectory: Trajectory, voters: list[int]) -> "Floats":
    """Features [G, 8] of a group's completions, whose votes are those of the members at the places `voters`.

    Share of its runs that returned a value; share of the other voters with the same results; largest share of the
    voters with other results; whether the first of these is larger; number of different results and of complete ones,
    as shares of the voters; mean log-probability of its tokens; their number.
    """
    import numpy as np

    votes = [_vote(member) for member in trajectory.members]
    counts = Counter(vote for place in voters if (vote := votes[place]))
    size, rows = max(len(voters), 1), []
    for place, (member, vote) in enumerate(zip(trajectory.members, votes, strict=True)):
        is_voter = place in voters  # whose own vote is no evidence
        agreement = (counts[vote] - is_voter) / max(len(voters) - is_voter, 1) if vote else 0.0
        rival = max((count for other, count in counts.items() if other != vote), default=0) / size
        rows.append(
            [
                fmean(result.status == "ok" for result in member.results),
                agreement,
                rival,
                float(agreement > rival),
                len(counts) / size,
                counts.total() / size,
                fmean(member.logprobs) if member.logprobs else 0.0,
                float(len(member.tokens)),
            ]
        )
    return np.array(rows)


def _vote(member: Member) -> tuple[str, ...] | None:
    """The values of all runs; None where one returned nothing, which is no vote."""
    if any(result.status != "ok" for result in member.results):
        return None
    return tuple(repr(result.value) for result in member.results)
