"""Seeds that depend on what is sampled, never on order, time or worker."""

import hashlib

SEED_BITS = 63


def derive_seed(*parts: str | int) -> int:
    """A seed in [0, 2**63) that is a function of `parts` alone.

    `derive_seed(seed, "search", problem_id, row)` gives row `row` of this problem the same random
    numbers whichever batch, process or machine it is sampled in.
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - SEED_BITS)
