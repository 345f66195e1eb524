"""gaussbell iterate: a live table of sweeps, a verdict, a figure and a moving picture."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.live import Live
from rich.table import Table

import gaussbell as gb
from gaussbell import records
from gaussbell.cli.render import MOST_STEPS, THEIRS, render
from gaussbell.cli.reports import report_iteration
from gaussbell.cli.screen import escape, notes, print_facts, print_json, screen, write_record
from gaussbell.control.experience import Experience
from gaussbell.records import policies as policy_files
from gaussbell.records.diagnosis import STATE_NAMES, diagnose, state_names
from gaussbell.records.evaluations import Evaluation

MAKERS: dict[str, Callable[[], Any]] = {
    "cart-pole": gb.environments.CartPole,
    "mountain-car": lambda: gb.environments.MountainCar(ending="end"),
    "acrobot": lambda: gb.environments.Acrobot(ending="end"),
}
OURS = {theirs: ours for ours, theirs in THEIRS.items()}
ACTION_NAMES = {
    "cart-pole": ("left", "right"),
    "mountain-car": ("left", "no push", "right"),
    "acrobot": ("torque -1", "no torque", "torque 1"),
}
EVALUATED = {True: (800_000, 200), False: (40_000, 50)}
"""Simulated steps, and n_step, to evaluate the policy that was found; by whether it is compiled."""
COLUMNS = ("sweep", "steps", "least", "return", "NMSBE", "Q from", "Q to", "corr.", "kept", "transitions")


def iterate_problem(
    problem: str,
    *,
    seed: int,
    seeds: int,
    sweeps: int,
    as_json: bool,
    out: Path | None,
    picture: Path | None,
    report: Path | None,
) -> bool:
    """Run policy iteration for one or several seeds, and tell; was every one solved?"""
    env = MAKERS[problem]() if problem in MAKERS else gb.environments.from_gymnasium(problem)
    if isinstance(env, gb.FiniteMDP):
        raise ValueError(f"{problem}: a finite process; FiniteMDP.optimal() solves it exactly.")
    Experience(env, jax.random.key(0))  # raises, before any table is shown, where there is nothing to iterate
    runs, best, interrupted = _run_seeds(env, range(seed, seed + seeds), sweeps, quiet=as_json)
    record = {
        "command": "iterate",
        "settings": {"problem": problem, "seed": seed, "seeds": seeds, "sweeps": sweeps},
        "task": {"kind": type(env.task).__name__, **vars(env.task)} if env.task is not None else None,
        "versions": records.versions(),
        "runs": runs,
    }
    if as_json:
        print_json(record)
    else:
        _tell(record, best)
    if out is not None or report is not None:
        record["episode"] = play_episode(env, problem, best.policy, seed)
    if out is not None:
        policy_files.save_policy(out / "policy.json", best)
        write_record(out, record, {"sweeps.png": lambda figures, kept: figures.draw_sweeps(kept)})
    if report is not None:
        diagnosis = None if interrupted else _diagnose(env, problem, best, seed)
        report_iteration(report, record, diagnosis, out=out)
    if picture is not None:
        frames = render(env, problem, best.policy, picture)
        notes.print(f"Wrote {escape(str(picture))}: {frames} frames.", highlight=False)
    if interrupted:
        raise KeyboardInterrupt
    return all(run["status"] == "SOLVED" for run in runs)


def _run_seeds(
    env: gb.environments.Simulator, seeds: range, sweeps: int, *, quiet: bool
) -> tuple[list[dict[str, Any]], gb.PolicySolution, bool]:
    """The records of the runs, the best solution, and whether Ctrl-C ended them."""
    runs, best, interrupted = [], None, False
    for number in seeds:
        started = time.perf_counter()
        try:
            solution = _watched(env, number, sweeps, show=len(seeds) == 1 and not quiet)
        except gb.IterationInterrupted as stop:
            solution, interrupted = stop.solution, True
        runs.append(_run_record(number, solution, time.perf_counter() - started))
        if len(seeds) > 1 and not quiet:
            screen.print(_line(runs[-1]), highlight=False, soft_wrap=True)
        if best is None or (solution.succeeded, solution.score) > (best.succeeded, best.score):
            best = solution
        if interrupted:
            break
    assert best is not None
    return runs, best, interrupted


def play_episode(env: gb.environments.Simulator, problem: str, policy: Any, seed: int) -> dict[str, Any]:
    """An episode as columns, a row a step, and how it can be drawn."""
    log = env.play(policy, episodes=1, length=MOST_STEPS, key=seed)
    ours = OURS.get(problem, problem)
    states, actions = np.asarray(log.state), np.asarray(log.action)
    names = state_names(ours, states.shape[1])
    drawing = ours if names == list(STATE_NAMES.get(ours, ())) else None
    columns: dict[str, Any] = {name: states[:, k] for k, name in enumerate(names)}
    if actions.reshape(len(actions), -1).shape[1] == 1:
        known = ACTION_NAMES.get(ours)
        flat = actions.reshape(-1)
        columns["action"] = flat if known is None else [known[int(action)] for action in flat]
    return {"drawing": drawing, "columns": columns}


def _diagnose(
    env: gb.environments.Simulator, problem: str, best: gb.PolicySolution, seed: int
) -> dict[str, Any] | None:
    """The value of the policy that was found, fitted anew and diagnosed; None where that cannot be done."""
    with notes.status("the value of the policy") as status:
        try:
            budget, n_step = EVALUATED[problem in MAKERS]
            found = gb.evaluate_policy(env, best.policy, budget=budget, n_step=n_step, key=seed)
            losses = np.asarray(found.history.loss)
            kept = Evaluation(
                found.network, found.transitions, None, found.status.name, losses, OURS.get(problem, problem)
            )
            return diagnose(kept, key=seed, env=env, policy=best.policy, landscape=False, tell=status.update)
        except (ValueError, RuntimeError) as error:
            notes.print(f"No value map: {escape(str(error))}", highlight=False, soft_wrap=True)
            return None


def _watched(env: gb.environments.Simulator, seed: int, sweeps: int, *, show: bool) -> gb.PolicySolution:
    """One run; with `show` a table that grows with the sweeps."""
    table = Table(box=None, header_style="bold")
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    if not show:
        with notes.status(f"seed {seed}"):
            return gb.policy_iteration(env, key=seed, sweeps=sweeps)

    def add(sweep: Any) -> None:
        table.add_row(str(table.row_count + 1), *_cells(sweep))

    try:
        with Live(table, console=screen, refresh_per_second=4):
            return gb.policy_iteration(env, key=seed, sweeps=sweeps, on_sweep=add)
    finally:
        if not screen.is_terminal:
            screen.line()  # Live ends the table's last line only on a terminal


def _cells(sweep: Any) -> tuple[str, ...]:
    steps, returns = sweep.steps, sweep.returns
    kept = "[green]yes[/]" if sweep.accepted else "[red]fresh[/]" if sweep.redrawn else "no"
    return (
        f"{steps[0]:.0f}",
        f"{steps[1]:.0f}",
        f"{returns[0]:.4g}",
        f"{sweep.msbe:.1e}",
        f"{sweep.low:.2g}",
        f"{sweep.high:.2g}",
        "" if np.isnan(sweep.correlation) else f"{sweep.correlation:.2f}",
        kept,
        f"{sweep.transitions:,}",
    )


def _run_record(seed: int, solution: gb.PolicySolution, seconds: float) -> dict[str, Any]:
    return {
        "seed": seed,
        "status": solution.status.name,
        "message": solution.status.value,
        "score": solution.score,
        "confirmed": solution.confirmed,
        "transitions": solution.transitions,
        "total": sum(solution.transitions.values()),
        "sweeps": solution.sweeps,
        "warnings": solution.warnings,
        "error": solution.error,
        "traceback": solution.to_dict()["traceback"],
        "seconds": round(seconds, 2),
        "history": [sweep._asdict() for sweep in solution.history],
    }


def _line(run: dict[str, Any]) -> str:
    status = gb.PolicyStatus[run["status"]]
    return (
        f"seed {run['seed']}: [{'green' if status.succeeded else 'red'}]{status}[/], {run['sweeps']} sweeps, "
        f"{run['total']:,} transitions, {run['seconds']:.1f} s"
    )


def _tell(record: dict[str, Any], best: gb.PolicySolution) -> None:
    runs = record["runs"]
    if len(runs) == 1:
        run, status = runs[0], best.status
        spent = ", ".join(f"{count:,} {purpose}" for purpose, count in run["transitions"].items())
        facts = {
            "verdict": f"[{'green' if status.succeeded else 'red'}]{status}[/]: {status.value}",
            "score": f"{run['score']:.4g}; fresh episodes {_range(run['confirmed'])}"
            if run["history"]
            else "none: no sweep was finished",
            "transitions": f"{run['total']:,}: {spent}",
            "seconds": f"{run['seconds']:.1f}, compilation included",
        }
        if run["error"]:
            facts["error"] = escape(run["error"])
        if run["warnings"]:
            facts["warnings"] = escape(" ".join(run["warnings"]))
        print_facts(facts)
        if run["traceback"]:
            notes.print(escape("".join(run["traceback"])), highlight=False, soft_wrap=True)
        return
    solved = [run["status"] == "SOLVED" for run in runs]
    print_facts(
        {
            "solved": f"[bold]{sum(solved)} of {len(runs)}[/]",
            "sweeps": _median([run["sweeps"] for run in runs]),
            "transitions": _median([run["total"] for run in runs]),
            "seconds": _median([run["seconds"] for run in runs]) + ", compilation in the first",
        }
    )


def _range(scores: Any) -> str:
    scores = np.asarray(scores, float)
    return f"{scores.min():.4g} to {scores.max():.4g} ({len(scores)})" if len(scores) else "none"


def _median(numbers: list[float]) -> str:
    low, middle, high = np.quantile(numbers, [0.1, 0.5, 0.9])
    digits = 0 if high >= 100 else 1
    return f"{middle:,.{digits}f} (80 % between {low:,.{digits}f} and {high:,.{digits}f})"
