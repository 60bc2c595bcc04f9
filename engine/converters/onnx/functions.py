"""Operators that ONNX itself defines by others, inlined where we have no op of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palmkit.engine.converters.onnx.graph import DOMAINS, all_nodes, is_known

if TYPE_CHECKING:
    from onnx import ModelProto

_MOST_ROUNDS = 8


def inline_known_functions(model: ModelProto) -> ModelProto:
    """Inline the operators that have no rule here but a function body in the ONNX standard."""
    for _ in range(_MOST_ROUNDS):
        unknown = {
            node.op_type
            for node in all_nodes(model.graph)
            if node.domain in DOMAINS and not is_known(node)
        }
        before = model
        for operator in sorted(filter(_has_body, unknown)):
            model = _inline(model, operator)
        if model is before:
            break
    return model


def _has_body(operator: str) -> bool:
    from onnx import defs

    if not defs.has(operator):
        return False
    schema: Any = defs.get_schema(operator)
    return bool(schema.has_function or schema.has_context_dependent_function)


def _inline(model: ModelProto, operator: str) -> ModelProto:
    from onnx.inliner import inline_selected_functions
    from onnx.shape_inference import InferenceError

    _write_defaults(model, operator)
    try:
        return inline_selected_functions(
            model, [(domain, operator) for domain in DOMAINS], inline_schema_functions=True
        )
    except (RuntimeError, InferenceError):
        # The inliner needs the types of all inputs, which one that is left out or follows an
        # unknown operator lacks. The operator stays, and is listed with those without a rule.
        return model


def _write_defaults(model: ModelProto, operator: str) -> None:
    """Write out the attributes left out: the inliner leaves holes where bodies refer to them."""
    from onnx import defs

    version = max(each.version for each in model.opset_import if each.domain in DOMAINS)
    try:
        schema = defs.get_schema(operator, version)
    except defs.SchemaError:
        return
    for node in all_nodes(model.graph):
        if node.op_type != operator or node.domain not in DOMAINS:
            continue
        given = {each.name for each in node.attribute}
        for name, attribute in schema.attributes.items():
            if name not in given and attribute.default_value.name:
                node.attribute.append(attribute.default_value)
