"""What the documents show must run, as users run it, and what they state must come from a record."""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gaussbell.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = sorted((ROOT / "docs").glob("*.md"))
DOCUMENTS = [ROOT / name for name in ("README.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md")] + PAGES
RUNNING = [page for page in [ROOT / "README.md", *PAGES] if "```python" in page.read_text()]


def docs(name):
    return (ROOT / "docs" / f"{name}.md").read_text()


def as_users_run():
    """The environment of a process without what the tests set: JAX as it comes."""
    return {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_ENABLE_X64")}


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.stem)
def test_python_blocks_run(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    program = "import warnings\nwarnings.simplefilter('error')\n" + "\n".join(blocks)
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=as_users_run() | cache,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_readme_is_short():
    assert len(README.encode()) <= 9000
    assert sum(block.count("\n") for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL)) <= 15


@pytest.mark.parametrize(
    ("study", "folder", "page", "parts"),
    [
        ("values", "beyond", "values", 3),
        ("noise", "beyond", "values", 2),
        ("control", "beyond", "control", 1),
        ("assessments", "diagnostics", "assessment", 1),
    ],
)
def test_tables_of_studies_come_from_their_records(study, folder, page, parts):
    studies = json.loads((ROOT / f"docs/{folder}/quick/verdicts.json").read_text())["studies"]
    shown = studies[study]["table"].split("\n\n")[:parts]
    assert "\n\n".join(shown).strip() in docs(page)


def benchmark(name):
    specification = importlib.util.spec_from_file_location(name, ROOT / f"benchmarks/{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("offline", "off-policy"),
        ("control_peers", "control"),
        ("diagnostics", "assessment"),
        ("report", "reports"),
        ("paper_times", "benchmarks"),
    ],
)
def test_benchmark_tables_come_from_the_records(name, page):
    record = json.loads((ROOT / f"docs/bench/{name}.json").read_text())
    assert benchmark(name).summary(record).strip() in docs(page)


def test_the_table_beside_peers_comes_from_the_record():
    draw = benchmark("draw")
    summary = draw.summary(json.loads((ROOT / "docs/bench/peers.json").read_text()))
    assert (ROOT / "docs/bench/summary.md").read_text() == summary
    assert summary.strip() in docs("benchmarks")
    table = re.search(r"from docs/bench/summary.md.*?-->\n(.*?)\n\n", README, re.DOTALL).group(1)
    assert set(table.splitlines()) <= set(summary.splitlines()), "the README shows some lines of the record"
    large = draw.large_summary(json.loads((ROOT / "docs/bench/large.json").read_text()))
    assert large.strip() in (ROOT / "DESIGN.md").read_text()


def commands_in(text):
    return re.findall(r"^    gaussbell ([^#\n]*)", text, re.MULTILINE)


@pytest.mark.parametrize("words", commands_in(docs("command-line") + docs("reports")))
def test_commands_in_the_documents_exist_with_their_options(words):
    arguments = shlex.split(words)
    names = [arguments[0], *([arguments[1]] if arguments[0] == "evaluate" else [])]
    told = CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "200"})
    assert told.exit_code == 0, told.output
    for option in arguments:
        assert not option.startswith("--") or option in told.output, option


def test_make_targets_in_the_documents_exist():
    makefile = (ROOT / "Makefile").read_text()
    for document in ("README.md", "CONTRIBUTING.md"):
        targets = re.findall(r"make ([a-z][a-z-]*)\b(?= *[#`\n])", (ROOT / document).read_text())
        assert targets
        for target in targets:
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    text = document.read_text()
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        where = document if path == "" else document.parent / path
        assert target.startswith("http") or where.exists(), target
        if anchor and where.suffix == ".md":
            heads = re.findall(r"^#+ (.*)$", where.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in heads}
