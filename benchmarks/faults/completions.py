"""The code that is taken out of completions as instruct models write them."""

from tasks.programs.code_blocks import code_of
from tests.support.completions import COMPLETIONS, NAME


def measure() -> dict[str, float]:
    """`code_blocks_right_share`: of the completions of the table, those from which the code that they mean is taken."""
    right = sum(code_of(text, NAME) == code for text, code in COMPLETIONS.values())
    return {"code_blocks_right_share": right / len(COMPLETIONS)}
