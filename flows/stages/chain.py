"""The order in which a run computes its stages."""

ROUND = ("search", "collect", "reward", "select", "update")


def stage_ids(rounds: int) -> list[str]:
    """problems ─ coldstart ─ bootstrap ─ (search ─ collect ─ reward ─ select ─ update) × rounds ─ …

    … validate × rounds ─ choose ─ evaluate before and after ─ promote
    """
    numbers = range(1, rounds + 1)
    return [
        *["problems", "coldstart", "bootstrap"],
        *[f"{stage}@{number}" for number in numbers for stage in ROUND],
        *[f"validate@{number}" for number in numbers],  # not inside the rounds: this is DVC's order
        *["choose", "evaluate@before", "evaluate@after", "promote"],
    ]
