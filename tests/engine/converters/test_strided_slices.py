"""Strided slices of TensorFlow and TFLite begin and end where theirs do, past the ends too.

TensorFlow's are Python's: for each of 22,848 slices of one axis TensorFlow 2.21 gave what numpy
gives, or refused what numpy refuses.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

from palmkit.engine.converters import tensorflow, tflite
from palmkit.engine.errors import ModelError, PalmError
from palmkit.engine.ir import Array
from tests.engine.converters.tensorflow_graphs import GraphWriter
from tests.engine.converters.tflite_models import ModelFile, interpreter_module, ints, run

MASKS: tuple[str, ...] = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
LARGE = 2**31 - 1


@dataclass(frozen=True)
class Cut:
    """A slice. masks: bits by place, by their names in MASKS."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    masks: dict[str, int]
    offset: bool = False

    @property
    def x(self) -> Array:
        return np.arange(np.prod(self.dims), dtype=np.int32).reshape(self.dims) + 10

    def tflite(self, *constants: tuple[int, ...]) -> bytes:
        """The model; constants: begins and ends, inputs if they are left out."""
        file = ModelFile()
        file.input("x", self.dims, "int32")
        for place, name in enumerate(("begins", "ends")):
            if constants:
                file.tensor(name, ints(*constants[place]))
            else:
                file.input(name, (len(self.strides),), "int32")
        file.tensor("strides", ints(*self.strides))
        file.tensor("y", (1,) * len(self.dims), "int32")
        names = ("beginMask", "endMask", "ellipsisMask", "newAxisMask", "shrinkAxisMask")
        masks: dict[str, Any] = {
            theirs: self.masks.get(ours, 0) for theirs, ours in zip(names, MASKS, strict=True)
        }
        file.operator(
            "STRIDED_SLICE", ["x", "begins", "ends", "strides"], ["y"], "StridedSliceOptions",
            version=8 if self.offset else 1, offset=self.offset, **masks,
        )  # fmt: skip
        return file.pack(["y"])

    def tensorflow(self, *constants: tuple[int, ...]) -> bytes:
        """Return the slice as a GraphDef."""
        graph = GraphWriter()
        graph.placeholder("x", *self.dims, dtype="int32")
        for place, name in enumerate(("begins", "ends")):
            if constants:
                graph.const(name, constants[place], "int32")
            else:
                graph.placeholder(name, len(self.strides), dtype="int32")
        graph.const("strides", self.strides, "int32")
        kinds = {"T": np.dtype("int32"), "Index": np.dtype("int32")}
        masks = {f"{name}_mask": self.masks.get(name, 0) for name in MASKS}
        graph.node("StridedSlice", "y", "x", "begins", "ends", "strides", **kinds, **masks)
        return graph.bytes()

    def wanted(self, begins: tuple[int, ...], ends: tuple[int, ...]) -> Array:
        """What numpy gives."""

        def index(place: int) -> Any:
            has = {name: self.masks.get(name, 0) >> place & 1 for name in MASKS}
            if has["ellipsis"]:
                return Ellipsis
            if has["new_axis"]:
                return None
            if has["shrink_axis"]:
                return begins[place]
            begin = None if has["begin"] else begins[place]
            return slice(begin, None if has["end"] else ends[place], self.strides[place])

        found: Array = self.x[tuple(map(index, range(len(self.strides))))]
        return found


class Interpreter:
    """A model in LiteRT, plainly computed."""

    def __init__(self, model: bytes, plain: bool = True) -> None:
        """plain: False for what its plain kernels lack."""
        kinds = interpreter_module.OpResolverType
        self.interpreter = interpreter_module.Interpreter(
            model_content=model,
            experimental_op_resolver_type=kinds.BUILTIN_REF if plain else kinds.AUTO,
        )
        self.interpreter.allocate_tensors()

    def run(self, **inputs: Array) -> Array:
        for detail in self.interpreter.get_input_details():
            self.interpreter.set_tensor(detail["index"], inputs[detail["name"]])
        self.interpreter.invoke()
        output: dict[str, Any] = self.interpreter.get_output_details()[0]
        shape: tuple[int, ...] = tuple(output["shape"])
        if 0 in shape:
            return np.zeros(shape, np.int32)
        found: Array = self.interpreter.get_tensor(output["index"])
        return found


def result(graph: Any, **inputs: Array) -> Array:
    (y,) = run(graph, inputs).values()
    return y


@pytest.mark.parametrize("stride", [-3, -2, -1, 1, 2])
@pytest.mark.parametrize("size", [1, 3])
def test_every_slice_of_one_axis(size: int, stride: int) -> None:
    places = [*range(-size - 2, size + 3), -LARGE - 1, LARGE]
    for begin_mask, end_mask in product((0, 1), repeat=2):
        cut = Cut((size,), (stride,), {"begin": begin_mask, "end": end_mask})
        theirs = Interpreter(cut.tflite())
        lite, full = tflite.convert(cut.tflite()), tensorflow.convert(cut.tensorflow())
        for begin, end in product(places, repeat=2):
            inputs = {"x": cut.x, "begins": ints(begin), "ends": ints(end)}
            wanted = cut.wanted((begin,), (end,))
            np.testing.assert_array_equal(theirs.run(**inputs), wanted)
            np.testing.assert_array_equal(result(lite, **inputs), wanted)
            np.testing.assert_array_equal(result(full, **inputs), wanted)


def random_cut(chance: random.Random) -> Cut:
    """Masks are arbitrary, but an ellipsis stands for at least one axis, as in LiteRT."""

    def mask(share: float) -> int:
        return sum((chance.random() < share) << place for place in range(count))

    dims = tuple(chance.choice((1, 2, 3, 4)) for _ in range(chance.choice((1, 2, 3))))
    count = chance.randint(1, 4)
    ellipsis = 1 << chance.randrange(count) if chance.random() < 0.5 else 0
    new, shrink = mask(0.25) & ~ellipsis, mask(0.2)
    shrink &= ~(ellipsis | new)
    strides = tuple(
        1 if shrink >> place & 1 else chance.choice((-2, -1, 1, 1, 2)) for place in range(count)
    )
    if count - (new | ellipsis).bit_count() > len(dims) - bool(ellipsis):
        return random_cut(chance)
    begin = mask(0.3) & ~shrink
    masks: dict[str, int] = dict(zip(MASKS, (begin, mask(0.3), ellipsis, new, shrink), strict=True))
    return Cut(dims, strides, masks)


@pytest.mark.parametrize("seed", range(300))
def test_slices_of_several_axes(seed: int) -> None:
    chance = random.Random(seed)
    cut = random_cut(chance)
    count = len(cut.strides)
    begins = tuple(chance.randint(-4, 4) for _ in range(count))
    ends = tuple(chance.randint(-5, 5) for _ in range(count))
    try:
        wanted = cut.wanted(begins, ends)
    except IndexError:
        for convert, model in (tflite.convert, cut.tflite), (tensorflow.convert, cut.tensorflow):
            with pytest.raises(PalmError):
                result(convert(model(begins, ends)), x=cut.x)
        return
    inputs = {"x": cut.x, "begins": ints(*begins), "ends": ints(*ends)}
    np.testing.assert_array_equal(Interpreter(cut.tflite()).run(**inputs), wanted)
    for convert, model in (tflite.convert, cut.tflite), (tensorflow.convert, cut.tensorflow):
        np.testing.assert_array_equal(result(convert(model()), **inputs), wanted)
        np.testing.assert_array_equal(result(convert(model(begins, ends)), x=cut.x), wanted)


@pytest.mark.parametrize("stride", [-2, -1, 1, 2])
@pytest.mark.parametrize("begin_mask", [0, 1])
def test_ends_that_are_lengths(stride: int, begin_mask: int) -> None:
    """Ends are places of the tensor: for others LiteRT returns arbitrary memory."""
    size = 4
    cut = Cut((size,), (stride,), {"begin": begin_mask}, offset=True)
    graph = tflite.convert(cut.tflite())
    for begin, length in product(range(-size, size), range(1, size + 1)):
        first = begin % size
        if begin_mask:
            first = 0 if stride > 0 else size - 1
        if length > (size - first if stride > 0 else first):
            continue
        signed = length if stride > 0 else -length
        wanted = Interpreter(cut.tflite((begin,), (signed,)), plain=False).run(x=cut.x)
        got = result(graph, x=cut.x, begins=ints(begin), ends=ints(signed))
        np.testing.assert_array_equal(got, wanted)


def test_a_masked_begin_of_an_axis_that_goes_away() -> None:
    """It counts in LiteRT, and does not in TensorFlow."""
    cut = Cut((4,), (1,), {"begin": 1, "shrink_axis": 1})
    inputs = {"x": cut.x, "begins": ints(2), "ends": ints(3)}
    assert Interpreter(cut.tflite()).run(**inputs) == cut.x[0]
    assert result(tflite.convert(cut.tflite()), **inputs) == cut.x[0]
    assert result(tensorflow.convert(cut.tensorflow()), **inputs) == cut.x[2]


@pytest.mark.parametrize("stride", [0, -1])
def test_one_index_has_steps_forth(stride: int) -> None:
    """TensorFlow refuses others, and LiteRT gives what the memory holds."""
    cut = Cut((4,), (stride,), {"shrink_axis": 1})
    for convert, model in (tflite.convert, cut.tflite), (tensorflow.convert, cut.tensorflow):
        with pytest.raises(ModelError, match=f"one index in steps of {stride}"):
            convert(model())


def test_masked_indices_are_not_more_than_axes() -> None:
    cut = Cut((4,), (1, 1), {"begin": 2, "end": 2})
    with pytest.raises(ModelError, match="2 indices are too many"):
        tensorflow.convert(cut.tensorflow((0, 0), (2, 2)))


def test_backward_slices_of_an_open_dim() -> None:
    graph = GraphWriter()
    graph.placeholder("x", None, dtype="int32")
    for name, value in (("begins", -4), ("ends", -9), ("strides", -1)):
        graph.const(name, (value,), "int32")
    graph.node("StridedSlice", "y", "x", "begins", "ends", "strides", T=np.dtype("int32"))
    converted = tensorflow.convert(graph.bytes())
    for size in (2, 3, 4, 6):
        x = np.arange(size, dtype=np.int32)
        np.testing.assert_array_equal(result(converted, x=x), x[-4:-9:-1])
