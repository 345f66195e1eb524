"""Registers our environments with Gymnasium as soon as a program imports both, in either order.

Gymnasium is an extra and takes a while to import, so gaussbell must not import it by itself; and Gymnasium
knows an id only after someone registered it. So where it is not there yet, the import system is asked to
tell.
"""

import importlib
import importlib.abc
import importlib.util
import sys
from typing import Any

REGISTERS = "gaussbell.environments.registered"


def register_with_gymnasium() -> None:
    """Register now if Gymnasium is imported, or when it will be."""
    if "gymnasium" in sys.modules:
        importlib.import_module(REGISTERS)
    elif not any(isinstance(finder, _AfterGymnasium) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterGymnasium())


class _AfterGymnasium(importlib.abc.MetaPathFinder):
    """Finds Gymnasium as others would, and registers our environments once it has been loaded."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: Any) -> None:
                load(module)
                importlib.import_module(REGISTERS)

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec
