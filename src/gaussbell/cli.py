"""The command line: gaussbell evaluate, gaussbell reproduce."""

import enum
import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import gaussbell as gb
from gaussbell import records

app = typer.Typer(
    help="Second-order Bellman residual minimisation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
screen = Console()
notes = Console(stderr=True)


class Problem(enum.StrEnum):
    STAR = "star"


class Method(enum.StrEnum):
    LEVENBERG_MARQUARDT = "levenberg-marquardt"
    DOGLEG = "dogleg"
    GAUSS_NEWTON = "gauss-newton"
    RESIDUAL_GRADIENT = "residual-gradient"
    SEMI_GRADIENT = "semi-gradient"
    SEMI_GAUSS_NEWTON = "semi-gauss-newton"


class Experiment(enum.StrEnum):
    STAR = "star"


def _show_version(wanted: bool) -> None:
    if wanted:
        screen.print(f"gaussbell {gb.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Second-order Bellman residual minimisation: the value of a policy, without tuning."""


@app.command()
def evaluate(
    problem: Annotated[Problem, typer.Argument(help="What to evaluate.")],
    solver: Annotated[Method, typer.Option(help="The method.")] = Method.LEVENBERG_MARQUARDT,
    step_size: Annotated[
        float | None, typer.Option(help="Step size; for the methods with a fixed one.")
    ] = None,
    damping: Annotated[float | None, typer.Option(help="Damping; for the Gauss-Newton methods.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="Fixes the features and the initial weights.")
    ] = 0,
    max_steps: Annotated[int, typer.Option(min=0, max=10**7, help="Steps at most.")] = 1000,
    tolerance: Annotated[float, typer.Option(min=0, help="NMSBE at which to stop.")] = 1e-24,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record as JSON instead of tables.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the record and the figure.")] = None,
) -> None:
    """Fit a network to the value of a policy and compare it with the exact value."""
    method = _solver(solver, step_size, damping)
    _check_writable(out)
    chain = gb.environments.SevenStar().under()
    features_key, weights_key = jax.random.split(jax.random.key(seed))
    features = gb.encodings.normal(chain.num_states, 2, key=features_key)
    network = gb.MLP((2, 7, 1), key=weights_key)

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("NMSBE {task.fields[msbe]}"),
        TimeElapsedColumn(),
    )
    started = time.perf_counter()
    quiet = not notes.is_terminal
    with Progress(*columns, console=notes, transient=True, disable=quiet) as progress:
        task = progress.add_task(f"{problem} by {solver}", total=max_steps, msbe="...")

        def show(now: gb.Progress) -> None:
            progress.update(task, completed=now.steps, msbe=f"{now.best_loss:.2e}")

        try:
            solution = gb.evaluate(
                network,
                chain,
                features=features,
                solver=method,
                max_steps=max_steps,
                tolerance=tolerance,
                on_progress=show,
            )
        except gb.SolveInterrupted as interrupt:
            solution = interrupt.solution
    seconds = time.perf_counter() - started

    with jax.enable_x64(True):
        learned = np.asarray(solution.network(features))
    settings = {
        "problem": problem.value,
        "solver": solver.value,
        "step_size": getattr(method, "step_size", None),
        "damping": getattr(method, "damping", None),
        "seed": seed,
        "sizes": list(network.sizes),
        "max_steps": max_steps,
        "tolerance": tolerance,
    }
    record = _evaluation_record(settings, solution, chain, learned, seconds)
    if as_json:
        print(json.dumps(records.to_plain(record), indent=1, allow_nan=False))
    else:
        _print_evaluation(record)
    if out is not None:
        _write_evaluation(out, record)
    raise typer.Exit(0 if solution.succeeded else 1)


@app.command()
def reproduce(
    experiment: Annotated[Experiment, typer.Argument(help="Which experiment of the paper.")],
    out: Annotated[Path, typer.Option(help="Folder for the record, the figure and the summary.")] = Path(
        "runs/reproduce"
    ),
) -> None:
    """Run an experiment of the paper; write its record, figure and summary."""
    from gaussbell import figures  # noqa: PLC0415 - needs matplotlib
    from gaussbell.experiments import star  # noqa: PLC0415

    _check_writable(out)
    with notes.status(f"{experiment}: running"):
        record = star.run(star.Settings())
    records.write(out / "record.json", record)
    figures.save(star.draw(records.read(out / "record.json")), out / "convergence.png")
    summary = star.summarise(record)
    records.write_text(out / "summary.md", summary)
    screen.print(summary, highlight=False, soft_wrap=True)
    notes.print(f"Wrote {_escape(str(out))}: record.json, convergence.png, summary.md.", highlight=False)


def main() -> None:
    """The command `gaussbell`."""
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        notes.print(f"[bold red]error:[/] {_escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)


def _solver(method: Method, step_size: float | None, damping: float | None) -> gb.solvers.Solver:
    """The solver that the options ask for; ValueError where an option does not belong to it."""
    given: dict[str, Any] = {"step_size": step_size, "damping": damping}
    given = {name: value for name, value in given.items() if value is not None}
    constructors: dict[Method, Any] = {
        Method.LEVENBERG_MARQUARDT: gb.LevenbergMarquardt,
        Method.DOGLEG: gb.Dogleg,
        Method.GAUSS_NEWTON: gb.GaussNewton,
        Method.RESIDUAL_GRADIENT: gb.ResidualGradient,
        Method.SEMI_GRADIENT: gb.SemiGradient,
        Method.SEMI_GAUSS_NEWTON: gb.SemiGaussNewton,
    }
    constructor = constructors[method]
    for name in given:
        if name not in constructor.__dataclass_fields__:
            option = name.replace("_", "-")
            raise ValueError(
                f"--{option}: {method} has none; leave the option out or choose another --solver."
            )
    return constructor(**given)


def _evaluation_record(settings, solution, chain, learned, seconds) -> dict[str, Any]:
    history = solution.history
    return {
        "command": "evaluate",
        "settings": settings,
        "versions": records.versions(),
        "result": {
            "status": solution.status.name,
            "message": solution.status.value,
            "msbe": solution.msbe,
            "steps": solution.steps,
            "seconds": round(seconds, 3),
            "value_error": np.abs(learned - chain.values).max(),
        },
        "values": {"learned": learned, "exact": chain.values, "stationary": chain.stationary},
        "network": {"weights": [np.asarray(weight) for weight in solution.network.weights]},
        "history": {
            "msbe": history.msbe,
            "gradient_norm": history.gradient_norm,
            "step_norm": history.step_norm,
            "damping": history.damping,
            "gain_ratio": history.gain_ratio,
            "accepted": history.accepted,
        },
    }


def _print_evaluation(record: dict[str, Any]) -> None:
    result, values = record["result"], record["values"]
    table = Table(title=f"{record['settings']['problem']}: value by state", title_justify="left")
    for heading in ("state", "learned", "exact", "difference"):
        table.add_column(heading, justify="right")
    for state, (learned, exact) in enumerate(zip(values["learned"], values["exact"], strict=True)):
        table.add_row(str(state), f"{learned:.9f}", f"{exact:.9f}", f"{learned - exact:+.1e}")
    screen.print(table)

    facts = Table(show_header=False, box=None)
    status = gb.Status[result["status"]]
    facts.add_row("NMSBE", f"{result['msbe']:.3g}")
    facts.add_row("status", f"[{'green' if status.succeeded else 'red'}]{status}[/]: {status.value}")
    facts.add_row("steps", str(int(result["steps"])))
    facts.add_row("seconds", f"{result['seconds']:.2f}, compilation included")
    screen.print(facts)


def _write_evaluation(out: Path, record: dict[str, Any]) -> None:
    path = records.write(out / "record.json", record)
    written = [str(path)]
    try:
        from gaussbell import figures  # noqa: PLC0415 - needs matplotlib
    except ImportError as error:
        notes.print(f"No figure: {_escape(str(error))}", highlight=False)
    else:
        figure = figures.draw_evaluation(records.read(path))
        written.append(str(figures.save(figure, out / "convergence.png")))
    notes.print(f"Wrote {_escape(' and '.join(written))}.", highlight=False, soft_wrap=True)


def _check_writable(out: Path | None) -> None:
    """Raise before the work, not after it, if the output folder cannot be written to."""
    if out is None:
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out {out}: cannot be made a folder ({error.strerror}).") from error
    if not os.access(out, os.W_OK):
        raise ValueError(f"--out {out}: the folder cannot be written to; choose another.")


def _escape(text: str) -> str:
    """Text that rich prints as it is."""
    return text.replace("[", r"\[")
