"""How fast the truth is: the value of a policy for 250,000 states, 2,000 simulated steps each.

python benchmarks/truth.py --out runs/bench
"""

import argparse
import resource
import time
from pathlib import Path

import gaussbell as gb
from gaussbell import records


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    out = parser.parse_args().out
    car = gb.environments.MountainCar()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = []
    for title in ("with compilation", "compiled"):
        started = time.perf_counter()
        grid = gb.monte_carlo.value_on_grid(car, car.along_velocity, (500, 500), horizon=2000)
        seconds = time.perf_counter() - started
        rows.append({"run": title, "seconds": round(seconds, 2)})
        print(
            f"{title}: {seconds:.1f} s, {len(grid.state) * 2000 / seconds / 1e6:.0f} million steps a second"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    record = {
        "benchmark": "truth",
        "versions": records.versions(),
        "states": len(grid.state),
        "steps": 2000,
        "rows": rows,
        "peak_mib": peak // 1024,
        "before_mib": before // 1024,
        "start_value": float(gb.monte_carlo.returns(car, car.along_velocity, [[-0.5, 0.0]])[0]),
        "spread": float(grid.value.std()),
    }
    print(f"peak {record['peak_mib']} MiB, {record['before_mib']} MiB before; sd {record['spread']:.4f}")
    records.write(out / "truth.json", record)


if __name__ == "__main__":
    main()
