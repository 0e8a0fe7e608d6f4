"""The environment that `graft` sets, for the tests too: before torch, dvc or prefect is imported by any of them."""

from flows import environment

environment.settle()
