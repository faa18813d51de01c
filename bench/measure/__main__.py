"""Measures, prints the table, and writes it with its plots to `bench/results`.

    python -m measure [S1 S2 …]     from the folder `bench`; with names, only those, and nothing is written
"""

import json
import sys

from . import machine, paths, plot, readme, table
from .sections import SECTIONS
from .server import Server


def main(wanted: list[str]) -> None:
    unknown = [name for name in wanted if name not in SECTIONS]
    if unknown:
        raise SystemExit(f"there is no {unknown[0]}; there are {', '.join(SECTIONS)}")
    rows: list[table.Row] = []
    panels: dict[str, list[plot.Panel]] = {}
    with Server() as server:
        version = server.version()
        for name, section in SECTIONS.items():
            if not wanted or name in wanted:
                print(f"==> {name}: {section.title}", flush=True)
                result = section.measure(server)
                rows += result.rows
                panels.setdefault(section.plot, []).extend(result.panels)
    facts = machine.describe(version)
    print(f"\n{table.text(rows)}\n\n{machine.caption(facts)}")
    if wanted:
        return
    paths.RESULTS.mkdir(exist_ok=True)
    results = {"machine": facts, "rows": table.data(rows)}
    (paths.RESULTS / "latest.json").write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    for name, shown in panels.items():
        plot.write(paths.RESULTS / f"{name}.svg", TITLES[name], shown, machine.caption(facts))
    readme.put_table(rows, machine.caption(facts))
    print(f"\nWritten to {paths.RESULTS} and to the table in {paths.BENCH / 'README.md'}")


TITLES = {
    "instructions": "User-mode instructions per decision",
    "latency": "One decision on Redis, microseconds",
    "memory": "One decision in memory",
    "processes": "Decisions on shared memory a second, in millions",
    "asyncio": "Decisions on Redis per second, from asyncio",
    "server_time": "Processor time of the Redis server per decision, microseconds",
}

main(sys.argv[1:])
