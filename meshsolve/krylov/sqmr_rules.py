"""Starting and stopping rules of SQMR. The iteration is in sqmr.py."""

RESTARTS = 3                            # largest number of restarts after a breakdown, from the best x
ORTHOGONAL = 1e-10                      # smallest |r . M r| relative to |r| |M r| for which a Lanczos sequence begins
LOOK_AGAIN = 0.3                        # decrease of the quasi-residual until the true residual is computed again
MISLEADING = 1e-3                       # smallest ratio of the quasi-residual to the true residual that is meaningful

RUNNING, AT_TARGET, BROKEN, AT_LIMIT, DONE = range(5)                                  # states of a column: enum Status in sqmr.cu

STAGNATED = "stagnated: the true residual no longer falls"
BROKE_DOWN = "broke down: r . M r or q . A q became zero"
SLOW = "slow: the residual fell less than 10 times in {} iterations"
