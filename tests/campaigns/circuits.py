"""Attacks on the reader of decks and on the analyses of circuits."""

import cmath
import contextlib
import math

import numpy as np

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed

THERMAL = 1.380649e-23 / 1.602176634e-19 * 300.15        # V at 27 degrees Celsius
TIGHT = ".options reltol=1e-9 vntol=1e-12 abstol=1e-18 gmin=1e-30\n"
CIRCUIT = "apps.circuit.Circuit"


def circuit(lines, **params):
    return ms.apps.circuit.parse("a campaign\n" + "\n".join(lines) + "\n.end\n", params=params or None)


def grid_of_resistors(rng, n):
    """Element lines (name, a, b, ohm) of a connected network on the nodes 0 to n, 0 is ground."""
    tree = [(k, int(rng.integers(k))) for k in range(1, n + 1)]
    more = [tuple(rng.choice(n + 1, 2, replace=False)) for _ in range(n)]
    ohm = 10.0 ** rng.uniform(-3, 3, 2 * n)
    return [(f"r{k}", int(a), int(b), float(r)) for k, ((a, b), r) in enumerate(zip(tree + more, ohm))]


def nodal(n, resistors, currents):
    """Voltages of the nodes 0 to n by a dense solve; ``currents`` enter the nodes."""
    G = np.zeros((n + 1, n + 1))
    for _, a, b, r in resistors:
        G[[a, b], [a, b]] += 1 / r
        G[[a, b], [b, a]] -= 1 / r
    return np.r_[0.0, np.linalg.solve(G[1:, 1:], currents[1:])]


@attack("apps.circuit.parse", f"{CIRCUIT}.op", f"{CIRCUIT}.with_values", quick=30)
def dividers(rng):
    """Units of volt and ohm from 1e-300 to 1e300, ratios to 1e12. Oracle: V R2 / (R1 + R2)."""
    volt, ohm = axes.unit(rng), axes.unit(rng)
    V, (r1, r2) = volt * rng.uniform(1, 9), ohm * axes.spread(rng, 2) * rng.uniform(1, 9, 2)
    deck = [f"V1 a 0 {V!r}", f"R1 a b {float(r1)!r}", f"R2 b 0 {float(r2)!r}"]
    smallest, largest = float(min(r1, r2)), float(max(r1, r2))
    fits = all(1e-290 < x < 1e290 for x in (V, smallest, largest)) and 1e-290 * largest < V < 1e290 * smallest
    with well_posed("a divider") if fits else contextlib.nullcontext():
        v = circuit(deck).op()
        w = circuit([deck[0], "R1 a b 1", "R2 b 0 1"]).with_values({"r1": float(r1), "r2": float(r2)}).op()
    for got in (v, w):
        assert math.isclose(got["b"], V * (r2 / (r1 + r2)), rel_tol=1e-12), (got["b"], V, r1, r2)
        assert abs(got["i(v1)"] + V / (r1 + r2)) <= 1e-14 * V / min(r1, r2) + 1e-305, (got["i(v1)"], V, r1, r2)


@attack("apps.circuit.parse", f"{CIRCUIT}.op", quick=20)
def spelling(rng):
    """Names and order of nodes and lines, case, continuation lines, comments, DOS line ends, Ctrl-Z, no-break spaces. Oracle: dense nodal
    analysis; the spelling changes nothing."""
    n = int(rng.integers(1, 12))
    resistors, currents = grid_of_resistors(rng, n), [0.0, *rng.normal(size=n).tolist()]
    names = ["0" if rng.random() < 0.5 else "GND", *(f"{rng.choice(['n', 'Net-', 'x.', 'é'])}{k}" for k in rng.permutation(n))]
    lines = [f"R{name[1:]} {names[a]} {names[b]} {r!r}" for name, a, b, r in resistors] + [f"I{k} 0 {names[k]} {currents[k]!r}" for k in range(1, n + 1)]
    text = []
    for k in rng.permutation(len(lines)):
        line = lines[k]
        words = line.split(" ")
        how = int(rng.integers(7))
        if how == 1:
            line = "".join(c.upper() if c.isascii() else c for c in line)
        elif how == 2:
            line = "\n* between\n+ ".join([" ".join(words[:2]), " ".join(words[2:])])
        elif how == 3:
            line = "\u00a0\t " + line + " ; a comment"
        elif how == 4:
            line = "  ".join(words) + " $ R9 a b 1"
        elif how == 5 and words[0][0] == "R":
            line = f"{' '.join(words[:3])} {{({words[3]})*1}}"
        elif how == 6 and words[0][0] == "R":
            line = f"X{words[0]} {words[1]} {words[2]} part q={words[3]}"
        text.append(line)
    text += [".subckt part a b q=1", "R1 a b {q}", ".ends", ".end"]
    deck = "a campaign\n" + "\n".join(text) + "\n"
    deck = deck.replace("\n", "\r\n") + "\x1a" * int(rng.integers(3)) if rng.random() < 0.5 else deck
    with well_posed("a resistor network"):
        v = ms.apps.circuit.parse(deck).op()
    exact = nodal(n, resistors, np.array(currents))
    got = np.array([v[name] for name in names])
    assert abs(got - exact).max() <= 1e-9 * abs(exact).max(), abs(got - exact).max()


@attack("apps.circuit.parse", quick=60)
def expressions(rng):
    """Random expression trees with parameters and functions, deep and wide. Oracle: Python's own evaluation."""
    names = {f"p{k}": float(rng.choice([-3.0, 0.5, 2.0, 1e-3, 1e5, 1e-200, 1e200])) for k in range(4)}

    def tree(depth):
        how = int(rng.integers(9)) if depth else int(rng.integers(2))
        if how == 0:
            x = float(rng.choice([1.0, 2.0, 0.25, 1e3, 7.0]))
            return repr(x), x
        if how == 1:
            name = str(rng.choice(list(names)))
            return name, names[name]
        (s, x), (t, y) = tree(depth - 1), tree(depth - 1)
        if how == 2:
            return f"({s}) + ({t})", x + y
        if how == 3:
            return f"({s})-({t})", x - y
        if how == 4:
            return f"({s})*({t})", x * y
        if how == 5:
            return f"({s})/({t})", x / y
        if how == 6:
            return f"abs({s})**2", abs(x) ** 2
        if how == 7:
            return f"(({s}) < ({t}) ? ({s}) : ({t}))", min(x, y)
        return f"twice(max({s},{t}))", 2 * max(x, y)

    try:
        text, value = tree(int(rng.integers(1, 6)))
    except (ZeroDivisionError, OverflowError):
        return
    if not math.isfinite(value) or not 1e-250 < abs(value) < 1e250:
        return
    lines = [f".param {name}={{{x!r}}}" for name, x in names.items()] + [".func twice(x) {x+x}", f"G1 0 a c 0 {{{text}}}", "V1 c 0 1", "R1 a 0 1", "R2 c 0 1"]
    got = circuit(lines).values["g1"]
    assert math.isclose(got, value, rel_tol=1e-9), (text, got, value)


@attack("apps.circuit.parse", quick=6)
def doubling(rng):
    """Functions, subcircuits and parameters that each use the one before twice. They end, or they are refused."""
    depth, how = int(rng.integers(2, 90)), int(rng.integers(4))
    few = depth < 10
    if how == 0:
        lines = [".func f0(x) {x}", *(f".func f{k}(x) {{f{k - 1}(x)+f{k - 1}(x)}}" for k in range(1, depth)), f"R1 a 0 {{f{depth - 1}(1)}}", "I1 0 a 1"]
    elif how == 1:
        lines = [".func f0(x) {x}", *(f".func f{k}(x) {{f{k - 1}(x+x)}}" for k in range(1, depth)), "V1 c 0 1", f"E1 a 0 value={{f{depth - 1}(v(c))}}", "R1 a 0 1"]
    elif how == 2:
        lines = [".param p0=1", *(f".param p{k}={{p{k - 1}+p{k - 1}}}" for k in range(1, depth)), f"R1 a 0 {{p{depth - 1}}}", "I1 0 a 1"]
        few = True
    else:
        lines = [".subckt s0 a", "G1 a 0 a 0 1", ".ends"]
        for k in range(1, depth):
            lines += [f".subckt s{k} a", f"X1 a s{k - 1}", f"X2 a s{k - 1}", ".ends"]
        lines += [f"X1 a s{depth - 1}", "I1 0 a 1"]
    if not few:
        circuit(lines).op()
        return
    with well_posed("a deck that doubles few times"):
        v = circuit(lines).op()["a"]
    factor = 2.0 ** (depth - 1)
    assert math.isclose(v, 1 / factor if how == 3 else factor, rel_tol=1e-9), (how, depth, v)


@attack(f"{CIRCUIT}.op", f"{CIRCUIT}.dc", quick=15)
def junctions(rng):
    """A diode behind a resistor: sizes, temperatures, emission coefficients, currents over 15 decades. Oracle: Lambert's W by mpmath."""
    import mpmath

    n, size, ohm = rng.uniform(0.05, 3), 10.0 ** rng.uniform(-18, -6), 10.0 ** rng.uniform(-2, 9)
    top = 10.0 ** rng.uniform(-3, 3)
    deck = [TIGHT + "V1 a 0 0", f"R1 a b {ohm!r}", "D1 b 0 d", f".model d D(is={size!r} n={n!r})"]
    with well_posed("a diode behind a resistor"):
        w = circuit(deck).dc("v1", 0, top, top / 7)
    with mpmath.workdps(60):
        vt = mpmath.mpf(n) * THERMAL
        for volt, got in zip(w.sweep, w["b"]):
            share = mpmath.log(size * ohm / vt) + (volt + size * ohm) / vt      # W(exp(share)) by Newton's method
            root = share if share > 1 else mpmath.exp(share)
            for _ in range(200):
                root = root - (root + mpmath.log(root) - share) / (1 + 1 / root) if root > 0 else mpmath.mpf(10) ** -50
            current = vt / ohm * root - size
            exact = float(volt - current * ohm)
            assert abs(got - exact) <= 1e-7 * abs(exact) + 1e-9, (n, size, ohm, volt, got, exact)


@attack(f"{CIRCUIT}.op", f"{CIRCUIT}.dc", f"{CIRCUIT}.transient", quick=8)
def clamps(rng):
    """Zener clamps with breakdowns far sharper or softer than the forward knee, over time, by sweep and alone. Oracle: the voltage at
    which the breakdown carries the current of the resistor."""
    bv, nbv, ibv, ohm = rng.uniform(2, 200), 10.0 ** rng.uniform(-3, 0.7), 10.0 ** rng.uniform(-6, -2), 10.0 ** rng.uniform(0, 4)
    top = bv * rng.uniform(1.5, 20)
    storage = str(rng.choice(["", " cjo=50p", " cjo=5p tt=10n"]))
    deck = [".options reltol=1e-6 vntol=1e-9 abstol=1e-15", str(rng.choice(["V1 in 0 {u} SIN(0 {u} 1k)", "V1 in 0 {u} PULSE({-u} {u} 0 1u 1u .4m 1m)"])), f"R1 in out {ohm!r}", "D1 0 out z",
            f".model z D(is=1e-15 bv={bv!r} ibv={ibv!r} nbv={nbv!r}{storage})", f".param u={top!r}"]
    with well_posed("a clamp"):
        c = circuit(deck)
        v, w = c.op()["out"], c.transient(5e-6, 1.5e-3)["out"].max()
        s = circuit(["V1 in 0 0", *deck[:1], *deck[2:]]).dc("v1", 0, top, top / 20)["out"][-1]
    level = bv
    for _ in range(200):
        level = 0.5 * level + 0.5 * min(bv + nbv * THERMAL * math.log(max((top - level) / ohm, 1e-12) / ibv), top)
    for got in (v, w, s):
        assert abs(got - level) <= 1e-4 * level, (bv, nbv, ibv, ohm, top, v, w, s, level)


@attack(f"{CIRCUIT}.op", f"{CIRCUIT}.dc", quick=10)
def kirchhoff(rng):
    """Random networks of resistors, diodes and sources. Oracles: Kirchhoff's current law with currents from the formulas of the elements,
    in long double; each point of a sweep against its own operating point."""
    n = int(rng.integers(2, 10))
    resistors = grid_of_resistors(rng, n)
    diodes = [(*(int(k) for k in rng.choice(n + 1, 2, replace=False)), 10.0 ** rng.uniform(-16, -9), rng.uniform(0.8, 2)) for _ in range(n)]
    top = float(rng.uniform(1, 30))
    deck = [TIGHT + f"V1 1 0 {top!r}", *(f"{name} {a} {b} {r!r}" for name, a, b, r in resistors)]
    for k, (a, b, size, ideality) in enumerate(diodes):
        deck += [f"D{k} {a} {b} d{k}", f".model d{k} D(is={size!r} n={ideality!r})"]
    with well_posed("resistors and diodes"):
        c = circuit(deck)
        v = c.op()
        w = c.dc("v1", -top, top, top / 4)
    x = np.array([0.0, *(v[str(k)] for k in range(1, n + 1))], np.longdouble)
    out, size_of = np.zeros(n + 1, np.longdouble), np.zeros(n + 1, np.longdouble)
    parts = [(a, b, (x[a] - x[b]) / np.longdouble(r)) for _, a, b, r in resistors] + [(1, 0, v["i(v1)"])]
    for a, b, size, ideality in diodes:
        u, vt = x[a] - x[b], np.longdouble(ideality * THERMAL)
        cube = (3 * vt / (u * np.exp(np.longdouble(1)))) ** 3 if u < -3 * vt else 0
        parts.append((a, b, size * np.expm1(u / vt) if u >= -3 * vt else -size * (1 + cube)))
    for a, b, i in parts:
        out[[a, b]] += i, -i
        size_of[[a, b]] += abs(i)
    if any((x[a] - x[b]) / (ideality * THERMAL) > 200 for a, b, _, ideality in diodes):      # a diode across the source
        return
    for _, a, b, r in resistors:                            # rounding of the voltages
        size_of[[a, b]] += 1e-8 * max(abs(x[a]), abs(x[b])) / r
    assert (abs(out[1:]) <= 1e-7 * size_of[1:] + 1e-13).all(), (out, size_of)
    for value, row in zip(w.sweep, range(len(w.sweep))):
        alone = c.with_values({"v1": float(value)}).op()
        wrong = [k for k in range(1, n + 1) if abs(alone[str(k)] - w[str(k)][row]) > 1e-7 * top]
        assert not wrong, (value, wrong)


@attack(f"{CIRCUIT}.ac", quick=10)
def small_signals(rng):
    """Random R, L, C, G and sources, units of ohm and second, frequencies over decades, one thread and two. Oracle: the dense equations."""
    n, ohm, second = int(rng.integers(1, 20)), axes.unit(rng, 1e30), axes.unit(rng, 1e12)
    elements = [(name, a, b, r) for name, a, b, r in grid_of_resistors(rng, n)]
    deck, G, C = [f"I1 0 1 AC {1 / ohm!r} 30"], np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    for name, a, b, r in elements:
        kind = str(rng.choice(["r", "c"])) if int(name[1:]) >= n else "r"
        value = r * ohm if kind == "r" else second / (r * ohm)
        deck.append(f"{kind}{name[1:]} {a} {b} {value!r}")
        where = G if kind == "r" else C
        where[[a, b], [a, b]] += 1 / value if kind == "r" else value
        where[[a, b], [b, a]] -= 1 / value if kind == "r" else value
    for k in range(int(rng.integers(4))):
        (a, b, p, q), gain = rng.integers(0, n + 1, 4), float(rng.normal() / ohm)
        deck.append(f"G{k} {a} {b} {p} {q} {gain!r}")
        for row, column, sign in ((a, p, 1), (a, q, -1), (b, p, -1), (b, q, 1)):
            G[row, column] += sign * gain
    inductor = float(ohm * second * 10.0 ** rng.uniform(-2, 2))
    deck.append(f"L1 {n} 0 {inductor!r}")
    first = 10.0 ** rng.uniform(-4, 0) / second
    with well_posed("small signals"):
        c = circuit(deck)
        w = c.ac("dec", 30, float(first), float(first * 1e6), threads=1)
        two = c.ac("dec", 30, float(first), float(first * 1e6), threads=2)
    got = np.array([w[str(k)] for k in range(1, n + 1)])
    assert got.tobytes() == np.array([two[str(k)] for k in range(1, n + 1)]).tobytes(), "one and two threads differ"
    s = np.zeros(n, complex)
    s[0] = cmath.rect(1 / ohm, math.radians(30))
    for column, f in zip(got.T, w.frequency):
        A = (G + 2j * np.pi * f * C)[1:, 1:]
        A[-1, -1] += 1 / (2j * np.pi * f * inductor)
        d = 1 / np.sqrt(abs(A).max(axis=1))
        exact = d * np.linalg.solve(A * d[:, None] * d, d * s)
        condition = np.linalg.cond(A * d[:, None] * d)
        assert abs(column - exact).max() <= 1e-13 * condition * abs(exact).max() * 100, (f, condition)


@attack(f"{CIRCUIT}.op", f"{CIRCUIT}.transient", quick=15)
def shorts(rng):
    """Resistors of 0 ohm and equal sources in loops, by all solvers. Oracles: the network with merged nodes; Kirchhoff's current law; the
    least sum of squares of the currents."""
    n = int(rng.integers(2, 12))
    resistors, currents = grid_of_resistors(rng, n), np.r_[0.0, rng.normal(size=n)]
    links = [tuple(int(k) for k in rng.choice(np.arange(1, n + 1), 2)) for _ in range(int(rng.integers(1, 2 * n)))]
    group = np.arange(n + 1)
    for a, b in links:
        group[group == group[a]] = group[b]
    where = np.unique(group, return_inverse=True)[1]
    where = np.where(where == where[0], 0, np.where(where == 0, where[0], where))         # the group of ground is 0
    merged = [(name, int(where[a]), int(where[b]), r) for name, a, b, r in resistors if where[a] != where[b]]
    exact = nodal(where.max(), merged, np.bincount(where, currents))[where]
    deck = [f"{name} {a} {b} {r!r}" for name, a, b, r in resistors] + [f"I{k} 0 {k} {float(currents[k])!r}" for k in range(1, n + 1)]
    deck += [f"R{100 + k} {a} {b} 0" for k, (a, b) in enumerate(links)]
    solver = str(rng.choice(["lu", "cholesky", "parac"]))
    with well_posed("shorts in loops"):
        v = circuit(deck).op(solver=solver)
        w = circuit(deck).transient(1.0, 2.0)
    x = np.array([0.0, *(v[str(k)] for k in range(1, n + 1))])
    assert abs(x - exact).max() <= 1e-8 * abs(exact).max() + 1e-9 * (solver == "parac"), (solver, abs(x - exact).max())
    assert all(abs(w[str(k)][-1] - exact[k]) <= 1e-8 * abs(exact).max() for k in range(1, n + 1))
    B = np.zeros((n + 1, len(links)))
    for k, (a, b) in enumerate(links):
        B[a, k] += 1
        B[b, k] -= 1
    surplus = currents.copy()
    for _, a, b, r in resistors:
        surplus[[a, b]] -= (x[a] - x[b]) / r, (x[b] - x[a]) / r
    best = np.linalg.lstsq(B[1:], surplus[1:], rcond=1e-9)[0]
    got = np.array([v[f"i(r{100 + k})"] for k in range(len(links))])
    largest = max(abs(exact[a] - exact[b]) / r for _, a, b, r in resistors) + abs(currents).max()
    assert abs(got - best).max() <= 1e-6 * largest, (solver, got, best)


@attack(f"{CIRCUIT}.transient", quick=10)
def charging(rng):
    """A capacitor behind a resistor, units of ohm and second, ends after few or many time constants. Oracle: the exponential."""
    ohm, tau = axes.unit(rng, 1e30), axes.unit(rng, 1e12) * rng.uniform(1, 9)
    end = tau * 10.0 ** rng.uniform(-2, 1.5)
    volt = axes.unit(rng, 1e200)
    deck = [".options reltol=1e-6", f"V1 a 0 {volt!r}", f"R1 a b {ohm!r}", f"C1 b 0 {tau / ohm!r} ic=0"]
    with well_posed("a capacitor that charges"):
        w = circuit([f".options vntol={1e-9 * volt!r}", *deck]).transient(end / 50, end, uic=True)
    exact = -volt * np.expm1(-w.time / tau)
    assert abs(w["b"] - exact).max() <= 1e-3 * volt, (ohm, tau, end, abs(w["b"] - exact).max() / volt)
