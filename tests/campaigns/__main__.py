"""Run the campaigns: python tests/campaigns --minutes 10 --seed 7 [--only eigsh apps.smooth] [--repeat NAME NUMBER]

Attacks run in turns, one case each, in worker processes: a crash or a hang is a finding, and the others go on. The last lines give
the figures: cases, refusals, and the findings (wrong, foreign, crashed, hung), each with the command that repeats it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import pathlib
import random
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve()
sys.path[0] = str(HERE.parents[1])                       # the folder tests; meshsolve as installed
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from campaigns import table  # noqa: E402

TURN = 5.0            # seconds of an attack before the next one has its turn
MEMORY = 8 << 30      # bytes of address space of a worker
SHOWN = 3             # findings of one kind that are printed for each attack
HANG = 120.0          # seconds without an answer that count as a hang


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/campaigns", description=__doc__.partition("\n")[2])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--only", nargs="+", default=[], help="parts of names of attacks, or of the calls that they try")
    parser.add_argument("--repeat", nargs=2, metavar=("NAME", "NUMBER"), help="one case alone, in this process")
    parser.add_argument("--turn", nargs=3, help=argparse.SUPPRESS)          # NAME FIRST SECONDS, in a worker
    options = parser.parse_args()
    attacks = table.load()
    if options.repeat:
        ending, text = attacks[options.repeat[0]].run(options.seed, int(options.repeat[1]))
        print(ending, text)
        return ending in ("wrong", "foreign")
    if options.turn:
        return turn(attacks[options.turn[0]], options.seed, int(options.turn[1]), float(options.turn[2]))
    chosen = [a for a in attacks.values() if not options.only or any(part in text for part in options.only for text in (a.name, *a.calls))]
    return campaign(chosen, options.seed, options.minutes)


def turn(attack: table.Attack, seed: int, first: int, seconds: float) -> int:
    """Run cases for a while; print a line before and after each."""
    with contextlib.suppress(ImportError, ValueError):
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    end = time.monotonic() + seconds
    number = first
    while time.monotonic() < end:
        print("begin", number, flush=True)
        ending, text = attack.run(seed, number)
        print("end", ending, text.replace("\n", "\\n")[:2000], flush=True)
        number += 1
    return 0


def campaign(attacks: list[table.Attack], seed: int, minutes: float) -> int:
    """Give the attacks turns until the time is over; print findings as they come, and the figures."""
    counts = {a.name: collections.Counter() for a in attacks}
    attacks = random.Random(seed).sample(attacks, len(attacks))              # a short run tries others at another seed
    end, findings = time.monotonic() + 60 * minutes, 0
    print(f"{len(attacks)} attacks, seed {seed}", flush=True)
    while attacks and time.monotonic() < end:
        for a in attacks:
            if time.monotonic() >= end:
                break
            seconds = min(TURN, 60 * minutes / len(attacks))
            for number, ending, text in watched(a, seed, counts[a.name].total(), seconds):
                counts[a.name][ending] += 1
                if ending not in ("ok", "refused"):
                    findings += 1
                if ending not in ("ok", "refused") and counts[a.name][ending] <= SHOWN:
                    print(f"{ending}: {text.replace(chr(92) + 'n', chr(10))}\n    repeat: python tests/campaigns --seed {seed} --repeat {a.name} {number}", flush=True)
    total = sum(counts.values(), collections.Counter())
    for name, count in counts.items():
        print(f"{name:45} {count.total():7} cases, {count['refused']:6} refused" + "".join(f", {count[k]} {k}" for k in ("wrong", "foreign", "crashed", "hung") if count[k]))
    print(f"{total.total()} cases, {total['refused']} refused, {findings} findings, seed {seed}")
    return findings > 0


def watched(attack: table.Attack, seed: int, first: int, seconds: float):
    """Yield (number, ending, text) of the cases of one worker; its crash or hang is the ending of the case that it was in."""
    command = [sys.executable, str(HERE.parent), "--seed", str(seed), "--turn", attack.name, str(first), str(seconds)]
    with subprocess.Popen(["timeout", "-s", "KILL", str(seconds + HANG), *command], stdout=subprocess.PIPE, text=True) as worker:
        number = None
        for line in worker.stdout:
            kind, _, rest = line.rstrip("\n").partition(" ")
            if kind == "begin":
                number = int(rest)
            elif kind == "end":
                ending, _, text = rest.partition(" ")
                yield number, ending, text
                number = None
        code = worker.wait()
    if number is not None:
        yield number, *(("hung", f"{attack.name} gave no answer") if code in (124, 137) else ("crashed", f"{attack.name}: exit code {code}"))


if __name__ == "__main__":
    sys.exit(main())
