"""Collapse of a policy: signs of it in the metrics of a round, and the params to change."""

from collections.abc import Mapping

COMMONEST = 0.7
"""Share of the most frequent completion, over all problems, from which the policy hardly reads the problem.

Of seven runs of SmolLM2 on the grammar of events, the three that learned most stayed below; the one that collapsed had
0.74 a round before.
"""

PROBLEMS = 8
"""Fewer problems may well have the same solution."""

ENTROPY = 0.05
"""Entropy of a token, in nats, below which a policy has hardly more than one completion of a prompt."""

CUT = 0.9
"""Share of completions cut at policy.max_new_tokens from which the policy hardly ends any."""

GENTLER = "lower update.learning_rate, raise update.beta, or raise update.negative_weight if it is below 1"


def collapse_remarks(numbers: Mapping[str, float]) -> list[str]:
    """A remark for each sign of collapse in the metrics of `collect` or `update`; a metric that is missing has none."""
    remarks = []
    if (share := numbers.get("commonest_share", 0.0)) >= COMMONEST and numbers["train"] >= PROBLEMS:
        remarks.append(f"{share:.0%} of the completions, over all problems, are the same one: {GENTLER}")
    if (entropy := numbers.get("entropy", ENTROPY)) < ENTROPY:
        remarks.append(
            f"the entropy of a token is {entropy:.3f}, so that a problem's completions are hardly ever different; "
            f"unless they are right, {GENTLER}"
        )
    if (cut := numbers.get("completions/clipped_ratio", 0.0)) >= CUT:
        remarks.append(
            f"{cut:.0%} of the completions are cut, so that the policy hardly learns where to end: set "
            "update.truncated to leave_out, raise policy.max_new_tokens, or name the text that ends one in "
            "policy.prompt.stop"
        )
    return remarks
