"""gaussbell evaluate --data ...: the value of a policy from logged steps of another."""

import dataclasses
import importlib
import sys
import time
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


def evaluate_log(
    *,
    data: str,
    policy: str,
    env: str | None = None,
    discount: float = 0.99,
    n_step: int | None = None,
    num_bootstrap: int = 8,
    max_transitions: int = 4000,
    seed: int = 0,
    max_steps: int = 60,
    as_json: bool = False,
    out: Path | None = None,
    report: Path | None = None,
) -> bool:
    """Fit Q-factors of a policy to logged data; can the estimate be trusted?"""
    started = time.perf_counter()
    target = import_named("--policy", policy)
    log = read_log(data, env)
    with showing_steps(f"{len(log):,} logged steps, {num_bootstrap} refits", max_steps) as show:
        found = gb.evaluate_offline(
            log,
            target,
            discount=discount,
            n_step=n_step,
            num_bootstrap=num_bootstrap,
            max_transitions=max_transitions,
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
            "n_step": n_step,
            "num_bootstrap": num_bootstrap,
            "max_transitions": max_transitions,
            "seed": seed,
            "max_steps": max_steps,
        },
        "versions": records.versions(),
        "result": {
            "value": found.value,
            "interval": None if found.interval is None else list(found.interval),
            "level": found.level,
            "bootstrap": found.bootstrap,
            "logged_steps": len(log),
            "episodes": len(log.starts),
            "status": found.solution.status.name,
            "msbe": found.solution.msbe,
            "warnings": list(found.warnings),
            "seconds": round(time.perf_counter() - started, 2),
        },
        "assessment": found.assessment.to_dict(),
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
        kept = Evaluation(solution.network, found.transitions, None, solution.status.name, losses, None)
        report_evaluation(report, record, kept, out=out, key=seed)
    return found.assessment.trusted is not False


def import_named(option: str, name: str) -> Any:
    """What "module:name" names; modules in the working folder are found too."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ValueError(f"{option} {name}: give module:name, for example my_policies:balance.")
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{option} {name}: it cannot be imported ({error}).") from error
    finally:
        sys.path.remove("")
    return found


def read_log(data: str, env: str | None) -> gb.Log:
    """The logged steps, with the set of actions of `env`, of the data set, or that the data show."""
    if data.startswith(MINARI):
        log = gb.datasets.from_minari(data.removeprefix(MINARI))
    else:
        log = gb.datasets.read(data)
    if env is not None:
        simulator = gb.environments.from_gymnasium(env, num_envs=1)
        actions: Any = (
            gb.actions.DiscreteActions(simulator.num_actions)
            if isinstance(simulator, gb.FiniteMDP)
            else simulator.actions
        )
    else:
        actions = log.actions or _guess_actions(log.action)
    return dataclasses.replace(log, actions=actions)


def _guess_actions(action: np.ndarray) -> Any:
    if (action == np.floor(action)).all() and action.reshape(len(action), -1).shape[1] == 1:
        return gb.actions.DiscreteActions(int(action.max()) + 1)
    rows = action.reshape(len(action), -1)
    return gb.actions.BoxActions(rows.min(axis=0), rows.max(axis=0))


def _print(record: dict[str, Any]) -> None:
    result, seen = record["result"], record["assessment"]["checks"]
    value = f"[bold]{result['value']:.4g}[/]"
    if result["interval"] is not None:
        low, high = result["interval"]
        value += f", {result['level']:.0%} confidence interval {low:.4g} to {high:.4g}"
    print_facts(
        {
            "data": f"{result['logged_steps']:,} steps in {result['episodes']:,} episodes",
            "transitions": f"{seen['num_transitions']:,} of them fitted, {seen['duplicates']:,} duplicates",
            "value": value,
            "neighbours": f"{seen['neighbour_value']:.4g}, without a network",
            "action match": f"{seen['action_match_rate']:.0%}, {seen['mean_n_step']:.1f} steps in a row",
            "out of support": f"{seen['out_of_support']:.1%} of the successors",
            "NMSBE": f"{result['msbe']:.3g}",
            "status": coloured(gb.Status[result["status"]]),
            "seconds": f"{result['seconds']:.1f}, compilation included",
        }
    )
    for warning in result["warnings"]:
        screen.print(f"[red]warning:[/] {escape(warning)}", highlight=False, soft_wrap=True)
    if not result["warnings"]:
        screen.print("[green]No check speaks against it.[/]", highlight=False)
