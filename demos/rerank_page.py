"""A page of goods re-ordered by what its user just did, with reasons; nothing leaves the process.

    python demos/rerank_page.py
    python demos/rerank_page.py --source page.json --frames 5      a list of objects with an "id"

A make-believe user likes the first two goods of the category --wants, page after page.
"""

import json
from pathlib import Path
from typing import Any

from palmkit import kits
from palmkit.kits import live

KINDS, COLOURS = ("lamp", "chair", "vase", "rug"), ("red", "blue", "green")
GOODS: list[dict[str, Any]] = [
    {"id": n, "category": KINDS[n % 4], "brand": COLOURS[n % 3], "price": 10.0 + 7 * (n % 5)}
    for n in range(24)
]


def main() -> None:
    parser = live.plain_parser(__doc__)
    parser.add_argument("--source", type=Path, metavar="FILE", help="goods as JSON (24 of ours)")
    parser.add_argument(
        "--frames", type=live.frame_count, default=4, metavar="N", help="pages to show (4)"
    )
    parser.add_argument("--wants", default="vase", help="the category that is liked (vase)")
    options = parser.parse_args()
    goods = GOODS
    if options.source:
        goods = json.loads(options.source.read_text())
    session = kits.Reranker().session()
    now_s = 1_700_000_000.0
    for number in range(1, options.frames + 1):
        ranking = session.rerank(goods, why=True)
        page: list[dict[str, Any]] = [goods[row] for row in ranking.rows.tolist()]
        wanted = [place for place, item in enumerate(page) if item.get("category") == options.wants]
        print(f"page {number}: {options.wants} at places {[place + 1 for place in wanted]}")
        if ranking.why and wanted:
            reasons = ranking.why[wanted[0]].items()
            said = ", ".join(f"{group} {share:+.2f}" for group, share in list(reasons)[:3])
            print(f"   item {ranking.ids[wanted[0]]} owes its place to: {said}")
        for place in wanted[:2]:
            for event in ("click", "like"):
                now_s += 1
                session.observe({"event": event, "id": page[place]["id"], "time": now_s})


if __name__ == "__main__":
    live.run(main)
