"""``python -m meshsolve`` is the command line."""

import sys

from meshsolve.cli import main

sys.exit(main())
