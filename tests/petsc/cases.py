"""Programs that test_petsc.py runs on some ranks: python cases.py NAME. Each asserts, and rank 0 prints what the test compares."""

import sys
import warnings

import numpy as np
import scipy.sparse as sp

import meshsolve as ms


def sphere(level=4, shift=1e-4):
    mesh = ms.datasets.icosphere(level)
    return sp.csr_array(ms.cotan_laplacian(mesh) + shift * ms.mass_matrix(mesh))


def rhs(n, seed=0):
    b = np.random.default_rng(seed).standard_normal(n)
    return b - b.mean()


def world():
    from mpi4py import MPI

    return MPI.COMM_WORLD


def show(*what):
    if world().rank == 0:
        print(*what, flush=True)                            # what is printed while MPI ends can be lost


def same_error(kind, match, call):
    """Every rank must raise ``kind``."""
    try:
        call()
    except Exception as e:
        found = type(e), str(e), getattr(e, "column", None)
    else:
        found = (None, "nothing raised", None)
    every = world().allgather(found)
    assert all(f == every[0] for f in every) and every[0][0] is kind and match in every[0][1], every
    return every[0]


# ---- on any number of ranks -------------------------------------------------------------------------------------------


def solutions():
    """Solutions of regular, fixed, pinned and singular systems against our direct solver."""
    A, L, b = sphere(3), ms.cotan_laplacian(ms.datasets.icosphere(3)), rhs(642)
    expected = ms.cholesky(A).solve(b)
    for coarse, restricted in (("none", False), ("constants", False), ("modes", True)):
        x, info = ms.petsc.solve(A, b, subdomains=2, overlap=1, coarse=coarse, restricted=restricted, rtol=1e-10)
        assert info.converged and info.reason == "converged" and np.abs(x - expected).max() <= 1e-6 * np.abs(expected).max()
        assert np.linalg.norm(b - A @ x) <= 1.01e-10 * np.linalg.norm(b) and info.relative_residual <= 1e-10
        assert len(info.residuals) > info.iterations > 0 and info.report.seconds["solve"] > 0
        assert info.subdomains == 2 * world().size and (info.coarse_size > 0) == (coarse != "none") and info.condition >= 1
    rows, values = [5, 600, 17], [1.0, -2.0, 0.5]
    x, _ = ms.petsc.solve(L, b, fixed=rows, fixed_values=values, rtol=1e-10)
    assert np.allclose(x, ms.cholesky(L, fixed=rows).solve(b, fixed_values=values), atol=1e-7) and (x[rows] == values).all()
    for given in ({"pin": True}, {}):
        x, info = ms.petsc.solve(L, b, rtol=1e-10, **given)
        assert np.allclose(x, ms.cholesky(L, pin=True).solve(b), atol=1e-6) and info.singular == (not given)
    parts = sp.csr_array(sp.block_diag([L, ms.graph_laplacian(ms.datasets.icosphere(2)), ms.graph_laplacian(ms.datasets.icosphere(1))]))
    c = np.concatenate([rhs(642), rhs(162), rhs(42)])
    x, info = ms.petsc.solve(parts, c, rtol=1e-10)
    assert np.allclose(x, ms.cholesky(parts, pin=True).solve(c), atol=1e-6)
    x, info = ms.petsc.solve(A, np.zeros(642))
    assert not x.any() and info.converged and info.iterations == 0
    x, info = ms.petsc.solve(np.diag([1.0, 2.0]), [3.0, 4.0])                 # fewer rows than ranks, perhaps
    assert np.allclose(x, [3, 2])
    show("ok")


def iterations():
    """Iterations with one subdomain a rank, and with eight subdomains on any number of ranks."""
    A, counts = sphere(5), []
    b = rhs(A.shape[0])
    for subdomains, coarse in ((1, "auto"), (8 // world().size, "auto"), (8 // world().size, "none")):
        x, info = ms.petsc.solve(A, b, subdomains=subdomains, coarse=coarse)
        assert np.linalg.norm(b - A @ x) <= 1.01e-8 * np.linalg.norm(b)
        counts.append(info.iterations)
    show(*counts)


def errors():
    """A bad input on one rank is the same error on all ranks."""
    rank, last, A, b = world().rank, world().size - 1, sphere(3), rhs(642)
    bad = sp.csr_array(A + sp.csr_array(([-1e3], ([77], [77])), shape=A.shape))
    _, text, column = same_error(ms.NotPositiveDefiniteError, "column ", lambda: ms.petsc.solve(bad, b))
    assert 0 <= column < 642 and f"column {column}" in text
    fixed = same_error(ms.NotPositiveDefiniteError, "column ", lambda: ms.petsc.solve(sp.diags_array(np.where(np.arange(50) == 33, -1.0, 1.0)),
                                                                                      np.ones(50), fixed=[0, 1, 2]))
    assert fixed[2] == 33
    nan = np.where(np.arange(642) == 7, np.nan, b) if rank == last else b
    same_error(ms.InvalidInputError, f"rank {last}: b: row 7 holds nan", lambda: ms.petsc.solve(A, nan))
    same_error(ms.InvalidInputError, "b must be (642,)", lambda: ms.petsc.solve(A, b[:-1] if rank == last else b))
    same_error(ms.InvalidInputError, "solve one right-hand side at a time", lambda: ms.petsc.solve(A, np.ones((642, 2))))
    same_error(ms.NotSymmetricError, "", lambda: ms.petsc.solve(sp.triu(A) if rank == last else A, b))
    same_error(ms.InvalidInputError, "coarse must be one of", lambda: ms.petsc.solve(A, b, coarse="geneo"))
    same_error(ms.InvalidInputError, "overlap must be an integer from 0", lambda: ms.petsc.solve(A, b, overlap=-1))
    same_error(ms.InvalidInputError, "options must be a dict of PETSc options", lambda: ms.petsc.solve(A, b, options={"pc_type": "lu"}))
    same_error(ms.InvalidInputError, "rtol must be", lambda: ms.petsc.solve(A, b, rtol=-1.0 if rank == last else 1e-8))
    same_error(ms.InvalidInputError, "fixed_values= needs fixed=", lambda: ms.petsc.solve(A, b, fixed_values=1.0))
    P, rows = ms.petsc.matrix(A)
    same_error(ms.InvalidInputError, "fixed= and pin=True need a matrix that every rank has", lambda: ms.petsc.solve(P, P.createVecLeft(), pin=True))
    same_error(ms.InvalidInputError, "b must be a PETSc.Vec", lambda: ms.petsc.solve(P, b))
    same_error(ms.InvalidInputError, "P must be a PETSc.Mat", lambda: ms.petsc.Schwarz(A))
    same_error(ms.InvalidInputError, "part must hold", lambda: ms.petsc.Schwarz(P, np.zeros(len(rows) + (rank == last), int)))
    same_error(ms.InvalidInputError, "part must not be negative", lambda: ms.petsc.matrix(A, part=np.full(642, -1)))
    if last:
        same_error(ms.InvalidInputError, "A differs between ranks 0 and", lambda: ms.petsc.solve(A * (2 if rank == last else 1), b))
        same_error(ms.InvalidInputError, "rtol differs between ranks", lambda: ms.petsc.solve(A, b, rtol=1e-6 if rank == last else 1e-8))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        _, info = ms.petsc.solve(A, b, maxiter=2, coarse="none", subdomains=2)
    assert not info.converged and info.reason == "maxiter reached" and info.relative_residual > 1e-8
    assert [w.category for w in seen] == [ms.ConvergenceWarning] * (rank == 0)
    show("ok")


def uncaught():
    """An error that no rank catches ends the program."""
    ms.petsc.solve(-sphere(2), rhs(162))


def distributed():
    """Matrices and right-hand sides that no rank has whole, and preconditioners for a KSP of the user."""
    from petsc4py import PETSc

    A, b, rank = sphere(4), rhs(2562), world().rank
    expected = ms.cholesky(A).solve(b)
    empty = np.zeros(2562, int) if world().size > 1 else None            # all rows on rank 0
    for part in (None, empty):
        P, rows = ms.petsc.matrix(A, part=part)
        assert P.getSize() == (2562, 2562) and len(rows) == P.getLocalSize()[0] and (part is None or len(rows) == 2562 * (rank == 0))
        right = P.createVecLeft()
        right.array_w[:] = b[rows]
        x, info = ms.petsc.solve(P, right, subdomains=2, rtol=1e-10)
        assert info.converged and np.allclose(x.array_r, expected[rows], atol=1e-6 * np.abs(expected).max())
    P, rows = ms.petsc.matrix(A)
    S = ms.petsc.Schwarz(P, np.arange(len(rows)) // (len(rows) // 2 + 1), overlap=1)
    assert S.subdomains == 2 * world().size and S.coarse_size > 0 and 0.1 < S.left_out < np.inf
    u, v, Bu, Bv = (P.createVecLeft() for _ in range(4))
    for k, w in enumerate((u, v)):
        w.array_w[:] = rhs(2562, k)[rows]
    S.pc.apply(u, Bu)
    S.pc.apply(v, Bv)
    assert abs(u.dot(Bv) - v.dot(Bu)) <= 1e-10 * u.dot(Bu) and u.dot(Bu) > 0
    ksp = PETSc.KSP().create(P.getComm())
    ksp.setType("cg")
    ksp.setOperators(P)
    ksp.setPC(S.pc)
    ksp.setTolerances(rtol=1e-10)
    ksp.solve(u, v)
    assert ksp.getConvergedReason() > 0 and (u - P * v).norm() <= 1e-6 * u.norm()
    before, factors = ksp.getIterationNumber(), [id(F) for F in S._factors]
    P.scale(4)                                              # new values: factored again by the set-up of the KSP
    ksp.solve(u, v)
    assert abs(ksp.getIterationNumber() - before) <= 1 and [id(F) for F in S._factors] == factors and (u - P * v).norm() <= 1e-6 * u.norm()
    P.scale(-1)                                             # no longer definite: the KSP ends on all ranks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ksp.solve(u, v)
    assert ksp.getConvergedReason() == PETSc.KSP.ConvergedReason.DIVERGED_NANORINF and isinstance(S.error, ms.NotPositiveDefiniteError)
    same_error(ms.NotPositiveDefiniteError, "column", S.setUp)
    show("ok")


def by_name():
    """Factors by name inside block Jacobi and additive Schwarz of PETSc, and new values in a second set-up."""
    from petsc4py import PETSc

    import meshsolve.petsc.contexts as contexts

    made, original = [], contexts.cholesky
    contexts.cholesky = lambda A, **options: made.append(A.shape) or original(A, **options)
    A = sphere(3, 1e-2)
    P, rows = ms.petsc.matrix(A)
    b, x = P.createVecs()
    b.array_w[:] = rhs(642)[rows]
    for pc, name in (("asm", "Cholesky"), ("bjacobi", "Cholesky"), ("bjacobi", "Ildl"), ("bjacobi", "Parac")):
        database, prefix = PETSc.Options(), f"{pc}_{name}_"
        for option, value in {"ksp_type": "cg", "ksp_rtol": 1e-9, "pc_type": pc, "pc_asm_type": "basic", "sub_ksp_type": "preonly",
                              "sub_pc_type": "python", "sub_pc_python_type": f"meshsolve.petsc.{name}", "sub_pc_meshsolve_threads": 2}.items():
            database.setValue(prefix + option, value)
        ksp = PETSc.KSP().create(P.getComm())
        ksp.setOptionsPrefix(prefix)
        ksp.setFromOptions()
        ksp.setOperators(P)
        ksp.solve(b, x)
        assert ksp.getConvergedReason() > 0 and (b - P * x).norm() <= 1e-6 * b.norm(), (pc, name)
        if (pc, name) == ("asm", "Cholesky"):
            context = ksp.getPC().getASMSubKSP()[0].getPC().getPythonContext()
            assert context.threads == 2 and type(context) is ms.petsc.Cholesky and len(made) == 1
            P.scale(2)
            ksp.solve(b, x)
            assert len(made) == 1 and (b - P * x).norm() <= 1e-6 * b.norm()          # refactored, not analyzed again
            P.scale(-1)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                ksp.solve(b, x)
            assert ksp.getConvergedReason() < 0 and isinstance(context.error, ms.NotPositiveDefiniteError) and seen
            P.scale(-0.5)
            ksp.solve(b, x)
            assert ksp.getConvergedReason() > 0 and context.error is None            # the next matrix is factored again
    show("ok")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
