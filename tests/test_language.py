"""Comments, docstrings, messages and documents are plain: no ruled-out words, no sentences of more than 30 words.

The style section of CONTRIBUTING.md has the rules. Both counts have a limit, which only goes down: lower it when you lower the count.
``python tests/test_language.py`` prints the counts and every place.
"""

import ast
import io
import pathlib
import re
import tokenize

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOST_RULED_OUT = 0             # ruled-out words in the text of the package and the documents
MOST_LONG = 35                  # long sentences in docstrings and comments
LONGEST = 30                    # words in a sentence
LISTED = 100                    # places that a failure prints

RULED_OUT = {                   # pattern: what to write instead
    r"(?:tells?|told|telling)": "report, return, warn",
    r"(?:knows|asks|hears|wants|lends?|borrows?)": "what the code does: holds, checks, needs, leases",
    r"(?:who|whoever|nobody|anybody|everybody|somebody)": "the thing itself: no worker, every thread, the caller",
    r"(?:has|have|had) to be": "must be, must",
    r"\w+_there": "a name in _cuda or _host",
    r"there(?=[.,;:)]|$)": "on the GPU, on the host, or the noun",
    r"(?-i:is|are) (?-i:none)": "there is no ...",
    r"but for": "except",
    r"beside": "relative to, compared with, next to",
    r"anew": "again",
    r"modul(?:i|us)": "absolute values",
    r"foreseen?": "estimated",
    r"of (?:theirs|ours|mine)": "the noun again",
    r"(?:what of|of what|those where|those of which|that of which)": "the noun again",
    r"handed up": "delayed",
    r"twins?": "mirror entry; host (CPU) counterpart; indistinguishable nodes",
}
WORDS = [(re.compile(rf"\b{pattern}(?!\w)", re.IGNORECASE), instead) for pattern, instead in RULED_OUT.items()]
ANY_WORD = re.compile(rf"\b(?:{'|'.join(RULED_OUT)})(?!\w)", re.IGNORECASE)
NATIVE = {".cpp", ".hpp", ".inl", ".cu", ".cuh"}
# The comments and the strings of C++, the latter so that no comment begins inside them.
LITERAL = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
# What ends a paragraph: an empty line, an item, a heading or its rule, an example, the name of a parameter, a row in columns.
BREAK = re.compile(r"\s*(?:$|[-*] |\d+\. |[-=~]{3,}|>>>|\.\.\.|\||[\w*, ]+ : |.*\S {3,}\S|.*;$)")


def files():
    """(path, text) of everything that is written for readers."""
    found = [*sorted((ROOT / "meshsolve").rglob("*")), *sorted((ROOT / "docs").glob("*.md"))]
    for path in [*found, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        if path.suffix in NATIVE | {".py", ".pyi", ".md"}:
            yield path, path.read_text(encoding="utf-8")


def python_tokens(text):
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


def native_parts(text):
    """(line, literal or comment) of C++ or CUDA."""
    line, last = 1, 0
    for match in LITERAL.finditer(text):
        line, last = line + text.count("\n", last, match.start()), match.start()
        yield line, match[0]


def lines_of_text(path, text):
    """(line, text) of comments, strings and documents, and of names that end in _there."""
    if path.suffix in NATIVE:
        parts = list(native_parts(text))
    elif path.suffix == ".md":
        parts = [(1, text)]
    else:
        parts = [(t.start[0], t.string) for t in python_tokens(text)
                 if t.type in STRINGS or t.type == tokenize.COMMENT or (t.type == tokenize.NAME and t.string.endswith("_there"))]
    for start, part in parts:
        yield from enumerate(part.splitlines(), start)


def comments(path, text):
    """(line, text) of each docstring and each comment; comments that fill whole lines one below the other are one."""
    if path.suffix in NATIVE:
        single = [(line, part.strip("/*").removeprefix(" ")) for line, part in native_parts(text) if part.startswith(("//", "/*"))]
    elif path.suffix == ".md":
        return
    else:
        single = [(t.start[0], t.string.strip("#:").removeprefix(" ")) for t in python_tokens(text) if t.type == tokenize.COMMENT]
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
                yield node.body[0].lineno, ast.get_docstring(node)
    source, last = text.splitlines(), None
    for line, part in single:
        if last and line == last[1] + 1 and source[line - 1].lstrip().startswith(("#", "//")):
            last = last[0], line, f"{last[2]}\n{part}"
            continue
        if last:
            yield last[0], last[2]
        last = line, line + part.count("\n"), part
    if last:
        yield last[0], last[2]


def paragraphs(text):
    """(lines before it, text) of the paragraphs of a docstring or comment, without examples.

    Another indentation begins another paragraph. After an empty line, deeper indentation begins an example.
    """
    first, gathered, indent, is_example, after_empty = 0, [], 0, False, False
    for k, line in enumerate([*text.splitlines(), ""]):
        width = len(line) - len(line.lstrip())
        if BREAK.match(line) or (gathered and width != indent):
            if gathered:
                yield first, " ".join(gathered)
            gathered = []
        if line.strip():
            is_example = width > indent and (is_example or after_empty)
            if not is_example and not re.match(r"\s*(?:>>>|\.\.\.)", line):
                if not gathered:
                    first, indent = k, width
                gathered.append(line.strip())
        after_empty = not line.strip()


def sentences(text):
    """The sentences of a paragraph; code in double backquotes counts as one word."""
    plain = re.sub(r"``[^`]*``|`[^`]*`", "Code", text)
    return [s for s in re.split(r"(?<=[.!?])\s+(?=[^a-z])", plain) if s]


def ruled_out(path, text):
    """(line, message) of every ruled-out word."""
    for line, part in lines_of_text(path, text):
        for pattern, instead in WORDS if ANY_WORD.search(part) else ():
            for match in pattern.finditer(part):
                yield line, f"{match[0]!r}, write: {instead}"


def long_sentences(path, text):
    """(line, message) of every sentence that is too long."""
    for start, comment in comments(path, text):
        for before, paragraph in paragraphs(comment):
            for sentence in sentences(paragraph):
                count = len(re.findall(r"[A-Za-z][\w'-]*", sentence))
                if count > LONGEST:
                    yield start + before, f"{count} words: {sentence[:100]}..."


RULES = {"ruled-out words": (ruled_out, MOST_RULED_OUT), "long sentences": (long_sentences, MOST_LONG)}


def places(rule):
    """``FILE:LINE: message`` of everything that a rule finds."""
    return [f"{path.relative_to(ROOT)}:{line}: {message}" for path, text in files() for line, message in rule(path, text)]


@pytest.mark.parametrize("name", RULES)
def test_text_is_plain(name):
    rule, most = RULES[name]
    found = places(rule)
    assert len(found) <= most, f"{len(found)} {name}, at most {most}:\n" + "\n".join(found[:LISTED])


PYTHON = '''"""Docstring that tells, x is None.

    Items
    -----
    x : int
        But for this.
    """
name = "it has to be right"  # of what
value_there = tell = 1
'''
CPP = '''// One that knows.
int tell = 0; /* and
   is none */ auto text = "anew // \\" beside"; char c = '"';  // no twin
'''


@pytest.mark.parametrize("name, text, lines", [
    ("a.py", PYTHON, [1, 6, 8, 8, 9]), ("a.cpp", CPP, [1, 3, 3, 3, 3]), ("a.md", "Plain.\nIt is told there.\n", [2, 2])])
def test_ruled_out_words_are_found(name, text, lines):
    assert sorted(line for line, _ in ruled_out(pathlib.Path(name), text)) == lines


SHORT, LONG = "One word after another. " * 20, "word " * 31


@pytest.mark.parametrize("name, text, lines", [
    ("a.py", f'"""Module.\n\n{LONG}\n"""\n# {"word " * 20}\n# {"word " * 20}\n', [3, 5]),
    ("a.py", f'"""{SHORT}\n\nx : int\n    {"word " * 20}\ny : int\n    {"word " * 20}\n"""\nx = "{LONG}"\n', []),
    ("a.py", f'"""``{LONG}`` is code.\n\n    {LONG}\n    {LONG}\n\nEnd.\n"""\nx = 1  # {"word " * 20}\ny = 2  # {"word " * 20}\n', []),
    ("a.py", f'"""{"word " * 20}. ``a`` is code and {"word " * 20}.\n\nx : int\n    {LONG}"""\n', [4]),
    ("a.cu", f'// {"word " * 20}\n// {"word " * 11}\nint x;  // {LONG}\nauto s = "// {LONG}";\n/* {LONG} */', [1, 3, 5])])
def test_long_sentences_are_found(name, text, lines):
    assert sorted(line for line, _ in long_sentences(pathlib.Path(name), text)) == lines


if __name__ == "__main__":
    for each, (rule, most) in RULES.items():
        found = places(rule)
        print("\n".join(found), f"\n{len(found)} {each}, at most {most}\n")
