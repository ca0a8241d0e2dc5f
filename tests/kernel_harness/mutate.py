"""Take away each `__syncthreads`, `__syncwarp`, `__threadfence` and `volatile` of the kernels in turn, and record which test finds it.

    python tests/kernel_harness/mutate.py                      # the constructs that mutations.csv lacks
    python tests/kernel_harness/mutate.py order factor/lu      # only those of files that begin so
    python tests/kernel_harness/mutate.py --list               # print them with their results, run nothing

No source is changed: the environment variable MESHSOLVE_HARNESS_WITHOUT=FILE:LINE makes the harness skip the construct of a line. A call
of a method sync() is a construct of its own. A run of the sanitized tests with races.hpp first lists which tests need which lines, and
which kernels each test launches. Each mutant then runs one of the tests that need it. A mutant without such a test runs all sanitized
tests that launch a kernel from its file, with ThreadSanitizer and with races.hpp. Each result is written to mutations.csv, so the script
can be stopped at any time. The column `code` is a hash of the function without its comments: if the function has changed, its constructs
are tried again. A test that fails without the mutation too stops the script. A run beyond the time limit is no result.

A mutant that passes all tests is written as "survives"; replace its empty last column by the reason why the construct is kept.
"""

import argparse
import collections
import concurrent.futures
import csv
import functools
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from kernel_harness import harness, sanitized  # noqa: E402

TABLE = HERE / "mutations.csv"
CONSTRUCT = re.compile(r"\b(__syncthreads|__syncwarp|__threadfence)\s*\(|(?<!\basm )\b(volatile)\b|(?:\.|::)(sync)\(\)")
DEFINITION = re.compile(r"(?:__device__|__global__)[^;{}=]*?\b(\w+)\s*\(", re.DOTALL)
COLUMNS = ["file", "function", "construct", "number", "code", "result", "by"]
TIMEOUT = 1800                                              # seconds that a file of tests may take
SELECT = ["-k", "not as-launched", "-p", "no:cacheprovider"]

Site = collections.namedtuple("Site", "file function construct number code line")       # number: in its function, from 0


def sites(prefixes=()):
    """All constructs of the kernels of the package, one for each line."""
    for path in sources():
        file = path.relative_to(harness.PACKAGE).as_posix()
        if not prefixes or file.startswith(tuple(prefixes)):
            yield from sites_of(file, path.read_text())


def sites_of(file, text):
    code = re.sub(harness._COMMENT, lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    code = re.sub(harness.SYNC, lambda m: re.sub(r"[^\n]", " ", m[0]), code)            # its calls are the constructs
    definitions = [(m.start(), m[1]) for m in re.finditer(DEFINITION, code.replace("__launch_bounds__(", "__launch_bounds__["))]
    seen, numbers = set(), collections.Counter()
    for m in CONSTRUCT.finditer(code):
        line = code.count("\n", 0, m.start()) + 1
        if line in seen:
            continue
        seen.add(line)
        start, function = next((definition for definition in reversed(definitions) if definition[0] <= m.start()), (0, ""))
        construct = m[1] or m[2] or m[3]
        yield Site(file, function, construct, numbers[function, construct], version(code[start:]), line)
        numbers[function, construct] += 1


def version(code):
    """Hash of the function at the begin of `code`, whose comments are blank."""
    depth = 0
    for m in re.finditer("[{}]", code):
        depth += 1 if m[0] == "{" else -1
        if depth <= 0:
            code = code[:m.end()]
            break
    return hashlib.sha256("".join(code.split()).encode()).hexdigest()[:8]


def sources():
    return sorted([*harness.PACKAGE.rglob("*.cu"), *harness.PACKAGE.rglob("*.cuh")])


# ---- which tests need which lines


class Recorder:
    """A pytest plugin: {test: {"needed": lines with a construct that it needed, "launched": kernels}}, as JSON."""

    def __init__(self, file):
        self.file, self.before, self.found, self.launched = file, set(), {}, set()
        launch = harness.Library.launch

        def noted(library, name, *rest):
            self.launched.add((library.file.name.split(".")[0], name))
            launch(library, name, *rest)

        harness.Library.launch = noted

    def pytest_runtest_teardown(self, item):
        now = {f"{pathlib.Path(file).as_posix()}:{line}" for library in harness.Library.loaded for file, line in library.needed_lines()}
        self.found[item.nodeid] = {"needed": sorted(now - self.before), "launched": sorted(self.launched)}
        self.before |= now
        self.launched.clear()
        pathlib.Path(self.file).write_text(json.dumps(self.found))


def marked_files():
    return [file for file in sorted(HERE.parent.rglob("test_*.py"))
            if re.search(r"@pytest\.mark\.(sanitize|races)\b", file.read_text()) and file.parent != HERE]


@functools.cache
def recorded(file):
    """What Recorder has for a file of tests, recorded once for each state of kernels and tests."""
    files = [*sources(), file, *HERE.glob("*.?pp"), HERE / "harness.py"]
    state = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()[:20]
    kept = harness.cache_folder() / f"needed.{file.stem}.{state}.json"
    if not kept.exists():
        made = kept.with_suffix(f".{os.getpid()}.tmp")
        child = sanitized.python([__file__, "--record", str(made), str(file)], "races", timeout=3600)
        if child.returncode:
            sys.exit(f"{file}: the sanitized tests must pass first\n{child.stdout[-3000:]}{child.stderr[-3000:]}")
        made.replace(kept)
    return json.loads(kept.read_text())


def record(kept, file):
    """Run the sanitized tests of a file and write what they need; in a child process."""
    import pytest

    return pytest.main(["-q", "-x", "-m", "sanitize or races", *SELECT, file], plugins=[Recorder(kept)])


def tests_of(site):
    """(a test that needs the construct, or None; by files, the sanitized tests that launch a kernel from its file)."""
    kernels = {(path.stem, name) for path in users(site.file) for name in harness._KERNEL.findall(path.read_text())}
    folder, stem = os.path.split(os.path.splitext(site.file)[0])

    def unlike(file):                                       # the likely ones first
        return f"/{folder}/" not in file.as_posix(), stem not in file.stem

    witness, found = None, {}
    for file in sorted(marked_files(), key=unlike):
        for test, facts in recorded(file).items():
            if not witness and any(needed.endswith(f"/{site.file}:{site.line}") for needed in facts["needed"]):
                witness = test
            if kernels & set(map(tuple, facts["launched"])):
                found.setdefault(file, []).append(test)
    return witness, found


def users(file):
    """The file and all that include it, those of tests too."""
    found, size = {harness.PACKAGE / file}, 0
    while len(found) > size:
        size = len(found)
        found |= {path for path in [*sources(), *HERE.rglob("*.cu")] for name in harness._INCLUDE.findall(path.read_text())
                  if {(path.parent / name).resolve(), (harness.PACKAGE / name).resolve()} & found}
    return found


# ---- mutants


def found_by(site):
    """(result, test or reason, message of the failure) of a mutant."""
    witness, tests = tests_of(site)
    for sanitizer, chosen in [("races", [[witness]] if witness else []), ("thread", tests.values()), ("races", tests.values())]:
        for some in chosen:
            child = run(some, sanitizer, site)
            if child.returncode in (0, 5):
                continue
            failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", child.stdout, re.MULTILINE)
            by = failed[1] if failed else some[0] if len(some) == 1 else some[0].partition("::")[0]
            if some != [witness] and not passes((failed[1],) if failed else tuple(some), sanitizer):
                raise RuntimeError(f"{by} ({sanitizer}) fails without a mutation")
            lines = re.findall(r"^(?:E  .*|.*ThreadSanitizer.*)$", child.stdout + child.stderr, re.MULTILINE)
            return "found", f"{by} ({sanitizer})", " | ".join(lines[:2])
    return "survives", "", ""


def run(tests, sanitizer, site=None):
    taken = {harness.WITHOUT: f"{site.file}:{site.line}"} if site else {}
    marks = "sanitize or races" if sanitizer == "races" else "sanitize"
    arguments = ["-x", "-q", "--tb=short", "-m", marks, *SELECT, *tests]
    if sanitizer == "races":
        child = forked(arguments, dict(taken, MESHSOLVE_HARNESS_SANITIZE=sanitizer))
    else:
        child = sanitized.python(["-m", "pytest", *arguments], sanitizer, timeout=TIMEOUT, **taken)
    if child.returncode in (-signal.SIGTERM, -signal.SIGKILL):
        raise KeyboardInterrupt                             # stopped from outside: no result
    return child


def forked(arguments, variables):
    """Run pytest in a copy of this process, which saves the imports; it has loaded no kernel. Returns the completed process."""
    import hypothesis  # noqa: F401
    import pytest

    with tempfile.TemporaryFile("w+") as out:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            for descriptor in (1, 2):
                os.dup2(out.fileno(), descriptor)
            os.environ |= variables
            code = 1
            try:
                code = int(pytest.main(arguments))
                sys.stdout.flush()
            finally:
                os._exit(code)
        end = time.monotonic() + TIMEOUT
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise subprocess.TimeoutExpired(arguments, TIMEOUT)
            time.sleep(0.05)
        out.seek(0)
        return subprocess.CompletedProcess(arguments, os.waitstatus_to_exitcode(ended[1]), out.read(), "")


@functools.cache
def passes(tests, sanitizer):
    return run(tests, sanitizer).returncode == 0


def known():
    """{key of a site: row}."""
    rows = list(csv.DictReader(TABLE.open())) if TABLE.exists() else []
    return {tuple(row[name] for name in COLUMNS[:5]): row for row in rows}


def key(site):
    return (site.file, site.function, site.construct, str(site.number), site.code)


def write(site, result, by):
    """Rewrite the table in the order of the sources. Rows of earlier code stay until their function is tried again."""
    rows = known()
    rows[key(site)] = dict(zip(COLUMNS, [*key(site), result, by]))
    every = list(sites())
    kept = [rows[key(other)] for other in every if key(other) in rows]
    again = {(row["file"], row["function"]) for row in kept}
    earlier = {(other.file, other.function) for other in every} - again
    kept += [row for row in rows.values() if (row["file"], row["function"]) in earlier]
    with TABLE.open("w", newline="") as table:
        out = csv.DictWriter(table, COLUMNS, lineterminator="\n")
        out.writeheader()
        out.writerows(sorted(kept, key=lambda row: row["file"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefixes", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--needed", action="store_true", help="print which test needs each, run no mutant")
    parser.add_argument("--quick", action="store_true", help="only the constructs that some test needs")
    parser.add_argument("--construct", help="only these, a comma-separated list")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--record", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        sys.exit(record(*options.record))
    os.chdir(HERE.parents[1])
    os.setpriority(os.PRIO_PROCESS, 0, max(15, os.getpriority(os.PRIO_PROCESS, 0)))
    rows = known()
    chosen = [site for site in sites(options.prefixes) if not options.construct or site.construct in options.construct.split(",")]
    if options.list or options.needed:
        earlier = {name[:4]: {"result": f"earlier code: {row['result']}", "by": row["by"]} for name, row in rows.items()}
        for site in chosen:
            row = rows.get(key(site)) or earlier.get(key(site)[:4], {"result": "not run", "by": ""})
            facts = [row["result"], row["by"]] if options.list else [tests_of(site)[0] or ""]
            print(f"{site.file}:{site.line}", site.function, site.construct, *facts, sep="\t")
        return
    chosen = [site for site in chosen if key(site) not in rows and (not options.quick or tests_of(site)[0])]
    chosen.sort(key=lambda site: tests_of(site)[0] is None)                              # mutants that take long last
    lock = threading.Lock()

    def tried(site):
        try:
            result, by, message = found_by(site)
        except subprocess.TimeoutExpired:
            result, by, message = "no result", f"more than {TIMEOUT} s", ""
        with lock:
            if result != "no result":
                write(site, result, by)
            print(f"{site.file}:{site.line} {site.function} {site.construct}: {result} {by} {message}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.processes) as pool:
        for job in [pool.submit(tried, site) for site in chosen]:
            job.result()


if __name__ == "__main__":
    main()
