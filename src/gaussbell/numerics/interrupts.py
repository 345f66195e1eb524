"""Ctrl-C, heard where nothing of ours is half done."""

import _thread
import signal
import threading
from types import FrameType
from typing import Any

PATIENCE = 1.0
"""Seconds after which Ctrl-C is raised wherever Python happens to be."""
COMPILER, NEXT_LOOK = "jax/_src/compiler.py", 0.1
"""But not in here: it is looked again after so many seconds."""


class Interrupts:
    """While it is entered, Ctrl-C waits for the next `raise_if_heard`, or a second at most.

    Python raises KeyboardInterrupt wherever it happens to be. Inside a callback of another library, of a
    garbage collection for instance, it is printed and forgotten; while JAX compiles it leaves the compiler
    running, which crashes a process that ends before it, so the end of a compilation is always awaited. One
    that is entered inside another shares what that has heard.

    Example:
        >>> from gaussbell.numerics.interrupts import Interrupts
        >>> with Interrupts() as interrupts:
        ...     interrupts.raise_if_heard()  # nothing was pressed
    """

    def __init__(self) -> None:
        self._outer: Interrupts | None = None
        self._before: Any = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            outer = getattr(before, "__self__", None)
            if isinstance(outer, Interrupts):
                self._outer = outer
            elif callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, failure: Any, *_: object) -> None:
        if self._before is None:
            return
        signal.signal(signal.SIGINT, self._before)
        if failure is None:
            self.raise_if_heard()
        self._forget()

    def raise_if_heard(self) -> None:
        """KeyboardInterrupt, or what else the program does then, if Ctrl-C was pressed."""
        if self._outer is not None:
            self._outer.raise_if_heard()
        elif self._timer is not None:
            self._forget()
            self._before(signal.SIGINT, None)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._timer is None:
            self._wait(PATIENCE)
        elif _is_compiling(frame):
            self._wait(NEXT_LOOK)
        else:  # pressed again, or nobody has looked: still heard if this is swallowed
            self._before(number, frame)

    def _wait(self, seconds: float) -> None:
        self._forget()
        self._timer = threading.Timer(seconds, _thread.interrupt_main)
        self._timer.daemon = True
        self._timer.start()

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _is_compiling(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.endswith(COMPILER):
            return True
        frame = frame.f_back
    return False
