"""Decks as texts, for comparisons with formulas and with ngspice; the tests add title and .end."""

import numpy as np
import scipy.optimize

import meshsolve as ms

VOLT_PER_KELVIN = 1.380649e-23 / 1.602176634e-19
THERMAL = VOLT_PER_KELVIN * 300.15                         # thermal voltage at 27 degrees, volts
TAU = 1e-3
CHARGING = "V1 in 0 PULSE(0 1 0 1n 1n 1 2)\nR1 in out 1k\nC1 out 0 1u"
DIODE = ".model dm d(is=1e-12 n=1.5 rs=0.5 cjo=20p vj=0.8 m=0.4 tt=1n)"

LOW_PASS = "V1 in 0 PULSE(0 1 1m 1u 1u 2m 5m) AC 1\nR1 in out 1k\nC1 out 0 1u"
RESONANCE = "V1 in 0 PULSE(0 1 0 1n 1n 1 2) AC 1\nR1 in a 10\nL1 a out 1m\nC1 out 0 1u"
RECTIFIER = f"""
V1 a b SIN(0 10 50)
Rg b 0 1meg
D1 a p dm
D2 b p dm
D3 0 a dm
D4 0 b dm
R1 p 0 1k
C1 p 0 47u
{DIODE}
"""
CLIPPER = "V1 in 0 SIN(0 20 1k)\nR1 in out 1k\nD1 0 out dz\n.model dz d(is=1e-14 bv=5.1 ibv=5m rs=2 cjo=50p)"
RECOVERY = "V1 in 0 PULSE(5 -5 1u 1n 1n 2u 4u)\nR1 in out 1k\nD1 out 0 dd\n.model dd d(is=1e-14 tt=100n cjo=2p vj=0.8 m=0.4)"
CONTROLLED = """
V1 a 0 SIN(0 1 1k) AC 1
R1 a b 1k
C1 b 0 100n
E1 e 0 b 0 3
Re e f 100
Lf f 0 10m
G1 0 g b a 2m
Rg g 0 500
Cg g 0 1u
Vs f h 0
Rh h 0 2k
F1 0 k Vs 5
Rk k 0 100
H1 m 0 Vs 50
Rm m 0 1k
"""


def ladder(sections=40):
    """R-L-C sections in a chain, driven by a step."""
    lines = ["V1 n0 0 PULSE(0 1 0 0.1n 0.1n 1 2) AC 1"]
    for k in range(sections):
        lines += [f"R{k} n{k} m{k} 0.5", f"L{k} m{k} n{k + 1} 1n", f"C{k} n{k + 1} 0 0.4p"]
    return "\n".join([*lines, f"Rload n{sections} 0 50"])


def power_grid(n=12, seed=1):
    """n x n nodes of resistors with current sources as loads, and supplies at the corners behind a package inductance."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        for j in range(n):
            if i + 1 < n:
                lines.append(f"Ra{i}_{j} n_{i}_{j} n_{i + 1}_{j} {rng.uniform(0.5, 2):.4f}")
            if j + 1 < n:
                lines.append(f"Rb{i}_{j} n_{i}_{j} n_{i}_{j + 1} {rng.uniform(0.5, 2):.4f}")
            lines.append(f"C{i}_{j} n_{i}_{j} 0 {rng.uniform(1, 5):.4f}p")
            lines.append(f"I{i}_{j} n_{i}_{j} 0 {rng.uniform(0, 2):.4f}m PULSE(0 {rng.uniform(1, 5):.4f}m {rng.integers(1, 5)}n 0.5n 0.5n 1n 5n)")
    for k, (i, j) in enumerate([(0, 0), (0, n - 1), (n - 1, 0), (n - 1, n - 1)]):
        lines += [f"V{k} s{k} 0 1.1", f"L{k} s{k} t{k} 0.1n", f"R{k} t{k} n_{i}_{j} 10m"]
    return "\n".join(lines)


def clock_mesh(n=6):
    """A mesh of R-L wires driven from its corners by clocks of different arrival times, with diodes to the rails."""
    lines = ["Vdd vdd 0 1.2", ".model clamp d(is=1e-15 n=1.1 cjo=2f)", ".subckt wire a b r=2 l=0.2n", "R1 a m {r}", "L1 m b {l}", ".ends"]
    for i in range(n):
        for j in range(n):
            if i + 1 < n:
                lines.append(f"Xa{i}{j} n{i}{j} n{i + 1}{j} wire")
            if j + 1 < n:
                lines.append(f"Xb{i}{j} n{i}{j} n{i}{j + 1} wire r={{1+{i}/2}}")
            lines += [f"C{i}{j} n{i}{j} 0 20f", f"Da{i}{j} n{i}{j} vdd clamp", f"Db{i}{j} 0 n{i}{j} clamp"]
    for k, node in enumerate(("00", f"0{n - 1}", f"{n - 1}0", f"{n - 1}{n - 1}")):
        lines += [f"Vc{k} d{k} 0 PULSE(0 1.2 {100 + 10 * k}p 50p 50p 400p 1n)", f"Rc{k} d{k} n{node} 5"]
    return "\n".join(lines)


def multiplier(stages):
    """A Cockcroft-Walton voltage multiplier, whose diodes open and close in turns."""
    lines, out, down = ["V1 in 0 SIN(0 10 1k)"], "in", "0"
    for k in range(stages):
        lines += [f"Ca{k} {out} o{k} 100n", f"Da{k} {down} o{k} dm", f"Db{k} o{k} d{k} dm", f"Cb{k} {down} d{k} 100n"]
        out, down = f"o{k}", f"d{k}"
    return "\n".join([*lines, f"RL {down} 0 10meg", ".model dm D(IS=1e-12 N=1.2 RS=0.5 CJO=20p TT=5n BV=100)"])


def diode_grid(n, source="SIN(0 5 1k)"):
    """A grid of resistors and capacitors with a diode at every third node."""
    lines = [f"V1 m0_0 0 {source}", ".model dm D(IS=1e-12 N=1.2 RS=1 CJO=5p TT=1n)"]
    for i in range(n):
        for j in range(n):
            lines += [f"Ra{i}_{j} m{i}_{j} m{i + 1}_{j} 10"] * (i + 1 < n) + [f"Rb{i}_{j} m{i}_{j} m{i}_{j + 1} 10"] * (j + 1 < n)
            lines += [f"C{i}_{j} m{i}_{j} 0 1n"] + [f"D{i}_{j} m{i}_{j} 0 dm"] * ((i + j) % 3 == 0)
    return "\n".join(lines)


def devices(**parameters):
    """The devices of several diodes. Each model parameter is a number or an array with one value per diode."""
    count = max(np.size(value) for value in parameters.values()) if parameters else 1
    lines = []
    for k in range(count):
        model = " ".join(f"{key}={float(np.broadcast_to(value, count)[k])!r}" for key, value in parameters.items())
        lines += [f"D{k} a 0 m{k}", f".model m{k} d({model})"]
    return ms.apps.circuit.parse("\n".join(["t", "R1 a 0 1", *lines, ".end\n"]))._system.devices


def knee(saturation, n, bv, ibv):
    """The knee voltage of breakdown, from its equation."""
    if bv > 1e98 or ibv < saturation * bv / THERMAL:
        return bv
    excess = lambda v: v - bv + n * THERMAL * np.log(max(ibv / saturation + 1 - v / THERMAL, 1.0))
    return scipy.optimize.brentq(excess, bv - n * THERMAL * np.log(ibv / saturation + 1) - 1, bv, xtol=1e-15)
