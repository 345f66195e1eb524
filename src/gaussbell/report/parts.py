"""What a report is made of: charts, scenes, tables and facts, as plain data that the page's script draws.

A chart holds its numbers once: what is drawn, shown as a table and downloaded as CSV is the same column.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

Kind = Literal["line", "band", "points", "rings", "steps", "box", "bar", "map", "contour"]
"""How a series is drawn; "steps" are points joined by lines, "band" a line between `low` and `high`."""
Colour = Literal["blue", "orange", "green", "vermilion", "purple", "sky", "grey", "ink"]
COLOURS: tuple[Colour, ...] = ("blue", "orange", "green", "vermilion", "purple", "sky", "grey")
"""Okabe and Ito's, in the order in which series take them."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


class Axis(NamedTuple):
    """An axis: its name with the unit, its scale, its range, and names for the places 0, 1, 2, ...

    `ticks` are the numbers that are written, where the usual ones would be odd; `whole`, whether only whole
    numbers are.
    """

    title: str
    log: bool = False
    low: float | None = None
    high: float | None = None
    labels: Sequence[str] | None = None
    ticks: Sequence[float] | None = None
    whole: bool = False


class Series(NamedTuple):
    """Some columns of numbers, drawn alike.

    `columns` by role: x, y; low and high of a band; z, a table by y (rows) and x, of a map; shade, colours of
    points. `facets` are what controls choose it by; `axes`, names for x and y where they are its own.
    """

    label: str
    kind: Kind
    columns: Mapping[str, Any]
    facets: Mapping[str, str] = {}
    colour: Colour = "blue"
    dash: str = "solid"
    axes: tuple[str, str] | None = None


class Control(NamedTuple):
    """Chooses series by a facet: "toggle" any of its values, "choose" one, or "slide" along them.

    `shown` are those that are on at first; all, or the first, unless given.
    """

    facet: str
    kind: Literal["toggle", "choose", "slide"]
    shown: Sequence[str] | None = None


class Chart(NamedTuple):
    """A plot with its caption, the words for who cannot see it, and the command that makes its numbers.

    `shade` is the scale of the colours of maps and points, and `palette` these colours. `solid`, whether maps
    can be turned into surfaces; `stacked`, whether bars stand on each other.
    """

    title: str
    caption: str
    alt: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    command: str
    shade: Axis | None = None
    controls: Sequence[Control] = ()
    palette: Literal["cividis", "diverging", "greys"] = "cividis"
    solid: bool = False
    stacked: bool = False
    type: str = "chart"


class Scene(NamedTuple):
    """A policy at work, to be played: what is drawn, and the columns of its episode, a row a step."""

    title: str
    caption: str
    alt: str
    drawing: str
    columns: Mapping[str, Any]
    command: str
    type: str = "scene"


class Badge(NamedTuple):
    """A word with a colour that says whether it is good news."""

    text: str
    tone: Literal["good", "fair", "bad", "plain"]


class Link(NamedTuple):
    """A way to a section."""

    text: str
    anchor: str


class Table(NamedTuple):
    """Rows of texts, badges and links below headings."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    type: str = "table"


class Facts(NamedTuple):
    """Names and what is to be said of them."""

    rows: Mapping[str, str]
    title: str = ""
    type: str = "facts"


class Words(NamedTuple):
    """A paragraph; a `tone` makes it a notice."""

    text: str
    tone: Literal["plain", "good", "fair", "bad"] = "plain"
    type: str = "words"


class Bar(NamedTuple):
    """How far something has come."""

    title: str
    done: int
    total: int | None
    type: str = "bar"


class Picture(NamedTuple):
    """A picture that was drawn before; `png`, its file in base64."""

    title: str
    alt: str
    png: str
    type: str = "picture"


Item = Chart | Scene | Table | Facts | Words | Bar | Picture


class Section(NamedTuple):
    """A part of the page, with a name to link to."""

    anchor: str
    title: str
    items: Sequence[Item]


class Page(NamedTuple):
    """A whole report; `trouble` names what could not be read, `live` pages follow a run."""

    title: str
    about: str
    sections: Sequence[Section]
    trouble: Sequence[str] = ()
    live: bool = False


def spread_colours(names: Sequence[str]) -> dict[str, Colour]:
    """A colour for each name, the first ones again after seven."""
    return {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}


def spread_dashes(names: Sequence[str]) -> dict[str, str]:
    """A kind of line for each name."""
    return {name: DASHES[k % len(DASHES)] for k, name in enumerate(names)}


def to_plain(part: Any) -> Any:
    """A part of a report as JSON can hold it; arrays of numbers as the bytes they are."""
    if isinstance(part, tuple) and hasattr(part, "_asdict"):
        return {name: to_plain(value) for name, value in part._asdict().items()}  # type: ignore[attr-defined]
    if isinstance(part, Mapping):
        return {str(name): to_plain(value) for name, value in part.items()}
    if part is None or isinstance(part, str | bool | int):
        return part
    if isinstance(part, float):
        return part if np.isfinite(part) else None
    if isinstance(part, list | tuple):
        return [to_plain(value) for value in part]
    return _to_bytes(np.asarray(part))


def _to_bytes(array: np.ndarray) -> Any:
    """{"f8": base64, "shape": ...}, "f4" for single precision; texts as a list."""
    if array.ndim == 0:
        return to_plain(array.item())
    if array.dtype.kind not in "fiub":
        return [str(value) for value in array.tolist()]
    code = "f4" if array.dtype == np.float32 else "f8"
    data = np.ascontiguousarray(array, dtype=f"<{code}").tobytes()
    return {code: base64.b64encode(data).decode("ascii"), "shape": list(array.shape)}
