"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("meshsolve")
except PackageNotFoundError:          # imported from a source tree that was never installed
    __version__ = "0.0.0+source"
