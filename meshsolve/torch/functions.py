"""The autograd functions of :mod:`meshsolve.torch`, and gradients with respect to the entries of sparse tensors.

A function has ``setup_context``, ``vmap`` and ``jvp`` for the transforms of torch.func. Inside those transforms tensors are
wrapped and have no memory, so only ``forward`` reads values.
"""

from __future__ import annotations

import contextlib
import functools

import numpy as np

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.gradients.factors import Entries
from meshsolve.report import without_warnings

CONSTRUCTOR = "SparseCooTensorWithDimsAndTensorsBackward"       # the node of torch.sparse_coo_tensor
KEEPS_SPARSE = ("Coalesce", "T", "Transpose", "Mul", "Div", "Neg", "Add", "Sub", "Clone", "Alias", "View")      # nodes of sparse tensors
CONVERTS = ("ToSparse", "ToDense")
LAYOUTS = "a sparse COO, CSR or CSC tensor, or (indices, values)"
LOSES = ("PyTorch loses second derivatives of the sparse tensor A (in {}): pass (indices, values), or make A of values by "
         "torch.sparse_coo_tensor alone")


def pytorch():
    try:
        import torch
    except ImportError as e:
        raise InvalidInputError("meshsolve.torch needs PyTorch: pip install torch") from e
    return torch


def refuse_nested_forward():
    """Raise inside two nested forward-mode transforms of torch.func: PyTorch computes wrong numbers for custom functions in
    these."""
    functorch = getattr(pytorch()._C, "_functorch", None)
    levels = getattr(functorch, "get_interpreter_stack", lambda: None)() or ()
    if sum(str(level.key()).endswith("Jvp") for level in levels) > 1:
        raise InvalidInputError("a forward-mode derivative of a forward-mode derivative (jvp, jacfwd) is wrong in PyTorch for custom "
                                "functions: use torch.func.hessian, or jacrev for one of the two")


def require_known(dtype):
    torch = pytorch()
    if dtype not in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        raise InvalidInputError(f"tensors must hold float32, float64, complex64 or complex128, got {dtype}")


class Saved:
    """Data that a call of a function keeps for its backward pass.

    Attributes
    ----------
    factors : meshsolve.gradients.factors.Factors
    n : int
    loses : str
        Name of the operation that made A and loses second derivatives, or "".
    entries : Entries or None
        Of the matrix; None before ``forward``, and for a batch of values.
    """

    def __init__(self, factors, n, loses=""):
        self.factors, self.n, self.loses, self.entries = factors, n, loses, None

    def of(self, values, rows, columns):
        """The :class:`Entries` of these values."""
        if self.entries is None:
            self.entries = Entries(on_host(rows), on_host(columns), on_host(values), self.n)
        return self.entries

    def solve(self, values, b, rows, columns, adjoint):
        """x with A x = b, or A^H x = b, like b."""
        entries = self.of(values, rows, columns)
        with without_warnings(MeshsolveWarning) if adjoint and self.factors.pin else contextlib.nullcontext():    # gradients may have means
            x = self.factors.solve(entries, on_host(b), "H" if adjoint else "N")
        return pytorch().from_numpy(np.ascontiguousarray(x)).to(device=b.device, dtype=b.dtype)

    def again(self):
        """The same for other values."""
        return Saved(self.factors, self.n, self.loses)

    def require_graph(self):
        """Raise if a second derivative with respect to A is requested and would be zero."""
        if self.loses and pytorch().is_grad_enabled():
            raise InvalidInputError(LOSES.format(self.loses))


# ---- entries of A ---------------------------------------------------------------------------------------------------------


def entries_of(A, n):
    """(rows, columns, values, n, loses) of A; gradients of the tensor ``values`` reach A, ``loses`` is as in :class:`Saved`. If n
    is None it is one more than the largest index."""
    torch = pytorch()
    if isinstance(A, torch.Tensor):
        return _entries_of_tensor(A)
    parts = tuple(A) if isinstance(A, (tuple, list)) else ()
    if len(parts) != 2 or not all(isinstance(part, torch.Tensor) for part in parts):
        raise InvalidInputError(f"A must be {LAYOUTS}, got {type(A).__name__}")
    indices, values = parts
    if indices.ndim != 2 or values.ndim != 1 or indices.shape != (2, len(values)) or indices.is_floating_point():
        raise InvalidInputError(f"(indices, values) must be (2, nnz) integers and (nnz,) numbers, got {tuple(indices.shape)} of "
                                f"{indices.dtype} and {tuple(values.shape)}")
    least, most = (int(indices.min()), int(indices.max())) if indices.numel() else (0, -1)
    if n is None:
        n = most + 1
    if not 0 <= least <= most + 1 <= n:
        raise InvalidInputError(f"indices has values outside 0..{n - 1}, the rows of " + ("A" if n == most + 1 else "b"))
    return indices[0], indices[1], values, n, ""


# ---- functions ------------------------------------------------------------------------------------------------------------


@functools.cache
def functions():
    """The autograd functions of solves and of determinants; their base classes need PyTorch."""
    return _function_of_solves(pytorch()), _function_of_determinants(pytorch())


# ---- helpers ------------------------------------------------------------------------------------------------------------


def on_host(tensor):
    """A copy on the CPU: the caller may change the tensor before the backward pass."""
    try:
        return np.array(tensor.detach().cpu().resolve_conj().resolve_neg().numpy())
    except RuntimeError as e:                               # the older vmap of PyTorch, which ignores vmap methods
        raise InvalidInputError("a tensor has no values inside vectorize=True or is_grads_batched=True: use torch.func.jacrev or "
                                f"vmap ({e})") from e


def _entries_of_tensor(A):
    torch = pytorch()
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise InvalidInputError(f"A must be square, got {tuple(A.shape)}")
    if A.layout in (torch.sparse_bsr, torch.sparse_bsc) and not A.requires_grad:
        A = A.to_dense().to_sparse_coo()
    loses = _keep_graph(A) if A.requires_grad and A.grad_fn is not None else ""
    if A.layout in (torch.sparse_csr, torch.sparse_csc) and A.requires_grad:
        A = A.to_sparse_coo()                               # values() of these layouts is a constant in second derivatives
    if A.layout == torch.sparse_coo:
        A = A if A.is_coalesced() else A.coalesce()
        return *A.indices(), A.values(), A.shape[0], loses
    if A.layout not in (torch.sparse_csr, torch.sparse_csc):
        raise InvalidInputError(f"A must be {LAYOUTS}, got the layout {A.layout}" + (
            " with gradients" if A.layout in (torch.sparse_bsr, torch.sparse_bsc) else ""))
    starts, inner = (A.crow_indices(), A.col_indices()) if A.layout == torch.sparse_csr else (A.ccol_indices(), A.row_indices())
    outer = torch.repeat_interleave(torch.arange(A.shape[0], device=starts.device), starts.diff())
    rows, columns = (outer, inner) if A.layout == torch.sparse_csr else (inner, outer)
    return rows, columns, A.values(), A.shape[0], ""


def _keep_graph(A):
    """Make gradients that pass through A differentiable; return the name of an operation for which that is impossible, or "".

    The derivative of ``torch.sparse_coo_tensor`` returns a constant. A hook replaces it by the same numbers with their graph.
    """
    nodes, seen = [(A.grad_fn, True)], set()
    while nodes:
        node, is_sparse = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        name = node.name().rstrip("0123456789").removesuffix("Backward")
        if node.name().startswith(CONSTRUCTOR) and hasattr(node, "_saved_result"):
            _replace_gradient(node)
        elif name in KEEPS_SPARSE or name.startswith(CONVERTS):
            nodes += [(before, is_sparse and name in KEEPS_SPARSE) for before, _ in node.next_functions]
        elif is_sparse and "AccumulateGrad" not in name:
            return node.name()
    return ""


def _replace_gradient(node):
    torch = pytorch()
    if node.metadata.get("meshsolve"):
        return
    node.metadata["meshsolve"] = True
    rows, columns = node._saved_result._indices()

    def hook(gradients, outputs):
        given = outputs[0]
        if not torch.is_grad_enabled() or given is None or gradients[0] is None:
            return None
        if given.layout == torch.strided:
            return (given[rows, columns],)
        given = given.to_sparse_coo().coalesce()
        keys, known = rows * given.shape[1] + columns, given.indices()[0] * given.shape[1] + given.indices()[1]
        if len(known) == 0:
            return None
        place = torch.searchsorted(known, keys).clamp(max=len(known) - 1)
        return (torch.where(known[place] == keys, given.values()[place], 0),)

    node.register_hook(hook)


def _function_of_solves(torch):
    class Solve(torch.autograd.Function):
        """x with A x = b, or with the adjoint of A, from (values, b, rows, columns, held, adjoint)."""

        @staticmethod
        def forward(values, b, rows, columns, held, adjoint):
            return held.solve(values, b, rows, columns, adjoint)

        @staticmethod
        def setup_context(ctx, inputs, x):
            values, b, rows, columns, ctx.held, ctx.adjoint = inputs
            ctx.save_for_backward(values, x, rows, columns)
            ctx.save_for_forward(values, b, rows, columns)

        @staticmethod
        def backward(ctx, g):
            values, x, rows, columns = ctx.saved_tensors
            y = Solve.apply(values, g, rows, columns, ctx.held, not ctx.adjoint)
            if not ctx.needs_input_grad[0]:
                return None, y, None, None, None, None
            ctx.held.require_graph()
            # d(A^-1 b) = -A^-1 dA x; for A^-H b, whose matrix is the adjoint one, rows and columns change places.
            product = x[rows] * y[columns].conj() if ctx.adjoint else y[rows] * x[columns].conj()
            return -(product if product.ndim == 1 else product.sum(dim=1)), y, None, None, None, None

        @staticmethod
        def jvp(ctx, dvalues, db, *others):
            values, b, rows, columns = ctx.saved_tensors
            right = torch.zeros_like(b) if db is None else db
            if dvalues is not None:
                x = Solve.apply(values, b, rows, columns, ctx.held, ctx.adjoint)    # the x of forward has no tangents of outer levels
                i, j, d = (columns, rows, dvalues.conj()) if ctx.adjoint else (rows, columns, dvalues)
                right = right - torch.zeros_like(x).index_add(0, i, (d if x.ndim == 1 else d[:, None]) * x[j])
            return Solve.apply(values, right, rows, columns, ctx.held, ctx.adjoint)

        @staticmethod
        def vmap(info, in_dims, values, b, rows, columns, held, adjoint):
            if all(dim is None for dim in (in_dims[0], *in_dims[2:4])):
                return _block(in_dims[1], values, b, rows, columns, held, adjoint)
            parts = _samples(info.batch_size, in_dims[:4], (values, b, rows, columns))
            return torch.stack([Solve.apply(*part, held.again(), adjoint) for part in parts]), 0

    def _block(dim, values, b, rows, columns, held, adjoint):
        """A batch of right-hand sides for one matrix, as columns of one block."""
        b = b.movedim(dim, -1)
        x = Solve.apply(values, b.reshape(b.shape[0], -1), rows, columns, held, adjoint)
        return x.reshape(b.shape), b.ndim - 1

    return Solve


def _function_of_determinants(torch):
    class LogDeterminant(torch.autograd.Function):
        """log det A from (values, rows, columns, held)."""

        @staticmethod
        def forward(values, rows, columns, held):
            return values.new_tensor(held.factors.cholesky(held.of(values, rows, columns)).logdet())

        @staticmethod
        def setup_context(ctx, inputs, output):
            *tensors, ctx.held = inputs
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)

        @staticmethod
        def backward(ctx, g):
            ctx.held.require_graph()
            return g * InverseEntries.apply(*ctx.saved_tensors, ctx.held), None, None, None

        @staticmethod
        def jvp(ctx, dvalues, *others):
            return (InverseEntries.apply(*ctx.saved_tensors, ctx.held) * dvalues).sum()

        @staticmethod
        def vmap(info, in_dims, values, rows, columns, held):
            parts = _samples(info.batch_size, in_dims[:3], (values, rows, columns))
            return torch.stack([LogDeterminant.apply(*part, held.again()) for part in parts]), 0

    class InverseEntries(torch.autograd.Function):
        """The gradient of LogDeterminant; with once_differentiable it would be a constant if g is a constant."""

        @staticmethod
        def forward(values, rows, columns, held):
            found = held.factors.inverse_entries(held.of(values, rows, columns))
            return torch.from_numpy(found).to(device=values.device, dtype=values.dtype)

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            raise InvalidInputError(AGAIN)

        @staticmethod
        def jvp(ctx, *tangents):
            raise InvalidInputError(AGAIN)

        @staticmethod
        def vmap(info, in_dims, values, rows, columns, held):
            parts = _samples(info.batch_size, in_dims[:3], (values, rows, columns))
            return torch.stack([InverseEntries.apply(*part, held.again()) for part in parts]), 0

    return LogDeterminant


AGAIN = "the gradient of logdet cannot be differentiated again: that needs entries of the inverse outside the pattern of A"


def _samples(size, dims, tensors):
    """The tensors of each sample of a batch; tensors without a batch dimension are shared."""
    return [[t if dim is None else t.select(dim, k) for t, dim in zip(tensors, dims, strict=True)] for k in range(size)]
