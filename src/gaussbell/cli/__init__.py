"""The command line: gaussbell evaluate, diagnose, iterate, reproduce, list, check, report, watch, bench."""

import enum
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import gaussbell as gb
from gaussbell.cli.bench import bench_steps
from gaussbell.cli.diagnose import diagnose_file
from gaussbell.cli.iterate import iterate_problem
from gaussbell.cli.mountain_car import evaluate_mountain_car
from gaussbell.cli.offline import evaluate_data
from gaussbell.cli.reports import check_report, report_runs, watch_folder
from gaussbell.cli.reproduce import (
    OWN,
    check_studies,
    choose_studies,
    list_studies,
    reproduce_own,
    reproduce_studies,
)
from gaussbell.cli.screen import check_writable, escape, notes, screen
from gaussbell.cli.star import Method, evaluate_star
from gaussbell.experiments import step_time
from gaussbell.experiments.scale import Scale

app = typer.Typer(
    help="Second-order Bellman residual minimisation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


class Problem(enum.StrEnum):
    STAR = "star"
    MOUNTAIN_CAR = "mountain-car"


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
    problem: Annotated[
        Problem | None, typer.Argument(help="A problem that comes along, unless --data is given.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Logged steps: a .parquet, .csv or .npz file, or minari:ID.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="With --data: the policy, as module:function.")] = None,
    env: Annotated[
        str | None, typer.Option(help="With --data: the Gymnasium id whose actions are legal.")
    ] = None,
    discount: Annotated[float | None, typer.Option(min=0, max=1, help="With --data: default 0.99.")] = None,
    num_bootstrap: Annotated[
        int | None, typer.Option(min=0, help="With --data: for the interval; default 8.")
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="mountain-car: rows; default 2000.")] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="mountain-car, --data: simulated or logged steps of a row.")
    ] = None,
    look_ahead: Annotated[
        int | None, typer.Option(min=0, help="mountain-car: steps simulated at query time; default 50.")
    ] = None,
    solver: Annotated[
        Method | None, typer.Option(help="star: the method; default levenberg-marquardt.")
    ] = None,
    step_size: Annotated[
        float | None, typer.Option(help="star: step size, for the methods with a fixed one.")
    ] = None,
    damping: Annotated[
        float | None, typer.Option(help="star: damping, for the Gauss-Newton methods.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(min=0, help="star: NMSBE at which to stop; default 1e-24.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Fixes all that is random.")] = 0,
    max_steps: Annotated[
        int | None, typer.Option(min=0, max=10**7, help="Steps of the solver at most.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record as JSON instead of tables.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the record and the figure.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write an interactive report with diagnostics to this .html file.")
    ] = None,
) -> None:
    """Fit a network to the value of a policy, from a simulator, a finite model or logged data.

    The exit code is 0 when the solve succeeded (with --data: when no diagnostic speaks against the value).
    """
    given: dict[str, Any] = {
        "data": data,
        "policy": policy,
        "env": env,
        "discount": discount,
        "num_bootstrap": num_bootstrap,
        "samples": samples,
        "steps": steps,
        "look_ahead": look_ahead,
        "solver": solver,
        "step_size": step_size,
        "damping": damping,
        "tolerance": tolerance,
        "max_steps": max_steps,
    }
    given = {name: value for name, value in given.items() if value is not None}
    run, what = _choose(problem, given)
    _check_options(run, what, given)
    check_writable(out)
    check_report(report)
    raise typer.Exit(0 if run(seed=seed, as_json=as_json, out=out, report=report, **given) else 1)


@app.command()
def diagnose(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="An evaluation: evaluation.json of `gaussbell evaluate --out`, or your own.",
        ),
    ],
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Fixes all that is random.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record as JSON instead of tables.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the record and the figures.")] = None,
) -> None:
    """Say how far a fitted value can be trusted, and why: ranks, curvature, certificates, landscape.

    The exit code is 0 when nothing speaks against the value. gaussbell.save_evaluation writes such files.
    """
    check_writable(out)
    raise typer.Exit(0 if diagnose_file(file, seed=seed, as_json=as_json, out=out) else 1)


@app.command()
def iterate(
    problem: Annotated[
        str, typer.Argument(help="cart-pole, mountain-car, acrobot, or the id of a Gymnasium environment.")
    ],
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Fixes all that is random.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs with so many seeds, from --seed on.")] = 1,
    sweeps: Annotated[int, typer.Option(min=1, help="Sweeps of one run at most.")] = 40,
    render: Annotated[
        Path | None, typer.Option(help="Draw the best policy at work into this .gif file.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record as JSON instead of tables.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for record, policy and figure.")] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write an interactive report with the policy at work to this .html file."),
    ] = None,
) -> None:
    """Find a policy by policy iteration: evaluate, improve, roll out, and keep what roll-outs confirm.

    The exit code is 0 when the task is solved, with every seed, and fresh episodes confirmed it.
    """
    check_writable(out)
    if render is not None and render.suffix.lower() != ".gif":
        raise ValueError(f"--render {render}: moving pictures are .gif files; choose such a name.")
    check_report(report)
    solved = iterate_problem(
        problem,
        seed=seed,
        seeds=seeds,
        sweeps=sweeps,
        as_json=as_json,
        out=out,
        picture=render,
        report=report,
    )
    raise typer.Exit(0 if solved else 1)


@app.command()
def reproduce(
    experiment: Annotated[
        str, typer.Argument(help="Which experiment, or all of the paper's; `gaussbell list` names them.")
    ] = "all",
    scale: Annotated[
        Scale | None, typer.Option(help="How much: seconds, minutes, or as in the paper; default quick.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for records, figures and tables.")] = Path(
        "runs/reproduction"
    ),
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one a core.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, to use its workers instead.")
    ] = None,
) -> None:
    """Run experiments; write their records, figures and verdicts.

    Interrupted, it goes on where it stopped.
    """
    if experiment in OWN:
        for option, given in (("scale", scale), ("workers", workers), ("scheduler", scheduler)):
            if given is not None:
                raise ValueError(f"--{option}: {experiment} has one size and runs here; leave it out.")
        reproduce_own(experiment, out / experiment)
        return
    names = choose_studies(experiment)
    check_writable(out)
    reproduce_studies(names, scale or Scale.QUICK, out, workers=workers, scheduler=scheduler)


@app.command(name="list")
def list_experiments() -> None:
    """The experiments that `reproduce` knows."""
    list_studies()


@app.command()
def check(
    experiment: Annotated[str, typer.Argument(help="Which experiment, or all.")] = "all",
    scale: Annotated[Scale, typer.Option(help="Which scale was run.")] = Scale.QUICK,
    out: Annotated[Path, typer.Option(help="Folder that `reproduce` wrote to.")] = Path("runs/reproduction"),
    page: Annotated[Path | None, typer.Option(help="Write tables and figures to this Markdown file.")] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Make these verdicts the expected ones, in a source tree.")
    ] = False,
) -> None:
    """Print what the records say about each claim of the paper.

    The exit code is 1 if a verdict is not the one that is known for this scale.
    """
    names = choose_studies(experiment)
    raise typer.Exit(0 if check_studies(names, scale, out, page=page, accept=accept) else 1)


@app.command()
def report(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders or records that runs wrote; default everything below runs."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Make one interactive HTML file of everything that runs have recorded.

    It needs no network and works from disk; send it to a colleague.
    """
    check_report(out, "--out")
    report_runs(runs or [], out, show=show)


@app.command()
def watch(
    folder: Annotated[Path, typer.Argument(help="The folder that a sweep writes to, or will write to.")],
    host: Annotated[
        str, typer.Option(help="The address to serve at; others than this machine's own are asked for here.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8765,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Serve a page that fills in while a sweep runs, until Ctrl-C.

    It reads the folder and changes nothing.
    """
    watch_folder(folder, host=host, port=port, show=show)


@app.command()
def bench(
    out: Annotated[Path | None, typer.Option(help="Write step_time.json to this folder.")] = None,
) -> None:
    """Time one step of each method on this machine, beside the BLAS time of the same flops.

    A minute. optimistix is timed too if it is installed. `gaussbell report` draws the record.
    """
    bench_steps(out, step_time.Settings())


def main() -> None:
    """The command `gaussbell`."""
    try:
        app()
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        notes.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        notes.print("interrupted", highlight=False)
        sys.exit(130)


def _choose(problem: Problem | None, given: dict[str, Any]) -> tuple[Callable[..., bool], str]:
    """The function that does what was asked for, and its name for people."""
    if "data" in given:
        if problem is not None:
            raise ValueError(f"--data and {problem}: evaluate one or the other.")
        if "policy" not in given:
            raise ValueError("--policy: say whose value is wanted, as module:function.")
        return evaluate_data, "--data"
    if problem is None:
        raise ValueError(f"give a problem, {' or '.join(Problem)}, or logged steps with --data.")
    return {Problem.STAR: evaluate_star, Problem.MOUNTAIN_CAR: evaluate_mountain_car}[problem], problem


def _check_options(run: Callable[..., bool], what: str, given: dict[str, Any]) -> None:
    """ValueError for an option that belongs to something else."""
    for name in given:
        if name not in (run.__kwdefaults__ or {}) and name not in ("data", "policy"):
            raise ValueError(f"--{name.replace('_', '-')}: {what} has no such option; leave it out.")
        if name in ("data", "policy") and run is not evaluate_data:
            raise ValueError(f"--{name}: it goes with --data; leave it out.")
