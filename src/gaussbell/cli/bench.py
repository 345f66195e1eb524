"""gaussbell bench: the time of a step on this machine."""

from pathlib import Path

from rich.table import Table

from gaussbell import records
from gaussbell.cli.screen import check_writable, escape, notes, screen
from gaussbell.experiments import step_time


def bench_steps(out: Path | None, settings: step_time.Settings) -> None:
    """Time steps of several sizes, print them beside the BLAS time of the same flops, write the record."""
    check_writable(out)
    with notes.status("compiling") as status:
        record = step_time.run(settings, status.update)
    for result in record["results"]:
        times = result["milliseconds"]
        title = f"{result['sizes']}, {result['parameters']:,} parameters, {result['rows']:,} samples"
        table = Table(title=title, title_justify="left")
        for heading in ("one step", "ms", "times the floor"):
            table.add_column(heading, justify="left" if heading == "one step" else "right")
        for name, milliseconds in times.items():
            table.add_row(name, f"{milliseconds:.3f}", f"{milliseconds / times[step_time.FLOOR]:.1f}")
        screen.print(table)
    if out is not None:
        path = records.write(out / "step_time.json", record)
        notes.print(f"Wrote {escape(str(path))}.", highlight=False, soft_wrap=True)
