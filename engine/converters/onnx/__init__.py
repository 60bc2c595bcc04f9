"""ONNX to IR: an operator keeps its meaning, so a rule is needed only where old opsets differ.

rules/ holds the rules, each called like our op of the same name; without one a node is taken as it
is. graph.py walks the graph and its bodies; tensors.py reads attributes, tensors and types.
"""

from os import PathLike, fspath
from pathlib import Path

from palmkit.engine.converters.damage import damage_as_model_error
from palmkit.engine.converters.onnx.external import read_external_data
from palmkit.engine.converters.onnx.functions import inline_known_functions
from palmkit.engine.converters.onnx.graph import convert_model, op_name
from palmkit.engine.converters.onnx.limits import check_functions
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Graph

__all__ = ["convert", "op_name"]


def convert(source: str | PathLike[str] | bytes) -> Graph:
    """Read an .onnx file, or its bytes, as a graph.

    Raises ModelError for a file that is not a whole ONNX model, UnsupportedError listing every
    operator that has no rule, or saying that the package onnx is missing.
    """
    try:
        import onnx
    except ImportError:
        raise UnsupportedError(
            'reading ONNX models needs the package onnx: pip install "palmkit[onnx]"'
        ) from None
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    from onnx.inliner import inline_local_functions

    what = "onnx model in memory" if isinstance(source, bytes) else fspath(source)
    with damage_as_model_error("ONNX", what):
        try:
            if isinstance(source, bytes):
                model = onnx.load_model_from_string(source)
            else:
                model = onnx.load(  # pyright: ignore[reportUnknownMemberType]
                    fspath(source), load_external_data=False
                )
                read_external_data(model, Path(source).parent)
            if model.functions:
                check_functions(model)
                model = inline_local_functions(model)
        except OSError as error:
            raise ModelError(f"cannot read model {what}: {error.strerror or error}") from None
        except (DecodeError, onnx.checker.ValidationError) as error:
            raise ModelError(f"not an ONNX model, or damaged: {what}: {error}") from None
        if not model.graph.output or not model.opset_import:
            raise ModelError(f"not an ONNX model, or damaged: {what}")
        return convert_model(inline_known_functions(model))
