"""The same decks in ngspice with tight tolerances. Skipped if ngspice is not installed."""

import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import meshsolve as ms

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import decks
import syntax

pytestmark = pytest.mark.skipif(shutil.which("ngspice") is None, reason="ngspice is not installed")


def ngspice(folder, body, analysis, names):
    """(points, 1 + columns) of an analysis: the axis, then the signals (real and imaginary parts of small signals)."""
    path, out = folder / "ng.sp", folder / "ng.txt"
    control = f"option reltol=1e-6 vntol=1e-9 abstol=1e-13 trtol=1 itl4=100\n{analysis}\nwrdata {out} {' '.join(names)}"
    path.write_text(f"a test\n{body.strip()}\n.control\nset wr_singlescale\nset numdgt=12\n{control}\n.endc\n.end\n")
    run = subprocess.run(["ngspice", "-b", str(path)], capture_output=True, text=True, timeout=1200)
    assert out.exists(), run.stdout + run.stderr
    return np.loadtxt(out, ndmin=2)


TRANSIENTS = {                      # deck, signals, step, end, error in volt
    "low pass": (decks.LOW_PASS, ["out"], 2e-5, 1e-2, 1e-3),
    "resonance": (decks.RESONANCE, ["out", "a"], 2e-6, 1e-3, 2e-3),
    "ladder": (".options reltol=1e-5\n" + decks.ladder(), ["n1", "n20", "n40"], 2e-11, 4e-9, 2e-3),
    "rectifier": (decks.RECTIFIER, ["p", "a"], 1e-4, 4e-2, 2e-2),
    "clipper": (decks.CLIPPER, ["out"], 5e-6, 2e-3, 1e-2),
    "reverse recovery": (decks.RECOVERY, ["out"], 2e-9, 2e-6, 0.1),
    "controlled sources": (decks.CONTROLLED, ["e", "f", "g", "k", "m"], 5e-6, 2e-3, 3e-3),
    "power grid": (decks.power_grid(6), ["n_0_0", "n_3_3"], 1e-10, 1e-8, 1e-3),
    "clock mesh": (decks.clock_mesh(4), ["n00", "n22"], 5e-12, 1.2e-9, 1e-2),
}


@pytest.mark.parametrize("name", TRANSIENTS)
def test_transients(name, deck, tmp_path):
    body, nodes, step, end, error = TRANSIENTS[name]
    expected = ngspice(tmp_path, body, f"tran {step / 4:g} {end:g} 0 {step / 4:g}", [f"v({n})" for n in nodes])
    w = deck(body).transient(step, end)
    for k, node in enumerate(nodes):
        assert np.abs(np.interp(w.time, expected[:, 0], expected[:, k + 1]) - w[node]).max() < error, node


@pytest.mark.filterwarnings("ignore:.*miss its waves")
def test_a_rectifier_sampled_at_half_periods(deck, tmp_path):
    body = "V1 a 0 SIN(0 10 50)\nD1 a b dm\nR1 b 0 1k\nC1 b 0 47u\n" + decks.DIODE
    expected = ngspice(tmp_path, body, "tran 0.1m 0.1 0 0.1m", ["v(b)"])
    w = deck(body).transient(1e-2, 0.1)
    assert w["b"].max() > 7 and np.abs(np.interp(w.time, *expected.T) - w["b"]).max() < 2e-2


@pytest.mark.parametrize("name", ["ladder", "power grid", "rectifier"])
def test_backward_euler_is_close(name, deck, tmp_path):
    body, nodes, step, end, error = TRANSIENTS[name]
    expected = ngspice(tmp_path, body, f"tran {step / 4:g} {end:g} 0 {step / 4:g}", [f"v({n})" for n in nodes])
    w = deck(body + "\n.options reltol=1e-4").transient(step, end, method="be")
    for k, node in enumerate(nodes):
        assert np.abs(np.interp(w.time, expected[:, 0], expected[:, k + 1]) - w[node]).max() < 10 * error, node


OPERATING_POINTS = {
    "power grid with IR drop": (decks.power_grid(12), ["n_0_0", "n_5_6", "n_11_3", "s0"]),
    "controlled sources": (decks.CONTROLLED.replace("SIN(0 1 1k)", "2.5"), ["b", "e", "f", "g", "k", "m"]),
    "rectifier": (decks.RECTIFIER.replace("SIN(0 10 50)", "7"), ["p", "a", "b"]),
    "breakdown": (decks.CLIPPER.replace("SIN(0 20 1k)", "12"), ["out"]),
    "diodes in series": ("V1 a 0 5\nR1 a b 10\nD1 b c dm\nD2 c d dm 4\nD3 d 0 dm\n" + decks.DIODE, ["b", "c", "d"]),
    "clock mesh": (decks.clock_mesh(4), ["n00", "n33"]),
}


@pytest.mark.parametrize("name", OPERATING_POINTS)
def test_operating_points(name, deck, tmp_path):
    body, nodes = OPERATING_POINTS[name]
    expected = ngspice(tmp_path, body, "op", [f"v({n})" for n in nodes])[0]
    v = deck(body).op()
    assert np.allclose([v[n] for n in nodes], expected[-len(nodes):], rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["low pass", "resonance", "ladder", "controlled sources", "biased diode"])
def test_small_signals(name, deck, tmp_path):
    biased = ("V1 a 0 0.8 AC 1\nR1 a out 100\nD1 out 0 dm\nC1 out 0 1n\n" + decks.DIODE, ["out"])
    body, nodes = biased if name == "biased diode" else TRANSIENTS[name][:2]
    columns = [f"{part}(v({n}))" for n in nodes for part in ("real", "imag")]
    expected = ngspice(tmp_path, body, "ac dec 10 100 1g", columns)
    w = deck(body).ac("dec", 10, 100, 1e9)
    assert np.allclose(w.frequency, expected[:, 0], rtol=1e-9)
    for k, node in enumerate(nodes):
        assert np.allclose(w[node], expected[:, 2 * k + 1] + 1j * expected[:, 2 * k + 2], rtol=1e-3, atol=1e-9), node


def test_a_sweep(deck, tmp_path):
    body = "V1 a 0 0\nR1 a b 1k\nD1 b 0 dm\n" + decks.DIODE
    expected = ngspice(tmp_path, body, "dc V1 -1 2 0.1", ["v(b)"])
    w = deck(body).dc("V1", -1, 2, 0.1)
    assert np.allclose(w["b"], expected[:, 1], rtol=2e-4, atol=1e-6)


WAVEFORMS = {
    "pulse": "PULSE(1 -2 1u 0.3u 0.4u 1u 3u)", "pulse without an end": "PULSE(0 1 2u)", "sin": "SIN(0.5 2 500k 1u 2e5 30)",
    "pulse of no width": "PULSE(0 1 1.01u 1u 1u 0 5u)", "two pulses": "PULSE(1 -2 1u 0.3u 0.4u 0.5u 2u 2)",
    "pwl with jumps": "PWL(0 0 0 1 2.01u 0.5 2.01u -1 2.01u 2 4.01u 2 4.01u 1)",
    "exp": "EXP(0 2 1u 0.5u 4u 1u)", "pwl": "PWL(0 0 1u 1 1.5u -1 4u -1 4.1u 2)",
}


@pytest.mark.parametrize("name", WAVEFORMS)
def test_waveforms(name, deck, tmp_path):
    body = f"V1 a 0 {WAVEFORMS[name]}\nR1 a 0 1"
    expected = ngspice(tmp_path, body, "tran 2n 9u 0 2n", ["v(a)"])
    w = deck(body).transient(2e-8, 9e-6)
    inside = slice(1, -1)
    assert np.abs(np.interp(w.time, expected[:, 0], expected[:, 1]) - w["a"])[inside].max() < 0.01


def test_the_first_names_of_every_result_agree(deck, tmp_path):
    """Signs of currents: ngspice and meshsolve count them from the first to the second node."""
    body = "V1 a 0 5\nR1 a b 1k\nL1 b c 1m\nR2 c 0 1k\nE1 e 0 c 0 2\nR3 e 0 500"
    expected = ngspice(tmp_path, body, "op", ["i(v1)", "i(l1)", "i(e1)"])[0][-3:]
    v = deck(body).op()
    assert np.allclose([v["i(v1)"], v["i(l1)"], v["i(e1)"]], expected, rtol=1e-6)


def test_it_is_this_library_that_is_compared(deck):
    assert isinstance(deck("V1 a 0 1\nR1 a 0 1").op(), ms.apps.circuit.OperatingPoint)


@pytest.mark.parametrize("name", syntax.SYNTAX)
def test_the_numbers_of_every_syntax(name, tmp_path):
    body, volt = syntax.SYNTAX[name]
    assert ngspice(tmp_path, body, "op", ["v(n)"])[0][-1] == pytest.approx(volt, rel=1e-6, abs=1e-9)
