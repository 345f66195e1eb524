"""gaussbell diagnose: everything that a network and its rows tell about a fit."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import gaussbell as gb
from gaussbell import diagnostics, records
from gaussbell.cli.screen import escape, notes, print_facts, print_json, screen, write_record
from gaussbell.mdp import MarkovChain

LANDSCAPE_STEPS = 200


def diagnose_file(path: Path, *, seed: int = 0, as_json: bool = False, out: Path | None = None) -> bool:
    """Run all diagnostics on a saved evaluation; is the value trusted?"""
    started = time.perf_counter()
    kept = gb.load_evaluation(path)
    simulator = _simulator(kept.problem)
    with notes.status("ranks and spectra") as status:
        spectra = diagnostics.spectra(kept.network, kept.data, features=kept.features)
        status.update("curvature of the true Hessian")
        curvature = diagnostics.curvature(kept.network, kept.data, features=kept.features)
        status.update("how far the value can be trusted")
        verdict = diagnostics.trust(kept.network, kept.data, features=kept.features, key=seed, **simulator)
        opinions = {verdict.witness: verdict}
        if simulator:
            opinions["the rows"] = diagnostics.trust(kept.network, kept.data, key=seed)
        status.update("the landscape, and the paths of methods in it")
        start = gb.networks.redrawn(kept.network, seed)
        slice_ = diagnostics.landscape(start, kept.data, features=kept.features, max_steps=LANDSCAPE_STEPS)
    chain = isinstance(kept.data, MarkovChain)
    record: dict[str, Any] = {
        "command": "diagnose",
        "settings": {"file": str(path), "problem": kept.problem, "seed": seed},
        "versions": records.versions(),
        "fit": {
            "status": kept.status,
            "loss": kept.losses[-1] if len(kept.losses) else None,
            "kind": "finite chain" if chain else "samples",
            "order_of_convergence": diagnostics.order_of_convergence(np.sqrt(kept.losses), floor=1e-12),
        },
        "checks": verdict.checks._asdict(),
        "spectra": {
            name: {
                "rank": one.rank,
                "rows": one.rows,
                "parameters": one.parameters,
                "condition": one.condition if np.isfinite(one.condition) else None,
                "effective_rank": one.effective_rank,
                "values": one.values,
            }
            for name, one in spectra._asdict().items()
        },
        "curvature": {
            "largest": curvature.largest,
            "smallest": curvature.smallest,
            "negative_share": curvature.negative_share,
        },
        "trust": {
            name: {
                "trusted": one.trusted,
                "reasons": list(one.reasons),
                "error": one.error,
                "low": one.low,
                "high": one.high,
                "relative_error": one.relative_error if np.isfinite(one.relative_error) else None,
                "sentence": str(one),
            }
            for name, one in opinions.items()
        },
        "landscape": {
            "first": slice_.first,
            "second": slice_.second,
            "loss": slice_.loss,
            "kept": slice_.kept,
            "paths": slice_.paths,
            "losses": slice_.losses,
        },
        "trusted": verdict.trusted,
        "seconds": round(time.perf_counter() - started, 2),
    }
    if as_json:
        print_json(record)
    else:
        _print(record, verdict)
    if out is not None:
        drawings = {
            "spectra.png": lambda figures, found: figures.draw_spectra(found),
            "landscape.png": lambda figures, found: figures.draw_landscape(found),
        }
        write_record(out, record, drawings, "diagnosis.json")
    return verdict.trusted


def _simulator(problem: str | None) -> dict[str, Any]:
    """What simulates a problem that comes along."""
    if problem != "mountain-car":
        return {}
    car = gb.environments.MountainCar()
    return {"env": car, "policy": car.along_velocity}


def _print(record: dict[str, Any], verdict: Any) -> None:
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
    enough = checks["parameters"] >= checks["rows"]
    full = record["spectra"]["bellman"]["rank"] == record["spectra"]["bellman"]["rows"]
    minima = "every critical point like this has zero residual" if enough and full else "bad minima can exist"
    facts = {
        "fit": f"{fit['status'].lower().replace('_', ' ')}, loss {fit['loss']:.3g}",
        "minima": f"{checks['parameters']} parameters, {checks['rows']} rows, "
        f"{'' if full else 'not '}full rank: {minima}",
        "curvature": f"largest eigenvalue {curvature['largest'][0]:.3g}, most negative share "
        f"{curvature['negative_share']:.1g}",
    }
    if checks["floating"] is not None:
        facts["rows"] = (
            f"{checks['floating']:.0%} not tied to any reward, {checks['reaching']:.0%} reach a second one"
        )
    if checks["certificate"] is not None:
        facts["certificate"] = f"no value is off by more than {checks['certificate']:.3g}"
    facts |= {f"by {name}": escape(one["sentence"]) for name, one in record["trust"].items()}
    print_facts(facts | {"seconds": f"{record['seconds']:.1f}, compilation included"})
    words = "[green]trusted[/]" if verdict.trusted else "[red]not trusted[/]"
    screen.print(f"The value is {words}.", highlight=False)
