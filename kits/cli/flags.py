"""The flags of a kit's command, from the dataclass of its options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from palmkit.engine import deprecated
from palmkit.kits.cli.command import UsageError
from palmkit.kits.options import RUNNING, Option, Options, options_of


def add(
    parser: argparse.ArgumentParser,
    kind: type[Options],
    *,
    leave_out: Sequence[str] = (),
    also: type[Options] | None = None,
    where: str = "",
) -> None:
    """Add a flag for each option; options that are not given leave nothing, see `chosen`.

    leave_out: options that the command takes in its own way. also: more options, those of a kit
    that is used `where`, such as "with --mesh".
    """
    own = {each.name: each for each in options_of(kind)}
    more = own if also is None else {each.name: each for each in options_of(also)}
    # The options of running come last, though kits inherit them from their base.
    for name, option in sorted({**more, **own}.items(), key=lambda item: _is_last(item[1])):
        if name not in leave_out:
            other = more[name].default
            differs = f"; {where} {other}" if other != option.default else ""
            _add(parser, option, differs)


def add_former(parser: argparse.ArgumentParser, flag: str, name: str, takes: bool = True) -> None:
    """Add a former name of a flag, which is not shown any more.

    name: of its option. takes: whether a value follows it.
    """
    kept: Any = argparse.SUPPRESS
    parser.add_argument(
        flag, action=_Former, dest=name, default=kept, help=kept, nargs=None if takes else 0
    )


def chosen(options: argparse.Namespace, kind: type[Options]) -> dict[str, Any]:
    """Return the options that were given, for the kit's class."""
    given = vars(options)
    return {each.name: given[each.name] for each in options_of(kind) if each.name in given}


def flag_of(option: Option) -> str:
    """Return the name of an option's flag."""
    name = option.about.flag or option.name.replace("_", "-")
    is_on = option.default is True
    return f"--no-{name}" if is_on and not option.about.flag else f"--{name}"


def only_with(
    flag: str, options: argparse.Namespace, kind: type[Options], other: type[Options]
) -> None:
    """Raise UsageError if an option of `kind` was given that `other` does not have.

    flag: the one that would make it an option of the command.
    """
    shared = {each.name for each in fields(other)}
    for each in options_of(kind):
        if each.name in vars(options) and each.name not in shared:
            raise UsageError(f"{flag_of(each)}: expected with {flag}")


def read(kind: type[Options], words: Sequence[str]) -> dict[str, Any]:
    """Parse options from words such as "max_faces=3".

    Raises UsageError for a word that is no option of the kind or no value of the option.
    """
    known = {each.name: each for each in options_of(kind)}
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        option = known.get(name.replace("-", "_"))
        if option is None or not equals:
            raise UsageError(f"expected NAME=VALUE of {', '.join(known)}, got {word!r}")
        try:
            found[option.name] = _value(option, text)
        except ValueError:
            raise UsageError(f"{option.name}: expected a value, got {text!r}") from None
    return found


def _value(option: Option, text: str) -> Any:
    if not isinstance(option.default, bool):
        return option.about.check.parse(text)
    if text not in ("true", "false"):
        raise UsageError(f"{option.name}: expected true or false, got {text!r}")
    return text == "true"


def _add(parser: argparse.ArgumentParser, option: Option, differs: str) -> None:
    about, flag = option.about, flag_of(option)
    text = about.text.replace("%", "%%")
    place = group(parser, about.group)
    settings: dict[str, Any] = {"dest": option.name, "default": argparse.SUPPRESS}
    if option.default is True:
        place.add_argument(flag, action="store_false", help=f"leave out: {text}", **settings)
    elif option.default is False:
        place.add_argument(flag, action="store_true", help=text, **settings)
    else:
        if option.default is not None:
            text += f" ({option.default}{differs})"
        place.add_argument(
            flag,
            type=about.check.parse,
            choices=about.check.choices,
            metavar=None if about.check.choices else about.metavar or about.check.metavar,
            help=text,
            **settings,
        )
    if about.was:
        old = about.was.replace("_", "-")
        is_switch = isinstance(option.default, bool)
        add_former(parser, f"--no-{old}" if is_switch else f"--{old}", option.name, not is_switch)


def _is_last(option: Option) -> bool:
    return option.about.group == RUNNING


def group(parser: argparse.ArgumentParser, title: str) -> Any:
    """Return the group of flags of this title, making it if there is none."""
    for each in parser._action_groups:  # pyright: ignore[reportPrivateUsage]
        if each.title == title:
            return each
    return parser.add_argument_group(title)


class _Former(argparse.Action):
    """Takes the values of a flag's new name, and warns."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        deprecated.warn(str(option_string), f"see --help for {self.dest}")
        setattr(namespace, self.dest, False if self.nargs == 0 else values)
