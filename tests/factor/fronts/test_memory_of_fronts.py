"""What a numeric phase is foreseen to take beside the factor, for any number of threads."""

import meshsolve as ms
from meshsolve.factor.fronts import assembly_tree


def foreseen(L, threads):
    """Bytes beside the panels, from minimum degree's tree."""
    return 8 * assembly_tree(ms.analyze(L, ordering="amd"), 1).work_scalars(threads)


def test_update_matrices_pass_between_tasks_one_after_the_other():
    """A graph with hubs has a long way of large fronts to the root: all at once they would be a hundred times as much."""
    L = ms.datasets.preferential(6000, 3)
    one, two, many = (foreseen(L, threads) for threads in (1, 2, 16))
    assert one < two < 4 * one and two < many < 16 * one
