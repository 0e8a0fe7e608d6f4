"""For all tests: the environment that `graft` sets, and examples of Hypothesis that are the same each time."""

import signal

from hypothesis import settings

from flows import environment

environment.settle()  # before torch, dvc or prefect is imported by any test
settings.register_profile("graft", deadline=None, derandomize=True)
settings.load_profile("graft")

# Started in the background of a script, this process and all that it starts would ignore Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)
