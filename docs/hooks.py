"""Hooks of MkDocs: the documents that lie beside the code, as pages of the site.

Those documents, and whatever files they and the pages of docs/ link to, keep their place below
source/. Links are written as a reader of the repository needs them, `../kits/face/README.md`, and
changed here to where the file lies in the site.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCUMENTS = (
    "*.md",
    "demos/**/*.md",
    "delivery/*.md",
    "engine/**/*.md",
    "kits/**/*.md",
    "models/*/*.md",
)
PLACE = "source"
LOG = logging.getLogger("mkdocs.hooks")
_LINK = re.compile(r"(?<=\]\()[^)\s:#]+")
# What a browser would fetch from elsewhere by itself.
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?(?:https?:)?//[^>]*"""
    r"""|<link[^>]*\shref=["']?(?:https?:)?//[^>]*"""
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents beside the code, and the files that are linked to."""
    root, pages = Path(config.config_file_path).parent, Path(config.docs_dir)
    documents = {path for pattern in DOCUMENTS for path in root.glob(pattern)}
    wanted = set(documents)
    for document in documents | set(pages.rglob("*.md")):
        wanted |= {path for path in linked(document) if path.is_relative_to(root)}
    for path in sorted(path for path in wanted if path.is_file()):
        if not path.is_relative_to(pages):
            uri = f"{PLACE}/{path.relative_to(root).as_posix()}"
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def linked(document: Path) -> Iterator[Path]:
    """The files that a document links to."""
    for match in _LINK.finditer(document.read_text(encoding="utf-8")):
        yield (document.parent / match[0]).resolve()


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Change links between docs/ and the rest of the repository."""
    uri = page.file.src_uri
    up = "../" * uri.count("/")

    def out_of_docs(match: re.Match[str]) -> str:
        outside = f"{up}../"
        is_out = match[0].startswith(outside) and match[0][len(outside)] != "."
        return f"{up}{PLACE}/{match[0][len(outside) :]}" if is_out else match[0]

    def into_docs(match: re.Match[str]) -> str:
        # `up` leads from below PLACE to the site's top: one step more than to the repository's.
        inside = f"{up[len('../') :]}docs/"
        return up + match[0][len(inside) :] if match[0].startswith(inside) else match[0]

    return _LINK.sub(into_docs if uri.startswith(f"{PLACE}/") else out_of_docs, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Warn, which ends a strict build, of what would be fetched from another host."""
    for match in _FETCHED.finditer(output):
        LOG.warning("%s fetches from elsewhere: %s", page.file.src_uri, match[0][:200])
    return output
