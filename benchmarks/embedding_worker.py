"""One embedding in a process of its own: ``python -m benchmarks.embedding_worker``, with the task as JSON on standard input."""

from __future__ import annotations

import json
import pathlib
import resource
import sys
import time

import numpy as np
import scipy.sparse as sp

from benchmarks.graphs import COORDINATES

MEMORY = 12 * 2**30             # bytes of a process: more is a failure


def embed(program, folder, limit):
    """Compute and save the coordinates in this process; returns the CPU seconds and the peak memory."""
    for kind, most in ((resource.RLIMIT_CPU, limit), (resource.RLIMIT_AS, MEMORY)):
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
    W = sp.csr_array(sp.load_npz(pathlib.Path(folder) / "W.npz"))
    facts = {}
    if program == "meshsolve":
        import meshsolve as ms

        begin = time.process_time()
        X, info = ms.apps.spectral_embedding(W, COORDINATES, threads=1)[1:]
        facts = {"method": info.method, "residual": float(info.residuals.max()), "blocks": info.iterations}
    else:
        from sklearn.manifold import spectral_embedding

        begin = time.process_time()
        X = spectral_embedding(W, n_components=COORDINATES, random_state=0, eigen_solver=program)
    facts["cpu"] = time.process_time() - begin
    np.save(pathlib.Path(folder) / f"{program}.npy", X)
    return facts | {"peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}


if __name__ == "__main__":
    print(json.dumps(embed(**json.load(sys.stdin))))
