"""The backend tests that the package onnx brings: cases that nobody here wrote.

python -m tests.engine.converters.onnx_suite [--backend NAME] [PATTERN]
prints which of them fail, grouped by operator.
"""

import argparse
import fnmatch
import pickle
import re
import warnings
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from palmkit.delivery.lock import FileLock
from palmkit.engine.backends import BACKENDS
from palmkit.engine.backends.partition import specialise
from palmkit.engine.converters.onnx import convert
from palmkit.engine.ir import Array, Graph, Type
from palmkit.engine.model import Model
from palmkit.engine.replacing import replacing
from palmkit.engine.steps.refusal import RefusedError

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
DOMAINS = ("", "ai.onnx")
LEFT_OUT = Path(__file__).with_name("onnx_left_out.txt")
KEPT = Path(__file__).parents[3] / "build/onnx_suite"


@dataclass(frozen=True, eq=False)
class SuiteCase:
    """A model with inputs and the outputs that they must give.

    folder: where a case of files lies; one of the kind "node" is made when it is loaded.
    """

    name: str
    kind: str
    rtol: float
    atol: float
    made: Any = None
    data: Any = None
    folder: Path | None = None

    @property
    def path(self) -> Path:
        """Return the file of a case of files."""
        assert self.folder is not None
        return self.folder / "model.onnx"

    @cached_property
    def model(self) -> Any:
        """Return the ModelProto."""
        from onnx import ModelProto

        return self.made or ModelProto.FromString(self.path.read_bytes())

    @property
    def data_sets(self) -> Iterator[tuple[list[Any], list[Any]]]:
        """Yield pairs of inputs and outputs, each an array or its stand-in."""
        if self.folder is None:
            for inputs, outputs in self.data:
                yield [*map(_read, inputs)], [*map(_read, outputs)]
            return
        for folder in sorted(self.folder.glob("test_data_set*")):
            yield _read_files(folder, "input"), _read_files(folder, "output")

    @property
    def operators(self) -> list[str]:
        """Return the operators of the graph and of its bodies."""
        return [node.op_type for node in _nodes(self.model.graph)]

    @property
    def is_over_tensors(self) -> bool:
        """Return whether it has only tensors without strings, and ONNX's or known operators."""
        from onnx import TensorProto

        from palmkit.engine.converters.onnx.graph import is_known

        graph = self.model.graph
        types = [value.type for value in (*graph.input, *graph.output)]
        return all(
            type.WhichOneof("value") == "tensor_type"
            and type.tensor_type.elem_type != TensorProto.STRING
            for type in types
        ) and all(node.domain in DOMAINS or is_known(node) for node in _nodes(graph))


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _nodes(body)


def _read(value: Any) -> Any:
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _read_files(folder: Path, stem: str) -> list[Any]:
    from onnx import TensorProto

    found: list[Any] = []
    while (path := folder / f"{stem}_{len(found)}.pb").exists():
        found.append(_read(TensorProto.FromString(path.read_bytes())))
    return found


@cache
def suite(*kinds: str) -> Mapping[str, SuiteCase]:
    """Return the cases over tensors by kind and name: "node/abs"."""
    cases = [
        case for kind in kinds for case in (_nodes_kept() if kind == "node" else _loaded(kind))
    ]
    return {f"{case.kind}/{case.name}": case for case in cases if case.is_over_tensors}


def _nodes_kept() -> list[SuiteCase]:
    """Return the cases of the kind "node", which the first process that asks keeps for others.

    What they must give is computed as they are loaded, in eleven seconds.
    """
    import onnx

    code = zlib.crc32(Path(__file__).read_bytes())
    kept = KEPT / f"{onnx.__version__}-{code:08x}.pickle"
    KEPT.mkdir(parents=True, exist_ok=True)
    lock = FileLock(kept.with_suffix(".lock"))
    lock.acquire(300)
    try:
        if not kept.exists():
            with replacing(kept) as part:
                part.write_bytes(pickle.dumps(_loaded("node")))
        cases: list[SuiteCase] = pickle.loads(kept.read_bytes())
    finally:
        lock.release()
    return cases


def _loaded(kind: str) -> list[SuiteCase]:
    with warnings.catch_warnings():
        # Making their expected outputs, they overflow on purpose.
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        cases: list[SuiteCase] = []
        for each in load_model_tests(kind=kind):
            folder = Path(each.model_dir) if each.model_dir else None
            if folder is None and each.model is None:
                continue
            name = each.name.removeprefix("test_")
            made, data = each.model, each.data_sets
            cases.append(SuiteCase(name, kind, each.rtol, each.atol, made, data, folder))
    return cases


@cache
def left_out() -> Mapping[str, str]:
    """Return patterns of case names with the reasons why they need not pass."""
    lines = [line for line in LEFT_OUT.read_text().splitlines() if line.strip()]
    return dict(line.split(maxsplit=1) for line in lines)


def is_left_out(name: str) -> bool:
    """Return whether a line of the file names the case."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in left_out())


@cache
def graph_of(case: SuiteCase) -> Graph:
    """Return the converted model."""
    return convert(case.model.SerializeToString() if case.folder is None else case.path)


@cache
def symbolic_graph_of(case: SuiteCase) -> Graph:
    """Return the model converted as if it were written for any shape."""
    from onnx import ModelProto

    model = ModelProto()
    model.CopyFrom(case.model)
    model.graph.ClearField("value_info")
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}.{axis}"
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return convert(model.SerializeToString())


def check_case(case: SuiteCase, backend: str, symbolic: bool = False) -> None:
    """Raise unless the case's outputs come out; "cpu" may leave nodes to numpy."""
    graph = symbolic_graph_of(case) if symbolic else graph_of(case)
    for given, wanted in case.data_sets:
        inputs = dict(zip(graph.inputs, given, strict=True))
        if backend == "reference":
            outputs = BACKENDS["reference"].compile(graph).run(inputs)
        else:
            outputs = Model(graph, backend).run(inputs)
        assert len(outputs) == len(wanted)
        for (name, got), expected in zip(outputs.items(), wanted, strict=True):
            assert_similar(got, np.asarray(expected), case, name)


def is_claimed(case: SuiteCase, backend: str) -> bool:
    """Return whether the backend runs the whole graph itself."""
    graph = graph_of(case)
    given, _ = next(iter(case.data_sets))
    types = {name: Type.of(x) for name, x in zip(graph.inputs, given, strict=True)}
    try:
        BACKENDS[backend].compile(specialise(graph, types))
    except RefusedError:
        return False
    return True


def assert_similar(got: Array, wanted: Array, case: SuiteCase, name: str) -> None:
    """Compare dtype, shape and values as onnx.backend.test.runner does."""
    assert Type.of(got) == Type.of(wanted), f"{name}: {Type.of(got)}, not {Type.of(wanted)}"
    if np.array_equal(got, wanted):
        return
    rtol = case.rtol
    if wanted.dtype.kind not in "fiub":
        # Two units in the last place of bfloat16, as there.
        rtol = max(rtol, 2**-6) if wanted.dtype.name == "bfloat16" else rtol
        got, wanted = got.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=case.atol, err_msg=name)


def main() -> None:
    """Print the failing cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="reference", choices=BACKENDS)
    parser.add_argument("pattern", nargs="?", default="*", help="of names, as node/abs*")
    options = parser.parse_args()
    cases = {
        name: case
        for name, case in suite(*KINDS).items()
        if fnmatch.fnmatchcase(name, options.pattern)
    }
    failed: dict[str, list[str]] = defaultdict(list)
    for name, case in cases.items():
        try:
            check_case(case, options.backend)
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            missing = re.findall(r"(\w+) \(\d+:", said) if "have no rule" in said else []
            failed[" ".join(missing or case.operators[:1])].append(f"  {name}: {said[:200]}")
    for operator, lines in sorted(failed.items()):
        print(f"{operator}: {len(lines)}", *lines, sep="\n")
    count = sum(map(len, failed.values()))
    print(f"{len(cases) - count} of {len(cases)} pass, {1 - count / max(1, len(cases)):.2%}")


if __name__ == "__main__":
    main()
