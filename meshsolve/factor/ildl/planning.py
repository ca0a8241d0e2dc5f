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

The order of the rows asks for nothing that the matching finds: on several threads both are made at the same time.
"""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np

from meshsolve import order
from meshsolve.arrays import Csr
from meshsolve.factor.ildl.complete import CompletePlan
from meshsolve.factor.ildl.incomplete import resolve
from meshsolve.factor.matching import symmetric_pairs, weak_rows
from meshsolve.report import telling

NEARLY_ALL = 0.9                # of the rows are in pairs: only the graph of the pairs is ordered
FEW = 0.05                      # ... are, or fewer: none is planned for
MOST = 0.75                     # of the rows without a pivot are in pairs of two such rows: their graph is ordered beside the rows,
HOPELESS = 4                    # unless the factor takes so many times as many operations as it may
MOSTLY_ZERO = 0.6               # of the diagonal: pairs are likely to be the rule
LARGE = 10_000                  # rows from which a matching takes longer than a thread to start


class _Beside:
    """A function that runs while the ``with`` block does. Not in the pool, which the block is free to use: calls inside a call of
    the pool run alone. It shows no progress: that belongs to the thread of the block."""

    def __init__(self, function):
        self._function, self._result, self._error = function, None, None
        self._given_up = False
        self._thread = threading.Thread(target=self._run_beside, daemon=True)

    def begin(self, phase):
        self._hear()

    def count(self, done, total):
        self._hear()

    def _hear(self):
        """Ctrl-C reaches the thread of the block alone: what runs here looks whether that has given up."""
        if self._given_up:
            raise KeyboardInterrupt

    def _run_beside(self):
        with telling(self):
            self._run()

    def _run(self):
        try:
            self._result = self._function()
        except BaseException as e:
            self._error = e

    def __enter__(self):
        try:
            self._thread.start()
        except RuntimeError:                            # the system gives no more threads
            self._run()
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            self._give_up()

    def result(self):
        """What the function returns, or the error it raises; Ctrl-C ends it."""
        try:
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
        if self._thread.is_alive():
            self._thread.join()


def matching_and_order(M, paired, ordering, report, threads):
    """The pairs of M; and the ordering of its rows where a second thread could make it meanwhile and it is sure to be asked for.

    Returns
    -------
    (Pairs, Ordering or None)
        The seconds of the ``matching`` are those that the ordering did not cover.
    """
    if threads > 1 and M.n >= LARGE and isinstance(ordering, str) and not (paired and _may_be_nearly_all(M)):
        with _Beside(lambda: replace(symmetric_pairs(M, paired), threads=threads)) as matching:     # the pool is the ordering's
            rows = _order_of_rows(M, ordering, report, threads)
        with report.phase("matching"):
            return matching.result(), rows
    with report.phase("matching"):
        return symmetric_pairs(M, paired, threads), None


def _may_be_nearly_all(M):
    """Whether so many rows have no diagonal entry that the single rows will hardly be ordered."""
    return np.count_nonzero(M.to_scipy().diagonal() == 0) >= MOSTLY_ZERO * M.n


def _order_of_rows(M, ordering, report, threads):
    return _resolved(ordering, Csr(M.n, M.indptr, M.indices, diagonal=True), report, threads)


def complete_plan(M, matched, ordering, report, threads, most_flops=np.inf, rows=None, analysed=None):
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
    rows : Ordering, optional
        The rows in that ordering, where it was made before.
    analysed : Symbolic, optional
        The analysis of M in the ordering ``rows``, where it was made before.

    Returns
    -------
    CompletePlan
    """
    if isinstance(ordering, str) and matched.share >= NEARLY_ALL:
        pairs = matched.where(_weak(M, matched, np.argsort(np.diff(M.indptr), kind="stable").astype(np.int32)))
        if pairs.share >= NEARLY_ALL:
            return _analysed(M, matched, pairs, _resolved(ordering, pairs.graph, report, threads), report, threads)
    chosen = _order_of_rows(M, ordering, report, threads) if rows is None else rows
    weak = _weak(M, matched, chosen.perm)
    pairs = matched.where(weak)
    if pairs.share <= max(FEW, MOST * weak.mean()):
        plan = _analysed(M, matched, matched.where(False), chosen, report, threads, analysed)
        plan.likely_flops *= (1 + weak.mean()) ** 2         # rows handed up lengthen the columns where they come to
        return plan
    plan = _analysed(M, matched, pairs, order.Ordering(pairs.contract(chosen.perm), chosen.method), report, threads)
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
    chosen = resolve(ordering, graph, threads)
    report.merge(chosen.report)
    return chosen
