"""Ctrl-C waits for the next look, but not for long, and is not lost."""

import contextlib
import signal
import subprocess
import sys
import time

import pytest

from gaussbell.numerics.interrupts import Interrupts


@pytest.fixture(autouse=True)
def _heard():
    """Programs that are started in the background ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def press():
    signal.raise_signal(signal.SIGINT)


def test_it_waits_for_the_next_look():
    with Interrupts() as interrupts:
        interrupts.raise_if_heard()
        press()
        with pytest.raises(KeyboardInterrupt):
            interrupts.raise_if_heard()
        interrupts.raise_if_heard()  # once is enough


def test_it_waits_a_second_at_most():
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Interrupts():
        press()
        while time.monotonic() < started + 5:
            time.sleep(0.01)
    assert time.monotonic() < started + 4


def test_it_is_raised_at_once_when_pressed_again():
    with pytest.raises(KeyboardInterrupt), Interrupts():
        press()
        press()
        raise AssertionError


def test_what_was_swallowed_is_raised_again():
    with Interrupts() as interrupts:
        press()
        with contextlib.suppress(KeyboardInterrupt):  # as a callback of another library would
            press()
        with pytest.raises(KeyboardInterrupt):
            interrupts.raise_if_heard()


def test_it_is_not_lost_where_nobody_looks():
    with pytest.raises(KeyboardInterrupt), Interrupts():
        press()


def test_another_failure_comes_first():
    with pytest.raises(ZeroDivisionError), Interrupts():
        press()
        raise ZeroDivisionError


def test_inside_another():
    with Interrupts() as outer:
        with Interrupts() as inner:
            press()
        with pytest.raises(KeyboardInterrupt):
            inner.raise_if_heard()
        outer.raise_if_heard()
        press()
        with pytest.raises(KeyboardInterrupt):
            outer.raise_if_heard()


def test_a_handler_that_ignores_it_is_obeyed():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    with Interrupts() as interrupts:
        press()
        interrupts.raise_if_heard()
    signal.signal(signal.SIGINT, before)
    assert heard == [1]


COMPILES = """
import os, signal, threading
import jax, jax.numpy as jnp
from gaussbell.numerics.interrupts import Interrupts

def slow(x):
    for k in range(250):
        x = jnp.sin(x @ x + k)
    return x

signal.signal(signal.SIGINT, signal.default_int_handler)
lowered = jax.jit(slow).lower(jnp.zeros((4, 4)))
threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    with Interrupts():
        lowered.compile()
        print("compiled")
except KeyboardInterrupt:
    print("heard")
"""


def test_a_compilation_comes_to_its_end():
    """A process that ends while the compiler runs crashes."""
    found = subprocess.run([sys.executable, "-c", COMPILES], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout.split()) == (0, ["compiled", "heard"])
