"""Damaged files: faults as from disks, editors and people, and random ones."""

import re

import numpy as np

NUMBERS = [b"0", b"-1", b"1", b"2147483647", b"2147483648", b"4294967296", b"-9223372036854775809", b"99999999999999999999", b"1" * 5000, b"1e308", b"1e999", b"-1e-320",
           b"nan", b"inf", b"0x7f", b"1e", b".", b"--3", b"1_000", b"3.5", b"\xd9\xa3"]
PIECES = [b"", b" ", b"\n", b"\r", b"\r\n", b"\t", b"\0", b"\\", b"\\\n", b"#", b"%", b"*", b"$", b"+", b"'", b"{", b"}", b"(", b"=", b"/", b"//", b"\xff\xfe",
          b"\xef\xbb\xbf", b"\x1a", b"\x80" * 9, b"A" * 5000, b"\n" * 300, b".end\n", b"f 1 1 1\n", b"v 0 0\n", b"end_header\n", b".include", b".subckt a b\nx1 a a\n.ends\n"]


def mutate(content, rng, others=()):
    """One to four changes to the bytes of a file; ``others`` are files to splice with."""
    for _ in range(rng.integers(1, 5)):
        content = CHANGES[rng.integers(len(CHANGES))](content, rng, others)
    return content


def place(content, rng):
    return int(rng.integers(len(content) + 1))


def flip(content, rng, others):
    """Flip some bits, close together or anywhere."""
    data = np.frombuffer(content, np.uint8).copy()
    if len(data):
        at = rng.integers(len(data), size=rng.choice([1, 2, 8]))
        data[at] ^= (1 << rng.integers(8, size=len(at))).astype(np.uint8)
    return data.tobytes()


def cut(content, rng, others):
    begin = place(content, rng)
    return content[:begin] + content[begin + int(rng.choice([1, 2, 7, 40, 1000])):]


def end_early(content, rng, others):
    return content[:place(content, rng)]


def insert(content, rng, others):
    at = place(content, rng)
    return content[:at] + PIECES[rng.integers(len(PIECES))] + content[at:]


def scatter(content, rng, others):
    at = place(content, rng)
    return content[:at] + rng.bytes(int(rng.choice([1, 4, 30]))) + content[at:]


def change_number(content, rng, others):
    """Replace a number by another one."""
    found = list(re.finditer(rb"-?\d[\d.eE+]*", content[:4000] if rng.random() < 0.5 else content))
    if not found:
        return content
    m = found[rng.integers(len(found))]
    return content[:m.start()] + NUMBERS[rng.integers(len(NUMBERS))] + content[m.end():]


def move_line(content, rng, others):
    """Repeat, remove or move a line."""
    lines = content.split(b"\n")
    line = lines.pop(rng.integers(len(lines))) if rng.random() < 0.7 else lines[rng.integers(len(lines))]
    if rng.random() < 0.7:
        lines.insert(rng.integers(len(lines) + 1), line)
    return b"\n".join(lines)


def repeat(content, rng, others):
    begin = place(content, rng)
    piece = content[begin:begin + int(rng.choice([1, 10, 200]))]
    return content[:begin] + piece * int(rng.choice([2, 3, 50])) + content[begin:]


def splice(content, rng, others):
    other = others[rng.integers(len(others))] if len(others) else content
    return content[:place(content, rng)] + other[place(other, rng):]


CHANGES = [flip, cut, end_early, insert, scatter, change_number, change_number, move_line, repeat, splice]
