"""Hooks of mkdocs: pages made from files outside of docs/, and links to such files.

The C++ reference is made from the public headers; the changelog and the guide for contributors are files of the root.
Each tutorial has a notebook to download, with stored outputs. The site does not contain sources: a link to a source
file becomes its path, a link to a public header leads to its page.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import cpp_reference
import notebooks

ROOT = Path(__file__).resolve().parents[2]
HEADERS = "reference/cpp"
COPIES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
DOWNLOADS = {"examples/scene.tif": "tutorials/scene.tif"}  # data that a tutorial opens
RANKS = (
    ("guide/", 4),
    ("tutorials/", 3),
    ("start/", 3),
    ("reference/python/", 2),
    ("design/", 0.3),
    ("changelog", 0.2),
)
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def header_page(name: str) -> str:
    """`include/penstock/extend/codec.h` -> `reference/cpp/extend/codec.md`"""
    return f"{HEADERS}/{name.removeprefix('include/penstock/').removesuffix('.h')}.md"


def headers() -> list[str]:
    """The public headers that declare something."""
    files = (ROOT / "include" / "penstock").rglob("*.h")
    return sorted(f.relative_to(ROOT).as_posix() for f in files if any(cpp_reference.declarations(f.read_text())))


def with_links_of_the_site(text: str, folder: str, page: str) -> str:
    """Rewrites the links of a file in `folder` of the repository for the page `page` of the site."""

    def rewritten(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        place = posixpath.normpath(posixpath.join(folder, target))
        if place in COPIES:
            inside = COPIES[place]
        elif place in DOWNLOADS:
            inside = DOWNLOADS[place]
        elif place.startswith("docs/") and "." in posixpath.basename(place):
            inside = place.removeprefix("docs/")
        elif place.startswith("include/penstock/") and place.endswith(".h"):
            inside = header_page(place)
        elif place == "include/penstock":
            inside = f"{HEADERS}/index.md"
        elif not (ROOT / place).exists():
            return found[0]  # mkdocs reports it
        else:
            names = (place, posixpath.basename(place), posixpath.dirname(place))
            return f"`{place}`" if words.strip("`/") in names else f"{words} (`{place}`)"
        return f"[{words}]({posixpath.relpath(inside, posixpath.dirname(page) or '.')}{anchor})"

    parts = re.split(r"(^```.*?^```)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(rewritten, part) for part in parts)


def on_config(config: Any) -> Any:
    """Adds the headers to the navigation."""

    def title(name: str) -> str:
        return name.removeprefix("include/penstock/")

    plain = [{title(n): header_page(n)} for n in headers() if "/extend/" not in n]
    extend = [{title(n): header_page(n)} for n in headers() if "/extend/" in n]
    pages = [{"All headers": f"{HEADERS}/index.md"}, {"Headers": plain}, {"For extensions": extend}]
    config["nav"] = [{"C++": pages} if "C++" in entry else entry for entry in config["nav"]]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages."""
    from mkdocs.structure.files import File

    rows = []
    for name in headers():
        text = cpp_reference.page(ROOT / name, name.removeprefix("include/"))
        names = re.findall(r"^## (\S+)$", text, re.MULTILINE)
        link = posixpath.relpath(header_page(name), HEADERS)
        rows.append(f"| [`<{name.removeprefix('include/')}>`]({link}) | {', '.join(f'`{n}`' for n in names)} |")
        files.append(File.generated(config, header_page(name), content=text))
    index = "\n".join(
        (
            "# C++ headers\n",
            "`#include <penstock/penstock.h>` includes those that most programs need.",
            "The [C++ guide](../../guide/cpp.md) shows them in use.\n\n| header | declares |\n|---|---|",
            *rows,
        )
    )
    files.append(File.generated(config, f"{HEADERS}/index.md", content=index))
    for source, page in COPIES.items():
        text = with_links_of_the_site((ROOT / source).read_text(), "", page)
        files.append(File.generated(config, page, content=text))
    for source, place in DOWNLOADS.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrites links out of docs/, and sets the page's rank in the search."""
    page.meta.setdefault("search", {"boost": next((b for begin, b in RANKS if page.file.src_uri.startswith(begin)), 1)})
    if page.file.generated_by:
        return markdown
    place = page.file.src_uri
    if place.startswith("tutorials/"):
        shown = notebooks.page_with_outputs(markdown, notebooks.outputs_of(page.file.name, markdown))
        title, _, rest = shown.partition("\n")
        link = f'<a href="{page.file.name}.ipynb" download>Download this page as a notebook</a>'
        markdown = f"{title}\n\n{link}\n{rest}"
    return with_links_of_the_site(markdown, posixpath.join("docs", posixpath.dirname(place)), place)


def on_post_build(config: Any) -> None:
    """Writes a notebook next to the page of each tutorial."""
    folder = Path(config["site_dir"]) / "tutorials"
    for page in (ROOT / "docs" / "tutorials").glob("*.md"):
        text = page.read_text()
        made = notebooks.notebook(text, notebooks.outputs_of(page.stem, text))
        (folder / f"{page.stem}.ipynb").write_text(made)
