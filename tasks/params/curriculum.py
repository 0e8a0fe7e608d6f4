"""The section `curriculum` of `params.yaml`: the train problems that a round searches."""

from pydantic import model_validator

from tasks.params.fields import Count, Share
from tasks.params.sections import Section


class Curriculum(Section):
    problems: Count | None
    discount: Share
    groups: Count | None

    @model_validator(mode="after")
    def _check_groups(self) -> "Curriculum":
        if self.groups is not None and self.problems is not None and self.groups > self.problems:
            raise ValueError(
                f"groups ({self.groups}) must be at most problems ({self.problems}), each of which gives at most one"
            )
        return self
