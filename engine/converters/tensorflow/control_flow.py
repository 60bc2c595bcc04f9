"""TensorFlow 1's control flow, Switch, Merge and loop frames, as If and While with bodies.

The frames are those of Yu et al., Dynamic Control Flow in Large-Scale Machine Learning (2018): a
loop variable goes Enter -> Merge -> Switch by LoopCond -> body -> NextIteration -> Merge, and
leaves by Exit. A conditional splits its inputs by Switch and joins its results by Merge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from palmkit.engine.converters.tensorflow.nodes import (
    ARGUMENT,
    Body,
    Operation,
    Ref,
    Steps,
    ancestors,
)
from palmkit.engine.converters.tensorflow.tensors import constant
from palmkit.engine.errors import ModelError, UnsupportedError

_ENTERS = ("Enter", "RefEnter")
_MERGES = ("Merge", "RefMerge")
_SWITCHES = ("Switch", "RefSwitch", "_SwitchN")
_EXITS = ("Exit", "RefExit")
_PASSING = ("Identity", "StopGradient", "PlaceholderWithDefault", "ReadVariableOp")


def structured(body: Body) -> Body:
    """Return the body without frames, switches and merges.

    Raises ModelError if they do not fit together.
    """
    found = ancestors(body.operations, [name for name, _ in body.outputs], controls=True)
    operations = {n: o for n, o in body.operations.items() if n in found or n in body.inputs}
    if not any(each.op in (*_ENTERS, *_MERGES, *_SWITCHES) for each in operations.values()):
        return body
    steps = Steps()
    replaced: dict[Ref, Ref] = {}
    _replace_loops(operations, replaced, steps)
    _redirect(operations, replaced)
    outputs = tuple(replaced.get(ref, ref) for ref in body.outputs)
    rewritten: dict[str, Operation] = {}
    for name, operation in operations.items():
        if operation.op in _MERGES:
            operation = _conditional(operation, operations, steps)
        elif operation.op in _SWITCHES:
            operation = replace(operation, op="Identity", inputs=operation.inputs[:1])
        # Both outputs of a switch that is skipped are its data input.
        refs = tuple(
            (each, 0) if each in operations and operations[each].op in _SWITCHES else (each, i)
            for each, i in operation.inputs
        )
        rewritten[name] = replace(operation, inputs=refs)
    return replace(body, operations=rewritten, outputs=outputs).reachable()


def _redirect(operations: dict[str, Operation], replaced: Mapping[Ref, Ref]) -> None:
    for name, each in operations.items():
        if any(ref in replaced for ref in each.inputs):
            operations[name] = replace(
                each, inputs=tuple(replaced.get(ref, ref) for ref in each.inputs)
            )


def _collect(
    operations: Mapping[str, Operation], start: Ref, stop: Callable[[Ref], bool], steps: Steps
) -> tuple[dict[str, Operation], list[Ref]]:
    """Return the operations that `start` depends on, up to `stop`, and the values it stopped at."""
    found: dict[str, Operation] = {}
    borders: dict[Ref, None] = {}
    waiting = [start]
    while waiting:
        ref = waiting.pop()
        steps.take()
        if stop(ref):
            borders[ref] = None
        elif ref[0] not in found and ref[0] in operations:
            operation = found[ref[0]] = operations[ref[0]]
            waiting += operation.inputs
            waiting += [(name, 0) for name in operation.controls]
    return found, list(borders)


def _body(
    name: str,
    operations: Mapping[str, Operation],
    arguments: Mapping[Ref, str],
    inputs: tuple[str, ...],
    outputs: tuple[Ref, ...],
) -> Body:
    """Return a body of these operations that gets some values as arguments."""

    def inner(ref: Ref) -> Ref:
        return (arguments[ref], 0) if ref in arguments else ref

    kept = {each: Operation(each, ARGUMENT) for each in inputs}
    for operation in operations.values():
        refs = tuple(map(inner, operation.inputs))
        controls = tuple(inner((each, 0))[0] for each in operation.controls)
        kept[operation.name] = replace(operation, inputs=refs, controls=controls)
    for operation in kept.values():
        for each, _ in operation.inputs:
            if each not in kept:
                raise ModelError(f"node {operation.name}: its control flow is broken at {each}")
    return Body(name, inputs, kept, tuple(map(inner, outputs)))


# Loops


@dataclass(frozen=True)
class _Frame:
    """The operations of one loop: variables are Merge operations, in the file's order."""

    name: str
    condition: Operation
    variables: list[Operation]
    enters: list[Operation]
    constants: list[Operation]
    switches: dict[str, str]
    exits: dict[str, str]


def _replace_loops(
    operations: dict[str, Operation], replaced: dict[Ref, Ref], steps: Steps
) -> None:
    """Replace the loops by While operations, the innermost first."""
    names = {_frame_name(each): None for each in operations.values() if each.op in _ENTERS}
    waiting = list(names)
    while waiting:
        for name in waiting:
            steps.take(len(operations))
            frame = _frame(name, operations)
            loop = _while(frame, operations, steps)
            if loop is not None:
                break
        else:
            raise ModelError(f"loops lie inside of each other: {', '.join(waiting)}")
        waiting.remove(name)
        operations[loop.name] = loop
        for number, variable in enumerate(frame.variables):
            if variable.name in frame.exits:
                replaced[frame.exits[variable.name], 0] = (loop.name, number)
        _redirect(operations, replaced)


def _frame_name(enter: Operation) -> str:
    if "frame_name" not in enter.attrs:
        raise ModelError(f"node {enter.name}: Enter without a frame_name")
    return str(enter.attrs["frame_name"].s.decode("utf-8", "replace"))


def _frame(name: str, operations: Mapping[str, Operation]) -> _Frame:
    enters = {
        each.name: each
        for each in operations.values()
        if each.op in _ENTERS and _frame_name(each) == name
    }
    merges: dict[str, Operation] = {}
    for each in operations.values():
        if each.op in _MERGES and len(each.inputs) == 2 and each.inputs[0][0] in enters:
            merges[each.name] = each
    conditions: dict[str, Operation] = {}
    switches: dict[str, str] = {}
    for each in operations.values():
        if each.op in _SWITCHES and len(each.inputs) == 2 and each.inputs[0][0] in merges:
            condition = operations[each.inputs[1][0]]
            if condition.op == "LoopCond":
                switches[each.name] = each.inputs[0][0]
                conditions[condition.name] = condition
    if len(conditions) != 1:
        raise ModelError(f"loop {name}: expected one LoopCond, got {len(conditions)}")
    exits = {
        switches[each.inputs[0][0]]: each.name
        for each in operations.values()
        if each.op in _EXITS and each.inputs and each.inputs[0][0] in switches
    }
    started = {merge.inputs[0][0] for merge in merges.values()}
    return _Frame(
        name,
        next(iter(conditions.values())),
        list(merges.values()),
        [enters[merge.inputs[0][0]] for merge in merges.values()],
        [each for each in enters.values() if each.name not in started],
        switches,
        exits,
    )


def _while(frame: _Frame, operations: Mapping[str, Operation], steps: Steps) -> Operation | None:
    """Return the frame as one While operation; None if it contains another loop."""
    variables = {each.name: f"{each.name}/variable" for each in frame.variables}
    constants = {each.name: f"{each.name}/constant" for each in frame.constants}
    inputs = (*variables.values(), *constants.values())
    arguments: dict[Ref, str] = {(name, 0): each for name, each in constants.items()}
    before = dict(arguments)
    before.update({(name, 0): each for name, each in variables.items()})
    arguments.update({(name, 1): variables[merge] for name, merge in frame.switches.items()})

    if not frame.condition.inputs:
        raise ModelError(f"loop {frame.name}: its LoopCond reads nothing")
    test = frame.condition.inputs[0]
    tested, _ = _collect(operations, test, lambda ref: ref in before, steps)
    results: list[Ref] = []
    inner: dict[str, Operation] = {}
    for variable in frame.variables:
        step = operations[variable.inputs[1][0]]
        if step.op not in ("NextIteration", "RefNextIteration") or not step.inputs:
            raise ModelError(f"loop {frame.name}: {variable.name} does not get a next value")
        results.append(step.inputs[0])
        found, _ = _collect(
            operations, results[-1], lambda ref: ref in arguments or ref in before, steps
        )
        inner.update(found)
    if any(each.op in _ENTERS for each in (*inner.values(), *tested.values())):
        return None
    name = f"{frame.name}/while"
    while name in operations:
        name += "_"
    # An operation tied to a loop variable by a control edge alone reads it before the switch.
    arguments.update({ref: each for ref, each in before.items() if ref not in arguments})
    outputs = (*results, *((each, 0) for each in constants))
    bodies = {
        "cond": _body(f"{name}/cond", tested, before, inputs, (test,)),
        "body": _body(f"{name}/body", inner, arguments, inputs, tuple(outputs)),
    }
    starts = [each.inputs[0] for each in (*frame.enters, *frame.constants)]
    return Operation(name, "While", tuple(starts), bodies=bodies)


# Conditionals


def _conditional(merge: Operation, operations: Mapping[str, Operation], steps: Steps) -> Operation:
    """Return a Merge as an If, or as an Identity of the side that a constant chooses."""
    sides = [_side(ref, operations, steps) for ref in merge.inputs]
    found = next((side for side in sides if side is not None), None)
    if found is None:
        raise ModelError(f"node {merge.name}: a Merge of values that no Switch splits")
    switch = operations[found[0]]
    if len(switch.inputs) != 2:
        raise ModelError(f"node {switch.name}: expected 2 inputs, got {len(switch.inputs)}")
    predicate = switch.inputs[1]
    if switch.op == "_SwitchN":
        ports = {side[1]: ref for side, ref in zip(sides, merge.inputs, strict=True) if side}
        if sorted(ports) != list(range(len(merge.inputs))):
            raise ModelError(f"node {merge.name}: its branches cannot be told apart")
        branches = {f"branch{port}": ports[port] for port in sorted(ports)}
        return _split(merge, "Case", predicate, branches, operations, steps)
    if len(merge.inputs) != 2:
        raise UnsupportedError(f"node {merge.name}: Merge of {len(merge.inputs)} values")
    first_is_true = (found[1] == 1) == (sides[0] is not None)
    when_true, when_false = merge.inputs if first_is_true else merge.inputs[::-1]
    known = _constant_predicate(predicate, operations, steps)
    if known is not None:
        chosen = when_true if known else when_false
        return replace(merge, op="Identity", inputs=(chosen,), controls=())
    branches = {"then_branch": when_true, "else_branch": when_false}
    return _split(merge, "If", predicate, branches, operations, steps)


def _side(start: Ref, operations: Mapping[str, Operation], steps: Steps) -> Ref | None:
    """Return the output of a Switch that decides whether the value is computed.

    Conditionals that end before the value are skipped: each Merge on the way back hides one Switch.
    """
    waiting = [(start, 0)]
    seen: set[tuple[Ref, int]] = set()
    while waiting:
        (name, number), depth = waiting.pop()
        steps.take()
        if ((name, number), depth) in seen or name not in operations:
            continue
        seen.add(((name, number), depth))
        operation = operations[name]
        if operation.op in _SWITCHES:
            if depth == 0:
                return name, number
            depth -= 1
        elif operation.op in _MERGES:
            depth += 1
            if depth > 64:
                raise ModelError(f"node {name}: conditionals are nested too deep")
        waiting += [((each, 0), depth) for each in operation.controls]
        waiting += [(ref, depth) for ref in operation.inputs]
    return None


def _constant_predicate(ref: Ref, operations: Mapping[str, Operation], steps: Steps) -> bool | None:
    turned = False
    for _ in range(len(operations)):
        steps.take()
        operation = operations.get(ref[0])
        if operation is None:
            return None
        if operation.op == "Const" and "value" in operation.attrs:
            value = constant(operation.attrs["value"].tensor, operation.label)
            return bool(value.array().reshape(-1)[0]) != turned if value.missing <= 1 else None
        if operation.op not in (*_PASSING, "LogicalNot", *_SWITCHES) or not operation.inputs:
            return None
        turned ^= operation.op == "LogicalNot"
        ref = operation.inputs[0]
    return None


def _split(
    merge: Operation,
    op: str,
    predicate: Ref,
    branches: Mapping[str, Ref],
    operations: Mapping[str, Operation],
    steps: Steps,
) -> Operation:
    """Return the operation that computes one of the branches, each as a body of its own."""

    def is_border(ref: Ref) -> bool:
        operation = operations.get(ref[0])
        return (
            operation is not None
            and operation.op in _SWITCHES
            and len(operation.inputs) == 2
            and _root(operation.inputs[1], operations, steps) == root
        )

    root = _root(predicate, operations, steps)
    sides = {key: _collect(operations, ref, is_border, steps) for key, ref in branches.items()}
    captured: dict[Ref, str] = {}
    for _, borders in sides.values():
        for name, _ in borders:
            captured.setdefault(operations[name].inputs[0], f"{merge.name}/input{len(captured)}")
    inputs = tuple(captured.values())
    bodies: dict[str, Body] = {}
    for key, (found, borders) in sides.items():
        arguments = {each: captured[operations[each[0]].inputs[0]] for each in borders}
        bodies[key] = _body(f"{merge.name}/{key}", found, arguments, inputs, (branches[key],))
    return Operation(merge.name, op, (predicate, *captured), bodies=bodies)


def _root(ref: Ref, operations: Mapping[str, Operation], steps: Steps) -> Ref:
    """Return the value that identities pass on."""
    for _ in range(len(operations)):
        steps.take()
        operation = operations.get(ref[0])
        if operation is None or operation.op != "Identity" or not operation.inputs:
            break
        ref = operation.inputs[0]
    return ref
