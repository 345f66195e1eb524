"""How good the value is, by the length of paths and by budget."""

from typing import Any

from gaussbell.experiments.study import select, settings
from gaussbell.experiments.values import AUTO, LOOK_AHEAD, N_STEP, NETWORKS, budgets, by_samples
from gaussbell.report.parts import Axis, Chart, Control, Series, spread_colours
from gaussbell.report.studies.medians import bands

X = Axis("n_step of a transition", log=True)
Y = Axis("RMSE / sd of the value", log=True)


def by_n_step(data: Any, command: str) -> Chart:
    """The error of the value by `n_step`, with and without looking ahead."""
    found, series = by_samples(data), []
    colours = spread_colours(list(NETWORKS))
    for network, name in NETWORKS.items():
        runs = select(found, network=network, target=N_STEP)
        for field, label, dash in (
            ("error", name, "solid"),
            ("error_ahead", f"{name}, looking {LOOK_AHEAD} steps ahead", "dash"),
        ):
            columns = bands(runs, "n_step", field)
            series.append(Series(label, "band", columns, {"network": label}, colours[network], dash))
    return Chart(
        "Error of the value by n_step",
        f"{int(settings(found, 'samples')[0]):,} samples, medians and range over seeds. Single steps leave "
        "the value little better than a constant (1), or worse; 50 to 200 steps make it good, looking ahead "
        "better still.",
        "Lines that fall with the number of steps, on logarithmic axes.",
        X,
        Y,
        series,
        command,
        controls=(Control("network", "toggle"),),
    )


def by_budget(data: Any, command: str) -> Chart:
    """The error of the value by `n_step` for each budget, and what "auto" reached."""
    series = []
    for name, colour in spread_colours([f"{budget:,}" for budget in budgets(data)]).items():
        runs = select(data, budget=int(name.replace(",", "")))
        columns, auto = bands(select(runs, target=N_STEP), "n_step", "error"), select(runs, target=AUTO)
        series.append(Series(f"{name} simulated steps", "band", columns, {"budget": name}, colour))
        chosen = {"x": auto.chosen.values, "y": auto.error.values}
        series.append(Series(f'{name}, "auto"', "points", chosen, {"budget": name}, colour))
    return Chart(
        "Error of the value by budget",
        "With a budget of simulated steps longer paths mean fewer transitions, so the best length moves; "
        "single "
        'points are what n_step="auto" reached, at the number it chose.',
        "Lines of the error by number of steps for three budgets, with points near their minima.",
        X,
        Y,
        series,
        command,
        controls=(Control("budget", "toggle"),),
    )
