"""Policy iteration on Cart Pole by Algorithm 2: samples, evaluation steps, transient or persistent weights.

The paper's network (5, 10, 10, 1) takes the state and the action's number as they are. New states are drawn
before every evaluation, as its text says; the step size, which it does not state, is the 0.01 of its other
studies. A roll-out ends at a failure or after 500 steps; returns are discounted, 0 at best. Concatenate them:
the other methods in the same loop, and ours with default settings.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import gaussbell as gb
from gaussbell import figures
from gaussbell.control.recipe import algorithm_2
from gaussbell.environments.tasks import Survive
from gaussbell.experiments.methods import (
    GAUSS_NEWTON,
    METHODS,
    OURS,
    RESIDUAL_GRADIENT,
    SEMI_GAUSS_NEWTON,
    SEMI_GRADIENT,
)
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import Claim, Data, Finding, Study, all_of, by_share, select, settings
from gaussbell.numerics.precision import double_throughout
from gaussbell.records.cells import Cell, xarray

PERSISTENT, TRANSIENT = "persistent", "transient"
STEP_SIZE, OUR_SWEEPS = 0.01, 40
GOOD = 200.0
"""Mean steps of roll-outs that count as a good policy."""
WHERE = "Section 5.4"

TITLE = "Policy iteration on Cart Pole"
CLAIMS = (
    Claim("improves", WHERE, "Policies improve from sweep to sweep in most settings."),
    Claim("persistent-better", WHERE, "Persistent weights reach a better policy than transient ones."),
    Claim("no-trend", WHERE, "There is no clear trend in the number of samples or of evaluation steps."),
    Claim(
        "others-fail", WHERE, "Semi-gradients and first-order residual gradients do not work in this loop."
    ),
    Claim(
        "as-many-as-parameters",
        WHERE,
        "With 181 samples, as many as parameters, persistent weights and the most evaluation steps every "
        "repetition finds a good policy.",
    ),
    Claim(
        "dissimilar-runs",
        "Appendix B",
        "Roll-outs of one policy agree, but repetitions of the whole run differ much.",
    ),
)


class DiscountedSurvival(Survive):
    """Survive, scored by the discounted return: minus the discount to the power of the failing step."""

    def score(self, log: Any) -> Any:
        failed = gb.tasks.has_ended(log)
        return -np.where(failed, 0.99 ** (gb.tasks.lengths(log) - 1.0), 0.0)


def cells(scale: Scale) -> list[Cell]:
    """Algorithm 2 on its grid, the other methods at one of its points, and ours."""
    counts, evaluations, repetitions, sweeps = {
        Scale.SMOKE: ((100, 181), (5, 10), 1, 2),
        Scale.QUICK: ((100, 181, 300), (500, 1500), 3, 30),
        Scale.PAPER: ((100, 181, 300, 500), (500, 1500, 2500, 3500, 4500), 5, 200),
    }[scale]

    def cell(method: str, weights: str, samples: int, evaluation: int, repetition: int) -> Cell:
        return {
            "method": method,
            "weights": weights,
            "samples": samples,
            "evaluation_steps": evaluation,
            "sweeps": sweeps,
            "repetition": repetition,
        }

    paper = [
        cell(GAUSS_NEWTON, weights, n, evaluation, k)
        for weights in (PERSISTENT, TRANSIENT)
        for n in counts
        for evaluation in evaluations
        for k in range(repetitions)
    ]
    others = [
        cell(method, PERSISTENT, 181, evaluations[-1], k)
        for method in METHODS
        if method != GAUSS_NEWTON
        for k in range(repetitions)
    ]
    ours = [{"method": OURS, "sweeps": min(sweeps, OUR_SWEEPS), "repetition": k} for k in range(repetitions)]
    return paper + others + ours


@double_throughout
def measure(cell: Cell) -> Data:
    """A run of policy iteration, sweep by sweep."""
    env, key = gb.environments.CartPole(), jax.random.key(cell["repetition"])
    if cell["method"] == OURS:
        found = gb.policy_iteration(env, key=key, sweeps=cell["sweeps"])
    else:
        recipe = algorithm_2(
            cell["samples"],
            step_size=STEP_SIZE,
            evaluation_steps=cell["evaluation_steps"],
            persistent=cell["weights"] == PERSISTENT,
            redraw=True,
        )
        solver = METHODS[cell["method"]](STEP_SIZE)
        recipe = recipe._replace(evaluation=dataclasses.replace(recipe.evaluation, solver=solver))
        found = gb.policy_iteration(
            env,
            lambda key: gb.FeatureNetwork(gb.features.Identity(), gb.MLP((5, 10, 10, 1), key=key)),
            key=key,
            sweeps=cell["sweeps"],
            task=DiscountedSurvival(500),
            recipe=recipe,
        )
    kept = {"steps": ("mean", "least", "most"), "msbe": (), "low": (), "high": (), "score": ()}
    columns = {}
    for name, parts in kept.items():
        column = np.full((cell["sweeps"], *([3] if parts else [])), np.nan)
        column[: found.sweeps] = found.column(name)
        if parts:
            columns |= {f"{name}_{part}": ("sweep", column[:, k]) for k, part in enumerate(parts)}
        else:
            columns[name] = ("sweep", column)
    columns["solved"] = int(found.succeeded)
    columns["transitions"] = sum(found.transitions.values())
    return xarray.Dataset(columns, coords={"sweep": np.arange(1, cell["sweeps"] + 1)})


def group(cell: Cell) -> Any:
    """What decides which programs are compiled."""
    return [cell["method"], cell.get("samples"), cell.get("evaluation_steps")]


def cost(cell: Cell) -> float:
    """About the seconds of a run on one core; with persistent weights evaluations soon fit well and end."""
    if cell["method"] == OURS:
        return 6.0
    steps = cell["evaluation_steps"]
    if cell["weights"] == PERSISTENT:
        steps = min(steps, 400)
    return 3 + cell["sweeps"] * (0.03 + steps * (4e-5 + 2.5e-6 * cell["samples"]))


def check(data: Data) -> Mapping[str, Finding]:
    """What each claim comes to here."""
    paper = select(data, method=GAUSS_NEWTON)
    curves = {setting: _mean_curve(runs) for setting, runs in _by_setting(paper).items()}
    later = {setting: _rise(curve) for setting, curve in curves.items()}
    risen = [late > early for early, late in later.values()]
    of_means = gain_of_persistence({setting: curve.max() for setting, curve in curves.items()})
    of_runs = gain_of_persistence(
        {setting: _best_steps(runs).mean() for setting, runs in _by_setting(paper).items()}
    )
    trends = {name: _trend(curves, place) for name, place in (("samples", 1), ("evaluation steps", 2))}
    others = [m for m in METHODS if m != GAUSS_NEWTON]
    tried = {method: _best_steps(select(data, method=method)) for method in others}
    most = settings(paper, "evaluation_steps")[-1]
    special = _best_steps(select(paper, weights=PERSISTENT, samples=181, evaluation_steps=most))
    within = float((paper.steps_most - paper.steps_least).mean())
    between = float(
        np.mean([np.ptp(runs.steps_mean.values, axis=0).mean() for runs in _by_setting(paper).values()])
    )
    worst = ", ".join(f"{method} {np.median(steps):.0f}" for method, steps in tried.items())
    ours = select(data, method=OURS)
    return {
        "improves": Finding(
            f"mean steps of the second half of the sweeps above those of the first tenth in {sum(risen)} of "
            f"{len(risen)} settings",
            all_of(*(np.mean(risen) > share for share in (0.5, 0.2))),
        ),
        "persistent-better": Finding(
            f"best sweep, persistent and transient: of the mean of repetitions {of_means[0]}; of single runs "
            f"{of_runs[0]}",
            all_of(of_means[1], of_runs[1]),
        ),
        "no-trend": Finding(
            "steps survived by " + ", by ".join(f"{name}: {text}" for name, (text, _) in trends.items()),
            all_of(*(not clear for _, clear in trends.values())),
        ),
        "others-fail": Finding(
            f"median of the best mean steps: {worst} (residual Gauss-Newton here {np.median(special):.0f})",
            all_of(*(np.median(steps) < GOOD for steps in tried.values())),
        ),
        "as-many-as-parameters": Finding(
            f"best mean steps {', '.join(f'{steps:.0f}' for steps in special)}; ours solves "
            f"{int(ours.solved.sum())} of {ours.sizes['cell']}",
            by_share(float((special >= GOOD).mean())),
        ),
        "dissimilar-runs": Finding(
            f"steps differ by {within:.0f} between ten roll-outs of a policy, by {between:.0f} between "
            "repetitions",
            all_of(between > within, between > 50),
        ),
    }


def tabulate(data: Data) -> str:
    """Steps survived by setting, as a Markdown table."""
    paper = select(data, method=GAUSS_NEWTON)
    evaluations = settings(paper, "evaluation_steps")
    lines = [
        "| samples, weights | " + " | ".join(f"{e:g} evaluation steps" for e in evaluations) + " |",
        "|---|" + "---|" * len(evaluations),
    ]
    runs = _by_setting(paper)
    for weights in (TRANSIENT, PERSISTENT):
        for n in settings(paper, "samples"):
            found = [runs[weights, n, evaluation] for evaluation in evaluations]
            entries = [
                f"{np.median(_best_steps(one)):.0f}, {float(one.steps_mean.mean()):.0f}" for one in found
            ]
            lines.append(f"| {n:g}, {weights} | {' | '.join(entries)} |")
    ours = select(data, method=OURS)
    return "\n".join(
        [
            *lines,
            "",
            "Steps survived: the best mean of a sweep's roll-outs (median of the repetitions), and the "
            f"mean over all sweeps. Ours with default settings solves {int(ours.solved.sum())} of "
            f"{ours.sizes['cell']}.",
            "",
        ]
    )


def draw(data: Data) -> Mapping[str, figures.Figure]:
    """The paper's panels, raw repetitions, and the other methods beside ours."""
    return {"sweeps": _draw_sweeps(data), "repetitions": _draw_repetitions(data)}


def _draw_sweeps(data: Data) -> figures.Figure:
    paper = select(data, method=GAUSS_NEWTON)
    counts, evaluations = settings(paper, "samples"), settings(paper, "evaluation_steps")
    colours = dict(zip(evaluations, figures.PALETTE, strict=False))
    caption = (
        f"Mean steps of ten roll-outs after each sweep, averaged over {len(settings(paper, 'repetition'))} "
        "repetitions; shaded, their smallest and largest, averaged as in the paper. The dashed line is a "
        "full episode. Single sweeps are good, but what one sweep gains the next may lose."
    )
    title = "Cart Pole, policy iteration by Algorithm 2: steps survived by sweep"
    with figures.panels(len(counts), rows=2, size=(3.4, 2.9), title=title, caption=caption) as (figure, axes):
        for row, weights in enumerate((TRANSIENT, PERSISTENT)):
            for column, n in enumerate(counts):
                panel = axes[row * len(counts) + column]
                for evaluation in evaluations:
                    runs = select(paper, weights=weights, samples=n, evaluation_steps=evaluation)
                    mean = runs.mean("cell")
                    colour = colours[evaluation]
                    panel.plot(
                        mean.sweep, mean.steps_mean, color=colour, lw=1.2, label=f"{evaluation:g} steps"
                    )
                    panel.fill_between(
                        mean.sweep, mean.steps_least, mean.steps_most, color=colour, alpha=0.12, lw=0
                    )
                panel.axhline(500, color=figures.GREY, lw=0.8, ls="--")
                panel.set(
                    title=f"N = {n:g}, {weights}", xlabel="sweep", ylabel="steps survived", ylim=(0, 520)
                )
        axes[0].legend(fontsize=7, title="evaluation", title_fontsize=7)
    return figure


def _draw_repetitions(data: Data) -> figures.Figure:
    paper = select(data, method=GAUSS_NEWTON)
    evaluations = settings(paper, "evaluation_steps")
    evaluation = 3500 if 3500 in evaluations else evaluations[-1]
    raw = select(paper, weights=PERSISTENT, samples=100, evaluation_steps=evaluation)
    caption = (
        f"Left: the raw repetitions of one setting (N = 100, {evaluation:g} evaluation steps, persistent): "
        "each a line, the range of its ten roll-outs shaded; they have little in common. Middle: the other "
        f"methods in the same loop (N = 181, {evaluations[-1]:g} steps). Right: ours with default settings, "
        "which stops when a policy is confirmed (mark)."
    )
    with figures.panels(3, size=(4.4, 3.4), title="Cart Pole: single runs", caption=caption) as (
        figure,
        axes,
    ):
        for k in range(raw.sizes["cell"]):
            run, colour = raw.isel(cell=k), figures.PALETTE[k % len(figures.PALETTE)]
            axes[0].plot(run.sweep, run.steps_mean, color=colour, lw=1)
            axes[0].fill_between(run.sweep, run.steps_least, run.steps_most, color=colour, alpha=0.15, lw=0)
        looks = {
            SEMI_GRADIENT: figures.ORANGE,
            RESIDUAL_GRADIENT: figures.GREEN,
            SEMI_GAUSS_NEWTON: figures.VERMILION,
        }
        for method, colour in looks.items():
            runs = select(data, method=method)
            for k in range(runs.sizes["cell"]):
                run = runs.isel(cell=k)
                axes[1].plot(run.sweep, run.steps_mean, color=colour, lw=1, label=method if k == 0 else None)
        axes[1].legend(fontsize=7, loc="upper left")
        ours = select(data, method=OURS)
        for k in range(ours.sizes["cell"]):
            run = ours.isel(cell=k)
            done = np.isfinite(run.steps_mean.values)
            axes[2].plot(run.sweep[done], run.steps_mean[done], color=figures.PURPLE, lw=1)
            if run.solved == 1:
                axes[2].plot(run.sweep[done][-1], run.steps_mean[done][-1], "D", color=figures.PURPLE, ms=5)
        for panel, name in zip(axes, ("Algorithm 2", "Other methods", "Ours"), strict=True):
            panel.axhline(500, color=figures.GREY, lw=0.8, ls="--")
            panel.set(title=name, xlabel="sweep", ylabel="steps survived", ylim=(0, 520))
    return figure


def _by_setting(paper: Data) -> dict[tuple[Any, ...], Data]:
    """The repetitions of each setting."""
    return {
        (weights, n, evaluation): select(paper, weights=weights, samples=n, evaluation_steps=evaluation)
        for weights in (PERSISTENT, TRANSIENT)
        for n in settings(paper, "samples")
        for evaluation in settings(paper, "evaluation_steps")
    }


def _mean_curve(runs: Data) -> np.ndarray:
    return np.asarray(runs.steps_mean.mean("cell"))


def _rise(curve: np.ndarray) -> tuple[float, float]:
    """The mean of the first tenth of a curve and of its second half."""
    return float(curve[: max(1, len(curve) // 10)].mean()), float(curve[len(curve) // 2 :].mean())


def _trend(curves: Mapping[tuple[Any, ...], np.ndarray], place: int) -> tuple[str, bool]:
    """Mean steps for each value of a setting; is the first a clear half below the last, or the reverse?"""
    values = sorted({setting[place] for setting in curves})
    means = [
        float(np.mean([curve.mean() for setting, curve in curves.items() if setting[place] == value]))
        for value in values
    ]
    text = ", ".join(f"{mean:.0f} ({value:g})" for mean, value in zip(means, values, strict=True))
    return text, max(means[0], means[-1]) > 1.5 * min(means[0], means[-1])


def gain_of_persistence(best: Mapping[tuple[Any, ...], float]) -> tuple[str, bool]:
    """Persistent beside transient weights over all settings, and whether they are clearly better."""
    pairs = np.array(
        [(steps, best[TRANSIENT, *rest]) for (w, *rest), steps in best.items() if w == PERSISTENT]
    )
    persistent, transient = pairs.mean(axis=0)
    gains = pairs[:, 0] - pairs[:, 1]
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    text = f"{persistent:.0f} and {transient:.0f} (standard error of the difference {error:.0f})"
    return text, gains.mean() > 2 * error


def _best_steps(runs: Data) -> np.ndarray:
    """The best mean steps of each run."""
    return np.nanmax(runs.steps_mean.values, axis=1)


STUDY = Study("policy-iteration", TITLE, CLAIMS, cells, measure, group, cost, check, tabulate, draw)
