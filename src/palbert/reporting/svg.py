"""Figures as inline SVG that takes its colours and its font from the page around it.

Matplotlib draws with placeholder colours, which are then replaced by CSS variables, so that one drawing works in the
light and the dark theme. The page defines `--ink`, `--muted`, `--grid`, `--heat` (a background for ink) and
`--series-1` to `--series-6`.
"""

from __future__ import annotations

import hashlib
import io
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from palbert.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#0b0b01"
MUTED = "#0b0b02"
GRID = "#0b0b03"
HEAT = "#0b0b04"
SERIES = ("#0b0b11", "#0b0b12", "#0b0b13", "#0b0b14", "#0b0b15", "#0b0b16")

_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    HEAT: "var(--heat)",
    **{color: f"var(--series-{number})" for number, color in enumerate(SERIES, start=1)},
}

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "palbert",
    "text.parse_math": False,
    "font.size": 10.0,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "xtick.major.pad": 5.0,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.4,
    "legend.borderpad": 0.0,
}

# Matplotlib's settings are global to the process, so only one drawing at a time may change them.
_LOCK = threading.Lock()

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]+")


@dataclass
class Drawing:
    """A figure to draw on; `svg` is set when the `drawing` block ends."""

    figure: Figure
    svg: str = ""


def require_matplotlib() -> None:
    """Raise MissingExtraError if matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401  (only checked for)
    except ImportError as error:
        raise MissingExtraError("Plots need", package="matplotlib", extra="plots") from error


@contextmanager
def drawing(*, width: float, height: float, label: str) -> Iterator[Drawing]:
    """Open a figure of width × height units (CSS pixels when shown at its own size).

    Args:
        width: Width of the view box.
        height: Height of the view box.
        label: What the picture shows, for screen readers.

    Yields:
        The drawing, whose figure has a constrained layout.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with _LOCK, matplotlib.rc_context(), warnings.catch_warnings():
        # The text is drawn in the page's font, so glyphs that matplotlib's font lacks do not matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams  # versions of matplotlib type its keys differently
        settings.update(_STYLE)
        picture = Drawing(Figure(figsize=(width / 72.0, height / 72.0), layout="constrained"))
        yield picture
        buffer = io.StringIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        picture.figure.savefig(buffer, format="svg", transparent=True, metadata=metadata)
    picture.svg = inline(buffer.getvalue(), label=label)


def standalone(svg: str) -> str:
    """Turn a drawing into a file of its own, with the light theme's colours, a font and a white background."""
    style = Path(__file__).with_name("templates") / "style.css"
    colors: dict[str, str] = {}
    for name, color in re.findall(r"--([\w-]+): (#\w+)", style.read_text("utf-8")):
        colors.setdefault(name, color)  # the light theme is defined first
    root = ElementTree.fromstring(re.sub(r"var\(--([\w-]+)\)", lambda match: colors[match[1]], svg))
    _, _, width, height = root.attrib["viewBox"].split()
    root.attrib.update(
        xmlns="http://www.w3.org/2000/svg",
        width=width,
        height=height,
        style="stroke-linejoin: round; background: #ffffff; font-family: sans-serif",
    )
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def shorten(text: str, *, length: int = 24) -> str:
    """Return a name that can be drawn: one line without control characters, at most `length` characters long."""
    line = _CONTROL.sub(" ", text).strip()
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def inline(document: str, *, label: str) -> str:
    """Turn matplotlib's SVG document into an element for an HTML page.

    The element has no fixed size, no namespaces, only ids that it refers to (made unique by a hash of the drawing and
    its label), and CSS variables in place of the placeholder colours.
    """
    digest = hashlib.sha256((label + document).encode()).hexdigest()[:10]
    root = ElementTree.fromstring(document)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(key): value for key, value in element.attrib.items()}
        element.text = element.text if (element.text or "").strip() else None
        element.tail = None
    _drop(root, {"metadata", "style"})
    for element in root.iter():
        _restyle(element)
    _hoist_marker_styles(root)
    _rename_ids(root, prefix=f"plot-{digest}")
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": _CONTROL.sub(" ", label),
        "style": "stroke-linejoin: round; width: 100%; height: auto",
    }
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _drop(parent: ElementTree.Element, tags: set[str]) -> None:
    for child in list(parent):
        _drop(child, tags)
        if child.tag in tags or (child.tag in {"g", "defs"} and len(child) == 0):
            parent.remove(child)


def _restyle(element: ElementTree.Element) -> None:
    for key in ("d", "x", "y", "width", "height", "transform"):
        if key in element.attrib:
            element.set(key, _rounded(element.attrib[key]))
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    if "style" in element.attrib:
        declarations = (part.partition(":") for part in element.attrib["style"].split(";") if part.strip())
        style = {name.strip(): value.strip() for name, _, value in declarations}
        # The font family is the page's; size and weight are the drawing's.
        font = style.pop("font", "")
        style.pop("font-family", None)
        if size := re.search(r"[\d.]+px", font):
            style["font-size"] = size.group()
        if weight := re.match(r"(bold|[1-9]00)\b", font):
            style["font-weight"] = weight.group()
        element.set("style", "; ".join(f"{name}: {_themed(value)}" for name, value in style.items()))


def _themed(value: str) -> str:
    return _VARIABLES.get(value, value)


def _rounded(text: str) -> str:
    short = re.sub(r"-?\d+\.\d+", lambda match: f"{float(match.group()):.2f}".rstrip("0").rstrip("."), text)
    return " ".join(short.split())


def _hoist_marker_styles(root: ElementTree.Element) -> None:
    """Give a group of equal markers one common style, which halves the size of scatter plots."""
    for group in root.iter("g"):
        markers = [child for child in group if child.tag == "use"]
        styles = {marker.get("style") for marker in markers}
        if len(markers) > 1 and len(styles) == 1 and len(markers) == len(group):
            group.set("style", styles.pop() or "")
            for marker in markers:
                marker.attrib.pop("style", None)


def _rename_ids(root: ElementTree.Element, *, prefix: str) -> None:
    names: dict[str, str] = {}
    reference = re.compile(r"(?<=url\(#)[^)]+(?=\))|(?<=^#).+")

    def renamed(match: re.Match[str]) -> str:
        return names.setdefault(match.group(), f"{prefix}-{len(names) + 1}")

    for element in root.iter():
        for key in ("clip-path", "href"):
            if key in element.attrib:
                element.set(key, reference.sub(renamed, element.attrib[key]))
    for element in root.iter():
        identifier = element.attrib.pop("id", None)
        if identifier in names:
            element.set("id", names[identifier])
