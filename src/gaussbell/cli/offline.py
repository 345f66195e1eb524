"""gaussbell evaluate --data ...: the value of a policy from logged steps of another."""

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gaussbell as gb
from gaussbell import records
from gaussbell.cli.reports import report_evaluation
from gaussbell.cli.screen import (
    coloured,
    escape,
    print_facts,
    print_json,
    screen,
    showing_steps,
    write_record,
)
from gaussbell.records.evaluations import Evaluation

MINARI = "minari:"


def evaluate_data(
    *,
    data: str,
    policy: str,
    env: str | None = None,
    discount: float = 0.99,
    steps: int | None = None,
    num_bootstrap: int = 8,
    seed: int = 0,
    max_steps: int = 60,
    as_json: bool = False,
    out: Path | None = None,
    report: Path | None = None,
) -> bool:
    """Fit Q-factors of a policy to logged data; can the estimate be trusted?"""
    started = time.perf_counter()
    target = import_policy(policy)
    log = read_log(data, env)
    with showing_steps(f"{len(log):,} logged steps, {num_bootstrap} num_bootstrap", max_steps) as show:
        found = gb.evaluate_offline(
            log,
            target,
            discount=discount,
            steps=steps,
            num_bootstrap=num_bootstrap,
            key=seed,
            max_steps=max_steps,
            on_progress=show,
        )
    record = {
        "command": "evaluate",
        "settings": {
            "data": data,
            "policy": policy,
            "env": env,
            "discount": discount,
            "steps": steps,
            "num_bootstrap": num_bootstrap,
            "seed": seed,
            "max_steps": max_steps,
        },
        "versions": records.versions(),
        "result": {
            "value": found.value,
            "interval": list(found.interval),
            "num_bootstrap": found.num_bootstrap,
            "logged_steps": len(log),
            "episodes": len(log.starts),
            "status": found.solution.status.name,
            "msbe": found.solution.msbe,
            "warnings": list(found.warnings),
            "seconds": round(time.perf_counter() - started, 2),
        },
        "diagnostics": found.diagnostics._asdict(),
        "history": found.solution.history.columns,
    }
    if as_json:
        print_json(record)
    else:
        _print(record)
    if out is not None:
        write_record(out, record, {"estimate.png": lambda figures, kept: figures.draw_offline(kept)})
    if report is not None:
        solution = found.solution
        losses = np.asarray(solution.history.loss)
        kept = Evaluation(solution.network, found.rows, None, solution.status.name, losses, None)
        report_evaluation(report, record, kept, out=out, key=seed)
    return found.is_trusted


def import_policy(name: str) -> Callable[..., Any]:
    """The function that "module:function" names; modules in the working folder are found too."""
    module, _, function = name.partition(":")
    if not module or not function:
        raise ValueError(f"--policy {name}: give module:function, for example my_policies:balance.")
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--policy {name}: it cannot be imported ({error}).") from error
    finally:
        sys.path.remove("")
    return found


def read_log(data: str, env: str | None) -> gb.Log:
    """The logged steps, with the set of actions of `env`, of the data set, or that the data show."""
    if data.startswith(MINARI):
        log = gb.datasets.from_minari(data.removeprefix(MINARI))
    else:
        read = gb.datasets.read(data)
        if not isinstance(read, gb.Log):
            raise ValueError(
                f"--data {data}: it holds transitions with a discount, whose policy is fixed; give "
                f"logged steps "
                "with terminated instead."
            )
        log = read
    if env is not None:
        simulator = gb.environments.from_gymnasium(env, num_envs=1)
        actions: Any = (
            gb.actions.DiscreteActions(simulator.num_actions)
            if isinstance(simulator, gb.FiniteMDP)
            else simulator.actions
        )
    elif log.actions is not None:
        actions = log.actions
    else:
        actions = _guess_actions(log.action)
    return gb.Log(
        log.state,
        log.action,
        log.reward,
        log.next_state,
        log.terminated,
        log.truncated,
        log.episode,
        actions=actions,
    )


def _guess_actions(action: np.ndarray) -> Any:
    if (action == np.floor(action)).all() and action.reshape(len(action), -1).shape[1] == 1:
        return gb.actions.DiscreteActions(int(action.max()) + 1)
    rows = action.reshape(len(action), -1)
    return gb.actions.BoxActions(rows.min(axis=0), rows.max(axis=0))


def _print(record: dict[str, Any]) -> None:
    result, seen = record["result"], record["diagnostics"]
    low, high = result["interval"]
    print_facts(
        {
            "data": f"{result['logged_steps']:,} steps in {result['episodes']:,} episodes",
            "rows": f"{seen['rows']:,} fitted, {seen['duplicates']:,} of them duplicates",
            "value": f"[bold]{result['value']:.4g}[/], 90 % interval {low:.4g} to {high:.4g}",
            "neighbours": f"{seen['neighbour_value']:.4g}, without a network",
            "the policy's": f"{seen['agreement']:.0%} of the actions, {seen['mean_steps']:.1f} in a row",
            "uncovered": f"{seen['uncovered']:.1%} of the successors",
            "NMSBE": f"{result['msbe']:.3g}",
            "status": coloured(gb.Status[result["status"]]),
            "seconds": f"{result['seconds']:.1f}, compilation included",
        }
    )
    for warning in result["warnings"]:
        screen.print(f"[red]warning:[/] {escape(warning)}", highlight=False, soft_wrap=True)
    if not result["warnings"]:
        screen.print("[green]No diagnostic speaks against it.[/]", highlight=False)
