"""gaussbell audit: how far a critic is from the truth, in a Gymnasium environment."""

import time
from pathlib import Path
from typing import Any

import gaussbell as gb
from gaussbell import records
from gaussbell.cli.log import import_named
from gaussbell.cli.reports import report_audit
from gaussbell.cli.screen import escape, print_facts, print_json, screen, write_record


def audit_environment(
    env: str,
    *,
    model: str | None,
    policy: str | None,
    critic: str | None,
    discount: float | None,
    budget: int,
    seed: int,
    as_json: bool = False,
    out: Path | None = None,
    report: Path | None = None,
) -> bool:
    """Audit a critic; is it to be trusted?"""
    started = time.perf_counter()
    found = _audit(env, model, policy, critic, discount, budget, seed)
    record = {
        "command": "audit",
        "settings": {
            "problem": env,
            "model": model,
            "policy": policy,
            "critic": critic,
            "discount": discount,
            "budget": budget,
            "seed": seed,
        },
        "versions": records.versions(),
        "result": found.to_dict() | {"seconds": round(time.perf_counter() - started, 2)},
    }
    if as_json:
        print_json(record)
    else:
        _print(found, time.perf_counter() - started)
    if out is not None:
        write_record(out, record, {"audit.png": lambda figures, kept: figures.draw_audit(kept)})
    if report is not None:
        report_audit(report, record)
    return found.assessment.trusted is not False


def _audit(
    env: str,
    model: str | None,
    policy: str | None,
    critic: str | None,
    discount: float | None,
    budget: int,
    seed: int,
) -> gb.CriticAudit:
    if model is None and (policy is None or critic is None):
        raise ValueError("give --model, a Stable-Baselines3 model, or both --policy and --critic.")
    made = None if model is None else import_named("--model", model)
    acting: Any = (
        gb.policies.from_stable_baselines(made) if policy is None else import_named("--policy", policy)
    )
    judged = made if critic is None else import_named("--critic", critic)
    simulator = gb.environments.from_gymnasium(
        env, discount=getattr(made, "gamma", 0.99) if discount is None else discount
    )
    if isinstance(simulator, gb.FiniteMDP):
        raise ValueError(f"{env}: it is a table; compare the critic with mdp.under(policy).values.")
    return gb.audit_critic(judged, simulator, acting, budget=budget, key=seed)


def _print(found: gb.CriticAudit, seconds: float) -> None:
    low, high = found.bias_interval
    first, last = found.monte_carlo_interval
    rows = {
        "critic": escape(str(found.assessment)),
        "mean error": f"{found.bias:.4g} ({low:.4g} to {high:.4g})",
        "slope": f"{found.scale:.3g}: returns on values; below 1 it exaggerates differences",
        "start value": f"{found.start:.4g} by the critic; returns {found.monte_carlo_start:.4g} "
        f"({first:.4g} to {last:.4g})",
    }
    if found.our_assessment is not None:
        rows["our fit"] = escape(str(found.our_assessment))
    rows["simulated"] = f"{found.simulated:,} steps, {seconds:.1f} seconds"
    print_facts(rows)
    for warning in found.warnings:
        screen.print(f"[red]warning:[/] {escape(warning)}", highlight=False, soft_wrap=True)
