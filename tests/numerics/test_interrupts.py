"""Ctrl-C that another library swallowed is raised again."""

import contextlib
import signal

import pytest

from gaussbell.numerics.interrupts import Interrupts


@pytest.fixture(autouse=True)
def _heard():
    """Programs that are started in the background ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_what_was_swallowed_is_raised_again():
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        interrupts.raise_if_heard()
        with contextlib.suppress(KeyboardInterrupt):  # as a callback of another library would
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.raise_if_heard()
        interrupts.raise_if_heard()  # once is enough
    assert signal.getsignal(signal.SIGINT) is before


def test_inside_another():
    with Interrupts() as outer:
        with Interrupts() as inner, pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            inner.raise_if_heard()
        with pytest.raises(KeyboardInterrupt):
            outer.raise_if_heard()
