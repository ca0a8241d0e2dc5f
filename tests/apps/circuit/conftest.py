"""Decks written by the tests."""

import pytest

import meshsolve as ms


@pytest.fixture
def deck(tmp_path):
    """Write a deck (its lines without title and .end) and read it."""

    def make(text, name="deck.sp"):
        path = tmp_path / name
        path.write_text(f"a test\n{text.strip()}\n.end\n", encoding="utf-8")
        return ms.apps.circuit.read(path)

    return make
