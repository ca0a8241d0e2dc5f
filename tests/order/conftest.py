"""Make the helpers of this folder importable from any working directory."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
