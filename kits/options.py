"""The options of a kit: one frozen dataclass, which its class, function and flags derive from.

    @dataclass(frozen=True, kw_only=True, repr=False, eq=False)
    class FaceOptions(Options):
        max_faces: int | None = option(None, "keep the best of so many (all)", Whole(1))

A dataclass of these, and of what is not an option, such as a picture (palmkit.kits.calls), stands
for the arguments of a constructor (`made_of`) or of a function (`called_with`). Type checkers,
editors and help() see these arguments with their types and defaults.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable
from dataclasses import KW_ONLY, dataclass, field, fields
from numbers import Integral, Real
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
)

from palmkit.engine.forks import importing

if TYPE_CHECKING:
    from palmkit.kits.image import Image
    from palmkit.kits.kit import ModelSource

Mode: TypeAlias = Literal["image", "video", "stream"]
Precision: TypeAlias = Literal["high", "normal", "low"]
Priority: TypeAlias = Literal["normal", "low", "high"]
Arguments = ParamSpec("Arguments")
Given = TypeVar("Given")
Kit = TypeVar("Kit")
Made = TypeVar("Made")
Result = TypeVar("Result")
Value = TypeVar("Value")

# Groups of flags, as --help shows them.
WHAT, VIDEOS, RUNNING = "what to find", "videos", "how to run"
# So many kits of the one-call functions are kept for the next call with the same options.
KEPT_KITS = 32


class Check:
    """A check of an option's values.

    parse, metavar: of the text that its flag takes.
    """

    parse: Callable[[str], Any] = str
    metavar = "VALUE"
    choices: tuple[str, ...] | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError if the option of this name cannot be this value."""


class Whole(Check):
    """Integers of at least `least`."""

    parse = int
    metavar = "N"

    def __init__(self, least: int) -> None:
        """Set the smallest integer."""
        self._least = least

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError for another value."""
        whole(name, value, self._least)


class Between(Check):
    """Numbers from `least` to `most`."""

    parse = float
    metavar = "X"

    def __init__(self, least: float, most: float) -> None:
        """Set the ends, which are included."""
        self._least, self._most = least, most

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError for another value."""
        between(name, value, self._least, self._most)


class OneOf(Check):
    """One of some words."""

    def __init__(self, *known: str) -> None:
        """Set the words."""
        self.choices = known

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError for another value."""
        one_of(name, value, self.choices or ())


class Backends(Check):
    """A backend of the engine, or a tuple of several."""

    metavar = "NAME"

    @staticmethod
    def parse(text: str) -> str | tuple[str, ...]:
        """Parse a name, or several with commas between them."""
        names = tuple(text.split(","))
        return names if len(names) > 1 else text

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError if it is neither."""
        given: Any = value
        names: tuple[Any, ...] = tuple(given) if isinstance(value, tuple) else (value,)
        if not names or not all(isinstance(each, str) for each in names):
            raise ValueError(f"{name}: expected a name or a tuple of names, got {value!r}")


class Cores(Check):
    """Cores by the system's numbers."""

    metavar = "N,N"

    @staticmethod
    def parse(text: str) -> tuple[int, ...]:
        """Parse numbers with commas between them."""
        return tuple(int(each) for each in text.split(","))

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError if it is no tuple of such numbers."""
        given: Any = value
        if not isinstance(value, tuple):
            raise ValueError(f"{name}: expected a tuple of numbers, got {value!r}")
        for each in given:
            whole(name, each, 0)


class About(NamedTuple):
    """An option's description besides its type and default; see `option`."""

    text: str
    check: Check
    group: str
    flag: str
    metavar: str
    was: str


def option(
    default: Value,
    text: str,
    check: Check | None = None,
    *,
    group: str = WHAT,
    flag: str = "",
    metavar: str = "",
    was: str = "",
) -> Value:
    """Define a field of an options dataclass.

    text: what it does, for help() and --help. check: of its values; a default of None is always
    valid. group: of its flag. flag: its name, without dashes, if not the field's; for a switch that
    is on by default the flag turns it off, and is called no-... if it has no name. was: its former
    name.
    """
    about = About(text, check or Check(), group, flag, metavar, was)
    made: Any = field(default=default, metadata={"about": about})
    return cast(Value, made)


def same_option(kind: type[Any], name: str) -> Any:
    """Return the option of this name of another dataclass, to give it another position."""
    known = kind.__dataclass_fields__[name]
    return field(default=known.default, metadata=known.metadata)


class Option(NamedTuple):
    """An option of a dataclass: its name and default, and the description from `option`."""

    name: str
    default: Any
    about: About


_options: dict[type[Any], tuple[Option, ...]] = {}


def options_of(kind: type[Any]) -> tuple[Option, ...]:
    """Return the options among the fields of a dataclass."""
    if kind not in _options:
        _options[kind] = tuple(
            Option(each.name, each.default, each.metadata["about"])
            for each in fields(kind)
            if "about" in each.metadata
        )
    return _options[kind]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Options:
    """The options of every kit: its model, and how models run.

    Dataclasses of options leave `repr` and `eq` to this one: each kit imports several of them.
    """

    threads: int = option(1, "threads that one run of a network uses", Whole(1), group=RUNNING)
    precision: Precision = option(
        "high",
        "of the arithmetic: high, normal or low, see palmkit.engine.load",
        OneOf(*get_args(Precision)),
        group=RUNNING,
    )
    backend: str | tuple[str, ...] = option(
        "cpu", "of the engine, see palmkit.engine.load", Backends(), group=RUNNING
    )
    priority: Priority = option(
        "normal",
        "of the threads that run networks: normal, low or high, see palmkit.engine.load",
        OneOf(*get_args(Priority)),
        group=RUNNING,
    )
    cores: tuple[int, ...] | None = option(
        None, "that these threads stay on, by the system's numbers (any)", Cores(), group=RUNNING
    )
    model: ModelSource | None = option(
        None,
        "another model file like the one shipped, MODEL@CHANNEL for the newest that is delivered"
        " (see palmkit.delivery), or an open model",
        group=RUNNING,
        metavar="FILE",
    )

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid option."""
        for name, default, about in options_of(type(self)):
            value = getattr(self, name)
            if value is not None or default is not None:
                about.check.check(name, value)

    def _fields(self) -> tuple[tuple[str, Any], ...]:
        return tuple((each.name, getattr(self, each.name)) for each in fields(self))

    def __repr__(self) -> str:
        """Return the call that makes it."""
        told = ", ".join(f"{name}={value!r}" for name, value in self._fields())
        return f"{type(self).__qualname__}({told})"

    def __eq__(self, other: object) -> bool:
        """Return whether it is of the same class, and all fields are equal."""
        if type(other) is not type(self):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        """Return a hash of all fields; raise TypeError if one cannot be hashed."""
        return hash(self._fields())

    def running(self) -> dict[str, Any]:
        """Return how models run, as options for another kit or model."""
        names = ("threads", "precision", "backend", "priority", "cores")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Modes(Options, Generic[Result]):
    """How a kit that takes pictures is driven."""

    # Whether a budget is one of pictures, too.
    has_budget_of_pictures: ClassVar[bool] = False

    mode: Mode = option(
        "image",
        '"image": each picture stands for itself; "video": frames in order, things keep their ids;'
        ' "stream": a video in a thread of its own, see submit',
        OneOf(*get_args(Mode)),
    )
    _: KW_ONLY
    on_result: Callable[[Result, Image, float | None], None] | None = option(
        None,
        "stream mode: called in the thread with each result, the upright frame it is of (RGB) and"
        " its timestamp_ms",
    )
    on_error: Callable[[Exception], None] | None = option(
        None,
        "stream mode: called in the thread with what went wrong; left out, the next submit or close"
        " raises it; what ends programs, such as SystemExit of on_result, is raised there always",
    )
    budget_ms: float | None = option(
        None,
        "of a video: time that a frame takes on average, in milliseconds; for that, frames are left"
        " out, and show what was last found, moved along with the camera (as long as needed)",
        Between(0, 1e9),
        group=VIDEOS,
    )

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid option."""
        super().__post_init__()
        if (self.mode == "stream") != (self.on_result is not None):
            raise ValueError(
                f"on_result: expected in stream mode and only there, mode is {self.mode!r}"
            )
        if self.budget_ms is not None and self.mode == "image" and not self.has_budget_of_pictures:
            raise ValueError("budget_ms: expected in video and stream mode, mode is 'image'")


def made_of(
    options: Callable[Arguments, Made],
) -> Callable[[Callable[[Kit, Made], None]], Callable[Concatenate[Kit, Arguments], None]]:
    """Decorate an `__init__` that takes a dataclass so that it takes the dataclass's fields.

    The dataclass is of this class alone: errors for wrong arguments name the class. Former names of
    options are accepted, too, with a DeprecationWarning.
    """

    def decorated(init: Callable[[Kit, Made], None]) -> Callable[Concatenate[Kit, Arguments], None]:
        named = init.__qualname__.removesuffix(".__init__")
        build = _by_any_name(options, named)

        @functools.wraps(init)
        def made(self: Kit, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
            init(self, build(*args, **kwargs))

        own: Any = vars(options)["__init__"]
        # What the wrong arguments of a call are told of.
        own.__qualname__ = init.__qualname__
        _describe(made, options)
        vars(made)["__wrapped__"] = own
        return made

    return decorated


def called_with(
    options: Callable[Arguments, Made],
) -> Callable[[Callable[[Made], Result]], Callable[Arguments, Result]]:
    """Decorate a function that takes a dataclass so that it takes the dataclass's fields.

    Former names of options are accepted, too, with a DeprecationWarning.
    """

    def decorated(call: Callable[[Made], Result]) -> Callable[Arguments, Result]:
        build = _by_any_name(options, call.__qualname__)

        @functools.wraps(call)
        def made(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            return call(build(*args, **kwargs))

        vars(options)["__init__"].__qualname__ = call.__qualname__
        _describe(made, options)
        told = inspect.signature(options)
        returned = call.__annotations__.get("return", inspect.Signature.empty)
        vars(made)["__signature__"] = told.replace(return_annotation=returned)
        return made

    return decorated


def _by_any_name(options: Callable[Arguments, Made], where: str) -> Callable[Arguments, Made]:
    """Return the dataclass, also accepting the former names of its options."""
    changed = {each.about.was: each.name for each in options_of(_class(options)) if each.about.was}
    if not changed:
        return options

    def build(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Made:
        if changed.keys() & kwargs.keys():
            with importing:
                from palmkit.engine import deprecated

            named = deprecated.keywords(kwargs, changed, where, level=4)
            made: Made = cast(Any, options)(*args, **named)
            return made
        return options(*args, **kwargs)

    return build


def _class(options: Callable[..., Any]) -> type[Any]:
    return cast("type[Any]", options)


def _describe(made: Callable[..., Any], options: Callable[..., Any]) -> None:
    """Extend its docstring by a line for each option."""
    lines = [f"{each.name}: {each.about.text}." for each in options_of(_class(options))]
    made.__doc__ = "\n\n".join([inspect.cleandoc(made.__doc__ or ""), "\n".join(lines)])


def _built(
    kit: Callable[..., Given], names: tuple[str, ...], values: tuple[Any, ...], also: Hashable
) -> Given:
    return kit(**dict(zip(names, values, strict=True)))


_kept = functools.lru_cache(maxsize=KEPT_KITS)(_built)


def kept(
    kit: Callable[..., Given],
    kind: type[Options],
    given: Options,
    also: Hashable = None,
    **instead: Any,
) -> Given:
    """Return a kit with the given options of this kind; any thread may call it.

    It is that of an earlier call, or made now. also: what else a kit of these options depends on.
    instead: options that replace given ones. Options that cannot be compared, such as a schema with
    a dict in it, make a new kit each time.
    """
    names = tuple(each.name for each in options_of(kind))
    values = tuple(instead.get(name, getattr(given, name)) for name in names)
    build = _kept if _is_hashable(values) else _built
    return cast(Given, build(kit, names, values, also))


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    """Raise ValueError unless the option is one of those known."""
    if value not in known:
        from palmkit.kits.nearest import did_you_mean

        meant = did_you_mean(value, known) if isinstance(value, str) else ""
        told = f"expected one of {', '.join(map(repr, known))}, got {value!r}{meant}"
        raise ValueError(f"{name}: {told}")


def whole(name: str, value: int, least: int) -> None:
    """Raise ValueError unless the option is a whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}: expected a whole number, at least {least}, got {value!r}")


def between(name: str, value: float, least: float, most: float) -> None:
    """Raise ValueError unless the option is a number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= value <= most:
        raise ValueError(f"{name}: expected a number from {least:g} to {most:g}, got {value!r}")
