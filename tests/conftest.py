"""Where real data lies, if it is there: MESHSOLVE_DATA, else a folder shared/data beside the checkout."""

import os
import pathlib
import sys

import pytest
from hypothesis import settings

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))     # last: for `benchmarks`, not for the source of meshsolve

settings.register_profile("meshsolve", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("meshsolve")


def find_data():
    """The folder of real meshes and matrices (with an INDEX.csv), or None."""
    beside = pathlib.Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
    folder = pathlib.Path(os.environ.get("MESHSOLVE_DATA", beside)).resolve()
    return folder if (folder / "INDEX.csv").is_file() else None


@pytest.fixture(scope="session")
def data_dir():
    """The folder of real data; the test is skipped where there is none."""
    folder = find_data()
    if folder is None:
        pytest.skip("no folder of real meshes and matrices: set MESHSOLVE_DATA")
    return folder
