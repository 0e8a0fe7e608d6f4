"""The section `ppo` of `params.yaml`: what an update with a value head does otherwise than one of GRPO."""

from typing import Annotated

from pydantic import Field

from tasks.params.fields import LearningRate, Share
from tasks.params.sections import Section


class Ppo(Section):
    gamma: Share
    lam: Share
    clip: Share
    value_weight: Annotated[float, Field(ge=0, le=100)]
    value_rate: LearningRate
