"""Checks of paths, and files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import shutil
import tempfile

from meshsolve.errors import InvalidInputError

LONGEST_ENDING = 40             # characters of a name (with its extensions) kept in the temporary name; file systems allow 255 bytes


def as_path(path):
    """Convert to :class:`pathlib.Path`, or raise InvalidInputError."""
    try:
        name = os.fsdecode(path)
    except TypeError as e:
        raise InvalidInputError(f"a file name must be a string or a path, got {type(path).__name__}") from e
    if not name or "\0" in name:
        raise InvalidInputError(f"{name!r} is not a file name")
    return pathlib.Path(name)


def existing(path):
    """Return the :class:`pathlib.Path` of an existing file, or raise InvalidInputError."""
    path = as_path(path)
    if not os.path.isfile(path):                            # Path.is_file raises OSError for long names
        if is_special(path):
            raise InvalidInputError(f"{path}: this is a pipe or a device; only files can be read")
        raise InvalidInputError(f"{path}: this is a folder, not a file" if os.path.isdir(path) else f"{path}: no such file")
    return path


@contextlib.contextmanager
def written_whole(path):
    """Context manager that yields a temporary file and replaces ``path`` with it at the end.

    If the ``with`` block raises, the temporary file is deleted and ``path`` is unchanged. If ``path`` is a pipe or a device, the
    complete file is written into it.

    Yields
    ------
    pathlib.Path
        A file with the same extension, in the same folder (for a pipe or device in the system's temporary folder).

    Raises
    ------
    InvalidInputError
        The folder does not exist or cannot be written to.
    """
    path = as_path(path)
    if is_special(path):
        with tempfile.TemporaryDirectory() as folder:
            part = pathlib.Path(folder) / path.name
            part.touch()
            yield part
            _copy_into(part, path)
        return
    path = resolved(path) if os.path.islink(path) else path            # the target is replaced, the link stays
    part = path.parent / f".{secrets.token_hex(4)}{path.name[-LONGEST_ENDING:]}"
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))       # default permissions of a new file
    except OSError as e:
        raise InvalidInputError(f"{path}: cannot be written: {e.strerror}") from e
    try:
        yield part
        _publish(part, path)
    finally:
        part.unlink(missing_ok=True)


def resolved(path):
    """Return the absolute path without symbolic links; raise InvalidInputError for a cycle of links."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as e:                    # RuntimeError up to Python 3.12
        raise InvalidInputError(f"{path}: this is a symbolic link to itself") from e


def is_special(path):
    """True for a pipe, a device or a socket. Such a path must not be replaced, because other programs use it."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _copy_into(part, path):
    try:
        with open(part, "rb") as source, open(path, "wb") as target:
            shutil.copyfileobj(source, target)
    except BrokenPipeError as e:
        raise InvalidInputError(f"{path}: the program that reads this pipe ended before the file was complete") from e
    except OSError as e:
        raise InvalidInputError(f"{path}: cannot be written: {e.strerror}") from e


def _publish(part, path):
    """Rename ``part`` to ``path``, with the permissions of an existing ``path``."""
    try:
        if path.exists():
            os.chmod(part, path.stat().st_mode & 0o777)
        os.replace(part, path)
    except OSError as e:
        raise InvalidInputError(f"{path}: cannot be written: {e.strerror}") from e
