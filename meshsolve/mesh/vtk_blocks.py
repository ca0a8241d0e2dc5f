"""The numbers of a DataArray of VTK's XML files: text, base64 or raw bytes, whole or in compressed blocks.

Bytes begin with a header of integers, which is their number if they are not compressed. The header of compressed bytes has the number of
blocks, their size, that of the last block if it is smaller, and the compressed size of each block.
Source: "VTK File Formats", XML formats; vtkXMLDataParser.cxx of VTK 9. O(bytes).
"""

from __future__ import annotations

import binascii
import zlib
from typing import NamedTuple

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.memory import ensure_memory
from meshsolve.mesh.cursor import typed, whole

TYPES = {"Int8": "i1", "UInt8": "u1", "Int16": "i2", "UInt16": "u2", "Int32": "i4", "UInt32": "u4", "Int64": "i8", "UInt64": "u8",
         "Float32": "f4", "Float64": "f8"}
ZLIB, LZMA, LZ4 = "vtkZLibDataCompressor", "vtkLZMADataCompressor", "vtkLZ4DataCompressor"
RATIOS = {ZLIB: 1100, LZMA: 1 << 14, LZ4: 260}          # largest possible size of unpacked bytes, relative to the packed ones
ORDERS = {"LittleEndian": "<", "BigEndian": ">"}
BLANKS = b" \t\r\n"


class Encoding(NamedTuple):
    """What the root of a file says on its numbers."""

    order: str                  # byte order, "<" or ">"
    header: np.dtype            # type of the integers of a header
    compressor: str             # VTK's name, or ""
    appended: bytes             # block at the end of the file after its "_"
    raw: bool                   # whether this block is raw, else base64

    @classmethod
    def of(cls, root, appended):
        """Return the encoding of a file with this root."""
        order, header = root.get("byte_order", "LittleEndian"), root.get("header_type", "UInt32")
        if order not in ORDERS or header not in ("UInt32", "UInt64"):
            raise InvalidInputError(f"byte_order={order[:20]!r} and header_type={header[:20]!r}: must be LittleEndian or BigEndian, and "
                                    "UInt32 or UInt64")
        element = root.find("AppendedData")
        raw = element is not None and element.get("encoding", "base64") == "raw"
        if not raw:
            appended = appended.partition(b"<")[0].translate(None, BLANKS)
        return cls(ORDERS[order], np.dtype(ORDERS[order] + TYPES[header]), root.get("compressor", ""), appended, raw)


def array_of(element, encoding, count, name):
    """Return the ``count`` numbers of a DataArray in the type of the file, or as float64 if a text has others.

    Raises
    ------
    InvalidInputError
        Another number of numbers, damaged bytes, an unknown type, format or compressor.
    """
    if element.get("type") not in TYPES:
        raise InvalidInputError(f"{name!r} has the type {element.get('type')!r}, which is not a type of VTK's numbers")
    dtype, form = np.dtype(TYPES[element.get("type")]), element.get("format", "ascii")
    text = (element.text or "").encode()
    if form == "ascii":
        return _decimals(text, dtype, count, name)
    if form == "binary":
        source, raw = text.translate(None, BLANKS), False
    elif form == "appended":
        word = element.get("offset", "").strip()
        if not 0 <= (offset := whole(word)) <= len(encoding.appended):
            raise InvalidInputError(f"{name!r} begins at byte {word[:20]!r} of the appended data, which have {len(encoding.appended)}")
        source, raw = memoryview(encoding.appended)[offset:], encoding.raw
    else:
        raise InvalidInputError(f"{name!r} has the format {form[:20]!r}: must be ascii, binary or appended")
    if count == 0:
        return np.zeros(0, dtype)
    try:
        content = _Source(source, raw, encoding.header).content(encoding.compressor, count * dtype.itemsize)
    except (binascii.Error, zlib.error, EOFError, ValueError) as e:
        raise InvalidInputError(f"the bytes of {name!r} are damaged: {e}") from e
    if len(content) != count * dtype.itemsize:
        raise InvalidInputError(f"{name!r} has {len(content)} bytes, but {count} numbers of {element.get('type')} have "
                                f"{count * dtype.itemsize}")
    return np.frombuffer(content, dtype.newbyteorder(encoding.order)).astype(dtype)


class _Source:
    """The bytes of one array, raw or in base64."""

    def __init__(self, source, raw, header):
        self.source, self.raw, self.header = source, raw, header

    def content(self, compressor, size):
        """Return the decompressed bytes; their announced number is compared with ``size`` before they are read."""
        width = self.header.itemsize
        announced = self.integers(1)[0]
        if not compressor:
            if announced != size:
                raise ValueError(f"{announced} bytes are announced, {size} are needed")
            alone = self.raw or len(binascii.a2b_base64(bytes(self.source[:_encoded(width)]))) == width        # base64 of the header alone
            return self.bytes(width, size) if alone else self.bytes(0, width + size)[width:]
        if compressor not in RATIOS:
            raise ValueError(f"the compressor {compressor[:40]!r} is not supported: use {', '.join(RATIOS)}")
        if announced > len(self.source) // width:
            raise ValueError(f"{announced} blocks are announced")
        _, block, last, *packed = self.integers(3 + announced)
        sizes = [block] * announced
        if announced and last:
            sizes[-1] = last
        if sum(sizes) != size or size > RATIOS[compressor] * sum(packed):
            raise ValueError(f"{sum(sizes)} bytes in {sum(packed)} compressed ones are announced, {size} are needed")
        ensure_memory(2 * size, f"an array of {size:,} bytes")
        content, out, at = self.bytes((3 + announced) * width, sum(packed)), [], 0
        for length, unpacked in zip(packed, sizes):
            out.append(_unpacked(content[at:at + length], unpacked, compressor))
            at += length
        return b"".join(out)

    def integers(self, count):
        """Return the first integers of the header."""
        return np.frombuffer(self.bytes(0, count * self.header.itemsize), self.header).tolist()

    def bytes(self, before, size):
        """Return ``size`` bytes that follow ``before`` bytes. Those have their own base64."""
        if self.raw:
            content = bytes(self.source[before:before + size])
        else:
            text = bytes(self.source[_encoded(before):_encoded(before) + _encoded(size)])
            content = binascii.a2b_base64(text, strict_mode=True)[:size]
        if len(content) < size:
            raise ValueError(f"{size} bytes are needed, {len(content)} are left: the file may be truncated")
        return content


def _decimals(text, dtype, count, name):
    """Return the numbers of a text."""
    values, bad, _ = _core.read_numbers(text, 0)
    if bad >= 0:
        raise InvalidInputError(f"{name!r} has {text[bad:bad + 20].split()[0].decode('utf-8', 'replace')!r}, which is not a number")
    if len(values) != count:
        raise InvalidInputError(f"{name!r} has {len(values)} numbers, {count} are needed")
    return typed(values, dtype, lambda: text)


def _encoded(size):
    """Return the number of characters of ``size`` bytes in base64."""
    return (size + 2) // 3 * 4


def _unpacked(block, size, compressor):
    """Decompress a block of ``size`` bytes; no more are allocated."""
    if size == 0:
        return b""
    if compressor == ZLIB:
        out = zlib.decompressobj().decompress(block, size)
    elif compressor == LZMA:
        import lzma

        try:
            out = lzma.LZMADecompressor().decompress(block, size)
        except lzma.LZMAError as e:
            raise ValueError(str(e)) from e
    else:
        out = _core.unpack_lz4(block, size).tobytes()
    if len(out) != size:
        raise ValueError(f"a block has {len(out)} bytes of the announced {size}")
    return out
