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


def load(content, suffix, **options):
    """The mesh of bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"a{suffix}"
        path.write_bytes(content)
        return ms.load_mesh(path)


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
    suffix, c = str(rng.choice([".vtu", ".vtp", ".vtk", ".msh"])), by_hand.case(rng, [by_hand.TRIANGLE], ("f8", "i4"), PLAIN)
    if suffix == ".msh":
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
            content[k:k + 1] = str(rng.choice(["-1", "0", "99999999", "9999999999999999", "99999999999999999999", "nan", "1e300"])).encode()
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
