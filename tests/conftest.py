import os
import pathlib
import time

import hypothesis
import pytest

STARTED = time.monotonic()
hypothesis.settings.register_profile("untimed", deadline=None)  # tests do not time: other programs may be busy
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session")
def data_root():
    "The folder with the published data sets; without it the tests that read them are skipped, and say so."
    root = os.environ.get("GIB_NB_DATA")
    if not root or not pathlib.Path(root).is_dir():
        pytest.skip("published data not found: set GIB_NB_DATA to the folder that holds tu/ and interpretation/")
    return pathlib.Path(root)


def pytest_addoption(parser):
    parser.addoption("--seconds", type=float, help="skip, aloud, what has not begun after so many seconds")


def pytest_runtest_setup(item):
    budget = item.config.getoption("--seconds")
    if budget and time.monotonic() - STARTED > budget:
        pytest.skip("no time left here; make test-all runs it")
