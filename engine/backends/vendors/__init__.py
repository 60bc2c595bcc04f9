"""Other engines as backends: they are given the graph as ONNX, by our exporter.

Each is an extra. None is taken without being asked for, and none runs elsewhere than on the device
that was asked for.
"""
