"""Reports: records as one self-contained HTML page that works from disk, or live while a sweep runs."""

from gaussbell.report.build import (
    build_page,
    page_of_audit,
    page_of_evaluation,
    page_of_iteration,
    write_report,
)
from gaussbell.report.own import report_evaluation

__all__ = [
    "build_page",
    "page_of_audit",
    "page_of_evaluation",
    "page_of_iteration",
    "report_evaluation",
    "write_report",
]
