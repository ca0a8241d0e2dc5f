"""Voltage drop in a power grid: from a SPICE deck to a map.

    python ir_drop.py [grid.sp] [-o drop.png]

The default deck is a grid of wires with supply pads and a current sink at every crossing, strongest in one corner. Nodes whose
names end in coordinates (n1_800_2400) are drawn as a map.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np

import meshsolve as ms


def write_grid(path, n=60, pads=4, supply=1.1, seed=0):
    """Write a deck with n x n crossings, 0.1 ohm between neighbors, and pads x pads supply pads."""
    rng = np.random.default_rng(seed)
    lines = ["* power grid"]
    for i in range(n):
        for j in range(n):
            lines += [f"Rx{i}_{j} m_{i}_{j} m_{i + 1}_{j} 0.1"] * (i + 1 < n)
            lines += [f"Ry{i}_{j} m_{i}_{j} m_{i}_{j + 1} 0.1"] * (j + 1 < n)
            lines += [f"I{i}_{j} m_{i}_{j} 0 {rng.uniform(0, 1e-3) * (1 + 3 * (i + j > 1.5 * n)):.3e}"]
    at = np.linspace(n // 8, n - 1 - n // 8, pads).astype(int)
    for i in at:
        for j in at:
            lines += [f"V{i}_{j} p_{i}_{j} 0 {supply}", f"Rp{i}_{j} p_{i}_{j} m_{i}_{j} 0.01"]
    pathlib.Path(path).write_text("\n".join([*lines, ".op", ".end", ""]))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("deck", nargs="?", help="SPICE deck; default: a grid of 3,600 nodes")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        deck = given.deck or pathlib.Path(folder) / "grid.sp"
        if not given.deck:
            write_grid(deck)
        voltages = ms.apps.circuit.read(deck).op()
    drop = voltages.voltages.max() - voltages.voltages
    worst = drop.argmax()
    print(f"{len(drop)} nodes; largest drop {1e3 * drop[worst]:.1f} mV at {voltages.nodes[worst]}")
    if given.output:
        voltages.plot(given.output, title="voltages of the power grid")
    return drop


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
