"""The same random numbers in every run: in every test, in every fixture, on any worker, in any order."""

import os
import random

import numpy as np
import pytest
import torch
from hypothesis import settings

# BROADSHEET_TEST_SEED=7 tries other numbers, and lets hypothesis look for examples of its own.
SEED = os.environ.get("BROADSHEET_TEST_SEED")

settings.register_profile("broadsheet", deadline=None, derandomize=SEED is None)
settings.load_profile("broadsheet")


def _seed() -> None:
    number = int(SEED or 0)
    random.seed(number)
    np.random.seed(number)  # noqa: NPY002 - libraries draw from it
    torch.manual_seed(number)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    _seed()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    _seed()
