"""Tables and a figure of the experiment on control, from its record alone."""

from typing import Any

import numpy as np

from gaussbell import figures
from gaussbell.experiments.cells import Cell, select

CART, CAR, ACROBOT = "cart-pole", "mountain-car", "acrobot"


def summarise(record: dict[str, Any]) -> str:
    """The record as tables for people."""
    settings, cells = record["settings"], record["cells"]
    lines = [
        "| problem | solved | sweeps | transitions | training | roll-outs | confirmation | seconds | first |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for problem in (CART, CAR, ACROBOT):
        runs = select(cells, study="solve", problem=problem)
        kinds = [_middle([run["transitions"][kind] for run in runs]) for kind in runs[0]["transitions"]]
        lines.append(
            f"| {problem} | {_solved(runs)} | {_middle([run['sweeps'] for run in runs])} | "
            f"{_middle([run['total'] for run in runs])} | {' | '.join(kinds)} | "
            f"{_middle([run['seconds'] for run in runs[1:]])} | {runs[0]['seconds']:.3g} |"
        )
    carts = select(cells, study="solve", problem=CART)
    wide = _middle([run["survive_wide"] for run in carts], ".3f")
    perfect = sum(run["survive_2000"] == 1 for run in carts)
    lines += [
        "",
        "Medians (smallest to largest). The first run of a problem also compiles; its seconds stand apart. "
        f"From {settings['fresh_starts']:,} fresh starts the Cart Pole "
        f"policies survive 500 steps in {np.mean([run['survive_500'] for run in carts]):.2%} on average "
        f"(worst {min(run['survive_500'] for run in carts):.1%}), and {perfect} of {len(carts)} hold 2,000 "
        f"steps from every one; from wide starts {wide} survive.",
        "",
        "| method, in the same loop | " + " | ".join(f"step {s:g}" for s in settings["step_sizes"]) + " |",
        "|---|" + "---|" * len(settings["step_sizes"]),
    ]
    compared = list(dict.fromkeys(cell["method"] for cell in select(cells, study="method")))
    for method in compared[:-1]:
        found = [
            select(cells, study="method", method=method, step_size=size) for size in settings["step_sizes"]
        ]
        entries = [f"{_solved(runs)}, {np.median([run['score'] for run in runs]):.0f}" for runs in found]
        lines.append(f"| {method} | {' | '.join(entries)} |")
    ours = select(cells, study="method", method=compared[-1])
    best = np.median([run["score"] for run in ours])
    lines += [
        f"| {compared[-1]} | {_solved(ours)}, {best:.0f} |" + " |" * (len(settings["step_sizes"]) - 1),
        "",
        f"Solved, and the median of the best mean steps survived, in {settings['few_sweeps']} sweeps.",
        "",
        "| problem, ending | " + " | ".join(f"n = {n}" for n in settings["steps"]) + " |",
        "|---|" + "---|" * len(settings["steps"]),
    ]
    for problem in (CART, CAR):
        for ending in settings["endings"]:
            found = [
                select(cells, study="ending", problem=problem, ending=ending, steps=n)
                for n in settings["steps"]
            ]
            entries = [f"{_solved(runs)}, {np.median([run['score'] for run in runs]):.0f}" for runs in found]
            lines.append(f"| {problem}, {ending} | {' | '.join(entries)} |")
    lines += [
        "",
        "| one improvement of | ending | "
        + " | ".join(f"n = {n}: steps, right choices, correlation" for n in settings["steps"])
        + " |",
        "|---|---|" + "---|" * len(settings["steps"]),
    ]
    for problem in (CART, CAR):
        for policy in dict.fromkeys(cell["policy"] for cell in select(cells, study="improve")):
            for ending in settings["endings"]:
                found = [
                    select(cells, study="improve", problem=problem, policy=policy, ending=ending, steps=n)
                    for n in settings["steps"]
                ]
                before = np.median([run["before"] for run in found[0]])
                matters = np.median([run["matters_where_visited"] for run in found[0]])
                entries = [
                    f"{_median(runs, 'after'):.0f}, {_median(runs, 'right'):.0%}, "
                    f"{_median(runs, 'correlation'):.2f}"
                    for runs in found
                ]
                name = f"{problem}, {policy} policy ({before:.0f}; actions matter in {matters:.0%})"
                lines.append(f"| {name} | {ending} | {' | '.join(entries)} |")
    lines += [
        "",
        "The mean score of the policy greedy in Q, that of the old one in brackets; how often Q "
        "prefers the truly better of two actions, where one is; correlation of Q with the truth. In brackets "
        "also: at how many visited states the first action changes the true Q at all.",
        "",
        f"| Cart Pole, fair policy, {len(settings['gap_seeds'])} seeds | "
        + " | ".join(f"n = {n}: steps after, gap" for n in settings["steps"])
        + " |",
        "|---|" + "---|" * len(settings["steps"]),
    ]
    for ending in dict.fromkeys(cell["ending"] for cell in select(cells, study="gap")):
        found = [select(cells, study="gap", ending=ending, steps=n) for n in settings["steps"]]
        entries = [f"{_median(runs, 'after'):.0f}, {_median(runs, 'gap'):.2f}" for runs in found]
        lines.append(f"| {ending} | {' | '.join(entries)} |")
    lines += [
        "",
        "Medians. Gap: the correlation of Q(s, right) - Q(s, left) with its true value, at states to which "
        "the truly greedy policy leads. Q after a restart is Q with an end times a constant.",
        "",
        "| Q of the policy | at | correlation | RMSE | spread of the truth |",
        "|---|---|---|---|---|",
    ]
    for policy in ("found", "given"):
        runs = select(cells, study="q", policy=policy)
        for place in [name for name in runs[0] if isinstance(runs[0][name], dict)]:
            columns = [
                _middle([run[place][field] for run in runs if run[place][field] is not None], ".3f")
                for field in ("correlation", "rmse", "spread")
            ]
            lines.append(f"| {policy} | {place} | {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def draw(record: dict[str, Any]) -> figures.Figure:
    """Transitions to a confirmed solution by problem and seed, and how the best score grows by sweep."""
    cells = record["cells"]
    caption = (
        "Left: every simulated step until the solution was confirmed, a dot a seed, filled if solved. Right: "
        "the best mean steps of roll-outs so far, by sweep, for each seed of Cart Pole."
    )
    title = "Policy iteration with default settings, on seeds used for nothing else"
    with figures.panels(2, title=title, caption=caption) as (figure, (left, right)):
        for place, problem in enumerate((CART, CAR, ACROBOT)):
            runs = select(cells, study="solve", problem=problem)
            offsets = np.linspace(-0.25, 0.25, len(runs))
            for run, offset in zip(runs, offsets, strict=True):
                fill = figures.BLUE if run["status"] == "SOLVED" else "white"
                left.semilogy(place + offset, run["total"], "o", color=figures.BLUE, mfc=fill, ms=5)
        left.set_xticks(range(3), [CART, CAR, ACROBOT])
        left.set(title="Cost", ylabel="transitions", xlabel="problem")
        for run in select(cells, study="solve", problem=CART):
            scores = run["best_scores"]
            right.plot(np.arange(1, len(scores) + 1), scores, color=figures.BLUE, alpha=0.5, marker=".")
        right.set(title="Cart Pole", xlabel="sweep", ylabel="best mean steps survived so far")
    return figure


def _solved(runs: list[Cell]) -> str:
    return f"{sum(run['status'] == 'SOLVED' for run in runs)} of {len(runs)}"


def _median(runs: list[Cell], field: str) -> float:
    return float(np.median([run[field] for run in runs]))


def _middle(numbers: list[float], form: str = "") -> str:
    if not numbers:
        return "not defined"
    return (
        f"{_plain(np.median(numbers), form)} ({_plain(min(numbers), form)} to {_plain(max(numbers), form)})"
    )


def _plain(number: Any, form: str) -> str:
    """Four digits or so, large numbers in full, unless a form is given."""
    return f"{number:{form or (',.0f' if number >= 1000 else '.4g')}}"
