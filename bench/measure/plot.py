"""Bars as SVG, with nothing but text and rectangles."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, LABELS, BAR, GAP, CHARACTER = 760, 300, 18, 6, 5.6
OURS, PEER = "#2b6cb0", "#a0aec0"


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    ours: bool = False


@dataclass(frozen=True)
class Panel:
    """Bars on one scale, which starts at zero."""

    title: str
    bars: list[Bar]


def write(path: Path, title: str, panels: list[Panel], caption: str) -> None:
    shapes, y = [_text(16, 28, title, size=16, weight="bold")], 52
    for panel in panels:
        shapes.append(_text(16, y + 8, panel.title, weight="bold"))
        y += 20
        most = max(bar.value for bar in panel.bars)
        for bar in panel.bars:
            length = bar.value / most * (WIDTH - LABELS - 90)
            colour = OURS if bar.ours else PEER
            shapes.append(_text(LABELS - 8, y + 13, bar.label, anchor="end"))
            shapes.append(f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>')
            shapes.append(_text(LABELS + length + 6, y + 13, _number(bar.value)))
            y += BAR + GAP
        y += 16
    for line in _wrapped(caption):
        shapes.append(_text(16, y + 8, line, size=10, colour="#4a5568"))
        y += 14
    body = "\n".join(shapes)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 12}" font-family="sans-serif">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _text(
    x: float, y: float, text: str, *, size: int = 12, weight: str = "normal", anchor: str = "start", colour: str = "#1a202c"
) -> str:
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\u202f") if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _wrapped(text: str) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > (WIDTH - 32) / CHARACTER:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return [*lines, line]
