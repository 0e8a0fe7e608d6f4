"""Seeds derived from what is sampled, never from order, time or worker."""

import hashlib

SEED_BITS = 63


def derive_seed(*parts: str | int) -> int:
    """A seed in [0, 2**63) that is a function of `parts` alone.

    With `derive_seed(seed, "search", problem_id, row)`, row `row` of this problem gets the same random numbers in
    every batch, in every process and on every machine.
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - SEED_BITS)
