"""Timing models against other engines, and by node.

    engines/        what each engine has to do: ours and the peers, one file each
    worker.py       an engine's process; process.py is the other end of it
    comparison.py   the turns of the engines, and the comparison of their outputs
    subject.py      a model in the forms that the engines read
    conversions.py  cached results of peers' own converters
    nodes.py        our engine by node
    table.py, report.py, charts.py   the numbers as text and as a page

The command is `palmkit bench`.
"""
