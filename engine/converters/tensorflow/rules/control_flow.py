"""If, While and their kin as if and loop, with the functions they name as bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from palmkit.engine.converters.tensorflow.building import Building
from palmkit.engine.converters.tensorflow.nodes import ARGUMENT, Body, Operation, Ref
from palmkit.engine.converters.tensorflow.site import Site, rule, run
from palmkit.engine.converters.tensorflow.stand_ins import EmptyList, Missing, Value
from palmkit.engine.converters.tensorflow.values import Fact
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import UNKNOWN, Graph, Type

_MOST_TRIES = 5


def body_of(n: Site, attribute: str) -> Body:
    """Return the function that an attribute names, or the body that a rewrite has made."""
    if attribute in n.operation.bodies:
        return n.operation.bodies[attribute]
    if attribute not in n.attrs:
        raise ModelError(f"node {n.name}: {n.op} has no {attribute}")
    return n.building.library.body(n.attrs[attribute].func.name, n.name)


@dataclass
class _Inner:
    """A body under construction: the outside values that it reads, in order."""

    building: Building
    captured: list[str]

    def take(self, outer: Building, value: Value, name: str) -> Value:
        """Return an outside value in the body: constants directly, others as captured inputs."""
        if not isinstance(value, str):
            return value
        if value in outer.constants:
            return self.building.constant(outer.constants[value], name)
        return self.capture(outer, value, name)

    def capture(self, outer: Building, value: str, name: str) -> str:
        self.captured.append(value)
        return add_input(self.building, name, outer.facts.get(value))


def add_input(building: Building, name: str, fact: Fact | None) -> str:
    """Add an input of a body about which `fact` is known."""
    if fact is None:
        return building.add_input(name, UNKNOWN)
    name = building.add_input(name, fact.as_type(name))
    building.facts[name] = fact
    return name


def _need_count(n: Site, body: Body, inputs: int) -> None:
    if len(body.inputs) != inputs:
        raise ModelError(
            f"node {n.name}: {body.name} takes {len(body.inputs)} inputs, got {inputs}"
        )


def _graph(building: Building, results: Sequence[Value], n: Site, outputs: int) -> Graph:
    """Return the body's graph; every output has a name of its own."""
    if len(results) != outputs:
        raise ModelError(f"node {n.name}: a body gives {len(results)} values, not {outputs}")
    named: dict[str, str] = {}
    for number, value in enumerate(results):
        if not isinstance(value, str):
            why = value.why if isinstance(value, Missing) else "not a tensor of real numbers"
            raise UnsupportedError(f"node {n.name}: result {number} of a body: {why}")
        named[f"{n.name}/result{number}"] = value
    return building.graph(named)


@rule("If", "StatelessIf")
def _if(n: Site) -> None:
    """Write an If, whose condition holds for any non-zero value."""
    branches = [body_of(n, "then_branch"), body_of(n, "else_branch")]
    inputs = [n.raw(index) for index in range(1, n.count)]
    for branch in branches:
        _need_count(n, branch, len(inputs))
    condition = n.value(0)
    if n.rank_of(condition) != 0:
        condition = n.emit("reshape", condition, n.int64())
    n.finish(*_choice(n, n.emit("cast", condition, to="bool"), branches, inputs))


@rule("Case", "StatelessCase")
def _case(n: Site) -> None:
    """Write a Case; a number without a branch chooses the last one."""
    functions = n.attrs["branches"].list.func if n.has("branches") else ()
    branches = [n.building.library.body(each.name, n.name) for each in functions]
    branches += [n.operation.bodies[f"branch{k}"] for k in range(len(n.operation.bodies))]
    inputs = [n.raw(index) for index in range(1, n.count)]
    for branch in branches:
        _need_count(n, branch, len(inputs))
    if not branches:
        raise ModelError(f"node {n.name}: {n.op} has no branches")
    number = n.emit("reshape", n.as_int64(n.value(0)), n.int64())
    last = n.constant(len(branches) - 1, "int64")
    inside = n.emit(
        "and", n.emit("less", number, last), n.emit("less", n.constant(-1, "int64"), number)
    )
    number = n.emit("where", inside, number, last)
    found = run(n.building, branches[-1], dict(zip(branches[-1].inputs, inputs, strict=True)))
    for place, branch in enumerate(branches[:-1]):
        # The branches so far are the other side: their results follow the inputs and are passed on.
        condition = n.emit("equal", number, n.constant(place, "int64"))
        other = _passing(branch, len(found))
        first = _with_more(branch, len(found))
        found = list(_choice(n, condition, [first, other], [*inputs, *found]))
    n.finish(*found)


def _with_more(branch: Body, count: int) -> Body:
    """Return the branch with `count` additional arguments that it does not read."""
    more = tuple(f"{branch.name}/other{number}" for number in range(count))
    return replace(branch, inputs=(*branch.inputs, *more))


def _passing(branch: Body, count: int) -> Body:
    """Return a body that returns the last arguments of _with_more unchanged."""
    inputs = _with_more(branch, count).inputs
    arguments = {name: Operation(name, ARGUMENT) for name in inputs}
    return Body(f"{branch.name}/other", inputs, arguments, tuple((n, 0) for n in inputs[-count:]))


def _choice(
    n: Site, condition: str, branches: Sequence[Body], inputs: Sequence[Value]
) -> Sequence[Value]:
    """Return what the first of two branches gives if the condition holds, else the second."""
    known = n.known_value(condition)
    if known is not None:
        chosen = branches[0 if known.reshape(())[()] else 1]
        return run(n.building, chosen, dict(zip(chosen.inputs, inputs, strict=True)))
    graphs: list[Graph] = []
    facts: list[list[Fact | None]] = []
    captured: list[str] = []
    for branch in branches:
        inner = _Inner(n.building.child(), [])
        arguments = {
            name: inner.take(n.building, value, name)
            for name, value in zip(branch.inputs, inputs, strict=True)
        }
        results = run(inner.building, branch, arguments)
        captured = inner.captured
        facts.append([inner.building.facts.get(r) if isinstance(r, str) else None for r in results])
        graphs.append(_graph(inner.building, results, n, len(branches[0].outputs)))
    names = n.emit_many(
        "if",
        len(graphs[0].outputs),
        condition,
        *captured,
        then_branch=graphs[0],
        else_branch=graphs[1],
        captures=len(captured),
    )
    for name, first, second in zip(names, *facts, strict=True):
        n.building.facts.pop(name, None)
        merged = merged_fact(first, second)
        if merged is not None:
            n.building.facts[name] = merged
    return names


def merged_fact(first: Fact | None, second: Fact | None) -> Fact | None:
    """Return what holds of both facts: the dims that are the same."""
    if first is None or second is None or len(first.shape) != len(second.shape):
        return None
    if first.types[0].dtype != second.types[0].dtype:
        return None
    dims = tuple(
        "?" if a is None or a != b else a for a, b in zip(first.shape, second.shape, strict=True)
    )
    return Fact.typed(Type(first.types[0].dtype, dims))


@rule("While", "StatelessWhile")
def _while(n: Site) -> None:
    """Write a loop of (turn, going, *variables that change, *what every turn reads)."""
    test, body = body_of(n, "cond"), body_of(n, "body")
    starts = [n.raw(index) for index in range(n.count)]
    _need_count(n, test, len(starts))
    _need_count(n, body, len(starts))
    if len(body.outputs) != len(starts):
        raise ModelError(f"node {n.name}: {body.name} gives {len(body.outputs)} values")
    fixed = [
        _passes_on(body, ref, name) for ref, name in zip(body.outputs, body.inputs, strict=True)
    ]
    carried = [i for i, passed in enumerate(fixed) if not passed]
    facts = [
        _without_value(n.building.facts.get(s)) if isinstance(s, str) else None for s in starts
    ]
    for attempt in range(_MOST_TRIES):
        turn = _Turn(n, test, body, starts, carried, facts)
        if _fill_lists(n, starts, turn.ranks, facts):
            continue
        agreed = [merged_fact(facts[i], turn.facts[i]) for i in carried]
        same = all(
            new == old or (new is not None and old is not None and new.shape == old.shape)
            for new, old in zip(agreed, (facts[i] for i in carried), strict=True)
        )
        if same:
            break
        for i, fact in zip(carried, agreed, strict=True):
            facts[i] = fact if attempt < _MOST_TRIES - 2 else None
    else:
        raise ModelError(f"node {n.name}: the types of the loop's variables do not settle")
    _finish_loop(n, test, starts, carried, facts, turn)


def _fill_lists(
    n: Site, starts: list[Value], ranks: Mapping[int, int], facts: list[Fact | None]
) -> bool:
    """Create lists whose rank a turn has told; return whether there are such."""
    found = False
    for i, rank in ranks.items():
        start = starts[i]
        if isinstance(start, EmptyList):
            starts[i] = zeros_list(n, start, (1,) * rank)
            facts[i] = _without_value(n.building.facts.get(str(starts[i])))
            found = True
    return found


def _without_value(fact: Fact | None) -> Fact | None:
    return None if fact is None else merged_fact(fact, fact)


def _passes_on(body: Body, ref: Ref, name: str) -> bool:
    """Return whether the output is that very argument."""
    for _ in range(len(body.operations)):
        if ref[0] == name:
            return True
        operation = body.operations.get(ref[0])
        if operation is None or operation.op != "Identity" or not operation.inputs:
            return False
        ref = operation.inputs[0]
    return False


class _Turn:
    """One turn of a loop as a graph, for variables of which `facts` holds."""

    def __init__(
        self,
        n: Site,
        test: Body,
        body: Body,
        starts: Sequence[Value],
        carried: Sequence[int],
        facts: Sequence[Fact | None],
    ) -> None:
        outer, building = n.building, n.building.child()
        inner = _Inner(building, [])
        building.add_input("turn", Type("int64", ()))
        building.add_input("going", Type("bool", ()))
        values: list[Value] = list(starts)
        for i in carried:
            values[i] = add_input(building, f"variable{i}", facts[i])
            start = starts[i]
            if isinstance(start, EmptyList) or start in outer.pending:
                building.pending[str(values[i])] = []
        for i, start in enumerate(starts):
            if i not in carried:
                values[i] = inner.take(outer, start, f"fixed{i}")
        given = {i: building.pending.get(str(values[i])) for i in carried}
        results = run(building, body, dict(zip(body.inputs, values, strict=True)))
        after = [results[i] if i in carried else values[i] for i in range(len(values))]
        (going,) = run(building, test, dict(zip(test.inputs, after, strict=True)))
        going = _as_condition(building, going, n)
        self.ranks = {i: ranks[0] for i, ranks in given.items() if ranks}
        self.facts = {
            i: building.facts.get(str(results[i])) if isinstance(results[i], str) else None
            for i in carried
        }
        outputs = [going, *(results[i] for i in carried)]
        self.graph = _graph(building, outputs, n, len(outputs))
        self.captured = inner.captured


def _as_condition(building: Building, value: Value, n: Site) -> str:
    if not isinstance(value, str):
        raise UnsupportedError(f"node {n.name}: {n.op}: its condition is not a number")
    (flat,) = building.emit(
        "reshape", [value, building.constant(np.zeros(0, np.int64), "scalar")], {}, n.name
    )
    return building.emit("cast", [flat], {"to": "bool"}, n.name)[0]


def _finish_loop(
    n: Site,
    test: Body,
    starts: Sequence[Value],
    carried: Sequence[int],
    facts: Sequence[Fact | None],
    turn: _Turn,
) -> None:
    begun: list[Value] = list(starts)
    for i in carried:
        start = begun[i]
        if isinstance(start, EmptyList):
            raise n.unsupported("a tensor list of unknown rank that the loop does not fill")
        if i in turn.ranks and isinstance(start, str):
            n.building.pending[start].append(turn.ranks[i])
    (going,) = run(n.building, test, dict(zip(test.inputs, begun, strict=True)))
    going = _as_condition(n.building, going, n)
    variables = [str(begun[i]) for i in carried]
    names = n.emit_many(
        "loop",
        len(carried),
        "",
        going,
        *variables,
        *turn.captured,
        body=turn.graph,
        captures=len(turn.captured),
    )
    for i, name in zip(carried, names, strict=True):
        fact = facts[i]
        n.building.facts.pop(name, None)
        if fact is not None:
            n.building.facts[name] = fact
        begun[i] = name
        if i in turn.ranks and fact is None:
            n.building.pending[name] = [turn.ranks[i]]
    n.finish(*begun)


def zeros_list(n: Site, empty: EmptyList, shape: Sequence[int]) -> str:
    """Write a list of that many elements of zeros."""
    length = n.emit("reshape", n.as_int64(empty.length), n.int64(1))
    dims = n.emit("concat", length, n.int64(*shape), axis=0)
    return n.emit("expand", n.constant(0, empty.dtype), dims)
