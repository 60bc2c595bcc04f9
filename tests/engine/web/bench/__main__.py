"""Times PalmKit in Chromium beside other engines of the web: `make bench-web`.

All engines open a network in the same page, which is cross-origin isolated, and take turns; our
native code, of AVX2, takes turns with them. First results are those of pages that have nothing yet.
A report goes to build/web/bench.html.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from dataclasses import replace
from pathlib import Path

from palmkit import engine
from palmkit.engine.bench import table
from palmkit.engine.bench.comparison import Comparison
from palmkit.engine.bench.measurement import geometric_mean
from palmkit.engine.bench.peak import peak_flops
from palmkit.engine.bench.report import Method, write
from palmkit.engine.bench.subject import subject
from palmkit.engine.machine import cpu_name, usable_cores
from tests.delivery.page.browser import program
from tests.engine.native.golden import SHIPPED
from tests.engine.web.bench.contenders import CONTENDERS, TITLES
from tests.engine.web.bench.measuring import Found, Schedule, measured
from tests.engine.web.bench.pages import opened
from tests.engine.web.package import ROOT

REPORT = ROOT / "build" / "web" / "bench.html"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", type=Path, help="folder with node_modules and our modules")
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--threads", default="1,2", metavar="N[,N]")
    parser.add_argument("--turns", type=int, default=Schedule.turns)
    parser.add_argument("--firsts", type=int, default=Schedule.firsts, help="pages for each")
    parser.add_argument("-o", "--output", type=Path, default=REPORT)
    options = parser.parse_args()
    schedule = Schedule(turns=options.turns, firsts=options.firsts)
    models: list[Path] = options.models
    shipped = {each.resolve() for each in SHIPPED}
    counts = [int(each) for each in options.threads.split(",")]
    versions = {each.name: each.version(options.peers) for each in CONTENDERS}
    rows = list[Found]()
    busy = [os.getloadavg()[0]]
    with opened(options.peers) as pages:
        for threads in counts:
            print(f"{threads} threads\n{_head(models)}", flush=True)
            for path in models:
                try:
                    graph = engine.convert(path)
                except engine.PalmError as error:
                    print(f"{path.name}: left out: {error}", flush=True)
                    continue
                with subject(path, graph) as each:
                    is_shipped = path.resolve() in shipped
                    found = measured(pages, each, threads, schedule, is_shipped)
                busy.append(os.getloadavg()[0])
                rows.append(replace(found, comparison=_versioned(found.comparison, versions)))
                print(_line(rows[-1], models), flush=True)
    _print_summary(rows)
    said = f"{cpu_name()}, {usable_cores()} cores; {_chromium()}; load {min(busy):.1f} to "
    said += f"{max(busy):.1f}, this comparison's own among it"
    print(said)
    method = Method(
        f"{schedule.turns} turns of {schedule.turn_ms:g} ms for each engine in one page of "
        f"{_chromium()}, cross-origin isolated; every run writes the inputs and reads the outputs; "
        f"MediaPipe's tasks also scale a picture; load {min(busy):.1f} to {max(busy):.1f}",
        "ms, from opening a page to its first results: download from this machine, compile, load, "
        f"run; the shortest of {schedule.firsts} pages with profiles of their own",
    )
    peaks = {threads: peak_flops(threads) for threads in counts}
    write(options.output, [each.comparison for each in rows], TITLES, peaks, method, "high")
    print(options.output)


def _chromium() -> str:
    command = [str(program()), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return " ".join(said[:2])


def _versioned(comparison: Comparison, versions: dict[str, str]) -> Comparison:
    results = [replace(each, version=versions[each.engine]) for each in comparison.results]
    return replace(comparison, results=tuple(results))


def _head(models: list[Path]) -> str:
    titles = [*TITLES.values(), "ratio", "SIMD128", "native", "of it", "SIMD128's", "first"]
    cells = "".join(f"{title:>13}" for title in titles)
    return f"{'fastest run, ms':{_width(models)}}{cells}"


def _width(models: list[Path]) -> int:
    return max(len(each.name) for each in models) + 2


def _line(found: Found, models: list[Path]) -> str:
    comparison = found.comparison
    times = {each.engine: each.times.min_ms for each in comparison.results}
    alone = found.simd128.min_ms if found.simd128 else None
    cells = [_cell(times.get(name), 3) for name in TITLES]
    cells += [_cell(comparison.ratio), _cell(alone, 3), _cell(found.native.min_ms, 3)]
    cells += [_cell(found.share), _cell(found.simd128_share), _cell(comparison.load_ratio)]
    return f"{comparison.model:{_width(models)}}" + "".join(f"{cell:>13}" for cell in cells)


def _cell(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _print_summary(rows: list[Found]) -> None:
    comparisons = [each.comparison for each in rows]
    print(f"\n{table.markdown(comparisons)}")
    for threads, ratios in table.means(comparisons).items():
        some = [each for each in rows if each.comparison.threads == threads]
        shares = [each.share for each in some if each.share]
        alone = [each.simd128_share for each in some if each.simd128_share]
        said = ", ".join(f"{name} {value:.2f}" for name, value in ratios.items())
        said += f"; of native {geometric_mean(shares):.2f}" if shares else ""
        said += f", with SIMD128 alone {geometric_mean(alone):.2f}" if alone else ""
        print(f"geometric means, {threads} threads: {said}")
    for line in table.refusals(comparisons, TITLES):
        print(line)


if __name__ == "__main__":
    main()
