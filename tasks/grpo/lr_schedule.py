"""The learning rate of each step: a straight rise over `warmup_steps`, then transformers' schedule of that name.

    schedule                  step s of n, from 1, after the rise; w = warmup_steps
    linear                    (n + 1 - s) / (n + 1 - w)
    cosine                    (1 + cos(π (s - w) / (n + 1 - w))) / 2
    inverse_sqrt              1 / √(1 + (s - w) / w), w = 10000 without warm-up
    constant_with_warmup      1

Without a decline the noise of the last few steps stays in the weights, and the round ends worse than its mean.
transformers counts from step 0 to step n, where its rates are 0; these two steps are left out.
"""

from typing import Any

from tasks.params.fields import Schedule


def schedule_of(optimizer: Any, name: Schedule, warmup_steps: int, steps: int) -> Any:
    """A scheduler that has set the rate of the first of `steps` steps; its step() sets the next one's."""
    from transformers import get_scheduler

    schedule = get_scheduler(name, optimizer, num_warmup_steps=warmup_steps, num_training_steps=steps + 1)
    optimizer.step()  # without a gradient it moves nothing; torch warns where a schedule goes ahead of its optimiser
    schedule.step()
    return schedule
