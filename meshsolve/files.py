"""Checks of paths, files that are read within the memory that is left, and files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import contextvars
import errno
import io
import os
import pathlib
import secrets
import shutil
import tempfile
import zlib

from meshsolve.errors import InvalidInputError, OutOfMemoryError
from meshsolve.memory import ensure_memory

PIECE = 1 << 16                 # bytes of a compressed file that are read at once
GROWTH = 1 << 26                # bytes of decompressed content between two looks at the memory that is left
LONGEST_ENDING = 40             # characters of a name (with its extensions) kept in the temporary name; file systems allow 255 bytes
FULL = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EROFS, getattr(errno, "EDQUOT", errno.ENOSPC)}      # errors of the disk
_recorded: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("recorded", default=None)


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


def inside(folder, name):
    """Return the path of a file that a document in ``folder`` names. Such a document may come from strangers.

    Raises
    ------
    InvalidInputError
        The name leaves the folder: it is absolute, has a drive, a scheme or ``..``, or leads outside by a link. Names with backslashes,
        which are separators on some systems alone, are refused too.
    """
    relative = pathlib.PurePosixPath(as_path(name))
    if "\\" in name or ":" in name or relative.is_absolute() or ".." in relative.parts:
        raise InvalidInputError(f"the name {name[:80]!r} leaves its folder: only files in the folder of the document are read")
    path, home = resolved(folder / relative), resolved(folder)
    if not path.is_relative_to(home):
        raise InvalidInputError(f"the name {name[:80]!r} is a link out of its folder: only files in the folder of the document are read")
    return folder / relative


def content_of(path):
    """Return the bytes of an existing file. A name that ends in ``.gz`` is decompressed.

    A file has the size that the system gives. So files that grow without end, such as those of ``/proc``, are empty or refused.

    Raises
    ------
    InvalidInputError
        No such file; a folder, a pipe or a device; not readable; damaged compressed data.
    OutOfMemoryError
        The content needs more memory than there is. Compressed data are refused as soon as that is known.

    Notes
    -----
    Memory: at most 9/8 of the content.
    """
    return _content_of(path).getvalue()


def writable_content_of(path):
    """Return :func:`content_of` as a writable buffer that nothing else uses."""
    return _content_of(path).getbuffer()


@contextlib.contextmanager
def written_whole(path):
    """Context manager that yields a temporary file and replaces ``path`` with it at the end.

    If the ``with`` block raises, the temporary file is deleted and ``path`` is unchanged. If ``path`` is a pipe or a device, the
    complete file is written into it. A file that is replaced keeps its permissions, its owner where that is allowed, and its other
    names (hard links); its temporary file can be read by its owner alone. Inside :func:`recording` the file is on the disk at the end.

    Yields
    ------
    pathlib.Path
        A file with the same extension, in the same folder (for a pipe or device in the system's temporary folder).

    Raises
    ------
    InvalidInputError
        The folder does not exist or cannot be written to; the disk is full.
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
        mode = 0o600 if path.exists() else 0o666                        # the default permissions of a new file
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    except OSError as e:
        raise InvalidInputError(f"{path}: cannot be written: {e.strerror}") from e
    try:
        yield part
        _publish(part, path)
    except OSError as e:
        if e.errno not in FULL:
            raise
        raise InvalidInputError(f"{path}: cannot be written: {e.strerror}") from e
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def recording():
    """Context manager that yields a list, to which the absolute paths of the files written inside are added. Each is on the disk, with
    its name, before the next statement: a record of it may vouch for it after a power failure."""
    token = _recorded.set([])
    try:
        yield _recorded.get()
    finally:
        _recorded.reset(token)


def resolved(path):
    """Return the absolute path without symbolic links; raise InvalidInputError for a cycle of links."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as e:                    # RuntimeError up to Python 3.12
        raise InvalidInputError(f"{path}: this is a symbolic link to itself") from e


def is_special(path):
    """True for a pipe, a device or a socket. Such a path must not be replaced, because other programs use it."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def sync(path):
    """Write a file, or the names in a folder, from the memory of the system to the disk. Some network drives cannot."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY if os.path.isdir(path) else os.O_RDWR)      # Windows opens no folder
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _content_of(path):
    """Return the content of a file as a BytesIO, whose methods getvalue and getbuffer make no copy."""
    path = existing(path)
    try:
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            if path.suffix.lower() == ".gz":
                return _decompressed(f, size, path)
            ensure_memory(size, f"the content of {path}")
            return io.BytesIO(f.read(size))
    except OutOfMemoryError:                                # which is a MemoryError
        raise
    except MemoryError as e:                                # the process has a limit
        raise OutOfMemoryError(f"{path}: the content needs more memory than this process may have") from e
    except (OSError, EOFError, zlib.error) as e:
        raise InvalidInputError(f"{path}: cannot be read: {getattr(e, 'strerror', None) or e}") from e


def _decompressed(file, size, path):
    """Return the content of a gzip file of ``size`` bytes, which may have several members. Zeros after a member are ignored."""
    def more():
        return file.read(min(PIECE, size - file.tell()))

    out, allowed, data = io.BytesIO(), 0, more()
    while data:
        unpack = zlib.decompressobj(wbits=31)
        while not unpack.eof:
            piece = unpack.decompress(data, GROWTH // 64)
            data = unpack.unconsumed_tail
            out.write(piece)
            if (length := out.tell()) > allowed:
                allowed = length + GROWTH
                ensure_memory(GROWTH, f"the content of {path}, more than {length / 2**20:.0f} MiB when it is decompressed,")
            if not piece and not data and not unpack.eof and not (data := more()):
                raise EOFError("the compressed data end before their end marker")
        data = unpack.unused_data.lstrip(b"\0")
        while not data and (following := more()):
            data = following.lstrip(b"\0")
    return out


def _copy_into(part, path):
    try:
        with open(part, "rb") as source, open(path, "wb") as target:
            shutil.copyfileobj(source, target)
    except BrokenPipeError as e:
        raise InvalidInputError(f"{path}: the program that reads this pipe ended before the file was complete") from e
    except OSError as e:
        raise InvalidInputError(f"{path}: cannot be written: {e.strerror}") from e


def _publish(part, path):
    """Rename ``part`` to ``path``, with the permissions and the owner of an existing ``path``."""
    recorded = _recorded.get()
    try:
        before = path.stat() if path.exists() else None
        if before is not None and before.st_nlink > 1:
            _overwrite(part, path)
        else:
            if recorded is not None:
                sync(part)
            if before is not None:
                _take_permissions(part, before)
            os.replace(part, path)
        if recorded is not None:
            sync(path if before is not None and before.st_nlink > 1 else path.parent)
            recorded.append(os.path.abspath(path))
    except OSError as e:
        raise InvalidInputError(f"{path}: cannot be written: {e.strerror}") from e


def _take_permissions(part, before):
    """Give a file the owner and the permissions of another one. Another group than before gets no more than all others."""
    mode = before.st_mode & 0o777
    if hasattr(os, "chown"):
        own = part.stat()
        if (own.st_uid, own.st_gid) != (before.st_uid, before.st_gid):
            try:
                os.chown(part, before.st_uid, before.st_gid)
            except OSError:
                with contextlib.suppress(OSError):
                    os.chown(part, -1, before.st_gid)
                if part.stat().st_gid != before.st_gid:
                    mode &= 0o707 | (mode & 0o007) << 3
    os.chmod(part, mode)


def _overwrite(part, path):
    """Copy ``part`` over the content of a file with several names, which a new file would have lost. The room is reserved first."""
    with open(part, "rb") as source, open(path, "r+b") as target:
        size, before = os.fstat(source.fileno()).st_size, os.fstat(target.fileno()).st_size
        if hasattr(os, "posix_fallocate") and size > before:
            try:
                os.posix_fallocate(target.fileno(), 0, size)
            except OSError:
                target.truncate(before)
                raise
        shutil.copyfileobj(source, target)
        target.truncate(size)
