"""Every example outside of the tutorials runs: blocks of documents, docstrings and commands."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from palmkit import delivery, engine, kits
from tests.docs.examples import (
    ADDRESS,
    DOCUMENTS,
    LACKING,
    NEEDS_MODELS,
    ROOT,
    SHELL,
    blocks,
    code_of,
    commands,
    docstrings,
    epilogs,
    lines,
    mentions,
    modules,
    run_blocks,
    why_wrong,
)

pytestmark = NEEDS_MODELS

# Blocks of these languages are run; commands in others of SHELL are parsed.
RUN = ("python", "console")
# Blocks that are neither run nor parsed, and why.
OTHER_LANGUAGES = {
    "bash": "builds for phones, which take the NDK or Xcode: docs/phones.md says so",
    "c": "tests/engine/native and tests/kits/native compile and run it",
    "cmake": "tests/kits/native/test_phones.py configures it",
    "html": "tests/kits/web/page.html and demos/web do the same in Chromium",
    "java": "tests/kits/native/test_phones.py compiles and runs it",
    "js": "tests/engine/web/golden.mjs and tests/kits/web/in_worker.mjs do the same in Node",
    "text": "what a command says: tests/kits/test_cli_errors.py",
    "yaml": "a workflow of a CI service, which runs it",
}
# Docstrings whose code is not run, and why.
NOT_RUN = {
    "palmkit.delivery.http_session.Watch": "needs a download; tests/delivery/test_http.py has it",
    "palmkit.engine.pytorch.from_torch": "needs torch; tests/engine/test_pytorch.py has it",
    "palmkit.engine.train.levels": "needs a classifier; tests/engine/train trains one",
    "palmkit.kits.batch": "several workers are Ray's, which tests do without",
    "palmkit.kits.options": "how a kit declares options: kits/face/options.py does",
}
# Examples in the documents of these folders are those of tutorials: test_tutorials.py.
TUTORIALS = ROOT / "docs"

RUNNABLE = [
    path
    for path in DOCUMENTS
    if path.parent != TUTORIALS and any(block.language in RUN for block in blocks(path))
]
# The code of each docstring that has some, and its module.
CODE = {
    f"{module}.{name}".removesuffix("."): (module, code)
    for module, path in modules("assets", "delivery", "engine", "kits")
    for name, said in docstrings(path)
    if (code := code_of(said))
}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", RUNNABLE, ids=relative)
def test_a_document_runs(path: Path, address: str, values: dict[str, Any]) -> None:
    run_blocks(path, values, address)


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_commands_of_a_document_are_right(path: Path) -> None:
    found = commands(path.read_text(encoding="utf-8"))
    assert not {line: why for line in found if (why := why_wrong(line))}


# The CHANGELOG tells of commands as they were.
@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if path.stem != "CHANGELOG"], ids=relative
)
def test_mentions_of_commands_are_right(path: Path) -> None:
    """They may leave arguments out, and have none that the command does not take."""
    found = mentions(path.read_text(encoding="utf-8"))
    wrong = {line: why for line in found if (why := why_wrong(line))}
    assert not {line: why for line, why in wrong.items() if not LACKING.match(why)}


def test_blocks_of_documents_have_a_language_that_is_tested() -> None:
    known = {*RUN, *SHELL, *OTHER_LANGUAGES}
    assert not {
        (relative(path), block.language)
        for path in DOCUMENTS
        for block in blocks(path)
        if block.language not in known
    }


@pytest.mark.parametrize("where", sorted(CODE.keys() - NOT_RUN.keys()))
def test_a_docstring_runs(
    where: str, address: str, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, code = CODE[where]
    monkeypatch.setattr(sys, "argv", ["program", "--source", "hands", "--frames", "2"])
    monkeypatch.delenv("DISPLAY", raising=False)
    of = importlib.import_module(module)
    names = vars(of) | {of.__name__.rpartition(".")[2]: of, "palmkit": sys.modules["palmkit"]}
    public = {"delivery": delivery, "engine": engine, "kits": kits}
    exec(compile(code.replace(ADDRESS, address), where, "exec"), public | names | values)


def test_what_is_not_run_is_there() -> None:
    assert CODE.keys() >= NOT_RUN.keys()


@pytest.mark.parametrize("module", [name for name, _ in modules("demos", "kits")])
def test_commands_of_a_module_are_right(module: str) -> None:
    path = dict(modules("demos", "kits"))[module]
    found = [line for _, said in docstrings(path) for line in commands(said)]
    assert not {line: why for line in found if (why := why_wrong(line))}


@pytest.mark.parametrize("name", epilogs())
def test_examples_of_help_are_right(name: str) -> None:
    _, _, examples = epilogs()[name].partition("examples:\n")
    found = [line for line in lines(examples) if line.startswith("palmkit")]
    found = [line for line in found if "..." not in line and "COMMAND" not in line]
    assert not {line: why for line in found if (why := why_wrong(line))}


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert len(text.split()) <= 1500
