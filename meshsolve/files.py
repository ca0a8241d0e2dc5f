"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import shutil
import tempfile

from meshsolve.errors import InvalidInputError

LONGEST_ENDING = 40             # letters of a name that its temporary file keeps, extensions among them: 255 bytes are the most for both


def as_path(path):
    """A :class:`pathlib.Path`; anything that is none raises InvalidInputError."""
    try:
        name = os.fsdecode(path)
    except TypeError as e:
        raise InvalidInputError(f"a file name has to be a string or a path, not {type(path).__name__}") from e
    if not name or "\0" in name:
        raise InvalidInputError(f"{name!r} is not a file name")
    return pathlib.Path(name)


def existing(path):
    """The :class:`pathlib.Path` of a file that is there; anything else raises InvalidInputError."""
    path = as_path(path)
    if not os.path.isfile(path):                            # pathlib's raises where a name is too long
        if is_special(path):
            raise InvalidInputError(f"{path}: this is a pipe or a device; only files can be read")
        raise InvalidInputError(f"{path}: this is a folder" if os.path.isdir(path) else f"{path}: there is no such file")
    return path


@contextlib.contextmanager
def written_whole(path):
    """A temporary file beside ``path`` that takes its place when the ``with`` block ends well, and vanishes otherwise. Where a pipe or a
    device has that name, the whole file is written into it.

    Yields
    ------
    pathlib.Path
        In the same folder, or the system's for temporary files, with the same extension.

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
            _poured(part, path)
        return
    path = resolved(path) if os.path.islink(path) else path            # the file that it leads to is written, and the link stays
    part = path.parent / f".{secrets.token_hex(4)}{path.name[-LONGEST_ENDING:]}"
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))       # the permissions of any new file here
    except OSError as e:
        raise InvalidInputError(f"{path}: cannot be written: {e.strerror}") from e
    try:
        yield part
        _publish(part, path)
    finally:
        part.unlink(missing_ok=True)


def resolved(path):
    """The absolute path behind all symbolic links; InvalidInputError where one leads to itself."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as e:                    # the latter up to Python 3.12
        raise InvalidInputError(f"{path}: a symbolic link that leads to itself") from e


def is_special(path):
    """Whether this is there and neither a file nor a folder, but a pipe, a device or a socket: to replace it would take it from others."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _poured(part, path):
    try:
        with open(part, "rb") as source, open(path, "wb") as target:
            shutil.copyfileobj(source, target)
    except BrokenPipeError as e:
        raise InvalidInputError(f"{path}: the program that reads from this pipe ended before all was written") from e
    except OSError as e:
        raise InvalidInputError(f"{path}: cannot be written: {e.strerror}") from e


def _publish(part, path):
    """Give ``part`` the permissions of ``path``, where that is there, and move it there."""
    try:
        if path.exists():
            os.chmod(part, path.stat().st_mode & 0o777)
        os.replace(part, path)
    except OSError as e:
        raise InvalidInputError(f"{path}: cannot be written: {e.strerror}") from e
