"""How much of a study is run."""

import enum


class Scale(enum.StrEnum):
    """Seconds, to see that all works; minutes, enough for a verdict; or as much as the paper ran."""

    SMOKE = "smoke"
    QUICK = "quick"
    PAPER = "paper"
