"""Solves that PyTorch differentiates, compared with the work that a step cannot avoid: a refactorization and two solves.

    python -m benchmarks.gradients [--meshes scan-0 igea] [--repeat 9] [--clock wall]

A step has new values in a kept pattern, three right-hand sides, and gradients of both: ``ms.torch.Solver`` forward and backward. ``matrix``
has the entries of M + t L once, ``faces`` the entries of each face, as ``ms.torch.cotan_laplacian`` and ``mass_matrix`` return them.
``logdet`` is a determinant with its gradient, relative to a refactorization and a selected inversion. All calls take turns in one process,
on one thread. Gradients are compared with differences first. Writes benchmarks/results/gradients-<date>-1t.json.
"""

from __future__ import annotations

import argparse

import numpy as np

import meshsolve as ms
from benchmarks.measure import clock_for, describe, interleave, library_threads, summary, write_json
from benchmarks.problems import find
from benchmarks.table import Table, bar, print_bars

COLUMNS = ("mesh", "vertices", "refactor + 2 solves", "matrix", "faces", "refactor + inverse", "logdet")
MOST = 1.3                                      # of a step, relative to a refactorization and two solves
WRONG = 1e-5                                    # error of a directional derivative that ends the run
NUDGE = 1e-6                                    # relative change of the values for it


def main(arguments=None):
    """Run the benchmark. Returns 1 if a bar is missed."""
    options = parser().parse_args(arguments)
    run = describe("gradients", [1], options.clock) | {"rows": []}
    table = Table(*COLUMNS)
    with library_threads(1):
        for problem in map(find, options.meshes):
            row = {"mesh": problem.name} | measure(problem.mesh(), options.repeat)
            run["rows"].append(row)
            table.row(row["mesh"], row["n"], *(of(row, name, run) for name in ("least", "matrix", "faces", "least logdet", "logdet")))
            write_json(run, options.out)
    run["bars"] = verdicts(run)
    print("written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.gradients", description=__doc__.split("\n")[0])
    p.add_argument("--meshes", nargs="+", default=["scan-0", "igea"], help="names (igea, ogre-1, icosphere-7) or mesh files")
    p.add_argument("--repeat", type=int, default=9)
    p.add_argument("--clock", choices=("wall", "cpu"), default="cpu", help="cpu: ratios on a machine in use")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def measure(mesh, repeat):
    """Seconds of all tasks on one mesh, and the error of the gradient."""
    import torch

    torch.set_num_threads(1)
    faces, A = entries(mesh)
    rows, columns = A.nonzero()
    matrix = torch.from_numpy(np.stack([rows, columns]).astype(np.int64)), torch.from_numpy(A.data)
    b = torch.from_numpy(np.ascontiguousarray(mesh.vertices))
    F, steps = ms.cholesky(A, threads=1), {name: Step(*given, b) for name, given in (("matrix", matrix), ("faces", faces))}
    error = max(step.error() for step in steps.values())
    if error > WRONG:
        raise RuntimeError(f"error of a derivative {error:.1e}")
    determinant = Step(*matrix, None)
    tasks = {"least": lambda: (F.refactor(A).solve(b.numpy()), F.solve(b.numpy())), **steps,
             "least logdet": lambda: F.refactor(A).selected_inverse(), "logdet": determinant}
    determinant()
    seconds = interleave(tasks, repeat)[1]
    return {"n": A.shape[0], "entries": {"matrix": A.nnz, "faces": len(faces[1])}, "error": error,
            "seconds": {name: {clock: summary(v) for clock, v in found.items()} for name, found in seconds.items()}}


def entries(mesh):
    """((indices, values) of the faces, csr_array) of M + t L with t the squared mean edge length."""
    import torch

    V, F = torch.from_numpy(mesh.vertices.copy()), torch.from_numpy(mesh.faces.astype(np.int64))
    (i, masses), (j, weights) = ms.torch.mass_matrix(V, F), ms.torch.cotan_laplacian(V, F)
    indices, values = torch.cat([i, j], 1), torch.cat([masses, float(mesh.edge_lengths.mean()) ** 2 * weights])
    return (indices, values), ms.operators.Assembly(*indices.numpy(), len(V))(values.numpy())


class Step:
    """Forward and backward of the steps of an optimization, whose values change; without b that of a determinant."""

    def __init__(self, indices, values, b):
        self.indices, self.values, self.b, self.solver, self.count = indices, values, b, ms.torch.Solver("cholesky", 1), 0

    def __call__(self):
        """Take a step with new values, and return their gradient."""
        self.count += 1
        return self.gradient(self.values * (1 + 0.01 * self.count))

    def gradient(self, values):
        """The gradient of the energy |x|^2 / 2 or of the determinant."""
        values = values.detach().requires_grad_()
        if self.b is None:
            self.solver.logdet((self.indices, values)).backward()
            return values.grad
        b = self.b.clone().requires_grad_()
        x = self.solver((self.indices, values), b)
        x.backward(x.detach())
        return values.grad

    def energy(self, values):
        """|x|^2 / 2."""
        return float(self.solver((self.indices, values), self.b).square().sum()) / 2

    def error(self):
        """Relative error of the derivative along the values, compared with a difference."""
        found = float(self.gradient(self.values) @ self.values)
        difference = (self.energy(self.values * (1 + NUDGE)) - self.energy(self.values * (1 - NUDGE))) / (2 * NUDGE)
        return abs(found / difference - 1)


def of(row, name, run):
    """The median of a task."""
    return row["seconds"][name][clock_for(run["threads"][0], run["clock"])]["median"]


def verdicts(run):
    """The ratios of each mesh; that of the matrix is asked for."""
    return [bar(f"{row['mesh']}: {name}, relative to the least work", of(row, name, run) / of(row, least, run), MOST, at_least=False,
                asked=name == "matrix")
            for row in run["rows"] for name, least in (("matrix", "least"), ("faces", "least"), ("logdet", "least logdet"))]


if __name__ == "__main__":
    raise SystemExit(main())
