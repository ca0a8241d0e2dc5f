"""Parse a glTF 2.0 document: JSON text, accessors and buffers. Every number is checked before it is used.

Source: Khronos Group 2021, "glTF 2.0 Specification", sections 3.3 (containers), 3.6 (buffers and accessors), 3.12 (extensions).
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import os
import re
import struct
import urllib.parse

import numpy as np

from meshsolve.errors import InvalidInputError
from meshsolve.files import existing, inside
from meshsolve.memory import ensure_memory
from meshsolve.options import counted
from meshsolve.sparse.matrix import LARGEST_SIZE

COMPONENTS = {5120: np.dtype("i1"), 5121: np.dtype("u1"), 5122: np.dtype("<i2"), 5123: np.dtype("<u2"), 5125: np.dtype("<u4"),
              5126: np.dtype("<f4")}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
READ_EXTENSIONS = ("KHR_mesh_quantization", "EXT_mesh_gpu_instancing")
# prefixes of extensions for materials, textures, lights and metadata, which do not change positions or faces
OTHER_EXTENSIONS = ("KHR_materials_", "KHR_texture_", "EXT_texture_", "MSFT_texture_", "KHR_lights_", "EXT_lights_", "KHR_xmp",
                    "KHR_animation_pointer")
NAMES = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
FREE_ROWS, MOST_PER_BYTE = 1_000_000, 64        # rows of vertices and faces that a document of any size may have, and more for each byte
LARGEST = 1e70                  # largest accepted |number| in a transform, as for coordinates of a mesh
MAGIC, JSON_CHUNK, BINARY_CHUNK = b"glTF", 0x4E4F534A, 0x004E4942


class Document:
    """A glTF document whose objects are accessed by index.

    Parameters
    ----------
    content : bytes
        A .gltf or .glb file; the first bytes decide which.
    folder : pathlib.Path
        Folder of the buffer files.

    Raises
    ------
    InvalidInputError
        Damaged JSON or container, another version, an unsupported extension in ``extensionsRequired``.
    """

    def __init__(self, content, folder):
        text, self.binary = _chunks(content) if content.startswith(MAGIC) else (content, None)
        self.folder, self.buffers, self._bytes, self._read = folder, {}, len(content), 0
        self.root = _parsed(text)
        if not isinstance(self.root, dict):
            raise InvalidInputError("the JSON text is not an object")
        _check_version(self.root)
        for name in self.list_of("extensionsRequired"):
            if name not in READ_EXTENSIONS and not (isinstance(name, str) and name.startswith(OTHER_EXTENSIONS)):
                raise InvalidInputError(f"the file requires the extension {name}, which is not supported: export it without")

    def require_proportion(self, rows, what):
        """Raise if ``rows`` are out of proportion to the bytes of the document and its buffers. Instances of a mesh take a few bytes."""
        if rows > FREE_ROWS + MOST_PER_BYTE * self._bytes:
            raise InvalidInputError(f"{rows:,} {what} are out of proportion to the {self._bytes:,} bytes of the file: at most "
                                    f"{FREE_ROWS:,}, and {MOST_PER_BYTE} for each byte, are read")

    def list_of(self, key):
        return member(self.root, key, list, "the document", [])

    def item(self, key, number, where):
        """Return object ``number`` of a list of the document; ``where`` names the referring object in messages."""
        found = self.list_of(key)
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(found):
            raise InvalidInputError(f"{where} refers to entry {number!r} of {key!r}, which has {counted(len(found), 'entry')}")
        if not isinstance(found[number], dict):
            raise InvalidInputError(f"entry {number} of {key!r} is not an object")
        return found[number]

    def accessor(self, number, where, kinds, zeros=False):
        """Return the numbers of an accessor as they are stored.

        Parameters
        ----------
        number : int
        where : str
            Name of the referring object, for messages.
        kinds : tuple of str
            Accepted types, keys of ``WIDTHS``.
        zeros : bool
            Accept an accessor without data, which stands for zeros.

        Returns
        -------
        values : (count, width) array
            The dtype of the file.
        normalized : bool
        """
        what, entry = f"accessor {number}", self.item("accessors", number, where)
        kind, component = member(entry, "type", str, what), whole(entry, "componentType", what)
        if kind not in kinds:
            raise InvalidInputError(f"{where} must be of type {' or '.join(kinds)}, got {kind}")
        if component not in COMPONENTS:
            raise InvalidInputError(f"{what} has componentType {component}, which is not defined in glTF 2.0")
        count, dtype = whole(entry, "count", what), COMPONENTS[component]
        self._read += count
        self.require_proportion(self._read, "numbers of its accessors")
        values = self._stored(entry, what, count, dtype, WIDTHS[kind])
        sparse = member(entry, "sparse", dict, what, None)
        if values is None:
            if sparse is None and not zeros:
                raise InvalidInputError(f"{where} has no data ({what} has no bufferView)")
            ensure_memory(count * WIDTHS[kind] * dtype.itemsize, what)
            values = np.zeros((count, WIDTHS[kind]), dtype)
        if sparse is not None:
            values = self._replaced(values, sparse, f"sparse {what}")
        return values, member(entry, "normalized", bool, what, False)

    def numbers(self, number, where, kinds, zeros=False):
        """Return :meth:`accessor` as (count, width) float64; normalized integers become fractions of their largest value."""
        values, normalized = self.accessor(number, where, kinds, zeros)
        if not np.isfinite(values).all():
            at = int(np.argmin(np.isfinite(values).all(axis=1)))
            raise InvalidInputError(f"{where}: row {at} is {values[at].tolist()}, which is not finite")
        if values.dtype.kind == "f" or not normalized:
            return values.astype(np.float64)
        return np.maximum(values / np.iinfo(values.dtype).max, -1.0)

    def indices(self, number, where, most):
        """Return an accessor of integers below ``most``, (count,) int64."""
        values, _ = self.accessor(number, where, ("SCALAR",))
        return _below(values, most, where)

    def _stored(self, entry, what, count, dtype, width):
        """Return the values (count, width) in the bufferView of an entry, or None without a bufferView."""
        if "bufferView" not in entry:
            return None
        data, stride = self._view(entry["bufferView"], what)
        offset, size = whole(entry, "byteOffset", what, 0), dtype.itemsize * width
        stride = stride or size
        end = offset + (count - 1) * stride + size
        if count and end > len(data):
            raise InvalidInputError(f"{what}: {count} rows end at byte {end}, but the bufferView has {len(data)} bytes")
        if count == 0:
            return np.zeros((0, width), dtype)
        return np.ndarray((count, width), dtype, data, offset, (stride, dtype.itemsize))

    def _replaced(self, values, sparse, what):
        count = whole(sparse, "count", what)
        at, new = (member(sparse, key, dict, what) for key in ("indices", "values"))
        component = whole(at, "componentType", what)
        if component not in (5121, 5123, 5125):
            raise InvalidInputError(f"{what} has indices of componentType {component}; unsigned integers are needed")
        rows = self._stored(at, what, count, COMPONENTS[component], 1)
        replaced = self._stored(new, what, count, values.dtype, values.shape[1])
        if rows is None or replaced is None:
            raise InvalidInputError(f"{what} has no data: indices and values need a bufferView")
        values = values.copy()
        values[_below(rows, len(values), what)] = replaced
        return values

    def _view(self, number, where):
        """Return bytes and stride of a bufferView; a stride of 0 means contiguous rows."""
        what, view = f"bufferView {number}", self.item("bufferViews", number, where)
        packed = [name for name in member(view, "extensions", dict, what, {}) if "meshopt" in name]
        try:
            data = self._buffer(view.get("buffer"), what)
        except InvalidInputError as e:
            if packed:
                raise InvalidInputError(f"{what} is compressed by {packed[0]}, which is not supported: export it without") from e
            raise
        begin, length = whole(view, "byteOffset", what, 0), whole(view, "byteLength", what)
        if begin + length > len(data):
            raise InvalidInputError(f"{what} ends at byte {begin + length}, but its buffer has {len(data)} bytes")
        return data[begin:begin + length], whole(view, "byteStride", what, 0)

    def _buffer(self, number, where):
        what, buffer = f"buffer {number}", self.item("buffers", number, where)
        if number not in self.buffers:
            length = whole(buffer, "byteLength", what)
            data = self._bytes_of(buffer, number, length)
            if len(data) < length:
                raise InvalidInputError(f"{what} announces {length} bytes but has {len(data)}: it may be truncated")
            self.buffers[number] = memoryview(data)[:length]
        return self.buffers[number]

    def _bytes_of(self, buffer, number, length):
        what, uri = f"buffer {number}", member(buffer, "uri", str, f"buffer {number}", None)
        if uri is None:
            if number != 0 or self.binary is None:
                raise InvalidInputError(f"{what} has neither a uri nor a binary chunk")
            return self.binary
        if uri.startswith("data:"):
            return _inline(uri, what)
        try:
            file = existing(inside(self.folder, urllib.parse.unquote(uri)))
            with open(file, "rb") as f:
                data = f.read(min(length, os.fstat(f.fileno()).st_size))
        except (InvalidInputError, ValueError, OSError) as e:
            raise InvalidInputError(f"{what}: {e}") from e
        self._bytes += len(data)
        return data


def member(owner, key, kind, where, *default):
    """Return ``owner[key]``, which must be of type ``kind``. If it is missing, return the default or raise."""
    if key not in owner and default:
        return default[0]
    value = owner.get(key)
    if not isinstance(value, kind):
        raise InvalidInputError(f"{where}: {key!r} must be {NAMES[kind]}, got {str(value)[:40]}")
    return value


def whole(owner, key, where, *default):
    """Return ``owner[key]``, an integer from 0 to ``LARGEST_SIZE``, or the default."""
    if key not in owner and default:
        return default[0]
    value = owner.get(key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_SIZE:
        raise InvalidInputError(f"{where}: {key!r} must be an integer from 0 to {LARGEST_SIZE}, got {str(value)[:40]}")
    return value


def floats(owner, key, size, where, default):
    """Return ``owner[key]``, a list of ``size`` finite numbers, or the default, as (size,) float64."""
    values = member(owner, key, list, where, default)
    good = all(isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) < LARGEST for x in values)
    if not good or len(values) != size:
        raise InvalidInputError(f"{where}: {key!r} must be {size} finite numbers, got {str(values)[:40]}")
    return np.array(values, np.float64)


def _below(values, most, where):
    if values.dtype.kind != "u":
        raise InvalidInputError(f"{where} must have unsigned integers, got {values.dtype}")
    values = values.reshape(-1).astype(np.int64)
    if values.size and values.max() >= most:
        at = int(np.argmax(values >= most))
        raise InvalidInputError(f"{where}: entry {at} is {values[at]}; it must be below {most}")
    return values


def _chunks(content):
    """Return the JSON text and the binary chunk (or None) of a .glb."""
    if len(content) < 20:
        raise InvalidInputError(f"a binary glTF has at least 20 bytes, this file has {len(content)}")
    version, length = struct.unpack_from("<II", content, 4)
    if version != 2:
        raise InvalidInputError(f"the binary glTF has version {version}; only version 2 is supported")
    if length > len(content):
        raise InvalidInputError(f"the header announces {length} bytes, but the file has {len(content)}: it may be truncated")
    found, at = {}, 12
    while at + 8 <= length:
        size, kind = struct.unpack_from("<II", content, at)
        if at + 8 + size > length:
            raise InvalidInputError(f"the chunk at byte {at} announces {size} bytes, but only {length - at - 8} are left")
        found.setdefault(kind, content[at + 8:at + 8 + size])
        at += 8 + size
    if JSON_CHUNK not in found:
        raise InvalidInputError("the binary glTF has no JSON chunk")
    return found[JSON_CHUNK], found.get(BINARY_CHUNK)


def _parsed(text):
    text = text.removeprefix(codecs.BOM_UTF8).rstrip(b"\0\x1a \t\r\n")
    try:
        return json.loads(text.decode())
    except UnicodeDecodeError as e:
        raise InvalidInputError(f"the JSON text is not UTF-8 at byte {e.start}") from e
    except json.JSONDecodeError as e:
        raise InvalidInputError(f"the JSON text is invalid at line {e.lineno}, column {e.colno}") from e
    except RecursionError as e:
        raise InvalidInputError("the JSON text is nested too deeply") from e
    except ValueError as e:                     # a number with thousands of digits
        raise InvalidInputError("the JSON text has a number with too many digits") from e


def _check_version(root):
    asset = member(root, "asset", dict, "the document", {})
    for key in ("version", "minVersion"):
        version = str(asset.get(key, "2.0"))
        if not re.fullmatch(r"2(\.\d+)?", version) or key == "minVersion" and version not in ("2", "2.0"):
            raise InvalidInputError(f"the file has glTF version {version[:20]}; only glTF 2.0 is supported")


def _inline(uri, what):
    """Decode a data: URI."""
    head, comma, data = uri.partition(",")
    try:
        if not comma:
            raise ValueError
        if head.endswith(";base64"):
            data = re.sub(r"\s", "", urllib.parse.unquote(data))
            return base64.b64decode(data + "=" * (-len(data) % 4), validate=True)
        return urllib.parse.unquote_to_bytes(data)
    except (ValueError, binascii.Error) as e:
        raise InvalidInputError(f"{what} has a data: URI that is not valid base64") from e
