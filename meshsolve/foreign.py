"""Matrices and arrays of other libraries: read if they have entries, else refused with the call that converts them.

No library is imported: an object belongs to the libraries whose modules define its classes. Arrays that numpy reads (DLPack,
buffers) are left to :mod:`meshsolve.sparse.columns`.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve.errors import InvalidInputError

EDGES = "convert a list of edges i, j by scipy.sparse.coo_array((weights, (i, j)), shape=(n, n)), with each edge in both directions"
GRADIENTS = "{0} requires gradients, which this call does not compute: use meshsolve.torch.solve, or pass {0}.detach()"
REFUSED = {                         # library: (name of the object, the call that makes a matrix)
    "networkx": ("a networkx graph", 'graph_laplacian({0}, weights="auto") makes its Laplacian, and networkx.to_scipy_sparse_array({0}, '
                 'dtype=float) its matrix of weights'),
    "igraph": ("an igraph graph", 'graph_laplacian({0}, weights="auto") makes its Laplacian, and {0}.get_adjacency_sparse() its matrix '
               'of weights'),
    "graph_tool": ("a graph_tool graph", "graph_tool.spectral.adjacency({0}) makes a matrix of it"),
    "dask": ("a dask array, whose values are not computed yet", "{0}.compute()"),
}


def libraries_of(x: Any) -> set[str]:
    """The packages that define the classes of x."""
    return {cls.__module__.partition(".")[0] for cls in type(x).__mro__}


def as_known(A: Any, name: str) -> Any:
    """A matrix of another library as one of scipy; A itself if numpy may read it.

    Raises
    ------
    InvalidInputError
        A graph, a matrix that is not computed yet, or an unsupported format; the message has the call that converts it.
    """
    if isinstance(A, np.ndarray) or sp.issparse(A):
        return A
    for library in libraries_of(A):
        if library in REFUSED:
            what, remedy = REFUSED[library]
            raise InvalidInputError(f"{name} is {what}: {remedy.format(name)}")
        if library in READERS:
            try:
                return READERS[library](A, name)
            except InvalidInputError:
                raise
            except (ValueError, TypeError, IndexError, RuntimeError) as e:      # damaged indices
                raise InvalidInputError(f"{name} is not a valid {type(A).__name__} of {library}: {e}") from e
    return A


def is_sparse(b: Any) -> bool:
    """True for a sparse array of scipy, PyTorch or pydata/sparse."""
    if isinstance(b, np.ndarray):
        return False
    return sp.issparse(b) or getattr(b, "is_sparse", False) is True or "to_scipy_sparse" in dir(type(b)) or (
        "torch" in libraries_of(b) and "sparse" in str(getattr(b, "layout", "")))


def fetched(A: Any) -> Any:
    """Return a sparse matrix of CuPy as one of scipy, on the host; anything else as it is."""
    return A.get() if hasattr(A, "get") and hasattr(A, "nnz") and not sp.issparse(A) else A


# ---- arrays that are refused -----------------------------------------------------------------------------------------------------


def is_traced(x: Any) -> bool:
    """True if x is a placeholder for an array while JAX traces a function."""
    return any(cls.__name__ == "Tracer" for cls in type(x).__mro__) and bool({"jax", "jaxlib"} & libraries_of(x))


def why_no_array(x: Any, name: str, error: Exception) -> InvalidInputError:
    """The error for an object that numpy could not read as an array."""
    try:
        _refuse_traced(x, name)
    except InvalidInputError as e:
        return e
    if "torch" in libraries_of(x):
        if getattr(x, "requires_grad", False):
            return InvalidInputError(GRADIENTS.format(name))
        if "functorch" in str(error) or "storage" in str(error):
            return InvalidInputError(f"{name} is inside a transform of torch.func: use meshsolve.torch.solve ({error})")
    if hasattr(x, "nnz") and "cupyx" in libraries_of(x):
        return InvalidInputError(f"{name} is a sparse matrix on the GPU, but a dense array is needed: pass {name}.toarray()")
    return InvalidInputError(f"{name} is not an array: {error}")


def hint_for_edges(A: Any) -> str:
    """The end of a message for an array that looks like edges: two or three columns, or two rows, two of them integers or
    names."""
    if sp.issparse(A) or A.ndim != 2 or 0 in A.shape or A.shape[0] == A.shape[1] or not (A.shape[1] in (2, 3) or A.shape[0] == 2):
        return ""
    ends = A[:, :2] if A.shape[1] in (2, 3) else A
    are_ends = ends.dtype.kind in "iuUSO" or ends.dtype.kind == "f" and bool((ends == np.round(ends)).all())
    return f": {EDGES}" if are_ends else ""


# ---- results into arrays of other libraries --------------------------------------------------------------------------------------


def dtype_of(out: Any) -> np.dtype[Any] | None:
    """The numpy dtype of an array of any library; None for objects without a dtype."""
    try:
        return np.dtype(re.sub(r"^\w+\.", "", str(out.dtype)))
    except (AttributeError, TypeError):
        return None


def write(x: np.ndarray, out: Any) -> None:
    """Write the numpy array x to ``out``: an array of numpy, a tensor of PyTorch on the CPU, or an array that shares its memory
    with numpy.

    Raises
    ------
    InvalidInputError
        ``out`` has another shape or dtype, is read-only, or is on the GPU.
    """
    what = f"out must be a writable array of shape {x.shape} and dtype {x.dtype}, on the device of b"
    libraries = set() if isinstance(out, np.ndarray) else libraries_of(out)
    if {"jax", "jaxlib"} & libraries:
        raise InvalidInputError(f"{what}: an array of JAX is read-only: use x = jax.numpy.asarray(F.solve(b))")
    if is_sparse(out):
        raise InvalidInputError(f"{what}, got a sparse {type(out).__name__}")
    if hasattr(out, "__cuda_array_interface__") or "torch" in libraries and out.device.type != "cpu":
        raise InvalidInputError(f"{what}: b is on the CPU, out is not")
    target = out if "torch" in libraries else _shared(out, what)
    if tuple(target.shape) != x.shape or dtype_of(target) != x.dtype:
        raise InvalidInputError(f"{what}, got shape {tuple(target.shape)} and dtype {target.dtype}")
    if "torch" in libraries:
        _write_tensor(x, target, what)
        return
    if not target.flags.writeable:
        raise InvalidInputError(f"{what}: out is read-only")
    target[...] = x


# ---- readers ------------------------------------------------------------------------------------------------------------------


def _of_torch(A, name):
    """A sparse tensor of any layout on the CPU as a scipy array; a dense tensor is returned unchanged."""
    layout = str(A.layout).removeprefix("torch.")
    if layout == "strided":
        return A
    if layout not in ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"):
        raise InvalidInputError(f"{name} is a tensor of the layout {layout}, which is not supported: pass {name}.to_dense()")
    if A.requires_grad:
        raise InvalidInputError(GRADIENTS.format(name))
    if A.device.type != "cpu":
        raise InvalidInputError(f"{name} is a sparse tensor on {A.device}: pass {name}.cpu(), or for a CSR tensor a CuPy sparse matrix on "
                                f"its arrays, cupyx.scipy.sparse.csr_matrix((cupy.from_dlpack({name}.values()), ...))")
    if A.ndim != 2 or A.dense_dim():
        raise InvalidInputError(f"{name} must be a 2-D matrix of numbers, got a sparse tensor of shape {tuple(A.shape)}"
                                + (f" with {A.dense_dim()} dense dimensions" if A.dense_dim() else ""))
    shape = tuple(A.shape)
    if layout == "sparse_coo":
        i, j = _numbers(A._indices())                       # also of an uncoalesced tensor: duplicates are summed
        return sp.coo_array((_numbers(A._values()), (i, j)), shape=shape)
    by_rows, values = layout[-1] == "r", _numbers(A.values())
    pointers = (A.crow_indices(), A.col_indices()) if by_rows else (A.ccol_indices(), A.row_indices())
    indptr, indices = map(_numbers, pointers)
    if values.ndim == 1:
        return (sp.csr_array if by_rows else sp.csc_array)((values, indices, indptr), shape=shape)
    if by_rows:
        return sp.bsr_array((values, indices, indptr), shape=shape)
    k, height, width = np.indices(values.shape)             # scipy has no blocks by columns, and its transpose does not check indices
    if (np.diff(indptr) < 0).any() or indptr[0] != 0 or indptr[-1] != len(indices):
        raise ValueError(f"its pointers do not ascend from 0 to the {len(indices)} blocks")
    columns = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    rows, columns = indices[k] * values.shape[1] + height, columns[k] * values.shape[2] + width
    return sp.coo_array((values.ravel(), (rows.ravel(), columns.ravel())), shape=shape)


def _of_pydata(A, name):
    """A COO, GCXS or DOK array of the package sparse."""
    A = A.to_coo() if hasattr(A, "to_coo") else A
    if A.ndim != 2 or A.fill_value != 0:
        raise InvalidInputError(f"{name} must be a 2-D matrix whose missing entries are 0, got a sparse array of shape {A.shape} and "
                                f"fill value {A.fill_value}")
    return A.to_scipy_sparse()


def _of_jax(A, name):
    """A BCOO or BCSR of JAX as a scipy array; a dense array is returned unchanged."""
    _refuse_traced(A, name)
    kind = type(A).__name__
    if not hasattr(A, "todense"):
        return A
    if kind not in ("BCOO", "BCSR") or A.ndim != 2 or A.n_batch or A.n_dense:
        raise InvalidInputError(f"{name} is a sparse {kind} of JAX that is not supported: pass a 2-D BCOO or BCSR without batch or dense "
                                "dimensions")
    for part in (A.data, A.indices):
        _refuse_traced(part, name)
    values, indices = np.asarray(A.data), np.asarray(A.indices)
    if kind == "BCSR":
        return sp.csr_array((values, indices, np.asarray(A.indptr)), shape=A.shape)
    inside = (indices < A.shape).all(axis=1)                # JAX pads with indices out of range
    return sp.coo_array((values[inside], tuple(indices[inside].T)), shape=A.shape)


def _of_pandas(A, name):
    """A data frame of dense columns as a numpy array; sparse columns are refused, because they would become dense."""
    if any("Sparse" in str(dtype) for dtype in np.atleast_1d(A.dtypes)):
        raise InvalidInputError(f"{name} is a sparse pandas object: {name}.sparse.to_coo() makes a matrix of it")
    return A.to_numpy()


READERS = {"torch": _of_torch, "sparse": _of_pydata, "jax": _of_jax, "jaxlib": _of_jax, "pandas": _of_pandas}


def _numbers(tensor):
    """A tensor as a numpy array; half precision becomes float32, because scipy has no such sparse arrays."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return (tensor.float() if str(tensor.dtype) in ("torch.float16", "torch.bfloat16") else tensor).numpy()


def _refuse_traced(x, name):
    if is_traced(x):
        raise InvalidInputError(
            f"{name} is traced by JAX (jit, grad, vmap) and has no values yet. Call through jax.pure_callback: jax.pure_callback(lambda b: "
            "F.solve(numpy.asarray(b)), jax.ShapeDtypeStruct(b.shape, b.dtype), b), inside jax.custom_vjp where gradients are needed")


def _shared(out, what):
    """The memory of ``out`` as a numpy array."""
    if isinstance(out, np.ndarray):
        return out
    try:
        if hasattr(out, "__array_interface__") or not hasattr(out, "__dlpack__"):
            return np.asarray(memoryview(out) if not hasattr(out, "__array_interface__") else out)
        return np.from_dlpack(out)
    except MemoryError:
        raise
    except Exception as e:                                  # foreign array types may raise anything
        raise InvalidInputError(f"{what}, got {type(out).__name__}") from e


def _write_tensor(x, out, what):
    import torch

    if out.requires_grad:
        raise InvalidInputError(f"{what}: out requires gradients, which a solve with out= does not compute: "
                                "use meshsolve.torch.solve, or out.detach()")
    try:
        with torch.no_grad():
            out.copy_(torch.from_numpy(np.array(x)))        # registers a change in place, which autograd checks
    except RuntimeError as e:                               # a tensor of inference mode, or an expanded tensor
        raise InvalidInputError(f"{what}: {e}") from e
