"""Who may import whom; the engine knows nothing of kits."""

import ast
from functools import cache
from pathlib import Path

from tests.case_groups import in_groups

ROOT = Path(__file__).parents[1]
MAY_IMPORT: dict[str, set[str]] = {
    "assets": set(),
    "engine": set(),
    "delivery": {"engine", "assets"},
    "kits": {"engine", "assets", "delivery"},
    "models": {"kits", "engine", "assets"},
    "demos": {"kits", "engine", "delivery"},
}
# Inside the engine, lowest first; a file that is in none of these may import them all.
ENGINE_ORDER = (
    "errors",
    "ir",
    "ops",
    "passes converters exporters steps format",
    "backends",
    "model",
)
FILES = [f for folder in MAY_IMPORT for f in sorted((ROOT / folder).rglob("*.py"))]


@cache
def imported(file: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            # `from palmkit.engine import errors` is an import of palmkit.engine.errors.
            whole = module == "palmkit" or module.startswith("palmkit.")
            names += [f"{module}.{alias.name}" if whole else module for alias in node.names]
    return names


def is_within(name: str, part: str) -> bool:
    return name == f"palmkit.{part}" or name.startswith(f"palmkit.{part}.")


def package(file: Path) -> str:
    return ".".join(file.parent.relative_to(ROOT).parts[:2])


def path(file: Path) -> str:
    return str(file.relative_to(ROOT))


@in_groups("file", FILES, package, path)
def test_imports_only_lower_layers(file: Path) -> None:
    here = file.relative_to(ROOT).parts[0]
    for name in imported(file):
        assert not name.startswith("."), f"write the whole name, palmkit.{here}..."
        assert name.split(".")[0] not in MAY_IMPORT, f"import palmkit.{name}"
        if name.startswith("palmkit."):
            allowed = MAY_IMPORT[here] | {here}
            assert any(is_within(name, part) for part in allowed), f"{here} imports {name}"


def engine_level(path: str) -> int | None:
    for level, parts in enumerate(ENGINE_ORDER):
        if path.split(".")[0] in parts.split():
            return level
    return None


@in_groups("file", sorted((ROOT / "engine").rglob("*.py")), package, path)
def test_engine_imports_only_lower_parts(file: Path) -> None:
    parts = file.relative_to(ROOT / "engine").with_suffix("").parts
    here = engine_level(parts[0])
    for name in imported(file):
        there = engine_level(name.removeprefix("palmkit.engine."))
        if here is not None and there is not None and name.startswith("palmkit.engine."):
            assert there <= here, f"engine/{parts[0]} imports {name}"


def test_the_rules_see_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(
        "from palmkit import kits\nfrom palmkit.kits.draw import faces\nfrom . import x"
    )
    assert imported(file) == ["palmkit.kits", "palmkit.kits.draw.faces", "."]
    assert is_within("palmkit.kits.draw", "kits")
    assert not is_within("palmkit.kitsune", "kits")
