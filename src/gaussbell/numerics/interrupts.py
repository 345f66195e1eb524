"""Ctrl-C that is not lost: what a library swallows on its way is raised again at the next look."""

import signal
import threading
from types import FrameType
from typing import Any


class Interrupts:
    """Remembers that Ctrl-C was pressed while it is entered, besides what Python does about that anyway.

    Python raises KeyboardInterrupt wherever it happens to be. If that is inside a callback of another
    library, of a garbage collection for instance, it is printed and forgotten; `raise_if_heard` raises it
    again.

    Example:
        >>> from gaussbell.numerics.interrupts import Interrupts
        >>> with Interrupts() as interrupts:
        ...     interrupts.raise_if_heard()  # nothing was pressed
    """

    def __init__(self) -> None:
        self._heard = False
        self._before: Any = None

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if callable(self._before):
                signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._heard = True
        self._before(number, frame)

    def raise_if_heard(self) -> None:
        """KeyboardInterrupt if Ctrl-C was pressed and nobody has heard it."""
        if self._heard:
            self._heard = False
            raise KeyboardInterrupt
