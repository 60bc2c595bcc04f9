"""A layered layout: boxes in rows from top to bottom, lines that go round boxes.

After Sugiyama, Tagawa and Toda, Methods for Visual Understanding of Hierarchical System Structures
(1981): rows by the longest path; a place holder in each row that a line passes; few crossings by
barycentres; x so that chains and long lines are straight.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

_GAP_X = 28.0
_LINE_X = 14.0
_GAP_Y = 44.0
_SWEEPS = 24


@dataclass
class Box:
    """Something with a size; the layout sets x and y, its centre.

    is_input: whether the drawing begins here. sinks: whether it stands just above its readers.
    """

    width: float
    height: float
    is_input: bool = False
    sinks: bool = False
    x: float = 0.0
    y: float = 0.0
    row: int = 0


@dataclass
class Line:
    """A line from the bottom of a box to the top of another in a later row.

    value: lines of one source and value share their way. points: the result, from first to last.
    """

    source: int
    target: int
    value: str
    points: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])


@dataclass
class _Item:
    """A box in its row, or the place where a line passes it."""

    width: float
    row: int
    is_line: bool = False
    x: float = 0.0
    above: list[int] = field(default_factory=list[int])
    below: list[int] = field(default_factory=list[int])


def arrange(boxes: Sequence[Box], lines: Sequence[Line]) -> tuple[float, float]:
    """Place the boxes and the lines, and return width and height of the whole."""
    if not boxes:
        return 0.0, 0.0
    _assign_rows(boxes, lines)
    items = [_Item(box.width, box.row) for box in boxes]
    ways = _join(items, lines)
    rows = _order(items)
    _place(items, rows)
    left = min(item.x - item.width / 2 for item in items)
    for item in items:
        item.x -= left
    tops, bottoms = _row_edges(boxes, len(rows))
    for box, item in zip(boxes, items, strict=False):
        box.x, box.y = item.x, tops[box.row] + box.height / 2
    _draw(boxes, items, lines, ways, tops, bottoms)
    return max(item.x + item.width / 2 for item in items), bottoms[-1]


def _assign_rows(boxes: Sequence[Box], lines: Sequence[Line]) -> None:
    """Set rows by the longest way from the top; boxes without inputs sink to their readers.

    So do inputs, boxes marked so, and boxes with more readers than sources: fewer lines pass.
    """
    above: dict[int, set[int]] = defaultdict(set)
    below: dict[int, set[int]] = defaultdict(set)
    for line in lines:
        above[line.target].add(line.source)
        below[line.source].add(line.target)
    waiting = {i: len(above[i]) for i in range(len(boxes))}
    ready = [i for i, count in waiting.items() if not count]
    order: list[int] = []
    while ready:
        current = ready.pop()
        order.append(current)
        for after in below[current]:
            waiting[after] -= 1
            boxes[after].row = max(boxes[after].row, boxes[current].row + 1)
            if not waiting[after]:
                ready.append(after)
    fed = {i for i, box in enumerate(boxes) if box.is_input}
    for current in order:
        if fed & above[current]:
            fed.add(current)
    for current in reversed(order):
        sinks = boxes[current].sinks or not above[current] or current not in fed
        if below[current] and (sinks or len(below[current]) > len(above[current])):
            lowest = min(boxes[i].row for i in below[current]) - 1
            boxes[current].row = max(boxes[current].row, lowest)


def _join(items: list[_Item], lines: Sequence[Line]) -> list[list[int]]:
    """Return the items along each line, its two boxes among them, adding those between."""
    passed: dict[tuple[int, str, int], int] = {}
    joined: set[tuple[int, int]] = set()
    ways: list[list[int]] = []
    for line in lines:
        way = [line.source]
        for row in range(items[line.source].row + 1, items[line.target].row):
            key = (line.source, line.value, row)
            if key not in passed:
                passed[key] = len(items)
                items.append(_Item(_LINE_X, row, is_line=True))
            way.append(passed[key])
        way.append(line.target)
        ways.append(way)
        for upper, lower in zip(way, way[1:], strict=False):
            if (upper, lower) not in joined:
                joined.add((upper, lower))
                items[upper].below.append(lower)
                items[lower].above.append(upper)
    return ways


def _order(items: Sequence[_Item]) -> list[list[int]]:
    """Return the rows, each in an order with few crossings."""
    rows: list[list[int]] = [[] for _ in range(max(item.row for item in items) + 1)]
    for index in _depth_first(items):
        rows[items[index].row].append(index)
    best, fewest = [list(row) for row in rows], _crossings(items, rows)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            _sort_by_neighbours(items, rows, row, down)
        count = _crossings(items, rows)
        if count < fewest:
            best, fewest = [list(row) for row in rows], count
        if not fewest:
            break
    return best


def _depth_first(items: Sequence[_Item]) -> list[int]:
    """Return an order from the top in which connected items begin side by side."""
    seen: set[int] = set()
    order: list[int] = []
    waiting = [i for i in reversed(range(len(items))) if not items[i].above]
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            order.append(current)
            waiting += reversed(items[current].below)
    return order


def _sort_by_neighbours(
    items: Sequence[_Item], rows: list[list[int]], row: list[int], down: bool
) -> None:
    """Move each item to the mean position of its neighbours, or keep its place without any."""
    if not row:
        return
    current = items[row[0]].row
    beside = current - 1 if down else current + 1
    if not 0 <= beside < len(rows):
        return
    position = {index: place for place, index in enumerate(rows[beside])}
    scale = len(rows[beside]) / len(row)
    wishes: dict[int, float] = {}
    for place, index in enumerate(row):
        near = items[index].above if down else items[index].below
        wishes[index] = sum(position[each] for each in near) / len(near) if near else place * scale
    row.sort(key=lambda index: wishes[index])


def _crossings(items: Sequence[_Item], rows: Sequence[Sequence[int]]) -> int:
    """Return how many pairs of lines cross, by counting inversions between adjacent rows."""
    total = 0
    for upper, lower in zip(rows, rows[1:], strict=False):
        position = {index: place for place, index in enumerate(lower)}
        ends = [p for index in upper for p in sorted(position[i] for i in items[index].below)]
        counts = [0] * (len(lower) + 1)
        for seen, end in enumerate(ends):
            smaller_or_same, at = 0, end + 1
            while at > 0:
                smaller_or_same += counts[at]
                at -= at & -at
            total += seen - smaller_or_same
            at = end + 1
            while at < len(counts):
                counts[at] += 1
                at += at & -at
    return total


def _place(items: Sequence[_Item], rows: Sequence[Sequence[int]]) -> None:
    """Choose every x so that long lines and chains are straight.

    Four layouts are made: each item in line with a middle neighbour above or below it, rows filled
    from the left or the right. The result is the mean of the middle two positions. After Brandes
    and Koepf, Fast and Simple Horizontal Coordinate Assignment (2001).
    """
    refused = _conflicts(items, rows)
    ways: list[list[float]] = []
    for above in (True, False):
        for mirrored in (False, True):
            ordered = [list(reversed(row)) if mirrored else list(row) for row in rows]
            roots = _align(items, ordered if above else ordered[::-1], above, refused)
            xs = _compact(items, ordered, roots)
            ways.append([-x for x in xs] if mirrored else xs)
    narrow = min(ways, key=lambda xs: max(xs) - min(xs))
    for number, xs in enumerate(ways):
        shift = max(narrow) - max(xs) if number % 2 else min(narrow) - min(xs)
        ways[number] = [x + shift for x in xs]
    for item, four in zip(items, zip(*ways, strict=True), strict=True):
        item.x = sum(sorted(four)[1:3]) / 2
    for _ in range(3):
        _tighten(items, rows)


def _tighten(items: Sequence[_Item], rows: Sequence[Sequence[int]]) -> None:
    """Move each straight stretch of a long line towards its ends, as far as there is room."""
    room: dict[int, tuple[float, float]] = {}
    for row in rows:
        for number, index in enumerate(row):
            low, high = -math.inf, math.inf
            if number:
                low = items[row[number - 1]].x + _apart(items, row[number - 1], index)
            if number + 1 < len(row):
                high = items[row[number + 1]].x - _apart(items, index, row[number + 1])
            room[index] = low, high
    for index, item in enumerate(items):
        if not item.is_line or any(items[each].is_line for each in item.above):
            continue
        stretch = [index]
        while len(items[stretch[-1]].below) == 1 and items[items[stretch[-1]].below[0]].is_line:
            stretch.append(items[stretch[-1]].below[0])
        ends = sorted(items[each].x for each in (*item.above, *items[stretch[-1]].below))
        low = max(room[each][0] for each in stretch)
        high = min(room[each][1] for each in stretch)
        if low <= high:
            x = min(max(ends[len(ends) // 2], low), high)
            for each in stretch:
                items[each].x = x


def _apart(items: Sequence[_Item], left: int, right: int) -> float:
    """Return the least distance between the centres of two neighbours."""
    lines = items[left].is_line and items[right].is_line
    return (items[left].width + items[right].width) / 2 + (_LINE_X if lines else _GAP_X)


def _conflicts(items: Sequence[_Item], rows: Sequence[Sequence[int]]) -> set[tuple[int, int]]:
    """Return the short lines that cross a long one, which then need not be straight."""
    refused: set[tuple[int, int]] = set()
    for upper, lower in zip(rows, rows[1:], strict=False):
        place = {index: number for number, index in enumerate(upper)}
        low, scanned = 0, 0
        for number, index in enumerate(lower):
            inner = [u for u in items[index].above if items[index].is_line and items[u].is_line]
            if not inner and number + 1 < len(lower):
                continue
            high = place[inner[0]] if inner else len(upper)
            for each in lower[scanned : number + 1]:
                for near in items[each].above:
                    both = items[each].is_line and items[near].is_line
                    if not low <= place[near] <= high and not both:
                        refused.add((near, each))
            scanned, low = number + 1, high
    return refused


def _align(
    items: Sequence[_Item],
    rows: Sequence[Sequence[int]],
    above: bool,
    refused: set[tuple[int, int]],
) -> list[int]:
    """Return for each item the first one of its straight line of items."""
    roots = list(range(len(items)))
    taken: set[int] = set()
    place = {index: number for row in rows for number, index in enumerate(row)}
    for row in rows:
        last = -1
        for index in row:
            near = sorted(
                items[index].above if above else items[index].below, key=lambda each: place[each]
            )
            for middle in sorted({(len(near) - 1) // 2, len(near) // 2}) if near else ():
                other = near[middle]
                pair = (other, index) if above else (index, other)
                is_free = roots[index] == index and other not in taken
                if is_free and last < place[other] and pair not in refused:
                    roots[index] = roots[other]
                    taken.add(other)
                    last = place[other]
    return roots


def _compact(
    items: Sequence[_Item], rows: Sequence[Sequence[int]], roots: Sequence[int]
) -> list[float]:
    """Return positions as far left as straight lines allow, then moved right if there is room."""
    after: dict[int, dict[int, float]] = defaultdict(dict)
    before: dict[int, dict[int, float]] = defaultdict(dict)
    for row in rows:
        for left, right in zip(row, row[1:], strict=False):
            one, other = roots[left], roots[right]
            apart = max(_apart(items, left, right), after[one].get(other, 0.0))
            after[one][other] = before[other][one] = apart
    blocks = dict.fromkeys(roots)
    waiting = {block: len(before[block]) for block in blocks}
    ready = [block for block in blocks if not waiting[block]]
    order: list[int] = []
    while ready:
        order.append(ready.pop())
        for each in after[order[-1]]:
            waiting[each] -= 1
            if not waiting[each]:
                ready.append(each)
    xs: dict[int, float] = {}
    for block in order:
        xs[block] = max((xs[left] + apart for left, apart in before[block].items()), default=0.0)
    for block in reversed(order):
        if after[block]:
            xs[block] = max(xs[block], min(xs[r] - apart for r, apart in after[block].items()))
    return [xs[root] for root in roots]


def _row_edges(boxes: Sequence[Box], rows: int) -> tuple[list[float], list[float]]:
    heights = [0.0] * rows
    for box in boxes:
        heights[box.row] = max(heights[box.row], box.height)
    tops: list[float] = []
    bottoms: list[float] = []
    y = 0.0
    for height in heights:
        tops.append(y)
        bottoms.append(y + height)
        y += height + _GAP_Y
    return tops, bottoms


def _draw(
    boxes: Sequence[Box],
    items: Sequence[_Item],
    lines: Sequence[Line],
    ways: Sequence[Sequence[int]],
    tops: Sequence[float],
    bottoms: Sequence[float],
) -> None:
    """Set the points of each line; lines run straight down through the rows they pass.

    Lines that end at one box end side by side, in the order of their sources.
    """
    arriving: dict[int, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        arriving[line.target].append(number)
    ends: dict[int, float] = {}
    for index, numbers in arriving.items():
        numbers.sort(key=lambda number: items[ways[number][-2]].x)
        step = min(18.0, boxes[index].width * 0.7 / len(numbers))
        for place, number in enumerate(numbers):
            ends[number] = boxes[index].x + (place - (len(numbers) - 1) / 2) * step
    for number, (line, way) in enumerate(zip(lines, ways, strict=True)):
        source, target = boxes[line.source], boxes[line.target]
        line.points = [(source.x, source.y + source.height / 2)]
        for index in way[1:-1]:
            row = items[index].row
            line.points += [(items[index].x, tops[row]), (items[index].x, bottoms[row])]
        line.points.append((ends[number], target.y - target.height / 2))
