"""The C++ core is not for users, and Python looks at every argument before it gets there: no types."""

from typing import Any

def __getattr__(name: str) -> Any: ...
