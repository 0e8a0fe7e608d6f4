"""Prompts of ten families of chat templates, on other days and with quoted control tokens.

python -m benchmarks.faults.prompts
"""

import json

from tests.support.chat_families import FAMILIES, control_tokens_from_text, prompt_differs_by_day

TEXTS = 200


def measure() -> dict[str, float]:
    """`prompt_differs_by_day`: families; `control_tokens_from_text`: tokens, over all families × TEXTS texts."""
    return {
        "prompt_differs_by_day": sum(map(prompt_differs_by_day, FAMILIES)),
        "control_tokens_from_text": sum(control_tokens_from_text(name, TEXTS) for name in FAMILIES),
    }


if __name__ == "__main__":
    print(json.dumps(measure()))
