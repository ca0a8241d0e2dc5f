"""The table of attacks: which public calls each one tries, its cases by number, and what came of them.

A case draws its input from a random generator that depends on the seed, on the name of the attack and on the number of the case, so each
finding can be repeated alone. A case asserts what an oracle says: dense LAPACK, mpmath, a peer, an identity, an invariance. It ends

- "ok": nothing to report,
- "refused": by an error of meshsolve, which is right unless the case says ``well_posed``,
- "wrong": an assertion failed,
- "foreign": another exception than one of meshsolve's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import pathlib
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator

import numpy as np

import meshsolve as ms

ATTACKS: dict[str, Attack] = {}        # by name: the names of the file and of the function
NOT_FILES = {"__init__", "__main__", "table", "axes", "surface"}      # modules of this package that hold no attacks


@dataclasses.dataclass(frozen=True)
class Attack:
    name: str
    calls: tuple[str, ...]             # public names below meshsolve: "eigsh", "apps.smooth", "Quadratic.minimize"
    case: Callable[[np.random.Generator], None]
    quick: int                         # cases in CI

    def run(self, seed: int, number: int) -> tuple[str, str]:
        """Run one case; return its ending and, for a finding, what was found."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode()), number])
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                self.case(rng)
        except AssertionError as e:
            return "wrong", f"{e}" or traceback.format_exc(limit=-1)
        except ms.MeshsolveError as e:
            return "refused", f"{type(e).__name__}: {e}"
        except Exception:
            return "foreign", traceback.format_exc(limit=-4)
        return "ok", ""


def attack(*calls: str, quick: int = 100) -> Callable[[Callable[[np.random.Generator], None]], Callable[[np.random.Generator], None]]:
    """Enter a function of a random generator into the table. ``calls`` are the public names that it tries, ``quick`` the cases in CI."""
    def enter(case: Callable[[np.random.Generator], None]) -> Callable[[np.random.Generator], None]:
        name = f"{case.__module__.rpartition('.')[2]}.{case.__name__}"
        if not case.__doc__:
            raise ValueError(f"{name} needs a docstring with its hostile axes and its oracle")
        ATTACKS[name] = Attack(name, calls, case, quick)
        return case
    return enter


@contextlib.contextmanager
def well_posed(what: str) -> Iterator[None]:
    """A refusal inside is a false alarm."""
    try:
        yield
    except ms.MeshsolveError as e:
        raise AssertionError(f"false alarm, {what}: {type(e).__name__}: {e}") from e


def load() -> dict[str, Attack]:
    """Import all files of attacks; return the table."""
    for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
        if path.stem not in NOT_FILES and not path.stem.startswith("test_"):
            importlib.import_module(f"campaigns.{path.stem}")
    return ATTACKS
