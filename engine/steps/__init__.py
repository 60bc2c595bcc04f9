"""Steps: what a graph becomes before it runs, and the plan that a runtime takes.

A step is one call of a kernel over views of buffers, its operands named. A backend lowers a graph
to steps (`lowering`), rewrites them (`rewriting`), finds a place for each buffer (`plan`) and hands
the plan to its runtime.
"""
