"""MLflow's limits: what a name, a value and a call may hold."""

import re

TAGS_PER_CALL = 100  # of one log_batch, also its params
METRICS_PER_CALL = 800  # it takes 1000 of all kinds
VALUE_LENGTH = 5000  # of a tag or param


def valid_name(name: str) -> str:
    """`name` with the characters that MLflow refuses, such as `@`, replaced."""
    return re.sub(r"[^\w\-. :/]", "_", name)
