"""The command line: gaussbell evaluate, audit, diagnose, iterate, reproduce, report, watch and others."""

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

import gaussbell as gb
from gaussbell.cli import evaluate
from gaussbell.cli.audit import audit_environment
from gaussbell.cli.bench import bench_steps
from gaussbell.cli.diagnose import diagnose_file
from gaussbell.cli.iterate import iterate_problem
from gaussbell.cli.render import check_picture
from gaussbell.cli.reports import check_report, report_runs, watch_folder
from gaussbell.cli.reproduce import (
    check_studies,
    choose_studies,
    list_studies,
    reproduce_studies,
)
from gaussbell.cli.screen import check_writable, escape, notes, screen
from gaussbell.experiments import step_time
from gaussbell.experiments.scale import Scale

app = typer.Typer(
    help="Second-order Bellman residual minimisation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(evaluate.app, name="evaluate")


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
def diagnose(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="An evaluation: evaluation.json of `gaussbell evaluate --out`, or your own.",
        ),
    ],
    seed: evaluate.Seed = 0,
    as_json: evaluate.AsJson = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the record and the figures.")] = None,
) -> None:
    """Assess a fitted value, and say why: spectra, curvature, bounds, landscape.

    The exit code is 0 when nothing speaks against the value. gaussbell.save_evaluation writes such files.
    """
    check_writable(out)
    raise typer.Exit(0 if diagnose_file(file, seed=seed, as_json=as_json, out=out) else 1)


@app.command()
def audit(
    env: Annotated[str, typer.Argument(help="The id of a Gymnasium environment.")],
    model: Annotated[
        str | None,
        typer.Option(help="A Stable-Baselines3 model whose policy and critic are meant, as module:name."),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Another policy: a function of a state, as module:name.")
    ] = None,
    critic: Annotated[
        str | None, typer.Option(help="Another critic: a function of a batch of states, as module:name.")
    ] = None,
    discount: Annotated[
        float | None, typer.Option(min=0.01, max=1, help="Of a step; by default the model's, or 0.99.")
    ] = None,
    budget: Annotated[int, typer.Option(min=100, help="Simulated steps at most, in all.")] = 100_000,
    seed: evaluate.Seed = 0,
    as_json: evaluate.AsJson = False,
    out: evaluate.Out = None,
    report: Annotated[Path | None, typer.Option(help="Write a page to this .html file.")] = None,
) -> None:
    """How far a critic is from the truth, and where, by whole episodes; our own fit beside it.

    The exit code is 0 when nothing speaks against the critic.
    """
    check_writable(out)
    check_report(report)
    sound = audit_environment(
        env,
        model=model,
        policy=policy,
        critic=critic,
        discount=discount,
        budget=budget,
        seed=seed,
        as_json=as_json,
        out=out,
        report=report,
    )
    raise typer.Exit(0 if sound else 1)


@app.command()
def iterate(
    problem: Annotated[
        str, typer.Argument(help="cart-pole, mountain-car, acrobot, or the id of a Gymnasium environment.")
    ],
    seed: evaluate.Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs with so many seeds, from --seed on.")] = 1,
    sweeps: Annotated[int, typer.Option(min=1, help="Sweeps of one run at most.")] = 40,
    render: Annotated[
        Path | None, typer.Option(help="Draw the best policy at work into this .gif file.")
    ] = None,
    as_json: evaluate.AsJson = False,
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
    check_picture(render)
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
        str, typer.Argument(help="Which experiment, or a group of them; `gaussbell list` names them.")
    ] = "all",
    scale: Annotated[
        Scale, typer.Option(help="How much: seconds, minutes, or as in the paper.")
    ] = Scale.QUICK,
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
    names = choose_studies(experiment)
    check_writable(out)
    reproduce_studies(names, scale, out, workers=workers, scheduler=scheduler)


@app.command(name="list")
def list_experiments() -> None:
    """The experiments that `reproduce` knows."""
    list_studies()


@app.command()
def check(
    experiment: Annotated[str, typer.Argument(help="Which experiment, or a group of them.")] = "all",
    scale: Annotated[Scale, typer.Option(help="Which scale was run.")] = Scale.QUICK,
    out: Annotated[Path, typer.Option(help="Folder that `reproduce` wrote to.")] = Path("runs/reproduction"),
    page: Annotated[Path | None, typer.Option(help="Write tables and figures to this Markdown file.")] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Make these verdicts the expected ones, in a source tree.")
    ] = False,
) -> None:
    """Print what the records say about each claim.

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
    with contextlib.suppress(OSError):  # a cache that cannot be written to is done without
        gb.keep_compiled()
    try:
        app()
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        notes.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        notes.print("interrupted", highlight=False)
        sys.exit(130)
