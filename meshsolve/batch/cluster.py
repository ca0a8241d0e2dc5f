"""Where the meshes of a batch run: in this process, or on the workers of a Dask cluster.

A worker that dies (out of memory, a crash) fails the mesh that killed it, not the run: Dask starts another worker.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from multiprocessing import resource_tracker

from meshsolve.batch import rows
from meshsolve.errors import InvalidInputError
from meshsolve.options import as_integer, thread_count
from meshsolve.order.reuse import Orderings

ONE_THREAD = {"MESHSOLVE_NUM_THREADS": "1"}
SETTINGS = {                            # of a cluster for one call
    "distributed.scheduler.allowed-failures": 0,                                        # alone() tries again
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.worker.profile.enabled": False,
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None}                 # 65536 makes each large array fault in again
ORDERINGS = Orderings()                 # of a worker
LARGEST_ARGUMENT = 1 << 16              # bytes of a pipeline above which it is sent to each worker once


def here(names, task):
    """Yield the rows, computed in this process one after the other."""
    orderings = Orderings()
    for name in names:
        yield rows.run(name, task.pipeline, orderings, task.is_kept)


def on_dask(names, task, client, retries):
    """Yield the rows as they are done, on the workers of ``client`` or of a cluster for this call."""
    if not names:
        return
    distributed = imported()
    if client is not None and not isinstance(client, (int, distributed.Client)):
        raise InvalidInputError(f"client must be a distributed.Client, a number of processes or False, got {type(client).__name__}")
    with contextlib.ExitStack() as stack:
        if not isinstance(client, distributed.Client):
            workers = thread_count() if client is None else as_integer(client, "client")
            client = stack.enter_context(local_client(distributed, workers))
        code = task.code if len(task.code) <= LARGEST_ARGUMENT else client.scatter(task.code, broadcast=True, hash=False)
        name_of = {submitted(client, name, code, task.is_kept): name for name in names}
        stack.callback(lambda: client.cancel(list(name_of)))            # those left after an error or Ctrl-C
        suspects = []
        for future in distributed.as_completed(list(name_of)):
            name = name_of.pop(future)
            try:
                row = future.result()
            except Exception:                                           # its worker died
                suspects.append(name)
                continue
            future.release()                                            # or a worker that dies later has its meshes computed again
            yield row
        for name in suspects:
            yield alone(client, name, code, task.is_kept, retries)


def alone(client, name, code, is_kept, retries):
    """Return the row of a mesh whose worker died, computed while no other mesh runs.

    When a worker dies, Dask also blames meshes that it was about to return or to begin.
    """
    for _ in range(1 + retries):
        future = submitted(client, name, code, is_kept)
        try:
            return future.result()
        except Exception as e:
            row = rows.failed(name, e)
        finally:
            future.release()
    return row


def submitted(client, name, code, is_kept):
    """Return the future of one mesh."""
    return client.submit(_on_worker, name, code, is_kept, pure=False)


@contextlib.contextmanager
def local_client(distributed, workers):
    """A client of worker processes with one thread each; they end with the block."""
    import dask

    with dask.config.set(SETTINGS), contextlib.ExitStack() as stack:
        with _ctrl_c_blocked():
            cluster = stack.enter_context(distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, env=ONE_THREAD,
                silence_logs=logging.CRITICAL))             # a mesh that fails has its row
            client = stack.enter_context(distributed.Client(cluster))
        yield client


def imported():
    """Import Dask's scheduler, or raise InvalidInputError with the command that installs it."""
    try:
        import distributed
    except ImportError as e:
        raise InvalidInputError('Dask is not installed: pip install "meshsolve[batch]", or pass client=False to run one mesh after the '
                                "other in this process") from e
    return distributed


@contextlib.contextmanager
def _ctrl_c_blocked():
    """Hold back Ctrl-C until the end of the block, and for good in the processes that start in it.

    A terminal sends Ctrl-C to each process. Here this process ends its workers; one that is interrupted would print a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):              # Windows
        yield
        return
    resource_tracker.ensure_running()                       # its start lifts the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _on_worker(name, code, is_kept):
    from distributed import get_worker

    os.environ.setdefault("MESHSOLVE_NUM_THREADS", ONE_THREAD["MESHSOLVE_NUM_THREADS"])
    return rows.run(name, code, ORDERINGS, is_kept, worker=str(get_worker().address))
