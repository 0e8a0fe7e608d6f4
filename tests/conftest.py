"""For all tests: the environment that `graft` sets, and examples of Hypothesis that are the same each time."""

from hypothesis import settings

from flows import environment

environment.settle()  # before torch, dvc or prefect is imported by any test
settings.register_profile("graft", deadline=None, derandomize=True)
settings.load_profile("graft")
