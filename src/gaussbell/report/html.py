"""A page as one HTML file: data, style and scripts inside, and nothing fetched from anywhere."""

import base64
import hashlib
import html
import json
from importlib import resources
from string import Template

from gaussbell.report.parts import Page, to_plain

SCRIPTS = ("data.js", "chart.js", "scene.js", "page.js")
"""Joined into one, in this order."""
NOTHING, SAME_SERVER = "'none'", "'self'"
"""What a page may connect to."""


def plotly_script() -> str:
    """Plotly's script, out of its Python package."""
    try:
        from plotly.offline import get_plotlyjs  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError("Reports need plotly: pip install 'gaussbell[report]'.") from error
    return get_plotlyjs()


def to_json(page: Page) -> str:
    """The page's data; `<` is written so that no text can end the element that holds it."""
    return json.dumps(to_plain(page), allow_nan=False).replace("<", r"\u003c")


def to_html(page: Page) -> str:
    """The page as a file. Only its own two scripts may run in it, and it may connect to nothing."""
    plotly = plotly_script().replace("</script", r"<\/script")
    script = "\n".join(['"use strict"; (() => {', *map(_asset, SCRIPTS), "})();"])
    return Template(_asset("page.html")).substitute(
        TITLE=html.escape(page.title),
        STYLE=_asset("page.css"),
        DATA=to_json(page),
        PLOTLY=plotly,
        SCRIPT=script,
        HASHES=" ".join(map(_hash, (plotly, script))),
        CONNECT=SAME_SERVER if page.live else NOTHING,
    )


def _asset(name: str) -> str:
    return resources.files("gaussbell.report").joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
