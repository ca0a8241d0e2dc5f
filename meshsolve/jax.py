"""Sparse solves, determinants and mesh operators that JAX differentiates, also inside ``jit``, ``vmap`` and ``grad``.

    x = ms.jax.solve((indices, values), b)
    g = jax.grad(lambda v: ms.jax.solve((indices, v), b).sum())(values)

A solve is ``jax.lax.custom_linear_solve`` around a callback to the host, so derivatives of all orders, forward and reverse, are solves with
the same factor. JAX is imported when a function is called. Use 64-bit numbers (``jax.config.update("jax_enable_x64", True)``): with 32 bits
solutions are rounded.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np

from meshsolve.errors import InvalidInputError
from meshsolve.foreign import is_sparse
from meshsolve.gradients import positions
from meshsolve.gradients.eigenvalues import eigenpairs, pencil_matrix, require_distinct
from meshsolve.gradients.factors import METHODS, Method, shared
from meshsolve.options import as_integer, as_number, one_of
from meshsolve.sparse.columns import as_indices
from meshsolve.sparse.constraints import checked, without_constraint

__all__ = ["cotan_laplacian", "eigsh", "logdet", "mass_matrix", "mcf", "solve"]


def __dir__() -> list[str]:
    return __all__


def solve(A: Any, b: Any, method: Method = "auto", threads: int | None = None, *, pin: bool = False, fixed: Any = None,
          fixed_values: Any = None) -> Any:
    """x with A x = b.

    Parameters
    ----------
    A : (indices, values), or jax.experimental.sparse.BCOO or BCSR
        ``indices`` is a (2, nnz) integer array of rows and columns, ``values`` an (nnz,) array, real or complex. Duplicates are summed.
        The padding of BCOO and BCSR, entries with an index beyond the shape, is left out, as JAX does.
    b : (n,) or (n, k) array
        Values and b are promoted to one type as in ``jax.numpy``, integers to floating point.
    method, threads, pin
        As in :func:`meshsolve.torch.solve`.
    fixed : (c,) integers, optional
        Rows whose values are prescribed, known before tracing: x there is ``fixed_values``, and their equations are left out.
    fixed_values : (c,) or (c, k) array, optional
        Prescribed values, zeros by default; gradients reach them.

    Returns
    -------
    x : array of b's shape, of the promoted type

    Raises
    ------
    InvalidInputError
        A is not such a matrix or does not fit b; ``fixed`` is out of range, repeated or given with ``pin``; JAX is missing. Errors of the
        factorization arrive inside JAX's error for callbacks.

    Notes
    -----
    Cost: a factorization, which derivatives use again; each derivative takes a solve. Under ``vmap`` a batch of right-hand sides is
    solved as one block, the matrices of a batch of values are factored one by one. Works on the host: arrays of other devices are
    copied by JAX.

    Examples
    --------
    >>> import jax.numpy as jnp                             # doctest: +SKIP
    >>> i, v = jnp.array([[0, 1], [0, 1]]), jnp.array([2.0, 4.0])     # doctest: +SKIP
    >>> meshsolve.jax.solve((i, v), jnp.ones(2))            # doctest: +SKIP
    Array([0.5 , 0.25], dtype=float32)
    """
    xp = _jax().numpy
    b = xp.asarray(b)
    if b.ndim not in (1, 2):
        raise InvalidInputError(f"b must be (n,) or (n, k), got {b.shape}; jax.vmap solves batches")
    indices, values = _entries(A, len(b))
    key = one_of(method, "method", METHODS), threads, checked(fixed, pin)
    if fixed is not None:
        return _solve_free(key, indices, values, b, fixed, fixed_values)
    without_constraint(fixed_values)
    return _solve(key, indices, *_promoted(values=values, b=b))


def logdet(A: Any, n: int, threads: int | None = None) -> Any:
    """Natural logarithm of the determinant of a symmetric positive definite matrix.

    Parameters
    ----------
    A : (indices, values), BCOO or BCSR
        As in :func:`solve`, real.
    n : int
        Number of rows.
    threads : int, optional

    Returns
    -------
    number of A's dtype

    Raises
    ------
    InvalidInputError
        As :func:`solve`; a second derivative, which JAX reports.

    Notes
    -----
    Cost: a Cholesky factorization; the derivative is a selected inversion, and cannot be differentiated again.

    Examples
    --------
    >>> import jax.numpy as jnp                             # doctest: +SKIP
    >>> meshsolve.jax.logdet((jnp.array([[0, 1], [0, 1]]), jnp.array([2.0, 4.0])), 2)     # doctest: +SKIP
    Array(2.0794415, dtype=float32)
    """
    n = as_integer(n, "n")
    indices, values = _entries(A, n)
    values, = _promoted("f", A=values)
    return _determinant()(values, indices[0], indices[1], n, threads)


def eigsh(A: Any, k: int, n: int, M: Any = None, threads: int | None = None) -> tuple[Any, Any]:
    """The k smallest eigenvalues of a symmetric matrix, with gradients, and their eigenvectors, without.

    Parameters
    ----------
    A : (indices, values), BCOO or BCSR
        As in :func:`solve`, real.
    k : int
    n : int
        Number of rows.
    M : as A, optional
        Symmetric positive definite, as a mass matrix; gradients reach it too.
    threads : int, optional

    Returns
    -------
    w : (k,) array
        Ascending eigenvalues, of A's dtype.
    X : (n, k) array
        Eigenvectors with X^T M X = 1, constants for the gradient.

    Raises
    ------
    InvalidInputError
        Not such matrices. Errors on the host arrive inside JAX's error for callbacks: those of :func:`meshsolve.eigsh`, or different
        weights on eigenvalues that are equal in rounding; a second derivative, which JAX reports.

    Notes
    -----
    As :func:`meshsolve.torch.eigsh`.

    Examples
    --------
    >>> import jax.numpy as jnp                             # doctest: +SKIP
    >>> i, v = jnp.array([[0, 1, 2], [0, 1, 2]]), jnp.array([3.0, 1.0, 2.0])     # doctest: +SKIP
    >>> meshsolve.jax.eigsh((i, v), 1, 3)[0]                # doctest: +SKIP
    Array([1.], dtype=float32)
    """
    xp = _jax().numpy
    n = as_integer(n, "n")
    indices, values = _entries(A, n)
    places, masses = _entries(M, n, "M") if M is not None else (xp.zeros((2, 0), indices.dtype), xp.zeros(0, values.dtype))
    values, masses = _promoted("f", A=values, M=masses)
    k = as_integer(k, "k", 1, max(n - 1, 1))
    w, X = _eigenvalues()(values, masses, indices, places, k, n, M is not None, threads)
    return w, _jax().lax.stop_gradient(X)


def cotan_laplacian(V: Any, F: Any) -> tuple[Any, Any]:
    """Entries of the cotangent Laplacian as functions of the positions, as :func:`meshsolve.torch.cotan_laplacian`.

    Parameters
    ----------
    V : (n, 3) array
    F : (m, 3) integer array

    Returns
    -------
    indices : (2, 12 m) array
    values : (12 m,) array

    Raises
    ------
    InvalidInputError
        Not such arrays.

    Examples
    --------
    >>> import jax.numpy as jnp                             # doctest: +SKIP
    >>> i, v = meshsolve.jax.cotan_laplacian(jnp.eye(3), jnp.array([[0, 1, 2]]))     # doctest: +SKIP
    """
    xp, V, F = _checked(V, F)
    return positions.laplacian_indices(xp, F), positions.laplacian_values(xp, V, F)


def mass_matrix(V: Any, F: Any) -> tuple[Any, Any]:
    """Entries of the lumped mass matrix as functions of the positions, as :func:`meshsolve.torch.mass_matrix`.

    Parameters
    ----------
    V : (n, 3) array
    F : (m, 3) integer array

    Returns
    -------
    indices : (2, 3 m) array
    values : (3 m,) array

    Raises
    ------
    InvalidInputError
        Not such arrays.

    Examples
    --------
    >>> import jax.numpy as jnp                             # doctest: +SKIP
    >>> i, v = meshsolve.jax.mass_matrix(jnp.eye(3), jnp.array([[0, 1, 2]]))     # doctest: +SKIP
    """
    xp, V, F = _checked(V, F)
    return positions.mass_indices(xp, F), positions.masses(xp, V, F)


def mcf(V: Any, F: Any, dt: float, steps: int = 1, threads: int | None = None) -> Any:
    """Positions after steps of mean curvature flow, as :func:`meshsolve.torch.mcf`.

    Parameters
    ----------
    V : (n, 3) array
    F : (m, 3) integer array
    dt : float
        Time step in squared units of length.
    steps : int
    threads : int, optional

    Returns
    -------
    (n, 3) array

    Raises
    ------
    InvalidInputError
        Not such arrays; ``dt`` not positive; ``steps`` below 1.

    Examples
    --------
    >>> import jax, jax.numpy as jnp                        # doctest: +SKIP
    >>> ball = meshsolve.datasets.icosphere(2)              # doctest: +SKIP
    >>> g = jax.grad(lambda V: meshsolve.jax.mcf(V, ball.faces, 0.01).sum())(jnp.asarray(ball.vertices))     # doctest: +SKIP
    """
    xp, x, F = _checked(V, F)
    dt = as_number(dt, "dt", above=True)
    for _ in range(as_integer(steps, "steps")):
        (i, masses), (j, weights) = mass_matrix(x, F), cotan_laplacian(x, F)
        mass = xp.zeros_like(x[:, 0]).at[i[0]].add(masses)
        A = xp.concatenate([i, j], axis=1), xp.concatenate([masses, dt * weights])
        x = solve(A, mass[:, None] * x, "cholesky", threads)
    return x


# ---- solves ---------------------------------------------------------------------------------------------------------------


def _solve(key, indices, values, b):
    """See :func:`solve`."""
    jax, n = _jax(), len(b)
    xp, (rows, columns) = jax.numpy, indices

    def product(x):
        return xp.zeros_like(x).at[rows].add((values if x.ndim == 1 else values[:, None]) * x[columns])

    def solved(trans, _, right):
        shape = jax.ShapeDtypeStruct(right.shape, right.dtype)
        return jax.pure_callback(functools.partial(_solved, key, n, trans), shape, rows, columns, values, right, vmap_method="expand_dims")

    return jax.lax.custom_linear_solve(product, b, functools.partial(solved, "N"), functools.partial(solved, "T"))


def _solve_free(key, indices, values, b, fixed, fixed_values):
    """Solve with prescribed rows. Their rows and columns become those of the identity, so that shapes do not depend on values."""
    xp, n = _jax().numpy, len(b)
    fixed = as_indices(fixed, n, "fixed")
    shape = (len(fixed), *b.shape[1:])
    prescribed = xp.zeros(shape, b.dtype) if fixed_values is None else xp.asarray(fixed_values)
    if prescribed.shape != shape:
        raise InvalidInputError(f"fixed_values must be an array of shape {shape}, got {prescribed.shape}")
    values, b, prescribed = _promoted(values=values, b=b, fixed_values=prescribed)
    is_free = xp.ones(n, bool).at[fixed].set(False)
    x = xp.zeros_like(b).at[fixed].set(prescribed)
    rows, columns = indices
    inner, edge = (xp.where(is_free[rows] & side[columns], values, 0) for side in (is_free, ~is_free))
    right = b - xp.zeros_like(b).at[rows].add((edge if b.ndim == 1 else edge[:, None]) * x[columns])
    right = xp.where(is_free if b.ndim == 1 else is_free[:, None], right, x)
    both = xp.concatenate([indices, xp.stack([fixed, fixed]).astype(indices.dtype)], axis=1)
    return _solve(key, both, xp.concatenate([inner, xp.ones(len(fixed), values.dtype)]), right)


# ---- on the host ------------------------------------------------------------------------------------------------------------


_lock = threading.Lock()                                    # JAX may run callbacks from several threads


def _solved(key, n, trans, rows, columns, values, b):
    """Solve on the host; leading dimensions of length 1 or of a common length are those of vmap."""
    rows, columns, values, b = map(np.asarray, (rows, columns, values, b))
    depth = values.ndim - 1                                 # of nested vmaps
    batch = np.broadcast_shapes(*(array.shape[:depth] for array in (rows, columns, values, b)))
    if all(np.prod(array.shape[:depth], dtype=int) == 1 for array in (rows, columns, values)):
        block = np.moveaxis(b.reshape(-1, n, *b.shape[depth + 1:]), 0, -1)
        x = _one(key, n, trans, rows.reshape(-1), columns.reshape(-1), values.reshape(-1), block.reshape(n, -1)).reshape(block.shape)
        return np.moveaxis(x, -1, 0).reshape(b.shape)
    x = np.empty((*batch, *b.shape[depth:]), b.dtype)
    for k in np.ndindex(*batch):
        x[k] = _one(key, n, trans, *(_sample(array, k) for array in (rows, columns, values, b)))
    return x


def _sample(array, k):
    return array[tuple(min(i, size - 1) for i, size in zip(k, array.shape, strict=False))]


def _one(key, n, trans, rows, columns, values, b):
    with shared(*key) as factors:
        return factors.solve(factors.entries(rows, columns, values, n), b, trans).astype(b.dtype, copy=False)


# ---- helpers ------------------------------------------------------------------------------------------------------------------


def _jax():
    try:
        import jax
    except ImportError as e:
        raise InvalidInputError("meshsolve.jax needs JAX: pip install jax") from e
    return jax


def _entries(A, n, name="A"):
    """(indices (2, nnz), values) of an (n, n) matrix. The padding of BCOO and BCSR becomes zeros at [0, 0]: shapes must not depend on
    values."""
    from jax.experimental.sparse import BCOO, BCSR

    xp = _jax().numpy
    if not isinstance(A, (BCOO, BCSR)):
        return _pair(A, name)
    if A.n_batch or A.n_dense or A.ndim != 2:
        raise InvalidInputError(f"{name} must be a matrix, got a {type(A).__name__} of shape {A.shape} with {A.n_batch} batch and "
                                f"{A.n_dense} dense dimensions; jax.vmap takes batches")
    if A.shape != (n, n):
        raise InvalidInputError(f"{name} must be ({n}, {n}), got {A.shape}")
    if isinstance(A, BCSR):                                 # the padding lies behind the last row
        indices = xp.stack([xp.searchsorted(A.indptr, xp.arange(A.nse), side="right").astype(A.indices.dtype) - 1, A.indices])
    else:
        indices = A.indices.T
    inside = (indices < n).all(axis=0)
    return xp.where(inside, indices, 0), xp.where(inside, A.data, 0)


def _pair(A, name):
    """(indices, values) as arrays, checked."""
    xp = _jax().numpy
    if not isinstance(A, (tuple, list)) or len(A) != 2:
        hint = ": pass jax.experimental.sparse.BCOO.from_scipy_sparse(A)" if is_sparse(A) else ""
        raise InvalidInputError(f"{name} must be (indices, values), a BCOO or a BCSR matrix, got {type(A).__name__}{hint}")
    indices, values = xp.asarray(A[0]), xp.asarray(A[1])
    if values.ndim != 1 or indices.shape != (2, len(values)) or indices.dtype.kind not in "iu":
        raise InvalidInputError(f"(indices, values) must be (2, nnz) integers and (nnz,) numbers, got {indices.shape} of {indices.dtype} "
                                f"and {values.shape} of {values.dtype}")
    return indices, values


def _promoted(kinds="fc", **arrays):
    """Arrays of one type, as ``jax.numpy`` promotes them: real, or with "fc" also complex; integers become floating point."""
    xp = _jax().numpy
    dtype = xp.result_type(*arrays.values())
    dtype = (xp.zeros((), dtype) / 1).dtype if dtype.kind in "iu" else dtype
    if dtype.kind not in kinds or dtype.itemsize < 4:
        given = ", ".join(f"{name} of {array.dtype}" for name, array in arrays.items())
        needed = "numbers, float32, float64 or complex" if "c" in kinds else "real numbers, float32 or float64"
        raise InvalidInputError(f"{' and '.join(arrays)} must hold {needed}, got {given}")
    return [array.astype(dtype) for array in arrays.values()]


def _checked(V, F):
    xp = _jax().numpy
    V, F = xp.asarray(V), xp.asarray(F)
    for name, array, kind in (("V", V, "fiu"), ("F", F, "iu")):
        if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in kind:
            raise InvalidInputError(f"{name} must be {'positions' if name == 'V' else 'triangles'} of shape (k, 3), got {array.shape} of "
                                    f"{array.dtype}")
    return xp, *_promoted("f", V=V), F


@functools.cache
def _determinant():
    jax = _jax()

    @functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3, 4))
    def determinant(values, rows, columns, n, threads):
        return jax.pure_callback(functools.partial(_on_host, "logdet", n, threads), jax.ShapeDtypeStruct((), values.dtype), rows, columns,
                                 values, vmap_method="sequential")

    @determinant.defjvp
    def _(rows, columns, n, threads, primals, tangents):
        values, = primals
        inverse = jax.pure_callback(functools.partial(_on_host, "inverse", n, threads), jax.ShapeDtypeStruct(values.shape, values.dtype),
                                    rows, columns, values, vmap_method="sequential")
        return determinant(values, rows, columns, n, threads), (inverse * tangents[0]).sum()

    return determinant


@functools.cache
def _eigenvalues():
    jax = _jax()

    def called(n, k, dtype, function, results, *arrays):
        shapes = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape in results)
        return jax.pure_callback(function, shapes, *arrays, vmap_method="sequential")

    def pairs(values, masses, indices, places, k, n, has_masses, threads):
        find = functools.partial(_pairs_on_host, n, k, has_masses, threads)
        return called(n, k, values.dtype, find, ((k,), (n, k), (int(k < n - 1),)), values, masses, indices, places)

    @functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5, 6, 7))
    def eigenvalues(values, masses, indices, places, k, n, has_masses, threads):
        return pairs(values, masses, indices, places, k, n, has_masses, threads)[:2]

    def forward(values, masses, indices, places, k, n, has_masses, threads):
        w, X, after = pairs(values, masses, indices, places, k, n, has_masses, threads)
        return (w, X), (w, X, after, indices, places)

    def backward(k, n, has_masses, threads, saved, g):
        indices, places = saved[3:]
        gradients = called(n, k, g[0].dtype, _gradients_on_host, (indices.shape[1:], places.shape[1:]), g[0], *saved)
        return *gradients, None, None

    eigenvalues.defvjp(forward, backward)
    return eigenvalues


def _pairs_on_host(n, k, has_masses, threads, values, masses, indices, places):
    A, M = (pencil_matrix(*map(np.asarray, (part, *index)), n) for part, index in ((values, indices), (masses, places)))
    with _lock:
        found = eigenpairs(A, M if has_masses else None, k, threads)
    return tuple(np.ascontiguousarray(part, values.dtype) for part in found)


def _gradients_on_host(g, w, X, after, indices, places):
    g, w, X, after, indices, places = map(np.asarray, (g, w, X, after, indices, places))
    require_distinct(np.concatenate([w, after]), np.concatenate([g, np.zeros_like(after)]))
    return (X[indices[0]] * X[indices[1]]) @ g, -((X[places[0]] * X[places[1]]) @ (g * w))


def _on_host(what, n, threads, rows, columns, values):
    rows, columns, values = map(np.asarray, (rows, columns, values))
    with shared("cholesky", threads, False) as factors:
        entries = factors.entries(rows, columns, values, n)
        found = factors.cholesky(entries).logdet() if what == "logdet" else factors.inverse_entries(entries)
    return np.asarray(found, values.dtype)
