"""Where arrays lie, as a value: :data:`HOST` and :data:`CUDA` have the same methods, and :func:`where` returns one of them."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from meshsolve import device, foreign
from meshsolve.arrays import as_array, as_complex, as_rhs
from meshsolve.device_arrays import as_device_rhs, begin_device_rhs
from meshsolve.errors import InvalidInputError

NO_TURN = contextlib.nullcontext()


def checked_already():
    """Nothing is left to check."""


class Host:
    """Main memory, and numpy's arrays."""

    name = "cpu"
    xp = np
    errors: Any = contextlib.nullcontext        # errors(what): what catches errors of a library
    array = staticmethod(as_array)              # array(x, name): checked
    bring = staticmethod(device.to_host)        # bring(x): a numpy or CuPy array, from wherever it lies
    joined = staticmethod(as_complex)           # joined(real, imaginary)
    dtype_of = staticmethod(foreign.dtype_of)   # dtype_of(out): of an array of this place, else None

    def begin_rhs(self, b, n, late):
        """(columns of b, its shape, a function that raises where a value is not finite that was not checked yet); ``late``: on the GPU that
        may wait until the work is queued."""
        return *as_rhs(b, n), checked_already

    def write(self, x, out):
        """Copy x to the caller's ``out``."""
        foreign.write(x, out)

    def turn(self, sharing):
        """What solves that share memory pass one by one."""
        return NO_TURN


class Cuda(Host):
    """A GPU, and CuPy's arrays."""

    name = "cuda"
    xp = property(lambda self: device.xp())
    errors = staticmethod(device.errors)
    bring = staticmethod(device.to_device)

    def array(self, x, name):
        return device.asarray(x)

    def joined(self, real, imaginary):
        return real + 1j * imaginary

    def dtype_of(self, out):
        return device.asarray(out).dtype if device.holds(out) else None

    def begin_rhs(self, b, n, late):
        return begin_device_rhs(b, n) if late else (*as_device_rhs(b, n), checked_already)

    def write(self, x, out):
        to = device.asarray(out) if device.holds(out) else None
        if to is None or to.shape != x.shape or to.dtype != x.dtype:
            raise InvalidInputError(f"out has to be a writable array of shape {x.shape} and dtype {x.dtype}, where b lies: on the GPU")
        to[...] = x

    def turn(self, sharing):
        return sharing.turn()


HOST, CUDA = Host(), Cuda()
PLACES: dict[str, Host] = {place.name: place for place in (HOST, CUDA)}


def where(x):
    """The place of an array or matrix."""
    return CUDA if device.holds(x) else HOST


def is_foreign(x):
    """Whether scipy's operators would convert x or fail: it lies on the GPU, is sparse, or is traced without numbers."""
    return device.holds(x) or foreign.is_sparse(x) or foreign.is_traced(x)
