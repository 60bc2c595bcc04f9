"""Many small cases as few tests, one for each group: collecting and reporting a test costs more
than most cases do.

A case that fails is reported by its name, with its traceback, as a subtest; one that is skipped
with its reason.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import Parameter
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
Check = Callable[..., None]


def in_groups(
    names: str, cases: Iterable[T], group: Callable[[T], str], label: Callable[[T], str]
) -> Callable[[Check], Check]:
    """Return a decorator that makes a check of one case a test of each group of cases.

    names, cases: as of pytest.mark.parametrize, the check's arguments that a case is, with commas
    between them, and their values. group, label: what a case's group and the case itself are
    called. A test is skipped if all of its cases are. The check's other arguments are parameters
    and fixtures of the test, as ever; all cases of a group share them.
    """
    own = [name.strip() for name in names.split(",")]
    groups: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for case in cases:
        values: Any = (case,) if len(own) == 1 else case
        given = dict(zip(own, values, strict=True))
        groups.setdefault(group(case), []).append((label(case), given))

    def decorated(check: Check) -> Check:
        @wraps(check)
        def test(case_group: str, subtests: pytest.Subtests, **others: Any) -> None:
            __tracebackhide__ = True
            skips = list[BaseException]()
            for name, given in groups[case_group]:
                try:
                    check(**given, **others)
                except pytest.skip.Exception as skip:
                    skips.append(skip)
                except (Exception, pytest.fail.Exception):
                    with subtests.test(name):
                        raise
            last = skips.pop() if len(skips) == len(groups[case_group]) else None
            for skipped in skips:
                with subtests.test():
                    raise skipped
            if last:
                raise last

        # What the test itself asks pytest for.
        asked = inspect.signature(check).parameters.values()
        others = [each for each in asked if each.name not in own]
        ours = [Parameter(name, Parameter.KEYWORD_ONLY) for name in ("case_group", "subtests")]
        vars(test)["__signature__"] = inspect.Signature([*others, *ours])
        made: Check = pytest.mark.parametrize("case_group", groups)(test)
        return made

    return decorated
