"""Policies and samples."""

import pytest

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tests.support.policies import MakePolicy, MakeSamples


@pytest.fixture
def policy(make_policy: MakePolicy) -> Policy:
    return make_policy()


@pytest.fixture
def samples(make_samples: MakeSamples) -> list[Sample]:
    return make_samples()
