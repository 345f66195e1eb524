"""The import rules of DESIGN.md, read from the tree in it and from the source."""

import ast
import re
from pathlib import Path

import gaussbell

ROOT = Path(gaussbell.__file__).parent
DESIGN = (Path(__file__).parent.parent / "DESIGN.md").read_text()
TREE = re.search(r"^    src/gaussbell/\n((?:    .*\n)+)", DESIGN, re.MULTILINE).group(1)
LAYERS = [
    {name.strip().removesuffix("/").removesuffix(".py") for name in line.split("  ")[0].split(",")}
    for line in (line.strip() for line in TREE.splitlines())
    if line
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
NO_RL = {"numerics", "optimise"}
RL = {"processes", "data", "environments", "simulation", "bellman", "diagnostics", "evaluation", "control"}
ONLY_IN = {
    "matplotlib": {"figures"},
    "typer": {"cli"},
    "rich": {"cli"},
    "time": {"optimise", "evaluation", "cli", "records", "experiments", "report", "sweeps"},
    "xarray": {"records"},
    "distributed": {"sweeps"},
    "plotly": {"report"},
    "http": {"report"},
}
TOP = ("__init__", "__main__")


def package(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            if node.module == "gaussbell":
                yield from (f"gaussbell.{alias.name}" for alias in node.names)
            else:
                yield node.module


def test_the_tree_is_the_source_and_has_few_levels():
    there = {package(path) for path in ROOT.rglob("*.py")} - set(TOP)
    assert set(LEVEL) == there
    assert len(LAYERS) <= 16


def test_imports_point_down():
    for path in ROOT.rglob("*.py"):
        name = package(path)
        if name in TOP or name == "cli":
            continue
        for module in imports(path):
            parts = module.split(".")
            if parts[0] == "gaussbell" and len(parts) > 1 and parts[1] != name and parts[1] in LEVEL:
                assert LEVEL[parts[1]] < LEVEL[name], f"{path} imports {module}, which is not below it"
                assert not (name in NO_RL and parts[1] in RL), f"{path} must know no RL, imports {module}"
            assert name in ONLY_IN.get(parts[0], {name}), f"{path} imports {module}"


def test_environments_are_not_probed():
    """The Simulator protocol says what there is; only Gymnasium's adapters look into foreign objects."""
    for path in ROOT.rglob("*.py"):
        if path.name not in ("spaces.py", "registered.py"):
            assert not re.search(r"(has|get)attr\((self\.|seen\.)?env\b", path.read_text()), path
            if path.name not in ("gymnasium.py", "simulator.py"):
                assert not re.search(r"\benv: Any[,)]", path.read_text()), path


def test_nothing_is_unpickled():
    for path in ROOT.rglob("*.py"):
        assert not any(module.split(".")[0] in ("pickle", "dill", "joblib") for module in imports(path))
        assert "allow_pickle=True" not in path.read_text()
