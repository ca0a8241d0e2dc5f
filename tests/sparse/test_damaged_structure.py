"""Damaged sparse matrices are refused before scipy or the core reads their arrays, which would crash."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each

import meshsolve as ms
from meshsolve.sparse.structure import as_column, checked, rectangular

FAR = 400_000_000
A = sp.csr_array(np.ones((4, 4)) + 9 * np.eye(4))
b = np.ones(4)


def broken(kind="csr", **parts):
    B = sp.bsr_array(A, blocksize=(2, 2)) if kind == "bsr" else A.copy().asformat(kind)
    for name, x in parts.items():
        setattr(B, name, x)
    return B


POINTERS = np.array([0, FAR, 0, 0, 0], np.int32)
CALLS = {
    "cg M": lambda M: ms.cg(A, b, M=M), "gmres M": lambda M: ms.gmres(A, b, M=M), "sqmr M": lambda M: ms.sqmr(A, b, M=M),
    "cg fixed M": lambda M: ms.cg(A, b, M=M, fixed=[0]), "complex gmres M": lambda M: ms.gmres(A * 1j, b, M=M),
    "update": lambda C: ms.cholesky(A).update(C), "downdate": lambda C: ms.cholesky(A).downdate(C), "normal": ms.operators.NormalEquations,
    "normal again": lambda J: ms.operators.NormalEquations(A)(J), "Aeq": lambda E: ms.Quadratic(A, Aeq=E), "b": lambda B: ms.cholesky(A).solve(B),
    "cholesky": ms.cholesky, "lu": ms.lu, "eigsh M": lambda M: ms.eigsh(A, 1, M), "amd": ms.order.amd}


@each("kind", ["csr", "csc"])
def test_damaged_pointers_are_refused_by_every_call(kind):
    for name, call in CALLS.items():
        with pytest.raises(ms.InvalidInputError):
            call(broken(kind, indptr=POINTERS))
            pytest.fail(name)


@each("kind, parts", [
    ("csr", {"indptr": np.array([0, 4, 8, 12, -1], np.int32)}), ("csc", {"indptr": np.array([0, 4, 3, 12, 16])}), ("csr", {"indptr": np.array([0, 4, 8, 12])}),
    ("csr", {"indptr": np.array([1, 4, 8, 12, 16])}), ("csr", {"indices": np.full(16, 4, np.int32)}), ("csr", {"indices": np.full(16, -1, np.int32)}),
    ("csr", {"indices": np.arange(16.0)}), ("csr", {"data": np.ones(15)}), ("csr", {"data": np.ones((4, 4))}), ("csr", {"data": np.full(16, None)}),
    ("csr", {"indices": np.full(16, 2**63, np.uint64)}), ("bsr", {"indptr": np.array([0, FAR, 4], np.int32)}), ("bsr", {"data": np.ones((4, 2, 3))}),
    ("bsr", {"data": np.ones((4, 2, 0))}), ("coo", {"coords": (np.full(16, 9), np.zeros(16, int))}), ("coo", {"coords": (np.zeros(3, int), np.zeros(16, int))}),
    ("dia", {"offsets": np.array([0, 0, 1, 2, 3, -1, -2])}), ("dia", {"data": np.ones(7)}),
])
def test_damaged_arrays_are_refused(kind, parts):
    with pytest.raises(ms.InvalidInputError, match="X is not a valid sparse matrix"):
        checked(broken(kind, **parts), "X")


def test_damaged_lists_and_keys_are_refused():
    for row in ([7], [-1], ["x"], [0, 1, 2], None):
        B = A.tolil()
        B.rows[1] = row
        with pytest.raises(ms.InvalidInputError, match="not a valid"):
            checked(B, "X")
    for key in ((4, 0), (-1, 0), "x"):
        B = A.todok()
        B._dict[key] = 1.0
        with pytest.raises(ms.InvalidInputError, match="not a valid"):
            checked(B, "X")
    vector = sp.coo_array(np.ones(4))
    vector.coords = (np.array([0, 1, 2, 9]),)
    with pytest.raises(ms.InvalidInputError, match="exceeds"):
        ms.cholesky(A).solve(vector)


@each("kind", ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"])
def test_good_matrices_keep_their_numbers(kind):
    B = broken(kind)
    assert np.array_equal(checked(B, "X").toarray(), A.toarray()) and np.array_equal(rectangular(B, "X").toarray(), A.toarray())
    assert np.array_equal(checked(sp.csr_matrix((0, 3)).asformat("csr"), "X").shape, (0, 3))


def test_unusual_good_arrays():
    wide = broken(indptr=A.indptr.astype(np.uint64), indices=A.indices.astype(np.int8))
    assert np.array_equal(checked(wide, "X").toarray(), A.toarray())
    swapped = broken("csc", data=A.data.astype(">f8"), indices=A.tocsc().indices.astype(">i4"))
    assert np.array_equal(rectangular(swapped, "X").toarray(), A.toarray())
    reversed_rows = broken(indices=A.indices.reshape(4, 4)[:, ::-1].ravel()[::1], data=A.data.reshape(4, 4)[:, ::-1].ravel())
    reversed_rows.has_sorted_indices = reversed_rows.has_canonical_format = True            # a wrong flag
    assert np.array_equal(rectangular(reversed_rows, "X").indices, A.indices)
    far = sp.dia_array((np.ones((2, 4)), [0, 100]), shape=(4, 4))                           # a diagonal outside holds nothing
    assert np.array_equal(checked(far, "X").toarray(), np.eye(4))
    spare = broken(indices=np.append(A.indices, [99, -5]).astype(np.int32), data=np.append(A.data, [1.0, 1.0]))
    assert np.array_equal(checked(spare, "X").toarray(), A.toarray())                       # unused memory after the last row
    assert np.array_equal(as_column(sp.csr_array(np.ones(4)), "X").toarray(), np.ones((4, 1)))
    F = ms.cholesky(A)
    assert np.allclose(F.solve(sp.csr_array(np.ones(4))).toarray(), F.solve(b))


def test_damaged_files_end_no_process(tmp_path):
    """In a process of its own: scipy's code wrote outside of its arrays."""
    code = ("import sys, meshsolve as ms\nfor path in sys.argv[1:]:\n try:\n  ms.datasets.load_matrix(path)\n except ms.InvalidInputError as e:\n"
            "  assert 'cannot be read as a matrix' in str(e)\n else:\n  sys.exit(path)")
    paths = []
    for kind, pointers in (("csc", [0, 3, 0]), ("csr", [0, 500_000_000, -1]), ("bsr", [0, 900_000_000, 0]), ("csr", [0, 3, -1])):
        data = np.ones((3, 1, 1)) if kind == "bsr" else np.ones(3)
        paths.append(tmp_path / f"{kind}{pointers[-1]}.npz")
        np.savez(paths[-1], format=np.array(kind.encode()), shape=np.int64([2, 2]), data=data, indices=np.int32([0, 1, 0]), indptr=np.int32(pointers))
    done = subprocess.run([sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@each("offset", [2**32, 2**40, -2**32, 2**62, np.uint64(2**32)])
def test_offsets_of_diagonals_keep_their_64_bits(tmp_path, offset):
    """A cast to 32 bits made offset 2^32 the diagonal itself."""
    np.savez(tmp_path / "a.npz", format=np.array(b"dia"), shape=np.int64([4, 4]), data=np.ones((1, 4)), offsets=np.array([offset]))
    assert ms.datasets.load_matrix(tmp_path / "a.npz").nnz == 0


@each("changes, says", [({"shape": np.uint64([2**63, 4])}, "its shape is 9223372036854775808 x 4"), ({"data": np.ones((2, 0, 0))}, "its blocks have the shape"),
                        ({"data": np.ones(2)}, "its blocks have the shape")])
def test_shapes_of_damaged_files_are_named(tmp_path, changes, says):
    given = {"format": np.array(b"bsr"), "shape": np.int64([4, 4]), "data": np.ones((2, 2, 2)), "indices": np.int32([0, 1]), "indptr": np.int32([0, 1, 2])}
    np.savez(tmp_path / "a.npz", **given | changes)
    with pytest.raises(ms.InvalidInputError, match=says):
        ms.datasets.load_matrix(tmp_path / "a.npz")


@each("dtype", ["f2", ">f8", ">i4", "g", "?"])
def test_dense_rows_of_any_type(dtype):
    """scipy refuses other byte orders and half precision with an error of its own."""
    X = np.eye(2, 4).astype(dtype)
    assert np.allclose(ms.Quadratic(A, Aeq=X).minimize(b, beq=[1, 2])[0][:2], [1, 2])
    assert np.array_equal(ms.operators.NormalEquations(X)(X).toarray(), np.diag([1.0, 1, 0, 0]))
