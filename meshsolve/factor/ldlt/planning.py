"""Choose the pairs of rows and the ordering of a complete L D L^T factorization, and analyze it.

Pairs cost fill. Most rows with a small diagonal entry are filled by an earlier neighbor and then have a pivot of their own. Any other such
row is delayed to the front of its first later neighbor. That costs little, because its column lies within that of the neighbor. It is
delayed again only if it has no pivot in that front either. So pairs are planned only for two rows without a pivot in the order of the
single rows, and only if most rows without a pivot are in such pairs. Rows that the matching leaves out are ordered behind all their
neighbors, because a dependent row becomes distinguishable from rounding only then.

Ordering takes most of the time of an analysis, so there are few orderings: usually one, that of the rows. It serves pairs as well: a pair
takes the position of its later row. An ordering of the pairs is computed for comparison, and the factor with fewer operations is chosen.
If nearly every row needs its partner even in the order of ascending degrees, the single rows are not ordered.

The matching is sequential and runs on the host. Orderings and analyses run in the place that the caller gives: for a large factor on the
GPU, nested dissection and the symbolic phase of Cholesky. Permutations come back to the host, where the pairs are.

The ordering of the rows does not depend on the matching. On several threads both are computed at the same time; so are the analysis in
that order and the search for rows without a pivot.
"""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, replace

import numpy as np

from meshsolve import _core, device, order
from meshsolve.factor.ldlt.complete import CompletePlan, analysis_of_rows
from meshsolve.factor.matching import symmetric_pairs, weak_rows
from meshsolve.factor.symbolic import Symbolic
from meshsolve.order.ordering import Ordering
from meshsolve.report import progress_to
from meshsolve.sparse.cuda import without_diagonal
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import HOST

NEARLY_ALL = 0.9                # share of rows in pairs from which only the graph of the pairs is ordered
FEW = 0.05                      # share of rows in pairs up to which no pairs are planned
MOST = 0.75                     # share of the rows without a pivot, in pairs of two such rows, up to which no pairs are planned
HOPELESS = 4                    # operations, relative to the limit, from which the graph of the pairs is not ordered
MOSTLY_ZERO = 0.6               # share of zeros on the diagonal from which most rows are likely to need pairs
LARGE = 10_000                  # rows from which a matching takes longer than starting a thread


@dataclass
class Findings:
    """Results for the single rows, before pairs are planned.

    Attributes
    ----------
    ordering : Ordering
        Ordering of the single rows.
    symbolic : Symbolic, optional
        The analysis of the matrix in that order.
    weak : (n,) bool, optional
        Rows that are no 1x1 pivots in that order.
    rescaled : tuple, optional
        Result of :func:`rescale` for a complete factor, with the scaling of the matching.
    """

    ordering: Ordering
    symbolic: Symbolic | None = None
    weak: np.ndarray | None = None
    rescaled: tuple | None = None


def matching_and_findings(M, paired, ordering, report, threads, place=HOST):
    """The pairs of M. On several threads the rows are ordered and analyzed meanwhile, if their ordering is certain to be needed.

    Returns
    -------
    (Pairs, Findings or None)
        The seconds of the phase ``matching`` are those after ordering and analysis.
    """
    if threads > 1 and M.n >= LARGE and isinstance(ordering, str) and not (paired and _may_be_nearly_all(M, threads)):
        with _Background(lambda block: _matched(M, paired, block, threads)) as background:
            found = Findings(_order_of_rows(M, ordering, report, threads, place))
            background.send(found.ordering.perm)
            found.symbolic = analysis_of_rows(M, found.ordering, threads, place)
            report.merge(found.symbolic.report)
        with report.phase("matching"):
            matched, found.rescaled, found.weak = background.result()
        return matched, found
    with report.phase("matching"):
        return symmetric_pairs(M, paired, threads), None


def rescale(pattern, data, scale, complete, threads):
    """(scale, scaled values, ratio of row sizes as a power of two) of a matrix.

    The largest entry of each scaled row is near 1; for a complete factor, dense rows have a length near 1. The ratio is that in the given
    scaling.
    """
    return _core.ldlt_rescale(pattern.indptr, pattern.indices, data, scale, complete, threads)


def complete_plan(M, matched, ordering, report, threads, most_flops=np.inf, found=None, place=HOST):
    """Plan the complete factor.

    Parameters
    ----------
    M : Csr, both triangles
    matched : Pairs
        All pairs of the matching.
    ordering : str, or Ordering of the rows
    report : Report
        Receives the seconds of all orderings and analyses, and the facts of the chosen ones.
    threads : int
    most_flops : float
        Largest number of operations of a factor that will be made.
    found : Findings, optional
    place : HOST or CUDA
        Where graphs are ordered and analyzed.

    Returns
    -------
    CompletePlan
    """
    def ordered_pairs(pairs):
        return _resolved(ordering, pairs.graph, report, threads, place)

    def plan_of(pairs, chosen, symbolic=None):
        return _analyzed_plan(M, matched, pairs, chosen, report, threads, symbolic, place)

    if isinstance(ordering, str) and matched.share >= NEARLY_ALL:
        pairs = matched.where(_weak(M, matched, np.argsort(np.diff(M.indptr), kind="stable").astype(np.int32)))
        if pairs.share >= NEARLY_ALL:
            return plan_of(pairs, ordered_pairs(pairs))
    found = Findings(_order_of_rows(M, ordering, report, threads, place)) if found is None else found
    chosen, weak = found.ordering, _weak(M, matched, found.ordering.perm) if found.weak is None else found.weak
    pairs = matched.where(weak)
    if pairs.share <= max(FEW, MOST * weak.mean()):
        plan = plan_of(matched.where(False), chosen, found.symbolic)
        plan.likely_flops *= (1 + weak.mean()) ** 2         # delayed pivots lengthen columns
        return plan
    plan = plan_of(pairs, Ordering(pairs.contract(chosen.perm), chosen.method))
    if isinstance(ordering, str) and plan.flops < HOPELESS * most_flops:
        plan = min(plan, plan_of(pairs, ordered_pairs(pairs)), key=lambda p: p.flops)
        report.facts.update(plan.symbolic.report.facts)
    return plan


class _Background:
    """A function that runs on a thread of its own during a ``with`` block, with this object as its argument.

    The thread is not one of the pool, which the block may use: calls inside a call of the pool run on one thread. The function reports no
    progress, because progress belongs to the thread of the block. The block sends it one value.
    """

    def __init__(self, function):
        self._function, self._result, self._error = function, None, None
        self._canceled, self._is_late, self._sent = False, False, queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run_on_thread, daemon=True)

    def send(self, value):
        """Send a value to the function."""
        self._sent.put(value)

    def has_value(self):
        """True if the block has sent its value."""
        return not self._sent.empty()

    def receive(self):
        """Wait for the value of the block, and return it."""
        value = self._sent.get()
        self._check_canceled()
        return value

    def begin(self, phase):
        self._check_canceled()

    def count(self, done, total):
        self._check_canceled()

    def __enter__(self):
        try:
            self._thread.start()
        except RuntimeError:                            # no more threads: result() runs the function
            self._is_late = True
        except BaseException:                           # Ctrl-C while the thread is started
            self._cancel()
            raise
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            self._cancel()

    def result(self):
        """Wait for the function, and return its result or raise its error. Ctrl-C cancels it."""
        try:
            if self._is_late:
                self._is_late = False
                self._run()
            if self._thread.is_alive():
                self._thread.join()
        except BaseException:
            self._cancel()
            raise
        if self._error is not None:
            raise self._error
        return self._result

    def _check_canceled(self):
        """Stop the function if the block has been interrupted: Ctrl-C reaches only the thread of the block."""
        if self._canceled:
            raise KeyboardInterrupt

    def _run_on_thread(self):
        with progress_to(self):
            self._run()

    def _run(self):
        try:
            self._result = self._function(self)
        except BaseException as e:
            self._error = e

    def _cancel(self):
        self._canceled = True
        self.send(None)
        if self._thread.is_alive():
            self._thread.join()


def _matched(M, paired, block, threads):
    """(Pairs, result of :func:`rescale` or None, weak rows) of M, on the calling thread alone: the ordering uses the pool.

    The matrix is rescaled only if the ordering has not been sent yet.
    """
    _core.keep_free_memory(M.nnz, 1)                # each thread has its own heap
    matched = replace(symmetric_pairs(M, paired), threads=threads)
    rescaled = None if block.has_value() else rescale(M, M.data, matched.scale, True, 1)
    return matched, rescaled, _weak(M, matched, block.receive())


def _may_be_nearly_all(M, threads):
    """True if so many diagonal entries are zero that the single rows will probably not be ordered."""
    return np.count_nonzero(M.diagonal_values(threads) == 0) >= MOSTLY_ZERO * M.n


def _order_of_rows(M, ordering, report, threads, place):
    pattern = place.matrix(Csr(M.n, M.indptr, M.indices, diagonal=True))
    return _resolved(ordering, pattern if place is HOST else without_diagonal(pattern), report, threads, place)


def _weak(M, matched, perm):
    """Rows without a pivot of their own in an order of the rows, as (n,) bool; none if there are few pairs in any order."""
    return weak_rows(M, matched.scale, perm) if matched.share > FEW else np.zeros(M.n, bool)


def _analyzed_plan(M, matched, pairs, chosen, report, threads, symbolic, place):
    """The plan for these pairs in an order of their graph; ``symbolic`` is the analysis, if there is one."""
    if matched.rank < M.n:
        left_out = weak_rows(M, matched.scale, pairs.expand(chosen.perm)) & (matched.partner < 0)
        chosen = replace(chosen, perm=pairs.behind_neighbors(chosen.perm, left_out), tree=None, elimination=None)
        symbolic = None
    plan = CompletePlan(M, pairs, chosen, threads, symbolic, place)
    if symbolic is None:
        report.merge(plan.symbolic.report)
    return plan


def _resolved(ordering, graph, report, threads, place):
    chosen = order.resolve(ordering, graph, threads=threads, place=place.name, factor="ildl")
    report.merge(chosen.report)
    return replace(chosen, perm=device.to_host(chosen.perm))
