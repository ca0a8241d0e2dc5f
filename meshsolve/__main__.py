"""Run the command line: ``python -m meshsolve``."""

import sys

from meshsolve.cli import main

sys.exit(main())
