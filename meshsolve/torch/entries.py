"""The entries of sparse tensors, with gradients, and second derivatives that PyTorch would lose."""

from __future__ import annotations

from meshsolve.errors import InvalidInputError
from meshsolve.torch.tensors import pytorch

CONSTRUCTOR = "SparseCooTensorWithDimsAndTensorsBackward"       # the node of torch.sparse_coo_tensor
KEEPS_SPARSE = ("Coalesce", "T", "Transpose", "Mul", "Div", "Neg", "Add", "Sub", "Clone", "Alias", "View")      # nodes of sparse tensors
CONVERTS = ("ToSparse", "ToDense")
LAYOUTS = "a sparse COO, CSR or CSC tensor, or (indices, values)"
LOSES = ("PyTorch loses second derivatives of the sparse tensor A (in {}): pass (indices, values), or make A of values by "
         "torch.sparse_coo_tensor alone")


def refuse_nested_forward():
    """Raise inside two nested forward-mode transforms of torch.func: PyTorch computes wrong numbers for custom functions in
    these."""
    functorch = getattr(pytorch()._C, "_functorch", None)
    levels = getattr(functorch, "get_interpreter_stack", lambda: None)() or ()
    if sum(str(level.key()).endswith("Jvp") for level in levels) > 1:
        raise InvalidInputError("a forward-mode derivative of a forward-mode derivative (jvp, jacfwd) is wrong in PyTorch for custom "
                                "functions: use torch.func.hessian, or jacrev for one of the two")


def require_indices(rows, columns, n):
    """Raise if an index lies outside 0..n - 1."""
    if len(rows) and not 0 <= int(min(rows.min(), columns.min())) <= int(max(rows.max(), columns.max())) < n:
        raise InvalidInputError(f"indices has values outside 0..{n - 1}, the rows of A")


def entries_of(A, n):
    """Return (rows, columns, values, n, loses) of A. Gradients of the tensor ``values`` reach A.

    ``loses`` names the operation that made A and loses second derivatives, or is "". The n of (indices, values) is the given one. Indices
    are compared with it where the matrix is factored: a test of their values would interrupt a compiled function.
    """
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
    return indices[0], indices[1], values, n, ""


def _entries_of_tensor(A):
    torch = pytorch()
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise InvalidInputError(f"A must be square, got {tuple(A.shape)}")
    _require_valid(A)
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


def _require_valid(A):
    """Raise if the indices of a sparse tensor do not fit its shape: PyTorch converts it without a check. Compiled code checks nothing."""
    torch = pytorch()
    if torch.compiler.is_compiling() or A.layout == torch.strided:
        return
    try:
        if A.layout == torch.sparse_coo:
            torch._validate_sparse_coo_tensor_args(A._indices(), A._values(), A.shape)
        else:
            by_rows = A.layout in (torch.sparse_csr, torch.sparse_bsr)
            starts, inner = (A.crow_indices(), A.col_indices()) if by_rows else (A.ccol_indices(), A.row_indices())
            torch._validate_sparse_compressed_tensor_args(starts, inner, A.values(), A.shape, A.layout)
    except RuntimeError as e:
        raise InvalidInputError(f"A is not a valid sparse tensor: {str(e).splitlines()[0]}") from e


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
