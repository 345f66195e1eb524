"""gaussbell diagnose: everything that a network and its data tell about a fit."""

from pathlib import Path
from typing import Any

from rich.table import Table

import gaussbell as gb
from gaussbell.cli.screen import escape, notes, print_facts, print_json, screen, write_record
from gaussbell.records.diagnosis import diagnose


def diagnose_file(path: Path, *, seed: int = 0, as_json: bool = False, out: Path | None = None) -> bool:
    """Run all diagnostics on a saved evaluation; is the value trusted?"""
    with notes.status("reading") as status:
        record = diagnose(gb.load_evaluation(path), key=seed, tell=status.update)
    record["settings"] = {"file": str(path)} | record["settings"]
    if as_json:
        print_json(record)
    else:
        _print(record)
    if out is not None:
        drawings = {
            "spectra.png": lambda figures, found: figures.draw_spectra(found),
            "landscape.png": lambda figures, found: figures.draw_landscape(found),
        }
        write_record(out, record, drawings, "diagnosis.json")
    return bool(record["trusted"])


def _print(record: dict[str, Any]) -> None:
    table = Table(title="Jacobians", title_justify="left")
    for column in ("of", "rank", "rows", "parameters", "condition", "effective rank"):
        table.add_column(column, justify="left" if column == "of" else "right")
    names = {"states": "G, the states", "successors": "G', the successors", "bellman": "G - discount G'"}
    for name, one in record["spectra"].items():
        condition = "infinite" if one["condition"] is None else f"{one['condition']:.1e}"
        table.add_row(
            names[name],
            str(one["rank"]),
            str(one["rows"]),
            str(one["parameters"]),
            condition,
            f"{one['effective_rank']:.1f}",
        )
    screen.print(table)
    fit, curvature, checks = record["fit"], record["curvature"], record["checks"]
    enough = checks["num_parameters"] >= checks["num_transitions"]
    full = record["spectra"]["bellman"]["rank"] == record["spectra"]["bellman"]["rows"]
    minima = "every critical point like this has zero residual" if enough and full else "bad minima can exist"
    facts = {
        "fit": f"{fit['status'].lower().replace('_', ' ')}, loss {fit['loss']:.3g}",
        "minima": f"{checks['num_parameters']} parameters, {checks['num_transitions']} samples, "
        f"{'' if full else 'not '}full rank: {minima}",
        "curvature": f"largest eigenvalue {curvature['largest'][0]:.3g}, most negative share "
        f"{curvature['negative_share']:.1g}",
    }
    if checks["reward_grounded"] is not None:
        facts["rewards"] = (
            f"{checks['reward_grounded']:.0%} of the transitions are reward-grounded, "
            f"{checks['reward_coverage']:.0%} reach a second reward"
        )
    if checks["sup_norm_bound"] is not None:
        facts["bound"] = f"no value is off by more than {checks['sup_norm_bound']:.3g}"
    facts |= {f"by {name}": escape(one["sentence"]) for name, one in record["assessments"].items()}
    print_facts(facts | {"seconds": f"{record['seconds']:.1f}, compilation included"})
    words = "[green]trusted[/]" if record["trusted"] else "[red]not trusted[/]"
    screen.print(f"The value is {words}.", highlight=False)
