"""Puts the table of this run into `bench/README.md`."""

from . import paths, table

BEGIN, END = "<!-- written by `make bench` -->", "<!-- end of what `make bench` writes -->"


def put_table(rows: list[table.Row], caption: str) -> None:
    path = paths.BENCH / "README.md"
    before, rest = path.read_text().split(BEGIN)
    _, after = rest.split(END)
    path.write_text(f"{before}{BEGIN}\n\n{table.markdown(rows)}\n\n{caption}.\n\n{END}{after}")
