"""The differentiable operations of :mod:`meshsolve.torch` on the values of matrices. Importing this module imports PyTorch.

An operation is an autograd function with ``setup_context`` and ``vmap`` for the transforms of torch.func. Inside those transforms
tensors are wrapped and have no memory, so only ``forward`` reads values. There are two versions of each:

- In eager mode ``forward`` computes, and ``jvp`` has the forward-mode derivative. The factor is an argument, a :class:`Saved`.
- torch.compile traces functions without ``jvp``. Their ``forward`` is a custom operator of PyTorch, one node of the graph, and the argument
  is the name of a factor, a str, see :func:`factors_of`.
"""

import contextlib
import weakref

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.gradients.eigenvalues import eigenpairs, pencil_matrix, require_distinct
from meshsolve.gradients.factors import Factors, shared
from meshsolve.report import without_warnings
from meshsolve.torch.entries import LOSES
from meshsolve.torch.meshes import require_corners
from meshsolve.torch.tensors import OnHost, place_of

AGAIN = "the gradient of logdet cannot be differentiated again: that needs entries of the inverse outside the pattern of A"


# ---- factors -------------------------------------------------------------------------------------------------------------


class Saved:
    """Data that a call of an operation keeps for its backward pass.

    Attributes
    ----------
    factors : meshsolve.gradients.factors.Factors
    loses : str
        Name of the operation that made A and loses second derivatives, or "".
    entries : meshsolve.gradients.factors.Entries or None
        Of the matrix; None before ``forward``, and for a batch of values.
    """

    def __init__(self, factors, loses=""):
        self.factors, self.loses, self.entries = factors, loses, None

    def of(self, values, rows, columns, n=None):
        """The :class:`Entries` of these values."""
        if self.entries is None:
            place = place_of(values)
            self.entries = self.factors.entries(*map(place.array, (rows, columns, values)), n)
        return self.entries

    def again(self):
        """The same for other values."""
        return Saved(self.factors, self.loses)

    def require_graph(self):
        """Raise if a second derivative with respect to A is requested and would be zero."""
        if self.loses and torch.is_grad_enabled():
            raise InvalidInputError(LOSES.format(self.loses))


_named: "weakref.WeakValueDictionary[str, Factors]" = weakref.WeakValueDictionary()


def name_of(factors):
    """Return the name by which operators in a graph find these factors while they exist."""
    name = f"#{id(factors)}"
    _named[name] = factors
    return name


def shared_name(method, threads, pin):
    """Return the name of the factors that all compiled functions share for these options."""
    return f"{method} {threads} {pin}"


@contextlib.contextmanager
def saved_of(held):
    """Return a context with the :class:`Saved` of the last argument of an operation, which is one or the name of factors."""
    if not isinstance(held, str):
        yield held
    elif held.startswith("#"):
        yield Saved(_named[held])
    else:
        method, threads, pin = held.split()
        with shared(method, None if threads == "None" else int(threads), pin == "True") as factors:
            yield Saved(factors)


# ---- the two versions ------------------------------------------------------------------------------------------------------


def operation(eager, traced, schema, fake):
    """Return the function that applies one of both versions of an operation.

    Parameters
    ----------
    eager, traced : subclasses of torch.autograd.Function
        The first is a subclass of the second, whose ``forward`` calls the operator.
    schema : str
        Name, arguments and results of the operator.
    fake : callable
        Results of the right shape without values.
    """
    name, signature = schema.split("(", 1)
    operator = torch.library.custom_op(f"meshsolve::{name}", eager.forward, mutates_args=(), schema="(" + signature)
    operator.register_fake(fake)
    operator.register_vmap(lambda info, dims, *given: traced.vmap(info, dims, *given, apply=operator))

    def apply(*given):
        return (traced if torch.compiler.is_compiling() else eager).apply(*given)

    return apply


def samples(size, dims, tensors):
    """The tensors of each sample of a batch; tensors without a batch dimension are shared."""
    return [[t if dim is None else t.select(dim, k) for t, dim in zip(tensors, dims, strict=True)] for k in range(size)]


def again(held):
    """The last argument of an operation for other values."""
    return held if isinstance(held, str) else held.again()


def require_graph(held):
    if not isinstance(held, str):
        held.require_graph()


# ---- solves ---------------------------------------------------------------------------------------------------------------


class Solve(torch.autograd.Function):
    """x with A x = b, or with the adjoint of A, from (values, b, rows, columns, adjoint, held)."""

    @staticmethod
    def forward(values, b, rows, columns, adjoint, held):
        return torch.ops.meshsolve.solve(values, b, rows, columns, adjoint, held)

    @staticmethod
    def setup_context(ctx, inputs, output):
        values, _, rows, columns, ctx.adjoint, ctx.held = inputs
        ctx.save_for_backward(values, output, rows, columns)

    @staticmethod
    def backward(ctx, g):
        values, x, rows, columns = ctx.saved_tensors
        y = solved(values, g, rows, columns, not ctx.adjoint, ctx.held)
        if not ctx.needs_input_grad[0]:
            return None, y, None, None, None, None
        require_graph(ctx.held)
        # d(A^-1 b) = -A^-1 dA x; for A^-H b, whose matrix is the adjoint one, rows and columns change places.
        return _sampled(ctx.held, rows, columns, *((x, y) if ctx.adjoint else (y, x))), y, None, None, None, None

    @staticmethod
    def vmap(info, dims, values, b, rows, columns, adjoint, held, apply=None):
        apply = apply or solved
        if all(dim is None for dim in (dims[0], *dims[2:4])):       # a batch of right-hand sides is one block
            b = b.movedim(dims[1], -1)
            return apply(values, b.reshape(b.shape[0], -1), rows, columns, adjoint, held).reshape(b.shape), b.ndim - 1
        parts = samples(info.batch_size, dims[:4], (values, b, rows, columns))
        return torch.stack([apply(*part, adjoint, again(held)) for part in parts]), 0


class EagerSolve(Solve):
    @staticmethod
    def forward(values, b, rows, columns, adjoint, held):
        place = place_of(values)
        with saved_of(held) as saved, place.current(values):
            entries = saved.of(values, rows, columns, len(b))
            quiet = adjoint and saved.factors.pin                   # gradients may have means
            with without_warnings(MeshsolveWarning) if quiet else contextlib.nullcontext():
                return place.tensor(saved.factors.solve(entries, place.array(b), "H" if adjoint else "N"), b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        Solve.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:4])

    @staticmethod
    def jvp(ctx, dvalues, db, *others):
        values, b, rows, columns = ctx.saved_tensors
        right = torch.zeros_like(b) if db is None else db
        if dvalues is not None:
            x = solved(values, b, rows, columns, ctx.adjoint, ctx.held)     # the x of forward has no tangents of outer levels
            i, j, d = (columns, rows, dvalues.conj()) if ctx.adjoint else (rows, columns, dvalues)
            right = right - torch.zeros_like(x).index_add(0, i, (d if x.ndim == 1 else d[:, None]) * x[j])
        return solved(values, right, rows, columns, ctx.adjoint, ctx.held)


solved = operation(EagerSolve, Solve, "solve(Tensor values, Tensor b, Tensor rows, Tensor columns, bool adjoint, str solver) -> Tensor",
                   lambda values, b, *others: b.new_empty(b.shape))


# ---- triangles ------------------------------------------------------------------------------------------------------------


@torch.library.custom_op("meshsolve::checked_corners", mutates_args=())
def checked_corners(F: torch.Tensor, n: int) -> torch.Tensor:
    """Return a copy of the triangles F as int64; raise if a corner is not one of n vertices. An operator: the test reads values."""
    require_corners(F, n)
    return F.to(torch.int64, copy=True)


checked_corners.register_fake(lambda F, n: F.new_empty(F.shape, dtype=torch.int64))


@torch.library.custom_op("meshsolve::components", mutates_args=())
def components(F: torch.Tensor, n: int) -> torch.Tensor:
    """Return the number of the connected component of each of n vertices, (n,) int64. An operator: it reads values."""
    sides = F[:, [0, 1, 1, 2]].reshape(-1, 2).cpu().numpy()
    found = connected_components(sp.coo_array((np.ones(len(sides), np.int8), sides.T), shape=(n, n)), directed=False)[1]
    return torch.from_numpy(found.astype(np.int64)).to(F.device)


components.register_fake(lambda F, n: F.new_empty(n, dtype=torch.int64))


# ---- determinants -----------------------------------------------------------------------------------------------------------


class LogDeterminant(torch.autograd.Function):
    """log det A from (values, rows, columns, n, held); n is -1 for one more than the largest index."""

    @staticmethod
    def forward(values, rows, columns, n, held):
        return torch.ops.meshsolve.logdet(values, rows, columns, n, held)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.n, ctx.held = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, g):
        require_graph(ctx.held)
        return g * inverse_entries(*ctx.saved_tensors, ctx.n, ctx.held), None, None, None, None

    @staticmethod
    def vmap(info, dims, *given, apply=None):
        return _each(apply or log_determinant, info, dims, *given)


class EagerLogDeterminant(LogDeterminant):
    @staticmethod
    def forward(values, rows, columns, n, held):
        with saved_of(held) as saved, place_of(values).current(values):
            entries = saved.of(values, rows, columns, None if n < 0 else n)
            return values.new_tensor(saved.factors.cholesky(entries).logdet())

    @staticmethod
    def setup_context(ctx, inputs, output):
        LogDeterminant.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:3])

    @staticmethod
    def jvp(ctx, dvalues, *others):
        return (inverse_entries(*ctx.saved_tensors, ctx.n, ctx.held) * dvalues).sum()


class InverseEntries(torch.autograd.Function):
    """The gradient of LogDeterminant; with once_differentiable it would be a constant if g is a constant."""

    @staticmethod
    def forward(values, rows, columns, n, held):
        return torch.ops.meshsolve.inverse_entries(values, rows, columns, n, held)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        raise InvalidInputError(AGAIN)

    @staticmethod
    def vmap(info, dims, *given, apply=None):
        return _each(apply or inverse_entries, info, dims, *given)


class EagerInverseEntries(InverseEntries):
    @staticmethod
    def forward(values, rows, columns, n, held):
        place = place_of(values)
        with saved_of(held) as saved, place.current(values):
            return place.tensor(saved.factors.inverse_entries(saved.of(values, rows, columns, None if n < 0 else n)), values)

    @staticmethod
    def jvp(ctx, *tangents):
        raise InvalidInputError(AGAIN)


_ARGUMENTS = "Tensor values, Tensor rows, Tensor columns, int n, str solver"
log_determinant = operation(EagerLogDeterminant, LogDeterminant, f"logdet({_ARGUMENTS}) -> Tensor",
                            lambda values, *others: values.new_empty(()))
inverse_entries = operation(EagerInverseEntries, InverseEntries, f"inverse_entries({_ARGUMENTS}) -> Tensor",
                            lambda values, *others: values.new_empty(values.shape))


# ---- eigenvalues ----------------------------------------------------------------------------------------------------------


class Eigenvalues(torch.autograd.Function):
    """(w, X, next eigenvalue) from (values of A, values of M or None, rows and columns of A, of M or None, n, k, threads)."""

    @staticmethod
    def forward(values, masses, rows, columns, i, j, n, k, threads):
        return torch.ops.meshsolve.eigsh(values, masses, rows, columns, i, j, n, k, threads)

    @staticmethod
    def setup_context(ctx, inputs, output):
        w, X, after = output
        ctx.mark_non_differentiable(X, after)
        ctx.save_for_backward(w, X, after, *inputs[2:4], *(part for part in inputs[4:6] if part is not None))

    @staticmethod
    def backward(ctx, g, *others):
        w, X, after, rows, columns, *places = ctx.saved_tensors
        found = eigenvalue_gradients(g, w, X, after, rows, columns, *(places or (None, None)))
        return found[0], found[1] if places else None, None, None, None, None, None, None, None

    @staticmethod
    def vmap(info, dims, *given, apply=None):
        return _stacked(apply or eigenvalues, info.batch_size, dims, given, 6)


class EagerEigenvalues(Eigenvalues):
    @staticmethod
    def forward(values, masses, rows, columns, i, j, n, k, threads):
        A, M = (None if part is None else pencil_matrix(*map(OnHost.array, (part, *index)), n)
                for part, index in ((values, (rows, columns)), (masses, (i, j))))
        return tuple(OnHost.tensor(part, values) for part in eigenpairs(A, M, k, threads))


class EigenvalueGradients(torch.autograd.Function):
    """Gradients with respect to the values of A and M; as a function of its own, so that a second derivative is no silent constant."""

    @staticmethod
    def forward(g, w, X, after, rows, columns, i, j):
        return torch.ops.meshsolve.eigsh_gradients(g, w, X, after, rows, columns, i, j)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *g):
        raise InvalidInputError("the gradient of eigenvalues cannot be differentiated again: that needs those of eigenvectors")

    @staticmethod
    def vmap(info, dims, *given, apply=None):
        return _stacked(apply or eigenvalue_gradients, info.batch_size, dims, given, 8)


class EagerEigenvalueGradients(EigenvalueGradients):
    @staticmethod
    def forward(g, w, X, after, rows, columns, i, j):
        require_distinct(*map(OnHost.array, (torch.cat([w, after]), torch.cat([g, torch.zeros_like(after)]))))
        return (X[rows] * X[columns]) @ g, g.new_zeros(0) if i is None else -((X[i] * X[j]) @ (g * w))


eigenvalues = operation(
    EagerEigenvalues, Eigenvalues, "eigsh(Tensor values, Tensor? masses, Tensor rows, Tensor columns, Tensor? i, Tensor? j, int n, int k, "
    "int? threads) -> (Tensor, Tensor, Tensor)",
    lambda values, masses, rows, columns, i, j, n, k, threads: tuple(map(values.new_empty, ((k,), (n, k), (int(1 <= k < n - 1),)))))
eigenvalue_gradients = operation(
    EagerEigenvalueGradients, EigenvalueGradients,
    "eigsh_gradients(Tensor g, Tensor w, Tensor X, Tensor after, Tensor rows, Tensor columns, Tensor? i, Tensor? j) -> (Tensor, Tensor)",
    lambda g, w, X, after, rows, columns, i, j: (g.new_empty(rows.shape), g.new_empty((0,) if i is None else i.shape)))


# ---- helpers ------------------------------------------------------------------------------------------------------------


def _sampled(held, rows, columns, y, x):
    """-y_i conj(x_j) at the entries, summed over right-hand sides."""
    if not isinstance(held, str) and held.entries is not None and not torch.is_grad_enabled() and not x.is_complex():
        place = place_of(x)
        with place.current(x):
            return place.tensor(held.entries.pattern.sampled(place.array(y), place.array(x)), x)
    product = y[rows] * x[columns].conj()
    return -(product if product.ndim == 1 else product.sum(dim=1))


def _each(apply, info, dims, values, rows, columns, n, held):
    parts = samples(info.batch_size, dims[:3], (values, rows, columns))
    return torch.stack([apply(*part, n, again(held)) for part in parts]), 0


def _stacked(apply, size, dims, given, tensors):
    """Apply an operation with several results to each sample; the first ``tensors`` arguments are tensors or None."""
    found = [apply(*part, *given[tensors:]) for part in samples(size, dims[:tensors], given[:tensors])]
    return tuple(torch.stack(result) for result in zip(*found, strict=True)), (0,) * len(found[0])
