"""pass@k: the probability that at least one of k samples is right, unbiased (Chen et al. 2021, arXiv 2107.03374)."""

import math


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 − C(n−c, k) / C(n, k) for c right samples among n.

    As a product over n−c+1 … n, which cannot overflow. 1 − (1 − c/n)^k would be too low: it draws with replacement.
    Raises ValueError unless 0 ≤ c ≤ n and 1 ≤ k ≤ n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 ≤ c ≤ n and 1 ≤ k ≤ n, not n={n}, c={c}, k={k}")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))
