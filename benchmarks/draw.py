"""The figures and the table of the benchmarks, from their records alone."""

import argparse
from pathlib import Path

import numpy as np

from gaussbell import figures, records

METHODS = {
    "gaussbell, default": (figures.BLUE, "-"),
    "gaussbell Levenberg-Marquardt": (figures.BLUE, "--"),
    "optimistix dogleg": (figures.ORANGE, "-"),
    "optimistix Levenberg-Marquardt": (figures.ORANGE, "--"),
    "SciPy trf": (figures.GREEN, "-"),
    "Algorithm 1, step 1": (figures.VERMILION, "-"),
    "Algorithm 1, step 0.01": (figures.VERMILION, "--"),
    "Adam, 0.01": (figures.GREY, "-"),
}
STEPS = {
    "BLAS floor": (figures.GREY, "-"),
    "Gauss-Newton": (figures.BLUE, ":"),
    "Levenberg-Marquardt": (figures.BLUE, "--"),
    "dogleg": (figures.BLUE, "-"),
    "optimistix Levenberg-Marquardt": (figures.ORANGE, "--"),
    "the paper's recipe, NumPy": (figures.VERMILION, "-"),
}
MINIBATCHES = (
    (figures.BLUE, "-"),
    (figures.BLUE, ":"),
    (figures.ORANGE, "-"),
    (figures.GREY, "-"),
)


def draw_peers(peers: dict, step_time: dict, out: Path) -> Path:
    caption = (
        "Left: Mountain Car, 100 rows, inputs scaled to [-1, 1], median over seeds of the best loss so far; "
        "down and to the left is better. Ours stops at its tolerance of 1e-12. Right: one step, on as many "
        "rows as shown, beside the time that BLAS takes for the products and the factorisation alone."
    )
    with figures.panels(2, title="Seconds to a solution, and seconds a step", caption=caption) as (
        figure,
        (losses, sizes),
    ):
        for name, (colour, style) in METHODS.items():
            run = peers["scaled"][name]
            losses.loglog(run["seconds"][1:], run["median_loss"][1:], style, color=colour, label=name)
        losses.set(title="Loss against seconds", xlabel="seconds", ylabel="NMSBE", ylim=(1e-13, 10))
        results = step_time["results"]
        shapes = [f"{case['rows']:,} rows,\n{case['parameters']:,} parameters" for case in results]
        for name, (colour, style) in STEPS.items():
            times = [case["milliseconds"][name] for case in results]
            sizes.semilogy(shapes, times, style, color=colour, marker="o", ms=3, label=name)
        sizes.set(title="Time of one step", ylabel="milliseconds")
        for axes in (losses, sizes):
            axes.legend(fontsize=7)
        return figures.save(figure, out / "peers.png")


def draw_minibatches(record: dict, out: Path) -> Path:
    caption = (
        f"{record['rows']:,} rows, a network {tuple(record['sizes'])}, one line a seed; the loss is that of "
        "all rows. Minibatches are near the solution after a few passes, while a full batch is still at its "
        "first steps; the guide of the last step (momentum) brings them lower."
    )
    with figures.panels(1, title="Minibatches against full batches, Mountain Car", caption=caption) as (
        figure,
        (axes,),
    ):
        for (colour, style), (name, runs) in zip(MINIBATCHES, record["results"].items(), strict=True):
            for k, run in enumerate(runs):
                best = np.minimum.accumulate(run["loss"])
                label = name if k == 0 else None
                axes.semilogy(run["seconds"], best, style, color=colour, label=label)
        axes.set(title="", xlabel="seconds", ylabel="NMSBE of all rows")
        axes.set_ylim(top=1e3)  # room for the legend
        axes.legend(fontsize=8, loc="upper right")
        return figures.save(figure, out / "minibatches.png")


def summary(peers: dict) -> str:
    targets = list(next(iter(peers["scaled"].values()))["targets"])
    lines = [
        f"| {len(peers['seeds'])} seeds | ms a step | " + " | ".join(f"NMSBE {t}" for t in targets) + " |",
        "|---|---|" + "---|" * len(targets),
    ]
    for inputs in ("scaled", "raw"):
        for name, run in peers[inputs].items():
            cells = [
                f"{t['reached']}" + (f", {t['median_seconds']:.3f} s" if t["reached"] else "")
                for t in run["targets"].values()
            ]
            label = name + (", raw inputs" if inputs == "raw" else "")
            lines.append(f"| {label} | {run['milliseconds_a_step']:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def large_summary(large: dict) -> str:
    lines = ["| network | rows | way | seconds | peak memory, GiB |", "|---|---|---|---|---|"]
    for case in large["results"]:
        cells = (f"{case['rows']:,}", case["way"], f"{case['seconds']:.2f}", f"{case['peak_gibibytes']:.2f}")
        lines.append(f"| {tuple(case['sizes'])} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    out = parser.parse_args().out
    peers = records.read(out / "peers.json")
    print(f"Wrote {draw_peers(peers, records.read(out / 'step_time.json'), out)}.")
    print(f"Wrote {draw_minibatches(records.read(out / 'minibatches.json'), out)}.")
    print(f"Wrote {records.write_text(out / 'summary.md', summary(peers))}.")
    large = large_summary(records.read(out / "large.json"))
    print(f"Wrote {records.write_text(out / 'large.md', large)}.")


if __name__ == "__main__":
    main()
