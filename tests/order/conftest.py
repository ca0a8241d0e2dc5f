"""Lets the test files of this folder import their helpers, wherever pytest is started."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
