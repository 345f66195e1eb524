"""The import rules of DESIGN.md, read from the source."""

import ast
from pathlib import Path

import gaussbell

ROOT = Path(gaussbell.__file__).parent

LAYERS = [
    {"precision"},
    {"packing", "linalg", "markov", "actions"},
    {"mdp", "transitions", "networks", "encodings", "policies", "features"},
    {"sampling"},
    {"logs"},
    {"tasks"},
    {"environments"},
    {"differential"},
    {"layer_factors"},
    {"derivatives", "linearisation"},
    {"residuals", "solution"},
    {"solvers"},
    {"solve"},
    {"rollouts", "neighbours"},
    {"diagnostics"},
    {"evaluation", "least_squares"},
    {"policy_evaluation", "offline", "experience", "policy_solution"},
    {"value_checks"},
    {"iteration"},
    {"records"},
    {"sweeps"},
    {"network_files"},
    {"datasets", "policy_files", "evaluation_files"},
    {"diagnosis"},
    {"figures"},
    {"experiments"},
    {"report"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
NO_RL = {"precision", "packing", "linalg", "solvers", "solve", "solution", "least_squares"}
RL = {
    "mdp",
    "transitions",
    "environments",
    "residuals",
    "evaluation",
    "policies",
    "encodings",
    "sampling",
    "logs",
}
ONLY_IN = {
    "matplotlib": {"figures"},
    "typer": {"cli"},
    "rich": {"cli"},
    "time": {"cli", "diagnosis", "experiments", "report", "sweeps"},
    "xarray": {"records"},
    "distributed": {"sweeps"},
    "plotly": {"report"},
    "http": {"report"},
}


def room(path: Path) -> str:
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


def test_imports_point_down():
    for path in ROOT.rglob("*.py"):
        name = room(path)
        if name in ("__init__", "__main__", "cli"):
            continue
        assert name in LEVEL, f"{path} has no layer: add it to DESIGN.md and to this test"
        for module in imports(path):
            parts = module.split(".")
            if parts[0] == "gaussbell" and len(parts) > 1 and parts[1] != name:
                assert LEVEL[parts[1]] < LEVEL[name], f"{path} imports {module}, which is not below it"
                assert not (name in NO_RL and parts[1] in RL), f"{path} must know no RL, imports {module}"
            assert name in ONLY_IN.get(parts[0], {name}), f"{path} imports {module}"


def test_nothing_is_unpickled():
    for path in ROOT.rglob("*.py"):
        assert not any(module.split(".")[0] in ("pickle", "dill", "joblib") for module in imports(path))
        assert "allow_pickle=True" not in path.read_text()
