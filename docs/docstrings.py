"""An extension of griffe: PalmKit's docstrings as Markdown.

They are plain text: `name: what it is` of each argument, "Returns ...", "Raises ...", examples as
code. Here arguments become a list, code a block, and names in prose keep their underscores.

Constructors, functions and methods of kits take the fields of a dataclass (palmkit.kits.options,
palmkit.kits.calls): what they show is read from them as they run.
"""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import griffe

# One or more names of arguments or fields, a colon, and words.
_ARGUMENT = re.compile(r"^(?P<names>[A-Za-z_]\w*(?:, [A-Za-z_]\w*)*): (?=\S)")
_SENTENCE = re.compile(r"^(Returns|Raises|Values|Any thread|The rest)\b")


_OF_FIELDS = (
    "palmkit.kits.calls.called_with_pictures",
    "palmkit.kits.calls.takes_pictures",
    "palmkit.kits.calls.takes_pictures_awaited",
    "palmkit.kits.options.called_with",
    "palmkit.kits.options.made_of",
)


class Docstrings(griffe.Extension):
    """Rewrites every docstring once it is read, and arguments that are a dataclass's fields."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Document one object."""
        if isinstance(obj, griffe.Function) and any(
            decorator.callable_path in _OF_FIELDS for decorator in obj.decorators
        ):
            take_fields(obj)
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_alias_instance(self, *, alias: griffe.Alias, **kwargs: Any) -> None:
        """Document a name that a module imports from another; kits' names are imported on use."""
        if alias.path.startswith("palmkit.kits.table."):
            alias.runtime = True


def take_fields(function: griffe.Function) -> None:
    """Give a function the arguments and the docstring that it has as it runs."""
    found: Any = griffe.dynamic_import(function.path)
    told = inspect.signature(found)
    if isinstance(told.return_annotation, str):
        function.returns = told.return_annotation
    function.parameters = griffe.Parameters(
        *(
            griffe.Parameter(
                each.name,
                annotation=None if each.annotation is each.empty else str(each.annotation),
                kind=griffe.ParameterKind[each.kind.name.lower()],
                default=None if each.default is each.empty else repr(each.default),
            )
            for each in told.parameters.values()
        )
    )
    if function.docstring is not None:
        function.docstring.value = inspect.getdoc(found) or ""


def as_markdown(text: str) -> str:
    """Paragraph by paragraph."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(
        f"```python\n{each}\n```" if number and is_code(each) else as_list(each)
        for number, each in enumerate(paragraphs)
    )


def is_code(paragraph: str) -> bool:
    """Whether it is Python that does something."""
    lines = paragraph.splitlines()
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    try:
        found = ast.parse("\n".join(line[indent:] for line in lines))
    except SyntaxError:
        return False
    plain = (ast.Name, ast.Tuple, ast.Constant, ast.AnnAssign)
    return not all(
        isinstance(each, ast.AnnAssign) or isinstance(getattr(each, "value", None), plain)
        for each in found.body
    )


def as_list(paragraph: str) -> str:
    """`name: words` as items of a list; what goes on in the next line belongs to it."""
    lines: list[str] = []
    is_item = False
    for line in paragraph.splitlines():
        if match := _ARGUMENT.match(line):
            lines += [""] if lines and not is_item else []
            names = ", ".join(f"`{name}`" for name in match["names"].split(", "))
            lines.append(f"* {names}: {line[match.end() :]}")
            is_item = True
        elif is_item and not _SENTENCE.match(line):
            lines.append(f"    {line.strip()}")
        else:
            lines += [""] if is_item else []
            lines.append(line)
            is_item = False
    return "\n".join(lines)
