"""Which pairs of rows a complete factorization needs, in which order, and what its factor will be.

Pairs cost fill. Most rows with a small diagonal entry are filled by an earlier neighbour and then have a pivot of their own. One
that has not is handed up to the front of the first neighbour that comes later, which costs little: its column lies within that
of the neighbour. It goes on from front to front only where that has no pivot either, so pairs of two such rows, found in the
order of the single rows, are what a factor has to plan for, where most rows without a pivot are in them. Rows that the matching
leaves out wait for all their neighbours: where they depend on others, elimination tells them from rounding only then.

Orderings are what an analysis spends its time on, so there are as few as a good factor allows: one of the rows, mostly. It serves
pairs as well, each of which comes where the later of its rows does; an order of the pairs is made beside it, and the factor with
fewer operations is taken. Where nearly every row needs its partner even in the order of its neighbours' number, the single rows
are not ordered at all.

The order of the rows asks for nothing that the matching finds: on several threads both are made at the same time, and the analysis
of the rows in that order, which most factors take, while the rows without a pivot are told from the others.
"""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, replace

import numpy as np

from meshsolve import _core, order
from meshsolve.factor.ldlt.complete import CompletePlan, analysis_of_rows
from meshsolve.factor.matching import symmetric_pairs, weak_rows
from meshsolve.factor.symbolic import Symbolic
from meshsolve.order.ordering import Ordering
from meshsolve.report import progress_to
from meshsolve.sparse.matrix import Csr

NEARLY_ALL = 0.9                # of the rows are in pairs: only the graph of the pairs is ordered
FEW = 0.05                      # ... are, or fewer: none is planned for
MOST = 0.75                     # of the rows without a pivot are in pairs of two such rows: their graph is ordered beside the rows,
HOPELESS = 4                    # unless the factor takes so many times as many operations as it may
MOSTLY_ZERO = 0.6               # of the diagonal: pairs are likely to be the rule
LARGE = 10_000                  # rows from which a matching takes longer than a thread to start


@dataclass
class Findings:
    """What is known before pairs are planned.

    Attributes
    ----------
    ordering : Ordering
        Of the single rows.
    analysed : Symbolic, optional
        The analysis of the matrix in that order.
    weak : (n,) bool, optional
        Rows without a pivot of their own in that order.
    rescaled : tuple, optional
        What :func:`rescale` makes of the matrix and the scaling of the matching for a complete factor.
    """

    ordering: Ordering
    analysed: Symbolic | None = None
    weak: np.ndarray | None = None
    rescaled: tuple | None = None


class _Beside:
    """A function that runs while the ``with`` block does. Not in the pool, which the block is free to use: calls inside a call of
    the pool run alone. It shows no progress: that belongs to the thread of the block. It is given this object, from which it gets
    what the block hands over, once."""

    def __init__(self, function):
        self._function, self._result, self._error = function, None, None
        self._given_up, self._is_late, self._handed = False, False, queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run_beside, daemon=True)

    def hand_over(self, value):
        self._handed.put(value)

    def is_waited_for(self):
        """Whether the block has handed its value over."""
        return not self._handed.empty()

    def handed_over(self):
        """That value, once it is there."""
        value = self._handed.get()
        self._hear()
        return value

    def begin(self, phase):
        self._hear()

    def count(self, done, total):
        self._hear()

    def _hear(self):
        """Ctrl-C reaches the thread of the block alone: what runs here looks whether that has given up."""
        if self._given_up:
            raise KeyboardInterrupt

    def _run_beside(self):
        with progress_to(self):
            self._run()

    def _run(self):
        try:
            self._result = self._function(self)
        except BaseException as e:
            self._error = e

    def __enter__(self):
        try:
            self._thread.start()
        except RuntimeError:                            # the system gives no more threads: it runs when its result is asked for
            self._is_late = True
        except BaseException:                           # Ctrl-C, while it waits for the thread to begin
            self._give_up()
            raise
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            self._give_up()

    def result(self):
        """What the function returns, or the error it raises; Ctrl-C ends it."""
        try:
            if self._is_late:
                self._is_late = False
                self._run()
            if self._thread.is_alive():
                self._thread.join()
        except BaseException:
            self._give_up()
            raise
        if self._error is not None:
            raise self._error
        return self._result

    def _give_up(self):
        self._given_up = True
        self.hand_over(None)
        if self._thread.is_alive():
            self._thread.join()


def matching_and_findings(M, paired, ordering, report, threads):
    """The pairs of M; and what a second thread could find meanwhile, where an order of the rows is sure to be asked for.

    Returns
    -------
    (Pairs, Findings or None)
        The seconds of the ``matching`` are those that ordering and analysis did not cover.
    """
    if threads > 1 and M.n >= LARGE and isinstance(ordering, str) and not (paired and _may_be_nearly_all(M, threads)):
        with _Beside(lambda beside: _matched(M, paired, beside, threads)) as beside:
            found = Findings(_order_of_rows(M, ordering, report, threads))
            beside.hand_over(found.ordering.perm)
            found.analysed = analysis_of_rows(M, found.ordering, threads)
            report.merge(found.analysed.report)
        with report.phase("matching"):
            matched, found.rescaled, found.weak = beside.result()
        return matched, found
    with report.phase("matching"):
        return symmetric_pairs(M, paired, threads), None


def _matched(M, paired, beside, threads):
    """(Pairs, what :func:`rescale` makes if there is time for it, weak rows) of M on the calling thread alone: the pool is the
    ordering's, which is handed over."""
    _core.keep_free_memory(M.nnz, 1)                # each thread has a heap of its own
    matched = replace(symmetric_pairs(M, paired), threads=threads)
    rescaled = None if beside.is_waited_for() else rescale(M, M.data, matched.scale, True, 1)
    return matched, rescaled, _weak(M, matched, beside.handed_over())


def rescale(pattern, data, scale, complete, threads):
    """(scale, scaled values, by how many powers of two the rows parted in the scaling given) of a matrix whose rows have entries near
    1, or in a complete factor a length near 1 where they are dense."""
    return _core.ldlt_rescale(pattern.indptr, pattern.indices, data, scale, complete, threads)


def _may_be_nearly_all(M, threads):
    """Whether so many rows have no diagonal entry that the single rows will hardly be ordered."""
    return np.count_nonzero(M.diagonal_values(threads) == 0) >= MOSTLY_ZERO * M.n


def _order_of_rows(M, ordering, report, threads):
    return _resolved(ordering, Csr(M.n, M.indptr, M.indices, diagonal=True), report, threads)


def complete_plan(M, matched, ordering, report, threads, most_flops=np.inf, found=None):
    """The plan of the complete factor.

    Parameters
    ----------
    M : Csr, both triangles
    matched : Pairs
        All pairs of the matching.
    ordering : str, or Ordering of the rows
    report : Report
        Gets the seconds of orderings and analyses, and the facts of those that are taken.
    threads : int
    most_flops : float
        A factor that takes more will not be made.
    found : Findings, optional

    Returns
    -------
    CompletePlan
    """
    if isinstance(ordering, str) and matched.share >= NEARLY_ALL:
        pairs = matched.where(_weak(M, matched, np.argsort(np.diff(M.indptr), kind="stable").astype(np.int32)))
        if pairs.share >= NEARLY_ALL:
            return _analysed(M, matched, pairs, _resolved(ordering, pairs.graph, report, threads), report, threads)
    found = Findings(_order_of_rows(M, ordering, report, threads)) if found is None else found
    chosen, weak = found.ordering, _weak(M, matched, found.ordering.perm) if found.weak is None else found.weak
    pairs = matched.where(weak)
    if pairs.share <= max(FEW, MOST * weak.mean()):
        plan = _analysed(M, matched, matched.where(False), chosen, report, threads, found.analysed)
        plan.likely_flops *= (1 + weak.mean()) ** 2         # rows handed up lengthen the columns where they come to
        return plan
    plan = _analysed(M, matched, pairs, Ordering(pairs.contract(chosen.perm), chosen.method), report, threads)
    if isinstance(ordering, str) and plan.flops < HOPELESS * most_flops:
        other = _analysed(M, matched, pairs, _resolved(ordering, pairs.graph, report, threads), report, threads)
        plan = min(plan, other, key=lambda p: p.flops)
        report.facts.update(plan.symbolic.report.facts)
    return plan


def _weak(M, matched, perm):
    """Rows without a pivot of their own in an order of the rows, as (n,) bool; none where there are few pairs in any order."""
    return weak_rows(M, matched.scale, perm) if matched.share > FEW else np.zeros(M.n, bool)


def _analysed(M, matched, pairs, chosen, report, threads, analysed=None):
    """The plan for these pairs in an order of their graph, of which there may be an analysis."""
    if matched.rank < M.n:
        left_out = weak_rows(M, matched.scale, pairs.expand(chosen.perm)) & (matched.partner < 0)
        chosen = replace(chosen, perm=pairs.behind_neighbours(chosen.perm, left_out), tree=None, elimination=None)
        analysed = None
    plan = CompletePlan(M, pairs, chosen, threads, analysed)
    if analysed is None:
        report.merge(plan.symbolic.report)
    return plan


def _resolved(ordering, graph, report, threads):
    chosen = order.resolve(ordering, graph, threads=threads, factor="ildl")
    report.merge(chosen.report)
    return chosen
