"""Steps as text: what a pass over steps is given, and what it makes of them."""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from palmkit.engine.ir import Array
from palmkit.engine.steps.rewriting import Lowered, Purpose
from palmkit.engine.steps.step import Buffer, Step, StepAttr, View, strides_of, view_bytes

pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")

PLACES = ("input", "output", "arena")
DEFAULTS: Mapping[str, Mapping[str, StepAttr]] = {
    "conv": {
        "strides": [1, 1],
        "dilations": [1, 1],
        "pads": [0, 0, 0, 0],
        "group": 1,
        "activation": "",
        "activation_params": [],
    },
}


@dataclass(frozen=True)
class Text:
    """What some lines of Python-like text describe.

    x = input(1, 6, 6, 8)        a float32 input; output(...) and arena(...) likewise
    w = random(8, 1, 1, 8)       a float32 constant, seeded by its name; zeros(...) is one of zeros
    a = conv(1, 6, 6, 8, image=x, weights=w)       a step that writes a new buffer of these dims
    copy(x=a, y=c[4:8])          a step that writes a buffer that has a name already

    c[4:8] are the channels, along the last dim, from 4 on before 8; part(c, [64, 4], [12, 1], 4) is
    any view: its dims, strides and offset. Without strides it is contiguous.

    Operands of steps are names, what else they are given are attributes; `in_place` names the
    operand that may be written over. Attributes that most convolutions have alike are left out. The
    node of a step is called like what it writes, or `node` if that is given.
    """

    lowered: Lowered
    names: Mapping[int, tuple[str, View]]

    @staticmethod
    def of(text: str, purpose: Purpose | None = None) -> "Text":
        """Read the lines."""
        from palmkit.engine.backends.cpu.registry import kernels

        views: dict[str, View] = {}
        constants: list[Array] = []
        steps: list[Step] = []
        borders: list[View] = []
        for statement in ast.parse(dedent(text)).body:
            assert isinstance(statement, ast.Assign | ast.Expr)
            call = statement.value
            assert isinstance(call, ast.Call)
            kernel = ast.unparse(call.func)
            dims = tuple(ast.literal_eval(each) for each in call.args)
            target = "" if isinstance(statement, ast.Expr) else ast.unparse(statement.targets[0])
            if kernel in PLACES:
                index = sum(view.buffer.place == kernel for view in borders)
                views[target] = View(Buffer(kernel, 4 * int(np.prod(dims)), index), "float32", dims)
                borders += [views[target]] if kernel != "arena" else []
                continue
            if kernel in ("random", "zeros"):
                value = np.zeros(dims, np.float32)
                if kernel == "random":
                    seed = sum(map(ord, target))
                    value = np.random.default_rng(seed).normal(size=dims).astype(np.float32)
                constants.append(value)
                buffer = Buffer("constant", value.nbytes, len(constants) - 1)
                views[target] = View(buffer, "float32", dims)
                continue
            inputs, outputs = kernels().operands(kernel)
            given = {str(each.arg): each.value for each in call.keywords}
            own = {name: ast.literal_eval(given.pop(name)) for name in _OWN if name in given}
            many = inputs[-1].removesuffix("*") if inputs and inputs[-1].endswith("*") else "\0"
            read: dict[str, View | None] = {
                name: _view(views, given.pop(name))
                for name in list(given)
                if name in inputs or name.removeprefix(many).isdigit()
            }
            if target:
                size_bytes = view_bytes("float32", dims)
                views[target] = View(Buffer("arena", size_bytes), "float32", dims)
                written = {outputs[0]: views[target]}
            else:
                written = {n: _view(views, given.pop(n)) for n in outputs if n in given}
                target = ast.unparse(call)
            attrs = {name: ast.literal_eval(value) for name, value in given.items()}
            attrs = {**DEFAULTS.get(kernel, {}), **attrs}
            node = own.get("node", target)
            steps.append(kernels().step(kernel, node, read, written, attrs, own.get("in_place")))
        lowered = Lowered(steps, constants, borders, kernels(), purpose or Purpose())
        names = {id(view.buffer): (name, view) for name, view in views.items()}
        return Text(lowered, names)

    def line(self, step: Step) -> str:
        """A step as text, what it writes as an operand."""
        operands = {**step.inputs, **step.outputs}
        parts = [f"{name}={self.view(view)}" for name, view in operands.items() if view]
        usual = DEFAULTS.get(step.kernel, {})
        parts += [f"{k}={v!r}" for k, v in step.attrs.items() if k not in usual or usual[k] != v]
        parts += [f"in_place={step.in_place!r}"] if step.in_place else []
        return f"{step.kernel}({', '.join(parts)})"

    def view(self, view: View) -> str:
        """A view as text."""
        name, whole = self.names[id(view.buffer)]
        if view.is_whole:
            return name
        last = view.offset + view.dims[-1]
        if view == _channels(whole, view.offset, last):
            return f"{name}[{view.offset}:{last}]"
        strides = "" if view.strides is None else f", {[*view.strides]}"
        offset = f", {view.offset}" if view.offset else ""
        return f"part({name}, {[*view.dims]}{strides}{offset})"

    def after(self, change: Callable[[Lowered], Lowered]) -> str:
        """The steps that a pass makes of these, a line each."""
        return "\n".join(map(self.line, change(self.lowered).steps))

    def before(self) -> str:
        """The steps as they are, a line each."""
        return "\n".join(map(self.line, self.lowered.steps))


_OWN = ("node", "in_place")


def _channels(whole: View, first: int, last: int) -> View:
    dims = (*whole.dims[:-1], last - first)
    return View.of(whole.buffer, whole.dtype, dims, whole.all_strides, first)


def _view(views: Mapping[str, View], text: ast.expr) -> View:
    """What an operand names."""
    if isinstance(text, ast.Subscript):
        assert isinstance(text.slice, ast.Slice) and text.slice.lower and text.slice.upper
        first, last = (ast.literal_eval(each) for each in (text.slice.lower, text.slice.upper))
        return _channels(views[ast.unparse(text.value)], first, last)
    if isinstance(text, ast.Call):
        name, dims, *rest = text.args
        whole = views[ast.unparse(name)]
        own = ast.literal_eval(dims)
        strides = strides_of(own)
        if rest and isinstance(rest[0], ast.List):
            strides = ast.literal_eval(rest.pop(0))
        offset = int(ast.literal_eval(rest[0])) if rest else 0
        return View.of(whole.buffer, whole.dtype, own, strides, offset)
    return views[ast.unparse(text)]


def lines(text: str) -> str:
    """Expected steps, as `Text.after` gives them: a step may go on in lines that are indented."""
    joined: list[str] = []
    for line in dedent(text).strip().splitlines():
        if line.startswith((" ", ")")):
            end = line.strip()
            joined[-1] += end if joined[-1].endswith("(") or end == ")" else f" {end}"
        else:
            joined.append(line)
    return "\n".join(line.replace(",)", ")") for line in joined)


def changed(before: str, after: str, change: Callable[[Lowered], Lowered], **purpose: Any) -> None:
    """Assert that a pass makes the one of the other."""
    text = Text.of(before, replace(Purpose(), **purpose))
    assert text.after(change) == lines(after)


def unchanged(before: str, change: Callable[[Lowered], Lowered], **purpose: Any) -> None:
    """Assert that a pass leaves the steps as they are."""
    text = Text.of(before, replace(Purpose(), **purpose))
    assert text.after(change) == text.before()
