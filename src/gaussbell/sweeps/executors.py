"""Where the cells of a sweep run: processes of this machine, or a Dask cluster."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    ProcessPoolExecutor,
)
from multiprocessing.connection import Connection
from typing import Any

CONNECT_SECONDS = 10.0
"""How long to wait for a scheduler."""


SINGLE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",  # for XLA's pool of threads
}


XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false"
"""Two busy processes with one thread each beat one with two, and sums come in the same order everywhere."""


OpenExecutor = Callable[[], contextlib.AbstractContextManager[Executor]]


class Shared:
    """An executor that several sweeps share; opened anew where its workers have died.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with Shared(ThreadPoolExecutor) as open_executor, open_executor() as executor:
        ...     executor.submit(sum, [1, 2]).result()
        3
    """

    def __init__(self, open_executor: OpenExecutor):
        self._open, self._stack, self._executor = open_executor, contextlib.ExitStack(), None

    def __enter__(self) -> OpenExecutor:
        return self._lend

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    @contextlib.contextmanager
    def _lend(self) -> Iterator[Executor]:
        if self._executor is None:
            self._executor = self._stack.enter_context(self._open())
        try:
            yield self._executor
        except BrokenExecutor as error:
            self._executor = None
            with contextlib.suppress(BrokenExecutor):
                self._stack.__exit__(type(error), error, error.__traceback__)
            raise


@contextlib.contextmanager
def local_processes(workers: int | None = None) -> Iterator[Executor]:
    """Fresh processes of this machine, by default one a core, each with one thread for its arithmetic.

    They end with the one who started them, also where it is killed.
    """
    count = workers or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    context = multiprocessing.get_context("spawn")
    listen, alive = context.Pipe(duplex=False)
    with _environment(_single_thread()):  # workers start when there is work for them
        executor = ProcessPoolExecutor(
            count, mp_context=context, initializer=_become_worker, initargs=(listen,)
        )
        try:
            yield executor
        except BaseException:
            alive.close()  # ends the workers at once
            executor.shutdown(wait=False, cancel_futures=True)
            raise
        executor.shutdown()
    alive.close()


@contextlib.contextmanager
def dask_cluster(address: str, timeout: float | None = None) -> Iterator[Executor]:
    """The workers of a Dask cluster, by its scheduler's address. Needs the extra `cluster`.

    Start them with one thread each: `dask worker ADDRESS --nthreads 1`.
    """
    try:
        from distributed import Client  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError("A cluster needs Dask: pip install 'gaussbell[cluster]'.") from error
    timeout = timeout or CONNECT_SECONDS
    try:
        client = Client(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ValueError(
            f"scheduler={address!r}: no Dask scheduler answers there within {timeout:g} s ({error}); start "
            "one with `dask scheduler` and give the address it prints, such as tcp://127.0.0.1:8786."
        ) from error
    with client:
        client.register_worker_callbacks(_use_one_thread)
        executor = client.get_executor(pure=False)
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False)
            raise


def _single_thread() -> dict[str, str]:
    """The environment of a worker with one thread; other flags are kept."""
    return SINGLE_THREAD | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {XLA_FLAGS}".strip()}


def _use_one_thread() -> None:
    """Make this worker one with one thread, unless it has computed already."""
    os.environ.update(_single_thread())


@contextlib.contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """These variables, for processes started meanwhile."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _become_worker(alive: Connection) -> None:
    """Leave Ctrl-C to the one who started us, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        with contextlib.suppress(EOFError, OSError):
            alive.recv_bytes()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
