"""Undo: earlier states of a model, each with the name of the change that replaced it.

A state is a dict of the model's attributes. Meshes share their faces, so a state costs 24 bytes a vertex and what was cached with it.
Objects of this class are never changed: each method returns another one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

KEPT = 20                           # changes that can be undone; a state of a mesh of a million vertices takes about 24 MB


@dataclass(frozen=True, eq=False)
class History:
    """Changes of a model, oldest first.

    Attributes
    ----------
    done : tuple of (str, int or None, dict)
        Name of each change, the gesture that it belongs to, and the state before it.
    undone : tuple of (str, int or None, dict)
        The same for changes that were undone, with the state after each.
    """

    done: tuple[tuple[str, Any, dict], ...] = ()
    undone: tuple[tuple[str, Any, dict], ...] = ()

    def record(self, name, gesture, before):
        """Add a change. Changes of one name in one gesture (a drag with the mouse) count as one; None is a gesture of its own."""
        if gesture is not None and self.done and self.done[-1][:2] == (name, gesture):
            return replace(self, undone=())
        return History((*self.done, (name, gesture, before))[-KEPT:])

    def undo(self, now):
        """Return the history without its last change, and the state to restore; ``now`` is the present state."""
        *done, (name, gesture, before) = self.done
        return History(tuple(done), (*self.undone, (name, gesture, now))), before

    def redo(self, now):
        """Return the history with the change that was undone last, and its state; ``now`` is the present state."""
        *undone, (name, gesture, after) = self.undone
        return History((*self.done, (name, gesture, now)), tuple(undone)), after

    @property
    def last(self):
        """Name of the last change, empty if no change is left."""
        return self.done[-1][0] if self.done else ""

    @property
    def next(self):
        """Name of the change that was undone last, empty if no change is left."""
        return self.undone[-1][0] if self.undone else ""
