"""Attacks on the files of meshes: what other programs write, round trips, damaged bytes."""

import pathlib
import tempfile
import time

import numpy as np
from mesh import by_hand

import meshsolve as ms
from campaigns.table import attack, well_posed

PLAIN = ["t", "größe", "a b", "p<0.05", "R&D"]            # names that every format can hold
UNJOINED = [name for name in by_hand.NAMES if name != "T_0"]


def load(content, suffix):
    """The mesh of bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"a{suffix}"
        path.write_bytes(content)
        return ms.load_mesh(path)


def saved(mesh, suffix):
    """The bytes of a file of a mesh."""
    with tempfile.TemporaryDirectory() as folder:
        mesh.save(pathlib.Path(folder) / f"a{suffix}")
        return (pathlib.Path(folder) / f"a{suffix}").read_bytes()


def same(mesh, c, faces, parent, point_data, cell_data, points=None):
    """Assert that a mesh holds a case."""
    assert np.array_equal(mesh.vertices, c.points if points is None else points)
    assert np.array_equal(mesh.faces, faces), f"faces {mesh.faces.tolist()} for {faces.tolist()}"
    for got, wanted, rows in ((mesh.vertex_data, point_data, slice(None)), (mesh.face_data, cell_data, parent)):
        for name, x in wanted.items():
            assert name in got, f"{name!r} is missing, found {list(got)}"
            assert np.array_equal(got[name], x[rows], equal_nan=x.dtype.kind == "f"), f"{name!r}: {got[name]} for {x[rows]}"


@attack("load_mesh", quick=60)
def vtk_xml(rng):
    """VTU and VTP in text, base64 and raw bytes, compressed or not, both orders of bytes, several pieces. Oracle: what was written."""
    kind, form = str(rng.choice(["vtu", "vtp"])), str(rng.choice(["ascii", "binary", "raw", "base64"]))
    kinds = [by_hand.VERTEX, by_hand.LINE, by_hand.TRIANGLE, by_hand.STRIP, by_hand.POLYGON]
    c = by_hand.case(rng, kinds + [by_hand.QUAD, by_hand.TRIANGLE6, by_hand.QUAD8] * (kind == "vtu"))
    pieces = int(rng.integers(1, 3)) if kind == "vtu" else 1
    if kind == "vtp":
        c = by_hand.as_polydata(c)
    compressor = str(rng.choice(["", "vtkZLibDataCompressor", "vtkLZMADataCompressor"]))
    content = by_hand.vtk_xml(c, kind, form, compressor, str(rng.choice(["UInt32", "UInt64"])), str(rng.choice(["<", ">"])), pieces)
    with well_posed(f"{kind} {form} {compressor}"):
        mesh = load(content, f".{kind}")
    faces, parent = c.faces()
    shift = np.repeat(np.arange(pieces), [len(part) for part in np.array_split(np.arange(len(c.cells)), pieces)])[parent] * len(c.points)
    same(mesh, c, faces + shift[:, None], parent, {name: np.concatenate([x] * pieces) for name, x in c.point_data.items()}, c.cell_data,
         np.tile(c.points, (pieces, 1)))


@attack("load_mesh", quick=60)
def vtk(rng):
    """Legacy VTK of versions 3.0 and 5.1, text and binary, grids and surfaces, fields and scalars. Oracle: what was written."""
    dataset = str(rng.choice(["UNSTRUCTURED_GRID", "POLYDATA"]))
    kinds = [by_hand.VERTEX, by_hand.LINE, by_hand.TRIANGLE, by_hand.STRIP, by_hand.POLYGON]
    c = by_hand.case(rng, kinds + [by_hand.QUAD, by_hand.QUAD8] * (dataset == "UNSTRUCTURED_GRID"))
    if dataset == "POLYDATA":
        c = by_hand.as_polydata(c)
    content = by_hand.vtk(c, bool(rng.integers(2)), float(rng.choice([3.0, 5.1])), dataset)
    if rng.integers(2) and b"BINARY" not in content:
        content = content.replace(b"\n", b"\r\n")
    with well_posed(dataset):
        mesh = load(content, ".vtk")
    same(mesh, c, *c.faces(), c.point_data, c.cell_data)


@attack("load_mesh", quick=60)
def msh(rng):
    """MSH 2.2, 4.0 and 4.1, text and binary: nodes, elements and rows in any order, tags with gaps, missing rows. Oracle: what was written."""
    c = by_hand.case(rng, [by_hand.VERTEX, by_hand.LINE, by_hand.TRIANGLE, by_hand.QUAD, by_hand.TRIANGLE6, by_hand.QUAD8], ("f8",),
                     [name for name in UNJOINED if "\n" not in name])
    version, binary = float(rng.choice([2.2, 4.0, 4.1])), bool(rng.integers(2))
    size = int(rng.choice([4, 8])) if version == 4.1 else 8
    content, place, sequence, points, cells, physical, entity = by_hand.msh(c, rng, version, binary, str(rng.choice(["<", ">"])), size)
    with well_posed(f"version {version}, binary {binary}"):
        mesh = load(content, ".msh")
    number = np.argsort(place)                              # vertex of each node
    at = by_hand.Case(c.points[place], [c.kinds[k] for k in sequence], [number[c.cells[k]].tolist() for k in sequence],
                      {name: x[place] for name, x in points.items()}, {name: x[sequence] for name, x in cells.items()})
    same(mesh, at, *at.faces(), at.point_data, at.cell_data | {"gmsh:physical": physical[sequence], "gmsh:geometrical": entity[sequence]})


@attack("Mesh.save", "load_mesh", quick=60)
def round_trip(rng):
    """Every format that holds all data: names, types, columns, rounding units, empty meshes but for one face. Oracle: the mesh itself."""
    suffix = str(rng.choice([".vtu", ".vtp", ".vtk", ".msh", ".ply"]))
    names = [name for name in UNJOINED if suffix in (".vtu", ".vtp", ".vtk") or not set(name) & set(' "\n')]
    c = by_hand.case(rng, [by_hand.TRIANGLE], names=names)
    x = c.points * 10.0 ** rng.integers(-60, 60) + rng.choice([0, 1e6])
    mesh = ms.Mesh(x, c.cells, vertex_data=c.point_data, face_data=c.cell_data)
    with tempfile.TemporaryDirectory() as folder, well_posed(suffix):
        path = pathlib.Path(folder) / f"a{suffix}"
        mesh.save(path)
        again = ms.load_mesh(path)
        again.save(path)
        twice = ms.load_mesh(path)
    for other in (again, twice):
        assert np.array_equal(other.vertices, x) and np.array_equal(other.faces, mesh.faces)
        for got, wanted in ((other.vertex_data, mesh.vertex_data), (other.face_data, mesh.face_data)):
            assert set(got) == set(wanted), f"{list(got)} for {list(wanted)}"
            for name, values in wanted.items():
                exact = suffix != ".msh" or values.dtype.kind == "f" or abs(values.astype(float)).max() < 2**53
                assert np.array_equal(got[name], values) or not exact, f"{suffix}: {name!r}"
                assert suffix in (".vtk", ".msh", ".ply") or got[name].dtype == values.dtype, f"{suffix}: {name!r} as {got[name].dtype}"


@attack("load_mesh", quick=150)
def damaged(rng):
    """Bytes of a file changed, cut, doubled, numbers replaced by huge ones. An error of meshsolve or a mesh, within a second."""
    suffix, c = str(rng.choice([".vtu", ".vtp", ".vtk", ".msh"] * 3 + [".ply", ".off", ".obj", ".stl", ".glb"])), by_hand.case(
        rng, [by_hand.TRIANGLE], ("f8", "i4"), PLAIN)
    if suffix in (".ply", ".off", ".obj", ".stl", ".glb"):
        data = {"color": rng.random((len(c.points), 3)), "uv": rng.random((len(c.points), 2))}
        content = saved(ms.Mesh(c.points, c.cells, vertex_data=data), suffix)
    elif suffix == ".msh":
        content = by_hand.msh(c, rng, float(rng.choice([2.2, 4.0, 4.1])), bool(rng.integers(2)))[0]
    elif suffix == ".vtk":
        content = by_hand.vtk(c, bool(rng.integers(2)), float(rng.choice([3.0, 5.1])), str(rng.choice(["UNSTRUCTURED_GRID", "POLYDATA"])))
    else:
        content = by_hand.vtk_xml(c, suffix[1:], str(rng.choice(["ascii", "binary", "raw", "base64"])),
                                  str(rng.choice(["", "vtkZLibDataCompressor", "vtkLZMADataCompressor"])))
    content = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at, how = int(rng.integers(len(content))), int(rng.integers(5))
        if how == 0:
            content[at] = int(rng.integers(256))
        elif how == 1:
            del content[at:at + int(rng.integers(1, 40))]
        elif how == 2:
            content[at:at] = content[at:at + 20]
        elif how == 3:
            digits = [k for k, b in enumerate(content) if 48 <= b < 58]
            k = int(rng.choice(digits)) if digits else at
            content[k:k + 1] = str(rng.choice(["-1", "0", "99999999", "9999999999999999", "99999999999999999999", "nan", "1e300", "1" * 5000])).encode()
        else:
            del content[at:]
        if not content:
            break
    begin = time.monotonic()
    try:
        load(bytes(content), suffix)
    finally:
        seconds = time.monotonic() - begin
        assert seconds < 5, f"{len(content)} bytes took {seconds:.1f} s"


@attack("load_mesh", quick=60)
def off(rng):
    """OFF in free format: numbers spread over lines, comments, letters of the header, colors of faces. Oracle: what was written."""
    c = by_hand.case(rng, [by_hand.TRIANGLE, by_hand.QUAD, by_hand.POLYGON])
    letters = "".join(letter for letter in ("ST", "C", "N") if rng.random() < 0.3)
    numbers = {"N": 3, "C": 4, "ST": 2}
    color, uv = rng.random((len(c.points), 4)), rng.random((len(c.points), 2))
    color[:, 3] = 1
    rows = [[*x, *([0, 0, 1] if "N" in letters else []), *(color[k] if "C" in letters else []), *(uv[k] if "ST" in letters else [])]
            for k, x in enumerate(c.points)]
    assert all(len(row) == 3 + sum(width for letter, width in numbers.items() if letter in letters) for row in rows)
    rows += [[len(cell), *cell] for cell in c.cells]
    free = bool(rng.integers(2))
    blanks = [" ", "\t", "\n", " # a comment\n", "\n\n", "\r\n"] if free else [" "]
    text = f"{letters}OFF\n{len(c.points)} {len(c.cells)} 0\n"
    for k, row in enumerate(rows):
        text += "".join(f"{float(x)!r}" * (k < len(c.points)) + f"{x}" * (k >= len(c.points)) + str(rng.choice(blanks)) for x in row)
        text += "" if free else " 255 0 0\n" if k >= len(c.points) and rng.integers(2) else "\n"
    with well_posed(text):
        mesh = load(text.encode(), ".off")
    same(mesh, c, *c.faces(), {"color": color[:, :3]} if "C" in letters else {}, {})
    assert "ST" not in letters or np.array_equal(mesh.vertex_data["uv"][np.unique(mesh.faces)], uv[np.unique(mesh.faces)])


@attack("load_mesh", quick=60)
def ply(rng):
    """PLY of three encodings: data of all types, lists, other elements, something behind the rows. Oracle: what was written."""
    c = by_hand.case(rng, [by_hand.TRIANGLE, by_hand.POLYGON], names=["t", "q", "größe"])
    form, behind = str(rng.choice(["ascii", "binary_little_endian", "binary_big_endian"])), bytes(rng.choice([b"", b"\n", b"\0\0", b"\n9 9 9\n"]))
    order = ">" if form.endswith("big_endian") else "<"
    types = {"i1": "char", "u1": "uint8", "i2": "short", "u2": "uint16", "i4": "int", "u4": "uint", "i8": "int64", "u8": "uint64", "f4": "float", "f8": "double"}
    columns = {kind: [(f"{name}_{k}" if x.ndim > 1 else name, column) for name, x in data.items() for k, column in enumerate(x.reshape(len(x), -1).T)]
               for kind, data in (("vertex", c.point_data), ("face", c.cell_data))}
    head = [f"ply\nformat {form} 1.0\ncomment by hand", "element extra 2", "property list uchar short odd", f"element vertex {len(c.points)}"]
    head += [f"property {types[x.dtype.str[1:]]} {name}" for name, x in (*zip("xyz", c.points.T), *columns["vertex"])]
    head += [f"element face {len(c.cells)}", "property list uchar int vertex_indices", *(f"property {types[x.dtype.str[1:]]} {name}" for name, x in columns["face"])]
    rows = [[("u1", [2]), ("i2", [7, 8])], [("u1", [0])]]
    rows += [[("f8", x), *((v.dtype.str[1:], [v[k]]) for _, v in columns["vertex"])] for k, x in enumerate(c.points)]
    rows += [[("u1", [len(cell)]), ("i4", cell), *((v.dtype.str[1:], [v[k]]) for _, v in columns["face"])] for k, cell in enumerate(c.cells)]
    if form == "ascii":
        body = "".join(" ".join(by_hand.words(np.array(v)) for _, v in row) + "\n" for row in rows).encode()
    else:
        body = b"".join(np.array(v).astype(np.dtype(t).newbyteorder(order)).tobytes() for row in rows for t, v in row)
    with well_posed(form):
        mesh = load("\n".join([*head, "end_header\n"]).encode() + body + behind, ".ply")
    exact = {kind: {name: x for name, x in data.items() if form != "ascii" or x.dtype.kind == "f" or x.itemsize < 8}
             for kind, data in (("vertex", c.point_data), ("face", c.cell_data))}
    same(mesh, c, *c.faces(), exact["vertex"], exact["face"])


@attack("Mesh.save", "load_mesh", "Mesh.from_trimesh", "Mesh.to_trimesh", quick=30)
def peers(rng):
    """Our files read by trimesh and meshio, theirs by us: positions, faces, colors, data. Oracle: the other program.

    Version 4.0 of MSH is left out: meshio numbers its elements from 0 and the rows of their data from 1.
    """
    import meshio
    import trimesh

    c = by_hand.case(rng, [by_hand.TRIANGLE], ("f8", "i4"), ["t", "q"])
    color = rng.integers(0, 256, (len(c.points), 4)).astype(str(rng.choice(["u1", "i4", "i8", "u2"])))
    mesh = ms.Mesh(c.points, c.cells, vertex_data={"t": c.points[:, 0], "color": color}, face_data={"part": np.arange(len(c.cells))})
    suffix = str(rng.choice([".ply", ".off", ".obj", ".vtu", ".vtk", ".msh"]))
    with tempfile.TemporaryDirectory() as folder, well_posed(suffix):
        path = pathlib.Path(folder) / f"a{suffix}"
        mesh.save(path)
        if suffix in (".vtu", ".vtk", ".msh"):
            other = meshio.read(path)
            assert np.array_equal(other.points, mesh.vertices) and np.array_equal(other.cells_dict["triangle"], mesh.faces)
            assert np.array_equal(other.point_data["t"], c.points[:, 0]) and np.array_equal(other.cell_data["part"][0], np.arange(len(c.cells)))
            other.point_data, other.cell_data = {"t": other.point_data["t"]}, {"part": other.cell_data["part"]}
            other.write(path) if suffix != ".msh" else meshio.gmsh.write(str(path), other, str(rng.choice(["2.2", "4.1"])), True)
        else:
            other = trimesh.load(path, process=False)
            assert np.allclose(other.vertices[other.faces], c.points[mesh.faces], rtol=0, atol=1e-15)        # it leaves out vertices without a face
            if suffix in (".ply", ".obj"):
                assert np.array_equal(other.visual.vertex_colors[other.faces][..., :3], color[mesh.faces][..., :3]), f"{suffix}: other colors"
            other.export(path)
        again = ms.load_mesh(path)
    assert np.allclose(again.vertices[again.faces], c.points[mesh.faces], rtol=0, atol=1e-6)
    if suffix in (".vtu", ".vtk", ".msh"):
        assert np.array_equal(again.vertex_data["t"], c.points[:, 0]), f"{suffix}: {again.vertex_data} for {c.points[:, 0]}"
        assert np.array_equal(again.face_data["part"], np.arange(len(c.cells))), f"{suffix}: {again.face_data['part']}"
