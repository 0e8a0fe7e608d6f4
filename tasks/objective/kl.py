"""Estimates of KL(policy ‖ reference) from one token that the policy drew (Schulman 2020).

With d = log p_reference - log p:

    k1   -d              unbiased, of either sign. As a term of the loss its own gradient is 0 on average: it pulls
                         to the reference only with the correction
    k2   d² / 2          biased, but its gradient is that of the KL where the policy drew the token itself
    k3   e^d - d - 1     unbiased and never negative; the one of DeepSeekMath, eq. 4

The correction multiplies by the importance ratio, gradient included: then value and gradient are those of the KL for
tokens that an older policy drew (DeepSeek-V3.2, 2025; `use_bias_correction_kl` in TRL).
"""

from torch import Tensor

from tasks.params.fields import KlEstimate


def kl_estimate(logprobs: Tensor, reference: Tensor, kind: KlEstimate) -> Tensor:
    """The estimate for each token, of the shape of `logprobs`; differentiable."""
    difference = reference - logprobs
    if kind == "k1":
        return -difference
    if kind == "k2":
        return difference.square() / 2
    return difference.exp() - difference - 1
