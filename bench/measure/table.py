"""The table: ours beside its peer, as a ratio, and whether the target is met."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Row:
    """One comparison."""

    target: str
    """The name of the target it belongs to."""
    work: str
    ours: float
    unit: str
    peer: str
    peers: float
    ratio: float
    reach: str = ""
    """What is to be reached; empty where the row is there to compare and no target."""
    met: bool | None = None


def by_ratio(
    target: str,
    work: str,
    ours: float,
    unit: str,
    peer: str,
    peers: float,
    *,
    at_most: float | None = None,
    ratio: float | None = None,
) -> Row:
    """A row whose target, if any, is a ratio; `ratio` where it is not simply that of the two numbers."""
    ratio = ours / peers if ratio is None else ratio
    if at_most is None:
        return Row(target, work, ours, unit, peer, peers, ratio)
    return Row(target, work, ours, unit, peer, peers, ratio, f"ratio ≤ {at_most:g}", round(ratio, 2) <= at_most)


def by_count(target: str, work: str, ours: float, unit: str, peer: str, peers: float, *, at_most: float) -> Row:
    """A row whose target is a number of ours."""
    return Row(target, work, ours, unit, peer, peers, ours / peers, f"≤ {number(at_most)}", ours <= at_most)


def beside(target: str, work: str, ours: float, unit: str, peer: str, peers: float) -> Row:
    """A row without a target."""
    return Row(target, work, ours, unit, peer, peers, ours / peers)


def number(value: float) -> str:
    """Three digits at least, thousands apart."""
    if value >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


HEAD = ("", "what", "ours", "beside", "that", "ratio", "target", "")


def cells(row: Row) -> tuple[str, ...]:
    return (
        row.target,
        row.work,
        f"{number(row.ours)} {row.unit}",
        row.peer,
        number(row.peers),
        f"{row.ratio:.2f}" if row.ratio >= 0.095 else f"{row.ratio:.3f}",
        row.reach,
        {True: "met", False: "missed", None: ""}[row.met],
    )


def text(rows: list[Row]) -> str:
    """For a terminal."""
    lines = [HEAD, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def markdown(rows: list[Row]) -> str:
    lines = [HEAD, ("---",) * len(HEAD), *(cells(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def data(rows: list[Row]) -> list[dict[str, object]]:
    return [asdict(row) for row in rows]
