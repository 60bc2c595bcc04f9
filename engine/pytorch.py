"""PyTorch to IR: torch exports a module as ONNX in memory, and the ONNX converter reads that."""

from __future__ import annotations

import inspect
import io
import logging
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias, cast

import numpy as np

from palmkit.engine.errors import ModelError, PalmError, UnsupportedError
from palmkit.engine.ir import Array, Graph
from palmkit.engine.model import Model
from palmkit.engine.ops import find

_Names: TypeAlias = dict[str, Sequence[str] | None]

_LOGGERS = ("torch.onnx", "torch.export", "torch.fx", "onnxscript", "onnx_ir")
_TRACED_OPSET = 17
# Far above rounding, far below a wrong operator.
_TOLERANCE = 1e-3
_ADVICE = (
    "export needs a forward of tensor operations: no branch on the values of tensors "
    "(torch.where, torch.cond), no numpy, sizes from x.shape; see torch.export"
)


def from_torch(
    module: Any,
    example: Any,
    *,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Graph:
    """Convert a PyTorch module to a graph.

        graph = engine.from_torch(module, torch.zeros(1, 3, 224, 224))
        outputs = engine.Model(graph).run({"x": image})     # the names of forward's parameters
        engine.save(graph, "net.palm")

    module: a torch.nn.Module; it is exported in evaluation mode and left as it was.
    example: what forward takes: a tensor, a tuple of arguments, or a dict of keyword arguments.
    dynamic_shapes: the dims that take any size, {"x": {0: "batch", 2: "height"}} by the names of
    the inputs, or whatever torch.export takes; the others are those of the example.
    input_names, output_names: names to use instead of torch's own, which are those of forward's
    parameters.
    The graph is compared with the module on the example, and again with open dims doubled.
    Raises UnsupportedError if torch is missing, if it cannot export the module as it is, if a dim
    that was to take any size cannot, and, listing them all, for operators that have no rule;
    ModelError if the module does not run on the example.
    """
    torch = _package("torch")
    _package("onnx")
    from palmkit.engine.converters import onnx
    from palmkit.engine.shapes import with_input_shapes

    if not isinstance(module, torch.nn.Module):
        raise UnsupportedError(
            f"from_torch: expected a torch.nn.Module, got {type(module).__name__}"
        )
    call = _Call.of(torch, module, example, dynamic_shapes, input_names)
    names = {"input_names": input_names, "output_names": output_names}
    with _in_evaluation(torch, module), _quiet(), torch.no_grad():
        call.run()
        wrong = ""
        for export in [_traced] if find_spec("onnxscript") is None else [_exported, _traced]:
            try:
                content = export(torch, call, names)
            except PalmError:
                raise
            except Exception as error:
                if wrong:
                    break
                raise UnsupportedError(
                    f"torch cannot export {type(module).__name__}: {_reason(error)}; {_ADVICE}"
                ) from error
            graph = onnx.convert(content)
            found = _closed(graph, call, input_names) or _disagreement(torch, graph, call)
            if not found:
                # torch may state sizes of the example for outputs that move with the inputs.
                return with_input_shapes(graph, {})
            wrong = wrong or found
    raise UnsupportedError(f"torch does not export {type(module).__name__} as it is: {wrong}")


@dataclass(frozen=True)
class _Call:
    """A module with the arguments it is called with.

    dynamic: as torch.export takes it; if it is by parameter, with an entry for every argument.
    """

    module: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    dynamic: Any

    @staticmethod
    def of(
        torch: Any, module: Any, example: Any, shapes: Any, input_names: Sequence[str] | None
    ) -> _Call:
        """Return the call that the example stands for, with open dims of at least 2.

        torch.export takes a size of 1 for a constant.
        """
        call = _Call(module, *_arguments(torch, example), None)
        call = replace(call, dynamic=_by_parameter(call, shapes, input_names))
        return call.resized(torch, lambda size: 2 if size == 1 else 1)

    def bound(self) -> dict[str, Any]:
        """Return the arguments by the names of forward's parameters."""
        try:
            signature = inspect.signature(self.module.forward)
            return dict(signature.bind(*self.arguments, **self.keywords).arguments)
        except TypeError as error:
            raise ModelError(f"the example is not what forward takes: {error}") from None

    def open_axes(self) -> Iterator[tuple[str, int, Any]]:
        """Yield parameter, axis and name of each dim that is to take any size."""
        for name, dims in _entries(self.dynamic):
            yield from ((name, axis, dim) for axis, dim in _entries(dims) if dim is not None)

    def resized(self, torch: Any, times: Callable[[int], int]) -> _Call:
        """Return the same call with its tensors repeated along every open dim."""
        bound = self.bound()
        for name, axis, _ in self.open_axes():
            if isinstance(bound[name], torch.Tensor):
                count = times(bound[name].shape[axis])
                bound[name] = torch.cat([bound[name]] * count, axis)
        if self.keywords and not self.arguments:
            return replace(self, keywords=bound)
        return replace(self, arguments=tuple(bound.values()), keywords={})

    def run(self) -> Any:
        """Return what the module returns; raise ModelError if it fails."""
        try:
            return self.module(*self.arguments, **self.keywords)
        except Exception as error:
            name = type(self.module).__name__
            raise ModelError(f"{name} does not run on the example: {_reason(error)}") from error


def _entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the entries of a mapping, or nothing for anything else."""
    known: Any = value
    if isinstance(value, Mapping):
        yield from known.items()


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise UnsupportedError(
            f'from_torch needs the package {name}: pip install "palmkit[torch]"'
        ) from None


def _arguments(torch: Any, example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, torch.Tensor):
        return (example,), {}
    if isinstance(example, Mapping):
        return (), dict(_entries(example))
    if isinstance(example, tuple | list):
        return tuple(cast(Sequence[Any], example)), {}
    raise UnsupportedError(
        f"example: expected a tensor, a tuple of arguments or a dict of keyword arguments, got "
        f"{type(example).__name__}"
    )


def _by_parameter(call: _Call, given: Any, input_names: Sequence[str] | None) -> Any:
    """Return dynamic shapes as torch.export takes them, an entry for each argument of forward."""
    shapes: Any = given
    parameters = list(call.bound())
    if isinstance(given, tuple | list) and len(shapes) == len(parameters):
        return dict(zip(parameters, shapes, strict=True))
    if not isinstance(given, Mapping):
        return shapes
    renamed = dict(zip(input_names or (), parameters, strict=False))
    by_parameter: dict[str, Any] = {}
    for name, dims in _entries(shapes):
        parameter = name if name in parameters else renamed.get(name)
        if parameter is None:
            known = ", ".join(input_names or parameters)
            raise UnsupportedError(f"dynamic_shapes: no input {name!r}; the inputs: {known}")
        by_parameter[parameter] = dims
    return {name: by_parameter.get(name) for name in parameters}


@contextmanager
def _in_evaluation(torch: Any, module: Any) -> Generator[None]:
    """Hold the module and all in it in evaluation mode, with attention as it is exported.

    torch's faster attention gives zeros where a padding mask hides the input, the exported one does
    not.
    """
    training = [(each, each.training) for each in module.modules()]
    module.eval()
    is_fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(is_fast)
        for each, was_training in training:
            each.training = was_training


@contextmanager
def _quiet() -> Generator[None]:
    """Silence torch's exporters, whose warnings and prints a caller can do nothing about."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _exported(torch: Any, call: _Call, names: _Names) -> bytes:
    """Export by torch.export."""
    program = torch.onnx.export(
        call.module,
        call.arguments,
        kwargs=call.keywords,
        dynamo=True,
        verbose=False,
        dynamic_shapes=call.dynamic,
        **names,
    )
    return bytes(program.model_proto.SerializeToString())


def _traced(torch: Any, call: _Call, names: _Names) -> bytes:
    """Export by tracing, where torch.export's needs are not installed or where it fixes a size."""
    bound = call.bound()
    if call.dynamic is not None and not isinstance(call.dynamic, Mapping):
        raise UnsupportedError(f"dynamic_shapes: expected a dict by inputs, {', '.join(bound)}")
    inputs = list(names["input_names"] or bound)
    by_parameter = dict(zip(bound, inputs, strict=False))
    axes: dict[str, dict[int, str]] = {}
    for name, axis, dim in call.open_axes():
        text = dim if isinstance(dim, str) else getattr(dim, "__name__", f"{name}_{axis}")
        axes.setdefault(by_parameter[name], {})[axis] = text
    file = io.BytesIO()
    torch.onnx.export(
        call.module,
        tuple(bound.values()),
        file,
        dynamo=False,
        opset_version=_TRACED_OPSET,
        input_names=inputs,
        output_names=names["output_names"],
        dynamic_axes=axes or None,
    )
    return file.getvalue()


def _closed(graph: Graph, call: _Call, input_names: Sequence[str] | None) -> str:
    """Return which dim torch has fixed though it was to take any size; "" if none."""
    names = dict(zip(call.bound(), input_names or call.bound(), strict=False))
    for parameter, axis, dim in call.open_axes():
        type = graph.inputs.get(names[parameter])
        if type is not None and isinstance(dim, str) and isinstance(type.shape[axis], int):
            return (
                f"input {names[parameter]}: axis {axis}, {dim}, takes one size only there: {type}"
            )
    return ""


def _disagreement(torch: Any, graph: Graph, call: _Call) -> str:
    """Return how the graph's numbers differ from the module's, also with open dims doubled."""
    from palmkit.engine.faults import difference

    if not all(find(node.op).pure for node in graph.nodes):
        return ""
    model = Model(graph)
    calls = [call, call.resized(torch, lambda size: 2)] if any(call.open_axes()) else [call]
    for each in calls:
        try:
            expected = _tensors(torch, each.run())
        except ModelError:
            # Some modules do not take twice the size.
            continue
        inputs = _tensors(torch, (each.arguments, each.keywords))
        if len(inputs) != len(graph.inputs) or len(expected) != len(graph.outputs):
            continue
        sizes = ", ".join(str(list(value.shape)) for value in inputs)
        try:
            found = model.run(dict(zip(graph.inputs, inputs, strict=True)))
        except PalmError as error:
            return f"for inputs of {sizes}: {error}"
        for (name, actual), value in zip(found.items(), expected, strict=True):
            # Indices of equal numbers may differ, so of integers only the shape is compared.
            apart = difference(value, actual) if value.dtype.kind == "f" else 0.0
            apart = apart if value.shape == actual.shape else np.inf
            if apart > _TOLERANCE:
                return f"for inputs of {sizes} output {name} differs by {apart:.2g} of its range"
    return ""


def _tensors(torch: Any, value: Any) -> list[Array]:
    """Return the tensors in nested tuples, lists and dicts, in order."""
    leaves = torch.utils._pytree.tree_leaves(value)
    return [each.numpy(force=True) for each in leaves if isinstance(each, torch.Tensor)]


def _reason(error: Exception) -> str:
    """Return the core of torch's error message, without the pages that it adds."""
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    lines = [line.strip() for line in str(root).splitlines() if line.strip()]
    told = lines[:2] if lines and lines[0].endswith(":") else lines[:1]
    return f"{type(root).__name__}: {' '.join(told)}" if told else type(root).__name__
