"""What all public functions and methods share: memory that runs out in Python code is an OutOfMemoryError.

The core reports it by itself, and large needs are estimated before the work. The rest, arrays of numpy, bytes of files, raises a bare
MemoryError anywhere. It is translated here, where it leaves the library, at about 0.1 us a call.
"""

from __future__ import annotations

import errno
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from meshsolve.errors import OutOfMemoryError

OPERATORS = {"__init__", "__call__", "__matmul__", "__rmatmul__", "__getitem__", "__copy__", "__deepcopy__", "__getstate__", "__setstate__"}


def translate_memory_errors(*modules: types.ModuleType) -> None:
    """Wrap the functions that these modules export in ``__all__``, and the methods of their classes, once."""
    for module in modules:
        for name in module.__all__:
            value: Any = vars(module).get(name)
            if isinstance(value, types.FunctionType) and not hasattr(value, "is_translated"):
                _replace(value, module, name)
            elif isinstance(value, type) and not issubclass(value, BaseException):
                for part in value.__mro__:
                    if part.__module__.partition(".")[0] == "meshsolve":
                        _translate_methods(part)


def _replace(function: types.FunctionType, module: types.ModuleType, name: str) -> None:
    """Wrap a function where it is defined, which pickles name, and where it is exported."""
    wrapped, home = _translated(function), sys.modules[function.__module__]
    if vars(home).get(function.__name__) is function:
        setattr(home, function.__name__, wrapped)
    setattr(module, name, wrapped)


def _translate_methods(cls: type) -> None:
    for name, value in list(vars(cls).items()):
        if name.startswith("_") and name not in OPERATORS:
            continue
        if isinstance(value, types.FunctionType) and not hasattr(value, "is_translated"):
            setattr(cls, name, _translated(value))
        elif isinstance(value, (classmethod, staticmethod)) and not hasattr(value.__func__, "is_translated"):
            setattr(cls, name, type(value)(_translated(value.__func__)))
        elif isinstance(value, property) and value.fget is not None and not hasattr(value.fget, "is_translated"):
            setattr(cls, name, property(_translated(value.fget), value.fset, value.fdel, value.__doc__))
        elif isinstance(value, functools.cached_property) and not hasattr(value.func, "is_translated"):
            value.func = _translated(value.func)


def _translated(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with errors of short memory as OutOfMemoryError."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except MemoryError as e:
            if isinstance(e, OutOfMemoryError):
                raise
            raise OutOfMemoryError(f"not enough memory: {str(e) or 'Python has none left'}") from e
        except OSError as e:
            if e.errno != errno.ENOMEM:
                raise
            raise OutOfMemoryError(f"not enough memory: {e}") from e

    call.is_translated = True                               # type: ignore[attr-defined]
    return call
