"""gaussbell evaluate star, mountain-car and log: the options of each."""

from pathlib import Path
from typing import Annotated

import typer

from gaussbell.cli.log import evaluate_log
from gaussbell.cli.mountain_car import evaluate_mountain_car
from gaussbell.cli.reports import check_report
from gaussbell.cli.screen import check_writable
from gaussbell.cli.star import Method, evaluate_star

app = typer.Typer(
    help="Fit a network to the value of a policy, from a finite model, a simulator or logged data.",
    no_args_is_help=True,
)

Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Fixes all that is random.")]
MaxSteps = Annotated[int, typer.Option(min=1, max=10**7, help="Steps of the solver at most.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the record as JSON instead of tables.")]
Out = Annotated[Path | None, typer.Option(help="Folder for the record and the figure.")]
Report = Annotated[
    Path | None, typer.Option(help="Write an interactive report with diagnostics to this .html file.")
]


@app.command()
def star(
    solver: Annotated[Method, typer.Option(help="The method.")] = Method.LEVENBERG_MARQUARDT,
    step_size: Annotated[
        float | None, typer.Option(help="Step size, for the methods with a fixed one.")
    ] = None,
    damping: Annotated[float | None, typer.Option(help="Damping, for the Gauss-Newton methods.")] = None,
    tolerance: Annotated[float, typer.Option(min=0, help="NMSBE at which to stop.")] = 1e-24,
    seed: Seed = 0,
    max_steps: MaxSteps = 1000,
    as_json: AsJson = False,
    out: Out = None,
    report: Report = None,
) -> None:
    """A finite process with seven states: learned beside exact values.

    The exit code is 0 when the solve succeeded.
    """
    _check(out, report)
    succeeded = evaluate_star(
        solver=solver,
        step_size=step_size,
        damping=damping,
        tolerance=tolerance,
        seed=seed,
        max_steps=max_steps,
        as_json=as_json,
        out=out,
        report=report,
    )
    raise typer.Exit(0 if succeeded else 1)


@app.command()
def mountain_car(
    samples: Annotated[int, typer.Option(min=1, help="Transitions of the fit.")] = 2000,
    n_step: Annotated[int, typer.Option(min=1, help="Simulated steps of a transition.")] = 100,
    look_ahead: Annotated[int, typer.Option(min=0, help="Steps simulated at query time.")] = 50,
    discount: Annotated[float, typer.Option(min=0.01, max=0.9999, help="The discount of a step.")] = 0.99,
    seed: Seed = 0,
    max_steps: MaxSteps = 1000,
    as_json: AsJson = False,
    out: Out = None,
    report: Report = None,
) -> None:
    """The paper's policy in Mountain Car, compared with Monte-Carlo returns on a grid.

    The exit code is 0 when the error of the value, validated on fresh paths, has stopped falling.
    """
    _check(out, report)
    succeeded = evaluate_mountain_car(
        samples=samples,
        n_step=n_step,
        look_ahead=look_ahead,
        discount=discount,
        seed=seed,
        max_steps=max_steps,
        as_json=as_json,
        out=out,
        report=report,
    )
    raise typer.Exit(0 if succeeded else 1)


@app.command()
def log(
    data: Annotated[str, typer.Argument(help="Logged steps: a .parquet, .csv or .npz file, or minari:ID.")],
    policy: Annotated[str, typer.Option(help="Whose value is wanted: a function, as module:function.")],
    env: Annotated[str | None, typer.Option(help="The Gymnasium id whose actions are legal.")] = None,
    discount: Annotated[float, typer.Option(min=0, max=1, help="The discount of a step.")] = 0.99,
    n_step: Annotated[int | None, typer.Option(min=1, help="Logged steps of a transition at most.")] = None,
    num_bootstrap: Annotated[int, typer.Option(min=0, help="Refits for the confidence interval.")] = 8,
    max_transitions: Annotated[int, typer.Option(min=1, help="Of a longer log so many are fitted.")] = 4000,
    seed: Seed = 0,
    max_steps: MaxSteps = 60,
    as_json: AsJson = False,
    out: Out = None,
    report: Report = None,
) -> None:
    """Off-policy evaluation: the value of a policy from what another one logged.

    The exit code is 0 when no check speaks against the value.
    """
    _check(out, report)
    sound = evaluate_log(
        data=data,
        policy=policy,
        env=env,
        discount=discount,
        n_step=n_step,
        num_bootstrap=num_bootstrap,
        max_transitions=max_transitions,
        seed=seed,
        max_steps=max_steps,
        as_json=as_json,
        out=out,
        report=report,
    )
    raise typer.Exit(0 if sound else 1)


def _check(out: Path | None, report: Path | None) -> None:
    check_writable(out)
    check_report(report)
