"""Diodes compared with numbers of ngspice 39: breakdown, high injection, temperature; and with ngspice itself if it is installed."""

import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

import meshsolve as ms

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from decks import VOLT_PER_KELVIN, devices, knee

TIGHT = ".options reltol=1e-6 abstol=1e-16"
VOLTS = [-30, -6.5, -2, -0.05, 0.3, 0.9, 5]
HOT_VOLTS = [-9, -1, 0.5, 0.8]
# Model: voltages across it, with 1 kOhm in series, at VOLTS.
IV = {
    "is=1e-14": [-30, -6.5, -2, -0.05, 0.2999989, 0.6220067, 0.6928876],
    "is=1e-6 n=1.05": [-29.999, -6.499, -1.999, -0.04916361, 0.1382887, 0.1787646, 0.2300379],
    "is=1e-12 ikf=1m": [-30, -6.5, -2, -0.05, 0.2998926, 0.5261364, 0.6214662],
    "is=1e-14 bv=5.9 ibv=1m": [-5.982219, -5.887328, -2, -0.05, 0.2999989, 0.6220067, 0.6928876],
    "is=1e-14 bv=5.9 ibv=1e-16": [-6.636623, -6.466936, -2, -0.05, 0.2999989, 0.6220067, 0.6928876],
    "is=1e-6 bv=20 ibv=1u": [-20.2376, -6.499, -1.999, -0.04914953, 0.1325934, 0.1705447, 0.2191427],
    "is=1e-9 bv=20 ibv=1m nbv=3": [-20.17734, -6.499999, -1.999999, -0.04999914, 0.2681714, 0.3422366, 0.3968262],
    "is=1e-14 bv=5.9 ibv=1m ikr=1m": [-6.066294, -5.905999, -2, -0.05, 0.2999989, 0.6220067, 0.6928876],
    "is=1e-10 ikf=10m rs=0.5 n=1.2": [-30, -6.5, -2, -0.04999992, 0.2985154, 0.4799134, 0.5689883],
    "is=2.52e-9 n=1.752 rs=0.568 isr=1e-8 nr=2 vj=0.75 m=0.4 bv=20 ibv=1u": [-20.69056, -6.499997, -1.999997, -0.04999195, 0.2957916, 0.5191987, 0.640192],
    "is=1e-14 isr=1e-9 ikf=1m": [-30, -6.5, -2, -0.04999912, 0.2726138, 0.3654519, 0.4521668],
    "is=1e-8 bv=2 ibv=1e-7 nbv=2": [-2.7665, -2.665094, -1.99999, -0.04999145, 0.229271, 0.2851991, 0.3376007],
}
# Model with parameters at 40 degrees Celsius, and a temperature: voltages as above, then small-signal
# magnitudes at 1 MHz, at HOT_VOLTS.
HOT = {
    ("is=1e-14", -40): ([-9, -1, 0.4999998, 0.7500315], [1, 1, 0.9999902, 0.2867737]),
    ("is=1e-14", 85): ([-9, -1, 0.4833592, 0.565067], [1, 1, 0.6496945, 0.1161153]),
    ("is=1e-9 n=1.7 eg=0.69 xti=2 rs=3 trs1=5m trs2=1e-5", -40): ([-9, -1, 0.4925713, 0.6046194], [1, 1, 0.8214194, 0.1502421]),
    ("is=1e-9 n=1.7 eg=0.69 xti=2 rs=3 trs1=5m trs2=1e-5", 85): ([-8.999992, -0.9999922, 0.454949, 0.5463849], [1, 1, 0.5387771, 0.1739675]),
    ("is=1e-12 bv=6 ibv=1m tcv=-2m cjo=5p", -40): ([-5.86297, -1, 0.4999803, 0.6758007], [0.006363805, 0.9997695, 0.9981845, 0.1392388]),
    ("is=1e-12 bv=6 ibv=1m tcv=-2m cjo=5p", 85): ([-6.12262, -0.9999997, 0.3973762, 0.436416], [0.01061224, 0.9997442, 0.2311947, 0.07824313]),
    ("is=1e-12 bv=6 ibv=1m tcv=1m tlev=1 nbv=1.5", -40): ([-6.507523, -1, 0.4999803, 0.6758007], [0.01194672, 1, 0.9990224, 0.1392419]),
    ("is=1e-12 bv=6 ibv=1m tcv=1m tlev=1 nbv=1.5", 85): ([-5.784079, -0.9999997, 0.3973762, 0.436416], [0.01419111, 1, 0.2312058, 0.07824359]),
    ("is=1e-14 ikf=5m tnom=50 tt=2n", -40): ([-9, -1, 0.4999999, 0.7692924], [1, 1, 0.9999975, 0.4047134]),
    ("is=1e-14 ikf=5m tnom=50 tt=2n", 85): ([-9, -1, 0.4941807, 0.6072116], [1, 1, 0.8436022, 0.1494557]),
    ("is=1e-14 cjo=10p vj=0.7 m=0.4 tt=5n", -40): ([-9, -1, 0.4999998, 0.7500315], [0.9997714, 0.9991276, 0.996723, 0.2864047]),
    ("is=1e-14 cjo=10p vj=0.7 m=0.4 tt=5n", 85): ([-9, -1, 0.4833592, 0.565067], [0.9997573, 0.99899, 0.6475902, 0.1160164]),
    ("is=1e-14 cjo=10p vj=0.9 m=0.33 fc=0.6 tm1=1m ttt1=2m tt=3n tnom=0", -40): ([-9, -1, 0.4998783, 0.6436859], [0.9995757, 0.9988102, 0.9910237, 0.1138565]),
    ("is=1e-14 cjo=10p vj=0.9 m=0.33 fc=0.6 tm1=1m ttt1=2m tt=3n tnom=0", 85): ([-8.999998, -0.9999984, 0.3522037, 0.3841323], [0.9996354, 0.9987674, 0.1726548, 0.06906197]),
    ("is=1e-14 cjo=10p tlevc=1 cta=1m tpb=1m", -40): ([-9, -1, 0.4999998, 0.7500315], [0.9998179, 0.9991142, 0.9967724, 0.2866565]),
    ("is=1e-14 cjo=10p tlevc=1 cta=1m tpb=1m", 85): ([-9, -1, 0.4833592, 0.565067], [0.9997907, 0.9989299, 0.6484542, 0.1161069]),
}


def through_resistors(model, volts, options=TIGHT):
    """One diode for each voltage, behind 1 kOhm."""
    rows = [f"V{k} a{k} 0 DC {v} AC 1\nR{k} a{k} b{k} 1k\nD{k} b{k} 0 dm" for k, v in enumerate(volts)]
    return "\n".join([*rows, f".model dm d({model})", options])


def voltages(circuit, count):
    v = circuit.op()
    return [v[f"b{k}"] for k in range(count)]


@pytest.mark.native
@pytest.mark.parametrize("model", IV)
def test_currents(model, deck):
    """For IBV < IS BV / Vt breakdown begins at BV itself. A wrong rule shifts the breakdown voltage by volts."""
    assert np.allclose(voltages(deck(through_resistors(model, VOLTS)), len(VOLTS)), IV[model], rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("model, celsius", HOT)
def test_temperatures(model, celsius, deck):
    """kT/q of CODATA 2014 and of 2019 differ by 3e-7."""
    expected, small = HOT[model, celsius]
    circuit = deck(through_resistors(model, HOT_VOLTS, f"{TIGHT} temp={celsius} tnom=40"))
    assert np.allclose(voltages(circuit, 4), expected, rtol=3e-6, atol=1e-9)
    w = circuit.ac("lin", 1, 1e6, 1e6)
    assert np.allclose([w[f"vm(b{k})"][0] for k in range(4)], small, rtol=1e-5)


def test_a_knee_current(deck):
    """At 1.2 V, 1.2 mA: ten times the knee current more than without it."""
    v = deck("V1 a 0 2\nR1 a n 10\nD1 n 0 dm\n.model dm d(is=1e-12 ikf=1m)").op()
    assert v["n"] == pytest.approx(0.7847360627723, rel=2e-5)


def test_breakdown_with_areas_and_multiples(deck):
    """IBV does not depend on the area; M diodes in parallel have M IBV. Numbers of ngspice 39."""
    for instance, volt in (("area=10", -6.15535637), ("m=10", -6.09786494), ("area=5 m=2", -6.13805142)):
        v = deck(f"V1 a 0 -9\nR1 a b 10\nD1 b 0 dm {instance}\n.model dm d(is=1e-14 bv=5.9 ibv=1m rs=2 ikr=5m)\n{TIGHT}").op()
        assert v["b"] == pytest.approx(volt, rel=1e-6)


def test_a_temperature_of_its_own(deck):
    """temp= and dtemp= of a diode, compared with one at the temperature of the deck."""
    text = "V1 a 0 5\nR1 a b 1k\nD1 b 0 dm {}\n.model dm d(is=1e-14)\n{}"
    hot = deck(text.format("", ".temp 85")).op()["b"]
    assert deck(text.format("temp=85", "")).op()["b"] == pytest.approx(hot, rel=1e-9)
    assert deck(text.format("dtemp=58", "")).op()["b"] == pytest.approx(hot, rel=1e-9) and hot < deck(text.format("", "")).op()["b"] - 0.05
    thermal = VOLT_PER_KELVIN * 358.15
    saturation = 1e-14 * np.exp((358.15 / 300.15 - 1) * 1.11 / thermal + 3 * np.log(358.15 / 300.15))
    assert saturation * np.expm1(hot / thermal) == pytest.approx((5 - hot) / 1e3, rel=2e-3)


def test_temperatures_out_of_range(deck):
    with pytest.raises(ms.InvalidInputError, match="deck.sp:3: .*degrees Celsius"):
        deck("V1 a 0 1\nD1 a 0 dm\n.model dm d(bv=5 tcv=1)\n.options temp=80").op()


@pytest.mark.parametrize("bv", [0.5, 3.0, 20.0, 500.0])
@pytest.mark.parametrize("nbv", [None, 2.0])
@each("ibv", [1e-18, 1e-14, 1e-12, 1e-9, 1e-6, 1e-3, 1.0])
def test_the_knee_of_breakdown(ibv, bv, nbv):
    """At -BV the current is IBV, or IS where IBV is less than the leakage IS BV / Vt; it never falls as the voltage falls."""
    d, gmin = devices(n=1.2, bv=bv, ibv=ibv, **{"is": 1e-13}, **({} if nbv is None else {"nbv": nbv})), 1e-12
    v = np.concatenate([[-bv * (1 + 1e-12)], np.linspace(-bv - 1, 0, 2001)])
    many = devices(n=np.full(len(v), 1.2), bv=bv, ibv=ibv, **{"is": 1e-13}, **({} if nbv is None else {"nbv": nbv}))
    current, thermal, edge = many.at(v).current - gmin * v, VOLT_PER_KELVIN * 300.15, knee(1e-13, 1.2 if nbv is None else nbv, bv, ibv)
    if ibv < 1e-13 * bv / thermal:
        assert edge == bv and -current[0] == pytest.approx(1e-13, rel=1e-6)
    else:
        assert -current[0] == pytest.approx(ibv + 1e-13 * (1 - edge / thermal), rel=1e-6)
    assert np.diff(current[1:]).min() >= -1e-6 * 1e-13 - 1e-15 * np.abs(current).max() and len(d) == 1


@pytest.mark.parametrize("model", ["isr=1e-9 nr=2 vj=0.7", "isr=1e-7 nr=1.5 ikf=1m m=0.3", "is=1e-9 n=1.5 isr=1e-8"])
def test_slopes_with_recombination(model):
    """Conductances are the derivatives of the currents, which are continuous at the end of the forward law."""
    words = {key: float(value) for key, value in (word.split("=") for word in model.replace("1m", "1e-3").split())}
    v, h = np.linspace(-1, 0.9, 951), 1e-7
    d = devices(**words | {"eg": np.full(len(v), 1.11)})
    slope = (d.at(v + h).current - d.at(v - h).current) / (2 * h)
    edge = np.abs(v + 3 * words.get("n", 1.0) * VOLT_PER_KELVIN * 300.15) < 2 * h
    law = d.at(v)
    assert np.allclose(slope[~edge], law.conductance[~edge], rtol=1e-4, atol=1e-12) and np.abs(np.diff(law.current)[v[1:] < 0]).max() < 1e-8


@pytest.mark.skipif(not shutil.which("ngspice"), reason="needs ngspice")
@pytest.mark.parametrize("model", ["is=1e-14 isr=1e-9 nr=1.8 vj=0.6 m=0.33 eg=1.2", "is=1e-12 bv=12 ibv=1u rs=2", "is=1e-9 bv=4 ibv=1e-10 nbv=1.5 ikr=1m", "is=1e-7 n=1.1 ikf=0.1m bv=30 ibv=1n", "is=1e-15 n=2 tnom=50 eg=0.8"])
def test_currents_of_ngspice(model, deck, tmp_path):
    volts = np.linspace(-40, 4, 45).tolist()
    text = through_resistors(model, volts, f"{TIGHT} temp=60")
    names = " ".join(f"v(b{k})" for k in range(len(volts)))
    (tmp_path / "other.cir").write_text(f"* t\n{text}\n.control\nset numdgt=12\nop\nprint {names}\n.endc\n.end\n")
    out = subprocess.run(["ngspice", "-b", str(tmp_path / "other.cir")], capture_output=True, text=True).stdout
    expected = [float(line.split("=")[1]) for line in out.splitlines() if line.startswith("v(b")]
    assert np.allclose(voltages(deck(text), len(volts)), expected, rtol=2e-6, atol=1e-9)


def test_diode_models(deck):
    text = "V1 a 0 1\nR1 a 0 1\nD1 a 0 dm\n.model dm d({})"
    with pytest.warns(ms.MeshsolveWarning, match=r"deck.sp:5: the diode parameter 'ttt' of the model 'dm' is unknown and has no effect: did you mean .*'tt'"):
        deck(text.format("ttt=1"))
    assert deck(text.format("tnom=27 xti=3 level=1")).op()["a"] == 1
    for wrong in ("is=1e-320", "rs=1e-200", "cjo=1e300", "is=0", "n=-1", "rs=-1", "m=2", "fc=1", "tlev=2", "nbv=0", "level=2"):
        with pytest.raises(ms.InvalidInputError, match="deck.sp:5: .*(the diode parameter|level=2 of a diode is not supported: use 1)"):
            deck(text.format(wrong))


@each("nbv", [1e-3, 0.05, 0.3, 1, 3])
def test_a_breakdown_sharper_or_softer_than_the_knee(nbv, deck):
    """Limits and tolerances beyond -BV are those of NBV k T / q. Found by the zener models of vendors."""
    c = deck(f"V1 in 0 40 SIN(0 40 1k)\nR1 in out 100\nD1 0 out zen\n.model zen D(is=1e-15 rs=0.1 bv=12 ibv=5m nbv={nbv} cjo=50p)")
    top = 12 + nbv * 0.025865 * np.log(0.278 / 5e-3) + 0.0278
    assert c.op()["out"] == pytest.approx(top, abs=0.02) and c.dc("v1", 0, 40, 4)["out"][-1] == pytest.approx(top, abs=0.02)
    w = c.transient(5e-6, 1e-3)["out"]
    assert w.max() == pytest.approx(top, abs=0.02) and -0.95 < w.min() < -0.87


def test_areas_out_of_range(deck):
    with pytest.raises(ms.InvalidInputError, match="deck.sp:3: the area of d1 must lie between 1e-100 and 1e[+]100, got 1e[+]200"):
        deck("R1 a 0 1\nD1 a 0 dm area=1e200\n.model dm d")


@pytest.mark.parametrize("volt", [-3, -1, 0.7, 2, 20])
def test_a_diode_of_area_3_is_three_in_parallel(volt, deck):
    """Except in breakdown, where IBV does not depend on the area, as in ngspice. The charge in small signals scales as well."""
    text = f"V1 a 0 {volt} AC 1\nR1 a b 10\n{{}}\n.model dm d(rs=5 cjo=10p tt=5n bv=4 ibv=1m)"
    large, three = (deck(text.format(diode)) for diode in ("D1 b 0 dm 3", "D1 b 0 dm\nD2 b 0 dm\nD3 b 0 dm"))
    assert large.op()["b"] == pytest.approx(three.op()["b"], rel=1e-6)
    assert np.allclose(large.ac("lin", 1, 1e8, 1e8)["b"], three.ac("lin", 1, 1e8, 1e8)["b"], rtol=1e-4)


@given(st.floats(-8, 1.2), st.sampled_from([{}, {"bv": 5.0}, {"cjo": 1e-12, "m": 1.0}, {"cjo": 1e-12, "tt": 1e-9, "n": 1.5}, {"cjo": 2e-12, "vj": 0.6, "m": 0.33}]))
def test_slopes_are_the_derivatives(v, parameters):
    d, h = devices(**parameters), 1e-6
    at, low, high = (d.at(np.array([x])) for x in (v, v - h, v + h))
    assert np.allclose((high.current - low.current) / (2 * h), at.conductance, rtol=1e-4, atol=1e-10)
    assert np.allclose((high.charge - low.charge) / (2 * h), at.capacitance, rtol=1e-4, atol=1e-20)


def test_breakdown_draws_its_current_at_its_voltage():
    assert devices(bv=5.0, ibv=1e-3).at(np.array([-5.0])).current == pytest.approx(-1e-3, rel=1e-6)


def test_diodes_with_and_without_breakdown_in_one_deck(deck):
    models = ".model zener d(is=1e-14 bv=5)\n.model plain d(is=1e-14)"
    v = deck(f"V1 a 0 8\nR1 a b 1k\nD1 0 b zener\nD2 c b plain\nR2 c 0 1k\n{models}").op()
    assert v["b"] == pytest.approx(5 + 0.02585 * np.log(3), abs=1e-3) and abs(v["c"]) < 1e-8
