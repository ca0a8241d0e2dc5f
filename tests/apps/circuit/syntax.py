"""Decks in every supported syntax, with the voltage of node n at rest in ngspice 39."""

I = "I1 0 n 1\n"
V = "V1 a 0 2\nV2 b 0 3\n"
R = "\nRn n 0 1"
LOADS = R + "\nRa a 0 1\nRb b 0 1"
SHEET = "\n.model rm r(rsh=50 "


def hot(line):
    """A line at 50 degrees with a current source of 1 A."""
    return f".temp 50\n{I}{line}"


def sub(call, head, body, rest=""):
    """A subcircuit, its call and the elements around it."""
    return f"{call}\n.subckt {head}\n{body}\n.ends{rest}"


SYNTAX = {
    # numbers
    **{word: (f"{I}R1 n 0 {word}", value) for word, value in {
        "1meg": 1e6, "1mil": 25.4e-6, "10kohm": 1e4, "1e3k": 1e6, "1d3": 1e3, "1eu": 1e-6, "1ek": 1e3, "1e": 1, "1.5e": 1.5, "1.e3": 1e3, "1db": 1, "1mega": 1e6,
        "1mils": 25.4e-6, "1e-3m": 1e-6}.items()},
    # parameters and functions
    "param with blanks": (".param a = 1 + 2\nV1 n 0 {a}" + R, 3), "params on a line": (".param a=1 b=2 c={a+b}\nV1 n 0 {a+b+c}" + R, 6), "param without braces": (".param w=2 l=w*(1+1)\nV1 n 0 l" + R, 4),
    "param in quotes": (".param a='1+2'\nV1 n 0 'a*2'" + R, 6), "braces in braces": (".param a=3\nV1 n 0 {{a}*2}" + R, 6), "param given twice": (".param x=1\n.param x=3\nV1 n 0 {x}" + R, 3),
    "param that compares": (".param a=1 b={a==1 ? 5 : 6}\nV1 n 0 b" + R, 5), "text as param": ('.param s="ab c"\nV1 n 0 1' + R, 1), "continued": ("I1 0 n\n* c\n+ 1\n\n+ m=2" + R, 2),
    "func": (".func f(x,y) {x*y+1}\nV1 n 0 {f(2,3)}" + R, 7), "func =": (".func f(x,y) = {x*y+1}\nV1 n 0 {f(2,3)}" + R, 7), "func in quotes": (".func f(x) 'x+1'\nV1 n 0 {f(2)*3}" + R, 9),
    "func without braces": (".func f(x) x*2\nV1 n 0 {f(1+2)}" + R, 6), "func as param": (".param f(x)={x+1}\nV1 n 0 {f(2)}" + R, 3), "func in func": (".func f(x) {g(x)*2}\n.func g(x) {x+k}\n.param k=5\nV1 n 0 {f(2)}" + R, 14),
    "func hides param": (".param x=100\n.func f(x) {x*2}\nV1 n 0 {f(2)}" + R, 4), "func of nothing": (".func f() {7}\nV1 n 0 {f()}" + R, 7), "func after use": ("V1 n 0 {f(2)}\n.func f(x) {x+1}" + R, 3),
    "func in a subcircuit": (sub("X1 n s", "s i", ".func f(x) {x*5}\nV1 i 0 {f(2)}", R), 10), "func of the deck": (".func f(x) {x*5}\n" + sub("X1 n s", "s i", "V1 i 0 {f(2)}", R), 10),
    "func twice": (".func f(x) {x*5}\n.func f(x) {x*6}\nV1 n 0 {f(2)}" + R, 12),
    **{f"{f}": (f"V1 n 0 {{{f}}}" + R, v) for f, v in {
        "sinh(1)": 1.175201193644, "cosh(1)": 1.543080634815, "asin(0.5)": 0.5235987755983, "acos(0.5)": 1.047197551197, "asinh(2)": 1.443635475179, "acosh(2)": 1.316957896925,
        "atanh(0.5)": 0.5493061443341, "arctan(2)": 1.107148717794, "nint(2.5)": 2, "nint(-2.6)": -3, "sqr(3)": 9, "1 <> 2": 1, "ternary_fcn(0,2,3)": 3}.items()},
    # temperature
    ".temp": (hot("R1 n 0 1k tc1=0.01"), 1230), ".temp=": (f".temp=50\n{I}R1 n 0 1k tc1=0.01", 1230), ".options temp": (f".options temp=50\n{I}R1 n 0 1k tc1=0.01", 1230), "tnom": (f".options tnom=17\n{I}R1 n 0 1k tc1=0.01", 1100),
    ".temp before .options": (f".temp 60\n.options temp=50\n{I}R1 n 0 1k tc1=0.01", 1330), "the last .temp": (f".temp 60\n.temp 50\n{I}R1 n 0 1k tc1=0.01", 1230),
    ".temp of a param": (f".param t=50\n.temp {{t}}\n{I}R1 n 0 1k tc1=0.01", 1230), "tc=": (hot("R1 n 0 1k tc=0.01 1e-4"), 1282.9), "tce": (hot("R1 n 0 1k tce=1 tc1=0.1"), 1257.163018348),
    "temp= of R": (hot("R1 n 0 1k tc1=0.01 temp=37"), 1100), "dtemp= of R": (hot("R1 n 0 1k tc1=0.01 dtemp=10"), 1330), "temper": (hot("R1 n 0 {1k*temper}"), 50e3), "temper in a param": (hot("R1 n 0 {x}\n.param x={1k*temper}"), 50e3),
    "tc of a model": (hot("R1 n 0 rm 1k\n.model rm r(tc1=0.01 tc2=1e-4)"), 1282.9), "tc of line and model": (hot("R1 n 0 rm 1k tc1=0.02\n.model rm r(tc1=0.01 tc2=1e-4)"), 1512.9),
    "tnom of a model": (hot("R1 n 0 rm 1k\n.model rm r(tc1=0.01 tnom=40)"), 1100), "tce of a model": (hot("R1 n 0 rm 1k tc1=0.3\n.model rm r(tce=1)"), 1257.163018348), "a negative factor": (hot("R1 n 0 1k tc1=-0.1"), -1300),
    # resistors
    "r=": (I + "R1 n 0 r={1+2}", 3), "model, value": (I + "R1 n 0 rm 2k\n.model rm r(tc1=0)", 2e3), "value, model": (I + "R1 n 0 2k rm\n.model rm res(r=7)", 2e3), "value of a model": (I + "R1 n 0 rm\n.model rm r(r=7)", 7),
    "sheet": (I + "R1 n 0 rm l=20u w=2u" + SHEET + "r=7)", 500), "narrow": (I + "R1 n 0 rm l=20u w=3u" + SHEET + "narrow=1u)", 1000), "short": (I + "R1 n 0 rm l=20u w=3u" + SHEET + "narrow=1u short=2u)", 800),
    "defw": (I + "R1 n 0 rm l=20u" + SHEET + "defw=4u)", 250), "default width": (I + "R1 n 0 rm l=20u" + SHEET + ")", 100), "default length": (I + "R1 n 0 rm w=2u" + SHEET + ")", 250), "scale": (I + "R1 n 0 1k scale=2 m=4", 500),
    # sources
    "SINE": ("V1 n 0 SINE(2 1 1k)" + R, 2), "m of I": ("I1 0 n 1 m=3\nR1 n 0 2", 6), "m of a waveform": ("I1 0 n PULSE(1 5 1) m=3" + R, 3), "m of G": (V + "G1 0 n a 0 2 m=3" + R, 12), "m of F": (V + "F1 0 n V1 2 m=3" + LOADS, -12),
    "E value": (V + "E1 n 0 value={v(a)*3+v(b)-1}" + R, 8), "E value without =": (V + "E1 n 0 value {v(a)*3}" + R, 6), "E vol": (V + "E1 n 0 vol = v(a)*3 + 1" + R, 7), "E of a difference": (V + "E1 n 0 VALUE = {v(a,b)*3}" + R, -3),
    "E of a current": (V + "E1 n 0 value={i(v1)*3}" + LOADS, -6), "G value": (V + "G1 0 n value={i(v1)*3+v(b)} m=2" + LOADS, -6), "G cur": (V + "G1 0 n cur='v(a)*3'" + R, 6), "E poly": (V + "E1 n 0 POLY(2) (a,0) (b,0) 1 2 3" + R, 14),
    "poly with a constant alone": (V + "E1 n 0 poly(1) a 0 5" + R, 5), "poly with zeros": (V + "E1 n 0 poly(2) a 0 b 0 0 1 1 0 0 0" + R, 5), "poly that ends early": (V + "E1 n 0 poly(2) a 0 b 0 0 4" + R, 8), "G poly": (V + "G1 0 n poly(2) a 0 b 0 0 1 1" + R, 5),
    "F poly": (V + "F1 0 n poly(2) v1 v2 0 2 3" + LOADS, -13), "H poly": (V + "H1 n 0 poly(2) v1 v2 1 2 3" + LOADS, -12), "B of a voltage": (V + "B1 n 0 v=(v(a)+1)*(2+1)/2-v(b)" + R, 1.5), "B of a current": (V + "B1 0 n i=v(a)*3+v(b) m=2" + R, 18),
    "B constant": ("B1 n 0 v=3" + R, 3), "B with tc1": (hot("V1 a 0 2\nB1 q 0 v=v(a)*3 tc1=0.01\nR1 q 0 1\nE1 n 0 q 0 1").replace(I, ""), 7.38), "B with func": (".func f(x) {2*x}\n" + V + "B1 n 0 v={f(v(a))+1}" + R, 5),
    "B of nothing": (V + "B1 n 0 v=v(a)*0" + R, 0), "B that chooses": (V + "B1 n 0 v={1>0 ? v(a) : 0}" + R, 2), "B of many": (V + "B1 n 0 v=v(b)-v(a)*2+i(v1)" + LOADS, -3),
    "B inside": (sub("V1 c 0 5\nX1 c n s k=2", "s a o k=1", "V3 a b 0\nR3 b 0 1\nB1 o 0 v={k*v(b)+i(v3)}", R), 15),
    # subcircuits
    "m of X": (sub("V1 a 0 2\nX1 a n s m=2", "s i o", "R1 i o 1", "\nR2 n 0 1"), 4 / 3), "m of X, current": (sub("X1 n s m=2", "s i", "I1 0 i 1", R), 2), "m of X, E": (sub("V1 a 0 2\nX1 a n s m=2", "s i o", "E1 o 0 i 0 3", R), 6),
    "m of X, G": (sub("V1 a 0 2\nX1 a n s m=2", "s i o", "G1 0 o i 0 3", R), 12), "m of X, D": (sub("V1 a 0 2\nX1 a n s m=2", "s i o", "D1 i o dm", "\nR2 n 0 1\n.model dm d"), 1.179863608923), "m as a parameter": (sub("X1 n s m=2", "s i m=1", "I1 0 i {m}", R), 2),
    "GND as a port": (sub("V1 a 0 2\nX1 a n 0 s", "s i o GND", "R1 i o 1\nR2 o gnd 1"), 1), "port 0 at another node": (sub("V1 a 0 2\nV2 q 0 1\nX1 a n q s", "s i o 0", "R1 i o 1\nR2 o 0 1"), 1), "two ground ports": (sub("V1 a 0 2\nX1 a n 0 0 s", "s i o 0 gnd", "R1 i o 1\nR2 o 0 1"), 1),
    "a pin without a connection": (sub("V1 1 0 1\nR1 1 n 1\nR3 n 0 1\nX1 n nc s", "s a c", "R2 a 0 1"), 1 / 3), "defined twice": (sub("X1 n s", "s a", "V1 a 0 1") + "\n.subckt s a\nV1 a 0 2\n.ends" + R, 1),
    "model twice": (I + "R1 n 0 rm\n.model rm r(r=3)\n.model rm r(r=4)", 3), "values of X": (".param q=2\n" + sub("X1 n s params: v = q+1", "s a params: v=1", "V1 a 0 {v}", R), 3), ".ends of another name": (sub("X1 n s", "s a", "V1 a 0 2", " t" + R), 2),
}
# As SYNTAX, for decks that ngspice 39 rejects or reads wrongly: m= of X is the number of copies in parallel, also for nested instances and for
# controlled sources inside.
OURS = {
    "blanks between several": (".param a=1 b=2 c = a + b\nV1 n 0 {a+b+c}" + R, 6),
    ".backanno": (".backanno\nV1 n 0 1" + R, 1), "commas in .param": (".param a=1,b=2\nV1 n 0 {a+b}" + R, 3), "2d-3k": (I + "R1 n 0 2d-3k", 2),
    ".tran 0 stop": (".tran 0 1m\nV1 n 0 1" + R, 1), ".tran stop": (".tran 1m\nV1 n 0 1" + R, 1), "tc=a,b": (hot("R1 n 0 1k tc=0.01,1e-4"), 1282.9), "param that chooses": (".param a = 1 b = a>0 ? 5 : 6\nV1 n 0 {b}" + R, 5),
    "m of X and I": (sub("X1 n s m=2", "s i", "I1 0 i 1 m=3", R), 6), "m of X in X": (sub("X1 n t m=2", "t i", "X1 i s m=3") + "\n.subckt s i\nI1 0 i 1\n.ends" + R, 6), "m of X, F": (sub("V1 a 0 2\nX1 a n s m=2", "s i o", "Vs i x 0\nR1 x 0 1\nF1 0 o Vs 1", R), 4),
    "m of X, H": (sub("V1 a 0 2\nX1 a n s m=2", "s i o", "Vs i x 0\nR1 x 0 1\nH1 o 0 Vs 1", R), 2),
}
