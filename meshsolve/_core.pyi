"""The C++ core is not for users, and Python checks every argument before a call: no types."""

from typing import Any

def __getattr__(name: str) -> Any: ...
