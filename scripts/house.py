"""Counts that show whether the code keeps to its plan: ``python scripts/house.py [--check]``.

Prints one line a count, with its limit where there is one; --check exits with 1 if a limit is passed. A test of the place checks
whether data lies on the host or on the GPU. Such tests belong to sparse/, device/ and CUDA files, so that drivers exist once.
"""

import ast
import pathlib
import re
import sys

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "meshsolve"
PLACE_TEST = re.compile(r"""place\s*[!=]=\s*["']|["'](?:cuda|cpu)["']\s*[!=]=|[!=]=\s*["'](?:cuda|cpu)["']|\bon_device\(|\bholds\(""")
THERE = re.compile(r"\b(?:def|class) (\w+_there)\b")
SCREEN, LONGEST_FILE = 60, 500                                   # lines of a function and of a file
LIMITS = {
    "tests of the place outside sparse/, device/ and CUDA files": 30,
    "functions and classes named *_there": 0,
    f"files of more than {LONGEST_FILE} lines": 0,
    f"Python functions of more than {SCREEN} lines": 0,
}


def files(*suffixes):
    """(path, text) of the package's files with these suffixes, in order of their names."""
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in suffixes:
            yield path, path.read_text(encoding="utf-8")


def may_test_the_place(path):
    return "cuda" in path.name or bool({"device", "sparse"} & set(path.relative_to(PACKAGE).parts))


def long_functions(text):
    """Names of the functions that are longer than a screen."""
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [f.name for f in functions if f.end_lineno - f.lineno + 1 > SCREEN]


def counts():
    """{what is counted: number}."""
    python, native, cuda = (list(files(*kind)) for kind in ((".py",), (".cpp", ".hpp", ".inl"), (".cu", ".cuh")))
    lines = {path: text.count("\n") for path, text in python + native + cuda}
    found = [
        sum(len(PLACE_TEST.findall(text)) for path, text in python if not may_test_the_place(path)),
        sum(len(set(THERE.findall(text))) for _, text in python),
        sum(n > LONGEST_FILE for n in lines.values()),
        sum(len(long_functions(text)) for _, text in python),
    ]
    return dict(zip(LIMITS, found, strict=True)) | {
        "packages": sum(1 for _ in PACKAGE.rglob("__init__.py")),
        "lines of Python": sum(lines[path] for path, _ in python),
        "lines of C++": sum(lines[path] for path, _ in native),
        "lines of CUDA": sum(lines[path] for path, _ in cuda),
    }


def main(arguments):
    passed = 0
    for what, number in counts().items():
        limit = LIMITS.get(what)
        passed += limit is not None and number > limit
        print(f"{number:7,}  {what}" + ("" if limit is None else f" (at most {limit})"))
    return int(passed > 0 and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
