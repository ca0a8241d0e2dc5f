"""What SQMR on the CPU and on the GPU have in common: where a sequence begins and how it ends.

The iterations themselves are in sqmr.py and sqmr_cuda.py.
"""

RESTARTS = 3                            # after a breakdown, from the x reached so far
ORTHOGONAL = 1e-10                      # |r . q| over the lengths of r and q = M^-1 r, below which no Lanczos sequence begins

STAGNATED = "stagnated: the true residual no longer falls"
BROKE_DOWN = "broke down: r . M r or q . A q became zero"
