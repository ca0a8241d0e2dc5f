"""When a sequence of SQMR begins and how it ends. The iteration is in sqmr.py."""

RESTARTS = 3                            # after a breakdown, from the x reached so far
ORTHOGONAL = 1e-10                      # |r . q| relative to the lengths of r and q = M^-1 r, below which no Lanczos sequence begins
LOOK_AGAIN = 0.3                        # fraction of the quasi-residual at which the true one was still too large
MISLEADING = 1e-3                       # fraction of the true residual below which a quasi-residual is meaningless

GO_ON, ARRIVED, BROKEN, SPENT, SETTLED = range(5)                                  # states of a column: enum Standing in sqmr.cu

STAGNATED = "stagnated: the true residual no longer falls"
BROKE_DOWN = "broke down: r . M r or q . A q became zero"
SLOW = "slow: the residual fell less than 10 times in {} iterations"
