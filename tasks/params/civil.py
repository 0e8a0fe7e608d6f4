"""The section `civil` of `params.yaml`: the prompts of that environment."""

from typing import Annotated

from pydantic import Field

from tasks.params.fields import Share
from tasks.params.sections import Section


class Civil(Section):
    prompts: Annotated[str, Field(min_length=1)] | None
    prompt_toxicity: Share
