import os
import pathlib

import pytest


@pytest.fixture(scope="session")
def data_root():
    "The folder with the published data sets; without it the tests that read them are skipped, and say so."
    root = os.environ.get("GIB_NB_DATA")
    if not root or not pathlib.Path(root).is_dir():
        pytest.skip("published data not found: set GIB_NB_DATA to the folder that holds tu/ and interpretation/")
    return pathlib.Path(root)
