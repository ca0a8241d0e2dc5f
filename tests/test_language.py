"""Comments, docstrings, messages and documents are plain: no ruled-out words, no sentences of more than 30 words.

Modules and classes have a reader's order: public definitions first, then private helpers, each below its first use. The style section
of CONTRIBUTING.md has the rules. Each count has a limit, which only goes down: lower it when you lower the count.
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
MOST_LONG = 29                  # long sentences in docstrings and comments
MOST_MISPLACED = 0              # definitions that are not in a reader's order
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


DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
CONSTRUCTORS = {"__new__", "__init__"}


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


def names_in(nodes):
    """The names that expressions or statements use, attributes of ``self`` and other objects included."""
    found = set()
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                found.add(part.id)
            elif isinstance(part, ast.Attribute):
                found.add(part.attr)
    return found


def run_at_import(statement):
    """The parts of a statement that run when it is defined: of a function its decorators, defaults and annotations."""
    if isinstance(statement, ast.ClassDef):
        inner = [part for inside in statement.body for part in run_at_import(inside)]
        return [*statement.decorator_list, *statement.bases, *statement.keywords, *inner]
    if isinstance(statement, DEFINITION):
        return [*statement.decorator_list, statement.args, *([statement.returns] if statement.returns else [])]
    return [statement]


def needed_at_import(body, k):
    """Names that the statements of a body after the k-th use when they run, and names that the definitions of those use in turn."""
    needed = names_in(part for later in body[k + 1:] for part in run_at_import(later))
    for earlier in reversed(body[:k + 1]):
        if isinstance(earlier, DEFINITION) and earlier.name in needed and earlier is not body[k]:
            needed |= names_in([earlier])
    return needed


def misplaced(path, text):
    """(line, message) of every private definition above a public one or above its first use, and of constructors below a method.

    Definitions that a later statement uses at import time are exempt: decorators, base classes, defaults, entries of tables.
    """
    if path.suffix != ".py":
        return
    module = ast.parse(text)
    for owner in [module, *(node for node in module.body if isinstance(node, ast.ClassDef))]:
        body = owner.body
        for k, node in enumerate(body):
            if not isinstance(node, DEFINITION) or node.name in needed_at_import(body, k):
                continue
            before = [other for other in body[:k] if isinstance(other, DEFINITION)]
            after = [other for other in body[k + 1:] if isinstance(other, DEFINITION)]
            if is_private(node.name) and any(not is_private(other.name) for other in after):
                yield node.lineno, f"{node.name} stands above a public definition"
            elif owner is module and is_private(node.name) and not any(node.name in names_in([other]) for other in body[:k]) and any(
                    node.name in names_in([other]) for other in after):
                yield node.lineno, f"{node.name} stands above its first use"
            elif owner is not module and node.name in CONSTRUCTORS and any(other.name not in CONSTRUCTORS for other in before):
                yield node.lineno, f"{node.name} stands below a method"


RULES = {"ruled-out words": (ruled_out, MOST_RULED_OUT), "long sentences": (long_sentences, MOST_LONG),
         "misplaced definitions": (misplaced, MOST_MISPLACED)}


def places(rule):
    """``FILE:LINE: message`` of everything that a rule finds."""
    return [f"{path.relative_to(ROOT)}:{line}: {message}" for path, text in files() for line, message in rule(path, text)]


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_text_is_plain_and_in_order(name):
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


MODULE = '''def _private(): pass
def _decorator(f): return _called(f)
def _called(f): return f
def _entry(): pass
@_decorator
def public(): return _below()
TABLE = {"a": _entry}
def _second(): pass
def _below(): return _second()
class Public:
    def method(self): return self._private()
    def __init__(self): pass
    def _alias(self): pass
    alias = _alias
    def _private(self): pass
    @property
    def value(self): pass
    def __len__(self): return 0
'''


def test_misplaced_definitions_are_found():
    assert list(misplaced(pathlib.Path("a.py"), MODULE)) == [
        (1, "_private stands above a public definition"), (8, "_second stands above a public definition"),
        (9, "_below stands above a public definition"), (12, "__init__ stands below a method"),
        (15, "_private stands above a public definition")]
    assert [line for line, _ in misplaced(pathlib.Path("a.py"), MODULE[:MODULE.index("class")])] == [1, 8]


if __name__ == "__main__":
    for each, (rule, most) in RULES.items():
        found = places(rule)
        print("\n".join(found), f"\n{len(found)} {each}, at most {most}\n")
