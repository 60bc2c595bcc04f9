"""The one call of each kit that takes pictures: with a picture or a list of them, also awaited.

A method takes a `Frame`, a function a dataclass with a `Picture` in it. The decorators here have
them take the fields of these, and return a list of results for a list of pictures.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from types import FunctionType
from typing import (
    Any,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeGuard,
    TypeVar,
    overload,
)

from palmkit.engine.errors import PalmError
from palmkit.kits.image import Flip, Format, Part, Rotation, Source
from palmkit.kits.options import Options, called_with

Item_co = TypeVar("Item_co", covariant=True)
Value_co = TypeVar("Value_co", covariant=True)
Result = TypeVar("Result")
Given = TypeVar("Given")
Made = TypeVar("Made")
One = ParamSpec("One")
Several = ParamSpec("Several")


class Listed(Protocol[Item_co]):
    """A list, a tuple or the like; no text, bytes or array, which are sequences in other ways."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def __iter__(self) -> Iterator[Item_co]:
        """Yield one after the other."""
        ...

    def __contains__(self, item: object, /) -> bool:
        """Return whether it is one of them; text and bytes do not take everything here."""
        ...

    def index(self, item: Any, /) -> int:
        """Return where it stands; arrays have no such method."""
        ...


Sources: TypeAlias = "Listed[Source]"

# What the docstrings of all kits' coroutines end with.
_OF_COROUTINES = """\
It works in threads of the kit, on frames of a video in the order of the calls, on as many pictures
at a time as there are processors. Errors are raised where it is awaited. What is cancelled before
its turn is never begun; what has begun goes on, unheard. An array must not change until it is done.
"""


@dataclass(eq=False)
class Frame(Generic[Given]):
    """The arguments of a kit's method: a picture or the next frame of a video, and how to read it.

    The methods describe them.
    """

    image: Given
    timestamp_ms: float | None = None
    _: KW_ONLY
    roi: Part | None = None
    format: Format | None = None
    rotation: Rotation = 0
    flip: Flip | None = None


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Picture(Options, Generic[Given]):
    """A picture or a list of them, and how to read it: see palmkit.kits.image.read_image."""

    image: Given
    _: KW_ONLY
    roi: Part | None = None
    format: Format | None = None
    rotation: Rotation = 0
    flip: Flip | None = None

    def reading(self) -> dict[str, Any]:
        """Return what a kit's method takes besides the picture."""
        names = ("roi", "format", "rotation", "flip")
        return {name: getattr(self, name) for name in names}


# Lists make these invariant, which mypy overlooks beside ParamSpecs.
class Called(Protocol[One, Several, Result]):  # type: ignore[misc]
    """A function, or a bound method: a picture gives a result, a list of them a list."""

    @overload
    def __call__(self, *args: One.args, **kwargs: One.kwargs) -> Result: ...
    @overload
    def __call__(self, *args: Several.args, **kwargs: Several.kwargs) -> list[Result]: ...


class Awaited(Protocol[One, Several, Result]):  # type: ignore[misc]
    """A bound coroutine of a kit: what Called returns is awaited."""

    @overload
    def __call__(self, *args: One.args, **kwargs: One.kwargs) -> Coroutine[Any, Any, Result]: ...
    @overload
    def __call__(
        self, *args: Several.args, **kwargs: Several.kwargs
    ) -> Coroutine[Any, Any, list[Result]]: ...


class Method(Protocol[Value_co]):
    """A method as type checkers see it: of an object it is `Value_co`."""

    @overload
    def __get__(self, kit: None, owner: Any = None) -> Callable[..., Any]: ...
    @overload
    def __get__(self, kit: object, owner: Any = None) -> Value_co: ...


class HasMode(Protocol):
    """A kit, whose mode says whether it takes lists."""

    @property
    def name(self) -> str:
        """The name of the kit, for errors."""
        ...

    @property
    def mode(self) -> str:
        """The mode that the kit was made with."""
        ...


def _methods(
    one: Callable[One, Frame[Source]], several: Callable[Several, Frame[Sources]]
) -> Callable[[Callable[[Any, Frame[Source]], Result]], Method[Called[One, Several, Result]]]:
    def decorated(method: Callable[[Any, Frame[Source]], Result]) -> Any:
        frame_of = _frame_maker(method)

        def made(self: HasMode, /, *args: Any, **kwargs: Any) -> Result | list[Result]:
            frame = frame_of(*args, **kwargs)
            if not is_listed(frame.image):
                return method(self, frame)
            _check_takes_lists(self)
            return _of_each(frame.image, lambda image: method(self, replace(frame, image=image)))

        return _like(method, made)

    return decorated


def _coroutines(
    one: Callable[One, Frame[Source]], several: Callable[Several, Frame[Sources]]
) -> Callable[
    [Callable[[Any, Frame[Source]], Awaitable[Result]]], Method[Awaited[One, Several, Result]]
]:
    def decorated(method: Callable[[Any, Frame[Source]], Awaitable[Result]]) -> Any:
        frame_of = _frame_maker(method)

        async def made(self: HasMode, /, *args: Any, **kwargs: Any) -> Result | list[Result]:
            frame = frame_of(*args, **kwargs)
            if not is_listed(frame.image):
                return await method(self, frame)
            _check_takes_lists(self)
            found: list[Result] = []
            for index, image in enumerate(frame.image):
                try:
                    found.append(await method(self, replace(frame, image=image)))
                except PalmError as error:
                    _raise_at(index, error)
            return found

        made = _like(method, made)
        made.__doc__ = f"{inspect.getdoc(made)}\n\n{_OF_COROUTINES}"
        return made

    return decorated


# Decorate a kit's method, or a coroutine, that takes a Frame: it takes the Frame's fields.
takes_pictures = _methods(Frame[Source], Frame[Sources])
takes_pictures_awaited = _coroutines(Frame[Source], Frame[Sources])


def called_with_pictures(
    one: Callable[One, Made], several: Callable[Several, Any]
) -> Callable[[Callable[[Made], Result]], Called[One, Several, Result]]:
    """Decorate a function as called_with does; a list of pictures gives a list of results.

    one, several: its dataclass, whose type of picture is Source, and Sources.
    """
    options: Any = getattr(one, "__origin__", one)

    def decorated(call: Callable[[Made], Result]) -> Any:
        @functools.wraps(call)
        def of_any(given: Any) -> Result | list[Result]:
            if not is_listed(given.image):
                return call(given)
            return _of_each(given.image, lambda image: call(replace(given, image=image)))

        made: Any = called_with(options)(of_any)
        _sign(made, inspect.signature(made), call)
        return made

    return decorated


def is_listed(image: object) -> TypeGuard[Listed[Any]]:
    """Return whether it is several pictures, and not one."""
    return isinstance(image, Sequence) and not isinstance(
        image, str | bytes | bytearray | memoryview
    )


def _of_each(images: Listed[Any], of_one: Callable[[Any], Result]) -> list[Result]:
    found: list[Result] = []
    for index, image in enumerate(images):
        try:
            found.append(of_one(image))
        except PalmError as error:
            _raise_at(index, error)
    return found


def _raise_at(index: int, error: PalmError) -> NoReturn:
    """Raise an error of one picture of a list with its index."""
    error.args = (f"image[{index}]: {error}", *error.args[1:])
    raise error


def _check_takes_lists(kit: HasMode) -> None:
    if kit.mode != "image":
        raise RuntimeError(
            f"{kit.name}: a list of pictures needs mode 'image', mode is {kit.mode!r}; frames of a"
            " video come one by one"
        )


def _frame_maker(method: Callable[..., Any]) -> Callable[..., Frame[Any]]:
    """Return what makes a Frame; errors for wrong arguments name the method."""
    known: Any = vars(Frame)["__init__"]
    init = FunctionType(
        known.__code__, known.__globals__, known.__name__, known.__defaults__, known.__closure__
    )
    init.__kwdefaults__ = known.__kwdefaults__
    init.__qualname__ = method.__qualname__

    kind: type[Frame[Any]] = Frame

    def frame_of(*args: Any, **kwargs: Any) -> Frame[Any]:
        frame = object.__new__(kind)
        init(frame, *args, **kwargs)
        return frame

    return frame_of


def _like(method: Callable[..., Any], made: Callable[..., Any]) -> Callable[..., Any]:
    """Return `made` with the name and the docstring of a method, and the arguments of Frame."""
    functools.update_wrapper(made, method)
    del vars(made)["__wrapped__"]
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    told = inspect.signature(Frame)
    _sign(made, told.replace(parameters=[this, *told.parameters.values()]), method)
    return made


def _sign(made: Any, told: inspect.Signature, of: Callable[..., Any]) -> None:
    """Set the signature that help() and editors show."""
    returned = of.__annotations__.get("return", "Any")
    vars(made)["__signature__"] = told.replace(
        parameters=[
            each.replace(annotation="Source | list[Source]") if each.name == "image" else each
            for each in told.parameters.values()
        ],
        return_annotation=f"{returned} | list[{returned}]",
    )
