"""What the documents show must run, and what they state must come from a record."""

import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest

from gaussbell.cli import app
from gaussbell.experiments import control, noise, values

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_python_blocks_of_the_readme_run():
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 4
    names = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)


@pytest.mark.parametrize("experiment", [values, noise], ids=["values", "noise"])
def test_tables_come_from_the_records(experiment):
    folder = ROOT / "docs" / experiment.__name__.split(".")[-1]
    summary = experiment.summarise(json.loads((folder / "record.json").read_text()))
    assert (folder / "summary.md").read_text() == summary
    assert summary.strip() in README


def test_the_table_of_control_comes_from_the_record():
    folder = ROOT / "docs/control"
    summary = control.summarise(json.loads((folder / "record.json").read_text()))
    assert (folder / "summary.md").read_text() == summary
    assert summary.split("\n\n")[0] in README


def test_the_table_of_trust_comes_from_the_record():
    studies = json.loads((ROOT / "docs/diagnostics/quick/verdicts.json").read_text())["studies"]
    assert studies["trust"]["table"].split("\n\n")[0] in README


def benchmark(name):
    specification = importlib.util.spec_from_file_location(name, ROOT / f"benchmarks/{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_benchmark_tables_come_from_the_records():
    offline = benchmark("offline").summary(json.loads((ROOT / "docs/bench/offline.json").read_text()))
    assert offline.strip() in README
    peers = benchmark("control_peers")
    assert peers.summary(json.loads((ROOT / "docs/bench/control_peers.json").read_text())).strip() in README
    costs = benchmark("diagnostics")
    assert costs.summary(json.loads((ROOT / "docs/bench/diagnostics.json").read_text())).strip() in README
    reports = benchmark("report")
    assert reports.summary(json.loads((ROOT / "docs/bench/report.json").read_text())).strip() in README
    times = benchmark("paper_times")
    assert times.summary(json.loads((ROOT / "docs/bench/paper_times.json").read_text())).strip() in README
    draw = benchmark("draw")
    summary = draw.summary(json.loads((ROOT / "docs/bench/peers.json").read_text()))
    assert (ROOT / "docs/bench/summary.md").read_text() == summary
    assert summary.strip() in README
    large = draw.large_summary(json.loads((ROOT / "docs/bench/large.json").read_text()))
    assert large.strip() in (ROOT / "DESIGN.md").read_text()


def test_commands_in_the_readme_exist():
    commands = re.findall(r"^    gaussbell ([^#\n]*)", README, re.MULTILINE)
    assert len(commands) >= 3
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    for command in commands:
        assert shlex.split(command)[0] in known


def test_make_targets_in_the_documents_exist():
    makefile = (ROOT / "Makefile").read_text()
    for document in ("README.md", "CONTRIBUTING.md"):
        targets = re.findall(r"make ([a-z][a-z-]*)\b(?= *[#`\n])", (ROOT / document).read_text())
        assert targets
        for target in targets:
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("document", ["README.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / document).read_text()):
        assert target.startswith("http") or (ROOT / target).exists(), target
