"""Many quick cases in one test: pytest takes milliseconds for each parameter of a test, more than a small case itself."""

import functools
import inspect
import reprlib
import traceback

import pytest


def each(names, values):
    """Call a test with each of the values, as ``pytest.mark.parametrize`` does, but as one test, which reports all failed cases.

    Marks are written above this decorator. A case has its own folder ``tmp_path`` and shares the other fixtures. No case may skip.

        @each("name, size", [("grid", 3), ("torus", 4)])
        def test_edges(name, size): ...
    """
    names, values = names.replace(",", " ").split(), list(values)

    def decorate(test):
        @functools.wraps(test)
        def run(**fixtures):
            failures = []
            for k, value in enumerate(values):
                case = dict(zip(names, value if len(names) > 1 else [value], strict=True))
                try:
                    test(**fixtures | folder(fixtures, k), **case)
                except (Exception, pytest.fail.Exception):
                    failures.append(f"{reprlib.repr(case)}\n{traceback.format_exc()}")
            if failures:
                pytest.fail(f"{len(failures)} of {len(values)} cases fail\n\n" + "\n".join(failures), pytrace=False)

        signature = inspect.signature(test)
        run.__signature__ = signature.replace(parameters=[p for p in signature.parameters.values() if p.name not in names])
        return run
    return decorate


def folder(fixtures, k):
    """The fixture ``tmp_path`` of case k, if the test has it."""
    if "tmp_path" not in fixtures:
        return {}
    own = fixtures["tmp_path"] / str(k)
    own.mkdir()
    return {"tmp_path": own}
