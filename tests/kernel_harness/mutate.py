"""Take away each `__syncthreads`, `__syncwarp`, `__threadfence` and `volatile` of the kernels in turn, and record which test finds it.

    python tests/kernel_harness/mutate.py                      # the constructs that mutations.csv lacks
    python tests/kernel_harness/mutate.py order factor/lu      # only those of files that begin so
    python tests/kernel_harness/mutate.py --list               # print them with their results, run nothing

No source is changed: the environment variable MESHSOLVE_HARNESS_WITHOUT=FILE:LINE makes the harness skip the construct of a line. A run
of the sanitized tests with races.hpp first lists which tests need which lines. Each mutant then runs one of these tests; a mutant without
such a test runs all sanitized tests that launch a kernel of its file, with races.hpp and with ThreadSanitizer. Each result is appended to
mutations.csv, so the script can be stopped at any time. A mutant that passes all tests is written as "survives"; replace its empty last
column by the reason why the construct is kept.
"""

import argparse
import collections
import concurrent.futures
import csv
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from kernel_harness import harness, sanitized  # noqa: E402

TABLE = HERE / "mutations.csv"
CONSTRUCT = re.compile(r"\b(__syncthreads|__syncwarp|__threadfence)\s*\(|\b(volatile)\b")
DEFINITION = re.compile(r"(?:__device__|__global__)[^;{}=]*?\b(\w+)\s*\(", re.DOTALL)
COLUMNS = ["file", "function", "construct", "number", "result", "by"]
TIMEOUT = 1200                                              # seconds that a file of tests may take; a hang is written as "timeout"

Site = collections.namedtuple("Site", "file function construct number line")    # number: in its function, from 0


def sites(prefixes=()):
    """All constructs of the kernels of the package, one for each line."""
    for path in sorted([*harness.PACKAGE.rglob("*.cu"), *harness.PACKAGE.rglob("*.cuh")]):
        file = path.relative_to(harness.PACKAGE).as_posix()
        if prefixes and not file.startswith(tuple(prefixes)):
            continue
        code = harness._COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), path.read_text())
        definitions = [(m.start(), m[1]) for m in re.finditer(DEFINITION, code.replace("__launch_bounds__(", "__launch_bounds__["))]
        seen, numbers = set(), collections.Counter()
        for m in CONSTRUCT.finditer(code):
            line = code.count("\n", 0, m.start()) + 1
            if line in seen:
                continue
            seen.add(line)
            function = next((name for start, name in reversed(definitions) if start <= m.start()), "")
            construct = m[1] or m[2]
            yield Site(file, function, construct, numbers[function, construct], line)
            numbers[function, construct] += 1


# ---- which tests need which lines


class Recorder:
    """A pytest plugin: {test: lines with a barrier or a `volatile` that it needed, files that it ran}, as JSON."""

    def __init__(self, file):
        self.file, self.before, self.found = file, {}, {}

    def pytest_runtest_teardown(self, item):
        now = {}
        for library in harness.Library.loaded:
            for file, line in library.needed_lines():
                now.setdefault(f"{pathlib.Path(file).as_posix()}:{line}", 0)
        self.found[item.nodeid] = sorted(set(now) - set(self.before))
        self.before |= now
        pathlib.Path(self.file).write_text(json.dumps(self.found))


def marked_files():
    return [file for file in sorted(HERE.parent.rglob("test_*.py"))
            if re.search(r"@pytest\.mark\.(sanitize|races)\b", file.read_text()) and file.parent != HERE]


def witnesses():
    """{FILE:LINE: a test that needs the construct}, recorded once for each state of kernels and tests."""
    files = [*harness.PACKAGE.rglob("*.cu*"), *marked_files(), *HERE.glob("*.hpp")]
    key = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()[:20]

    def recorded(file):
        kept = harness.cache_folder() / f"needed.{file.stem}.{key}.json"
        if not kept.exists():
            child = sanitized.python([__file__, "--record", str(kept), str(file)], "races", timeout=3600)
            if child.returncode:
                sys.exit(f"{file}: the sanitized tests must pass first\n{child.stdout[-3000:]}{child.stderr[-3000:]}")
        return json.loads(kept.read_text())

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        tests = list(pool.map(recorded, marked_files()))
    return {line.removeprefix(f"{harness.PACKAGE}/"): test for file in tests for test, lines in file.items() for line in lines}


def record(kept, file):
    """Run the sanitized tests of a file and write what they need; in a child process."""
    import pytest

    return pytest.main(["-q", "-x", "-m", "sanitize or races", "-k", "not as-launched", "-p", "no:cacheprovider", file], plugins=[Recorder(kept)])


# ---- mutants


def found_by(site, witness):
    """(result, test or reason) of a mutant."""
    kinds = ("races", "thread") if site.construct.startswith("__sync") else ("thread", "races")      # the likely one first
    for sanitizer, tests in ([("races", [witness])] if witness else []) + [(kind, tests_of(site)) for kind in kinds]:
        for test in tests:
            select = [] if "::" in test else ["-m", "sanitize or races" if sanitizer == "races" else "sanitize", "-k", "not as-launched"]
            try:
                child = sanitized.python(["-m", "pytest", "-x", "-q", *select, "-p", "no:cacheprovider", test], sanitizer, timeout=TIMEOUT,
                                         **{harness.WITHOUT: f"{site.file}:{site.line}"})
            except subprocess.TimeoutExpired:
                return "timeout", f"{test} ({sanitizer})"
            if child.returncode in (-signal.SIGTERM, -signal.SIGKILL):
                raise KeyboardInterrupt                     # stopped from outside: no result
            if child.returncode not in (0, 5):
                failed = re.search(r"^FAILED (.+?)(?: - .*)?$", child.stdout, re.MULTILINE)
                return "found", f"{failed[1] if failed else test} ({sanitizer})"
    return "survives", ""


def tests_of(site):
    """The files with sanitized tests of the packages whose kernels name the function of a site, those of its own package first."""
    packages = [pathlib.Path(site.file).parent.parts]
    for path in [*harness.PACKAGE.rglob("*.cu"), *harness.PACKAGE.rglob("*.cuh")]:
        if re.search(rf"\b{site.function}\b", path.read_text()):
            packages.append(path.relative_to(harness.PACKAGE).parent.parts)
    tests = {}
    for package in packages:
        for file in marked_files():
            folder = file.parent.relative_to(HERE.parent).parts
            if package[:len(folder)] == folder:
                tests[file.relative_to(HERE.parents[1]).as_posix()] = True
    return list(tests)


def known():
    rows = list(csv.DictReader(TABLE.open())) if TABLE.exists() else []
    return {tuple(row[name] for name in COLUMNS[:4]): row for row in rows}


def key(site):
    return (site.file, site.function, site.construct, str(site.number))


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
    if options.list:
        for site in chosen:
            row = rows.get(key(site), {"result": "not run", "by": ""})
            print(f"{site.file}:{site.line}\t{site.function}\t{site.construct}\t{row['result']}\t{row['by']}")
        return
    needed = witnesses()
    if options.needed:
        for site in chosen:
            print(f"{site.file}:{site.line}\t{site.function}\t{site.construct}\t{needed.get(f'{site.file}:{site.line}', '')}")
        return
    chosen = [site for site in chosen if key(site) not in rows]
    chosen.sort(key=lambda site: f"{site.file}:{site.line}" not in needed)           # mutants that take long last
    if options.quick:
        chosen = [site for site in chosen if f"{site.file}:{site.line}" in needed]
    if not TABLE.exists():
        TABLE.write_text(",".join(COLUMNS) + "\n")
    with concurrent.futures.ThreadPoolExecutor(options.processes) as pool, TABLE.open("a", newline="") as table:
        out = csv.writer(table, lineterminator="\n")
        jobs = {pool.submit(found_by, site, needed.get(f"{site.file}:{site.line}")): site for site in chosen}
        for job in concurrent.futures.as_completed(jobs):
            site = jobs[job]
            result, by = job.result()
            out.writerow([*key(site), result, by])
            table.flush()
            print(f"{site.file}:{site.line} {site.function} {site.construct}: {result} {by}", flush=True)


if __name__ == "__main__":
    main()
