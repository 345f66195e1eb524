"""Many cells on an executor, each a file, so that a second run goes on where the first was cut."""

from gaussbell.sweeps.executors import OpenExecutor, Shared, dask_cluster, local_processes
from gaussbell.sweeps.sweep import Sweep, SweepFailed, SweepProgress, cell_path, measure_cells, run_sweep

__all__ = [
    "OpenExecutor",
    "Shared",
    "Sweep",
    "SweepFailed",
    "SweepProgress",
    "cell_path",
    "dask_cluster",
    "local_processes",
    "measure_cells",
    "run_sweep",
]
