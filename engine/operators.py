"""Which ops there are, which operators of foreign formats become them, and what runs them."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import FunctionType
from typing import Any

from palmkit.engine.backends import BACKENDS
from palmkit.engine.backends.cpu.rules import RULES
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Graph
from palmkit.engine.ops import find, registry
from palmkit.engine.steps.refusal import RefusedError, first_output

FORMATS = ("onnx", "tflite", "tensorflow", "caffe")
# Ops that converters add around others, so that they do not characterise an operator.
PLUMBING = {"cast", "expand", "identity", "reshape", "squeeze", "transpose", "unsqueeze"}
DRESSING = {
    *("add", "clip", "dequantize_linear", "leaky_relu", "mul", "pad", "quantize_linear", "relu"),
    *("slice", "sub"),
}
MOVEMENT = PLUMBING | {"concat", "flatten", "gather", "slice", "split", "tile"}

_DEEPEST = 3
_TITLES = ("ONNX", "TFLite", "TensorFlow", "Caffe")


@dataclass(frozen=True)
class Operator:
    """An op, the foreign operators that become it, and what runs it on backend cpu.

    cpu: "native", or "numpy" as on backend reference; types that have no kernel run in numpy, too.
    """

    op: str
    cpu: str
    onnx: tuple[str, ...]
    tflite: tuple[str, ...]
    tensorflow: tuple[str, ...]
    caffe: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """All ops; and for each foreign format the operators that become several ops, or none.

    others: by format, by operator the ops; () for operators that are folded or removed, or whose
    rule does not say.
    """

    operators: tuple[Operator, ...]
    others: Mapping[str, Mapping[str, tuple[str, ...]]]

    def matching(self, text: str) -> Table:
        """Return the rows that have `text` in the name of the op or of a foreign operator.

        Upper and lower case count as the same.
        """
        text = text.lower()

        def fits(*names: str) -> bool:
            return any(text in name.lower() for name in names)

        return Table(
            tuple(o for o in self.operators if fits(o.op, *(n for f in FORMATS for n in of(o, f)))),
            {
                name: {operator: ops for operator, ops in others.items() if fits(operator)}
                for name, others in self.others.items()
            },
        )


def of(operator: Operator, format: str) -> tuple[str, ...]:
    """Return the foreign operators of one of FORMATS."""
    names: tuple[str, ...] = getattr(operator, format)
    return names


def numpy_nodes(graph: Graph) -> set[str]:
    """Return the nodes that backend cpu runs in numpy, by their first outputs.

    Where sizes are open the op alone decides; otherwise the types of its values as well.
    """
    lacking = {first_output(node) for node in graph.nodes if node.op not in RULES}
    if not graph.is_static:
        return lacking
    try:
        BACKENDS["cpu"].compile(graph)
    except RefusedError as refused:
        return {name for name in refused.reasons if name not in refused.untyped} | lacking
    return set()


def table() -> Table:
    """Return the table of every op; a format whose package is missing has no operators in it."""
    readers = {"onnx": _onnx, "tflite": _tflite, "tensorflow": _tensorflow, "caffe": _caffe}
    single: dict[str, dict[str, list[str]]] = {name: {} for name in FORMATS}
    others: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in FORMATS}
    for name, read in readers.items():
        try:
            written = read()
        except (ImportError, UnsupportedError):
            continue
        for operator, ops in sorted(written.items()):
            chief = _chief(operator, ops)
            if chief:
                single[name].setdefault(chief, []).append(operator)
            else:
                others[name][operator] = tuple(sorted(ops))
    operators = tuple(
        Operator(
            op,
            "native" if op in RULES else "numpy",
            **{name: tuple(single[name].get(op, ())) for name in FORMATS},
        )
        for op in sorted(registry())
    )
    return Table(operators, others)


def _chief(operator: str, ops: set[str]) -> str:
    """Return the op that an operator becomes; "" if there are several.

    It is the op of the same name, or the resize that the operator's name begins with; otherwise the
    only one when ops that move data are left out, and beside an op that multiplies matrices also
    those that scale and add.
    """
    name = operator.rpartition(".")[2].lower()
    plain = re.sub(r"(_?v[0-9]+|_?[23]d)$", "", name).replace("_", "")
    for op in ops:
        if plain in (op.replace("_", ""), op.replace("_or_", ""), op.removeprefix("reduce_")):
            return op
    if plain.startswith("resize") and "resize" in ops:
        return "resize"
    computing = ops - PLUMBING or ops
    multiplies = any(find(op).macs is not None for op in computing if op in registry())
    if len(computing) > 1 and (multiplies or "resize" in computing):
        computing -= DRESSING
    return next(iter(computing)) if len(computing) == 1 else ""


def _onnx() -> dict[str, set[str]]:
    """Return the ops of each ONNX operator; one without a rule is the op of its name."""
    from onnx import defs

    from palmkit.engine.converters.onnx.graph import DOMAINS, op_name
    from palmkit.engine.converters.onnx.rules import registry as rules

    names = {
        op_name(schema.name): schema.name
        for schema in defs.get_all_schemas()
        if schema.domain in DOMAINS
    }
    found = {name: {op} for op, name in names.items() if op in registry()}
    for op, rule in rules().items():
        if op not in registry() and (op in names or "." in op):
            found[names.get(op, op)] = _written(rule, op)
    return found


def _tflite() -> dict[str, set[str]]:
    from palmkit.engine.converters.tflite import RULES as rules

    return {operator: _written(rule, operator) for operator, rule in rules.items()}


def _tensorflow() -> dict[str, set[str]]:
    from palmkit.engine.converters.tensorflow.rules import load_rules
    from palmkit.engine.converters.tensorflow.site import COMPLEX_RULES, RULES

    load_rules()
    rules = {**COMPLEX_RULES, **RULES}
    return {operator: _written(rule, operator) for operator, rule in rules.items()}


def _caffe() -> dict[str, set[str]]:
    from palmkit.engine.converters.caffe.rules import registry as rules

    return {operator: _written(rule.convert, operator) for operator, rule in rules().items()}


def _written(rule: Callable[..., Any], operator: str) -> set[str]:
    """Return the ops that a rule writes for an operator, as its source text names them.

    They are the first arguments of calls of `emit` and its kin, here and in functions that the rule
    calls; where that argument is looked up in a table by operator, the operator's own entry counts.
    A rule without such calls moves data by methods that are named like an op.
    """
    found: set[str] = set()
    methods: set[str] = set()
    waiting: list[tuple[Callable[..., Any], int]] = [(rule, 0)]
    seen: set[Callable[..., Any]] = set()
    while waiting:
        function, depth = waiting.pop()
        if function in seen or not isinstance(function, FunctionType):
            continue
        seen.add(function)
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        outside = inspect.getclosurevars(function)
        known = {**outside.globals, **outside.nonlocals}
        local = _assigned(tree)
        for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr.startswith("emit"):
                if call.args:
                    found.update(_texts(call.args[0], known, local, operator))
            elif isinstance(call.func, ast.Name) and depth < _DEEPEST:
                waiting.append((known.get(call.func.id, call), depth + 1))
        if depth == 0:
            for each in (e for e in ast.walk(tree) if isinstance(e, ast.Subscript)):
                found.update(_texts(each, known, local, operator))
            attributes = (e.attr for e in ast.walk(tree) if isinstance(e, ast.Attribute))
            methods.update(each.removesuffix("d") for each in attributes)
    return found & set(registry()) or methods & MOVEMENT


def _assigned(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """Return the expressions that are assigned to each local name."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def _texts(
    expression: ast.expr,
    known: Mapping[str, Any],
    local: Mapping[str, Sequence[ast.expr]],
    operator: str,
    depth: int = 0,
) -> Iterator[str]:
    """Yield the strings that an expression can be."""
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        yield expression.value
    elif ast.unparse(expression).endswith(".op.lower()"):
        yield operator.lower()
    elif isinstance(expression, ast.IfExp):
        for each in (expression.body, expression.orelse):
            yield from _texts(each, known, local, operator, depth)
    elif isinstance(expression, ast.Name) and depth < _DEEPEST:
        value = known.get(expression.id)
        if isinstance(value, str):
            yield value
        for each in local.get(expression.id, ()):
            yield from _texts(each, known, local, operator, depth + 1)
    elif isinstance(expression, ast.Subscript) and isinstance(expression.value, ast.Name):
        entries: Any = known.get(expression.value.id)
        values: Iterable[Any] = ()
        if isinstance(known.get(expression.value.id), Mapping):
            values = [entries[operator]] if operator in entries else entries.values()
        elif isinstance(known.get(expression.value.id), tuple):
            values = entries
        yield from (each for each in values if isinstance(each, str))


def to_json(table: Table) -> str:
    """Return an object with `operators` and `others` as one line of JSON."""
    return json.dumps(asdict(table)) + "\n"


def to_text(table: Table) -> str:
    """Return a line for each op, then one for each other operator."""
    lines: list[str] = []
    width = max((len(each.op) for each in table.operators), default=0)
    for each in table.operators:
        foreign = [
            f"{title} {', '.join(of(each, name))}"
            for name, title in zip(FORMATS, _TITLES, strict=True)
            if of(each, name)
        ]
        lines.append(f"{each.op:{width}}  {each.cpu}  {'; '.join(foreign)}".rstrip())
    for name, title in zip(FORMATS, _TITLES, strict=True):
        for operator, ops in table.others[name].items():
            lines.append(f"{title} {operator}: {', '.join(ops) or 'folded or taken away'}")
    return "\n".join([*lines, ""])


def to_markdown(table: Table) -> str:
    """Return a document: the table of ops, then the operators that become several ops or none."""
    native = sum(each.cpu == "native" for each in table.operators)
    lines = [
        "# Operators",
        "",
        "Made by `palmkit ops --format markdown`; do not edit.",
        "",
        f"{len(table.operators)} ops. All run; {native} have a native kernel on backend `cpu` for "
        "their common types, the others run there in numpy, as all do on backend `reference`. A "
        "foreign operator stands beside the op that it becomes; those that become several ops, or "
        "none of their own (they are folded, taken away, or part of their neighbours), are listed "
        "below. ONNX operators that the standard defines by other operators need no op here.",
        "",
        f"| op | {' | '.join(_TITLES)} | cpu |",
        "|---" * (len(_TITLES) + 2) + "|",
    ]
    for each in table.operators:
        cells = [", ".join(of(each, name)) for name in FORMATS]
        lines.append(f"| {each.op} | {' | '.join(cells)} | {each.cpu} |")
    for name, title in zip(FORMATS, _TITLES, strict=True):
        if not table.others[name]:
            continue
        lines += ["", f"## {title}: operators of several ops, or of none", "", "| operator | ops |"]
        lines.append("|---|---|")
        for operator, ops in table.others[name].items():
            lines.append(f"| {operator} | {', '.join(ops)} |")
    return "\n".join([*lines, ""])


RENDERED: Mapping[str, Callable[[Table], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "json": to_json,
}
