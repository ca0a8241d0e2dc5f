"""Smoothing, pictures, the viewer, circuits, generated problems."""

import numpy as np

import meshsolve as ms
from hostile.material import sphere, without_cupy, without_polyscope, written
from hostile.row import bad


def circuit(tmp, text="V1 a 0 1\nR1 a 0 1"):
    return ms.apps.circuit.read(written(tmp, "deck.sp", f"title\n{text}\n.end\n"))


ROWS = [
    bad("apps.mcf", "`steps` below 1", "steps must be an integer from 1", lambda tmp: (ms.apps.mcf, (sphere(),), {"steps": 0})),
    bad("apps.mcf", "`dt` not positive", "dt must be a finite number above 0", lambda tmp: (ms.apps.mcf, (sphere(),), {"dt": 0.0})),
    bad("apps.mcf", "a callback that cannot be called", "callback must be a function", lambda tmp: (ms.apps.mcf, (sphere(),), {"callback": 3})),
    bad("apps.mcf", "a mesh without area", "no face with an area", lambda tmp: (ms.apps.mcf, (ms.Mesh(np.zeros((3, 3)), [[0, 1, 2]]),), {})),
    bad("apps.mcf", "a step in which the surface vanishes", "shrank to nothing in step 1", lambda tmp: (ms.apps.mcf, (sphere(),), {"dt": 1e20}), ms.MeshsolveWarning),
    bad("apps.mcf", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.apps.mcf), (sphere(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("apps.mcf", "unknown device", "device must be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.apps.mcf, (sphere(),), {"device": "gpu"})),
    bad("apps.smooth", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.apps.smooth), (sphere(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("apps.smooth", "unknown device", "device must be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.apps.smooth, (sphere(),), {"device": "gpu"})),
    bad("apps.smooth", "a negative strength", "strength must be a finite number of at least 0", lambda tmp: (ms.apps.smooth, (sphere(), -1), {})),
    bad("apps.smooth", "another order than 1 or 2", "order must be one of 1, 2", lambda tmp: (ms.apps.smooth, (sphere(), 1, 3), {})),
    bad("operators.Assembly", "an index outside the matrix", "rows[1] is 5; it must be from 0 to 2", lambda tmp: (ms.operators.Assembly, ([0, 5], [0, 1], 3), {})),
    bad("operators.Assembly", "values of another shape", "values must be numbers of shape (1,)", lambda tmp: (ms.operators.Assembly([0], [0], 3), ([1.0, 2.0],), {})),
    bad("operators.NormalEquations", "an entry outside the planned pattern", "J has an entry at row 0, column 1", lambda tmp: (ms.operators.NormalEquations(np.eye(2)), (np.ones((2, 2)),), {})),
    bad("operators.NormalEquations", "weights of another length", "weights must be (2,) real numbers", lambda tmp: (ms.operators.NormalEquations(np.eye(2)), (np.eye(2), [1.0]), {})),
    bad("apps.render", "another extension than .png", "written as .png", lambda tmp: (ms.apps.render, (tmp / "a.jpg", sphere()), {})),
    bad("apps.render", "values of another length, or none that is finite", "values must be one number for each of", lambda tmp: (ms.apps.render, (tmp / "a.png", sphere()), {"values": [1.0]})),
    bad("apps.render", "an unknown colormap", "colormap must be one of matplotlib's", lambda tmp: (ms.apps.render, (tmp / "a.png", sphere()), {"values": sphere().vertices[:, 0], "colormap": "plain"})),
    bad("apps.render", "a size outside 300..4000", "size must be an integer from 300 to 4000", lambda tmp: (ms.apps.render, (tmp / "a.png", sphere()), {"size": 10})),
    bad("apps.view", "an unknown `show`", "show must be one of 'plain', 'patches'", lambda tmp: (ms.apps.view, (sphere(),), {"show": "all"})),
    bad("apps.view", "a mesh without faces", "no faces: the viewer needs a surface", lambda tmp: (ms.apps.view, (ms.Mesh(np.eye(3), []),), {})),
    bad("apps.view", "a `screenshot` that is not a .png", "pictures are written as .png", lambda tmp: (ms.apps.view, (sphere(),), {"screenshot": tmp / "a.jpg"})),
    bad("apps.view", "a `turntable` in a folder that does not exist", "the folder cannot be created", lambda tmp: (ms.apps.view, (sphere(),), {"turntable": tmp / "no" / "turn"})),
    bad("apps.view", "a picture of the separators of a mesh without separators", "no separators: meshes below 5,000 vertices", lambda tmp: (ms.apps.view, (sphere(), "separators", tmp / "a.png"), {})),
    bad("apps.view", "fewer than two `frames`", "frames must be an integer from 2", lambda tmp: (ms.apps.view, (sphere(),), {"frames": 1})),
    bad("apps.view", "no polyscope", "the viewer needs polyscope", lambda tmp: (without_polyscope(ms.apps.view), (sphere(),), {}), ms.DeviceUnavailableError),
    *[bad("apps.circuit.read", given, says, lambda tmp, t=text: (ms.apps.circuit.read, (written(tmp, "deck.sp", t),), {})) for given, says, text in [
        ("an empty file", "deck.sp:1: the file is empty", ""),
        ("a file that is no text", "deck.sp:1: this is not a text file", "a\0b\n.end\n"),
        ("a `.subckt` without `.ends`", "deck.sp:2: .subckt s has no .ends: was the file cut?", "title\n.subckt s a\nR1 a 0 1\n.end\n"),
        ("a value that is no number", "deck.sp:2: 'abc' is neither a number nor a parameter", "title\nR1 a 0 abc\n.end\n"),
        ("elements of other kinds (M, Q, S, ...), each with its number and first line", "deck.sp:2: the deck has unsupported elements or lines: Q elements (bipolar transistors): 1, the first is 'q1' in ", "title\nQ1 a b c mod\n.end\n"),
        ("a name used twice", "deck.sp:3: there is already an element 'r1', in", "title\nR1 a 0 1\nR1 a 0 2\n.end\n"),
        ("a model, subcircuit, source or parameter that is not there", "deck.sp:2: there is no model 'dm'", "title\nD1 a 0 dm\n.end\n"),
        ("files that include each other, subcircuits or parameters that contain themselves", "deck.sp:2: ", "title\n.include deck.sp\n.end\n"),
        ("an option without a value, several temperatures", "deck.sp:2: .temp takes one temperature", "title\n.temp 20 50\nR1 a 0 1\n.end\n"),
        ("a control line that is not supported, each kind with its first line", "deck.sp:3: the deck has unsupported elements or lines: .if lines: 1, the first is '.if' in ", "title\nR1 a 0 1\n.if (1)\n.endif\n.end\n"),
        ("no element", "no element between two nodes", "title\n.end\n"),
    ]],
    bad("apps.circuit.read", "no `.end`", "deck.sp:2: the file ends without .end", lambda tmp: (ms.apps.circuit.read, (written(tmp, "deck.sp", "title\nR1 a 0 1\n"),), {}), ms.MeshsolveWarning),
    bad("apps.circuit.read", "a deck cut within a line", "deck.sp:2: the file ends within a line and without .end: was it cut?", lambda tmp: (ms.apps.circuit.read, (written(tmp, "deck.sp", "title\nR1 a 0 1.2"),), {}), ms.MeshsolveWarning),
    bad("apps.circuit.read", "a first line, the title in SPICE, that reads as an element", "has the form of an element and is read as one", lambda tmp: (ms.apps.circuit.read, (written(tmp, "deck.sp", "R1 a 0 1\nR2 a 0 1\n.end\n"),), {}), ms.MeshsolveWarning),
    bad("apps.circuit.read", "a file that does not exist", "no such file", lambda tmp: (ms.apps.circuit.read, (tmp / "none.sp",), {})),
    bad("apps.circuit.read", "a deck instead of its path", "the path of a deck must not contain line breaks", lambda tmp: (ms.apps.circuit.read, ("title\nR1 a 0 1\n.end\n",), {})),
    bad("apps.circuit.parse", "a parameter that the deck does not have", "there is no parameter 'p'", lambda tmp: (ms.apps.circuit.parse, ("title\nR1 a 0 1\n.end\n",), {"params": {"p": 1.0}})),
    bad("Circuit.with_values", "an unknown element", "there is no element 'r9'", lambda tmp: (circuit(tmp).with_values, ({"r9": 1.0},), {})),
    bad("Circuit.with_values", "NaN, infinity, text", "the value of r1 must be a finite number", lambda tmp: (circuit(tmp).with_values, ({"r1": np.nan},), {})),
    bad("Circuit.with_values", "a resistor of 0 ohm", "r1 cannot be 0", lambda tmp: (circuit(tmp).with_values, ({"r1": 0.0},), {})),
    bad("Circuit.op", "an unknown node", "there is no node 'b'", lambda tmp: (circuit(tmp).op, (), {"nodes": ["b"]})),
    bad("Circuit.op", "a node without a path for a direct current to ground", "deck.sp:3: node b has no path", lambda tmp: (circuit(tmp, "R1 a 0 1\nC1 a b 1").op, (), {}), ms.SingularMatrixError, index=1),
    bad("Circuit.op", "a loop of voltage sources and inductors", "v2 and v1 form a loop", lambda tmp: (circuit(tmp, "V1 a 0 1\nV2 a 0 1").op, (), {}), ms.SingularMatrixError, index=0),
    bad("Circuit.op", "no node is ground", "no element is connected to ground", lambda tmp: (circuit(tmp, "V1 a b 1\nR1 a b 1").op, (), {})),
    bad("Circuit.transient", "a time that is not positive", "tstep must be a finite number above 0", lambda tmp: (circuit(tmp).transient, (0, 1), {})),
    bad("Circuit.transient", "an unknown method", "method must be one of", lambda tmp: (circuit(tmp).transient, (1, 2), {"method": "gear"})),
    bad("Circuit.transient", "an unknown node", "there is no node 'b'", lambda tmp: (circuit(tmp).transient, (1, 2), {"nodes": ["b"]})),
    bad("Circuit.ac", "frequencies that are not positive or do not ascend", "fstart must be a finite number above 0", lambda tmp: (circuit(tmp).ac, ("dec", 1, 0, 1), {})),
    bad("Circuit.dc", "an unknown source", "there is no source 'v9'", lambda tmp: (circuit(tmp).dc, ("v9", 0, 1, 1), {})),
    bad("Circuit.run", "an analysis that the deck does not have", "the deck has no .ac line", lambda tmp: (circuit(tmp).run, ("ac",), {})),
    bad("showing_progress", "what cannot be called", "callback must be a function", lambda tmp: (lambda tell: ms.showing_progress(tell).__enter__(), (3,), {})),
    bad("datasets.load_matrix", "no such file, or a folder", "no such file", lambda tmp: (ms.datasets.load_matrix, (tmp / "none.mtx",), {})),
    bad("datasets.load_matrix", "an unknown suffix", "unknown matrix format", lambda tmp: (ms.datasets.load_matrix, (written(tmp, "A.txt", "1"),), {})),
    bad("datasets.load_matrix", "a file cut in half", "A.mtx:", lambda tmp: (ms.datasets.load_matrix, (written(tmp, "A.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n"),), {})),
    bad("datasets.*", "a size that is not a positive integer", "nx must be an integer from 1", lambda tmp: (ms.datasets.grid2d, (0, 5), {})),
    bad("datasets.*", "more rows than 2^31 - 2", "at most 2,147,483,646", lambda tmp: (ms.datasets.grid2d, (10**6, 10**6), {})),
    bad("datasets.*", "more than fits into memory", "GiB are available", lambda tmp: (ms.datasets.grid2d, (46_000, 46_000), {}), ms.OutOfMemoryError),
    bad("datasets.*", "unknown kind or boundary", "kind must be one of", lambda tmp: (ms.datasets.grid3d, (4, "random"), {})),
    bad("datasets.*", "a seed that is not an integer of at least 0", "seed must be an integer", lambda tmp: (ms.datasets.delaunay, (10, -1), {})),
    bad("datasets.kkt", "more constraints than unknowns", "m must be at most n, got 4", lambda tmp: (ms.datasets.kkt, (3, 4), {})),
    bad("datasets.icosphere", "k above 11", "k must be an integer from 0 to 11", lambda tmp: (ms.datasets.icosphere, (12,), {})),
]
