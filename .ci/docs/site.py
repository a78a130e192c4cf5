"""MkDocs hooks: pages written for GitHub's Markdown, with links to files outside of docs/.

- A link that leaves docs/ becomes a link into $LARDER_REPOSITORY_URL, or the path of the file.
- Lists get the blank line and the indentation that Python-Markdown needs.
- Scripts that Material would load from a network come from the folder $LARDER_SCRIPTS."""

import os
import posixpath
import re
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
ITEM = re.compile(r" *([-*]|\d+\.) ")
FETCHED = re.compile(r"<(script|link|img)\b[^>]*\b(src|href)=\"?https?:[^>]*>")
FENCE = re.compile(r" *(```+|~~~+)")


def on_files(files, config):
    for script in Path(os.environ["LARDER_SCRIPTS"]).iterdir():
        files.append(
            File.generated(config, f"javascripts/{script.name}", content=script.read_text())
        )
    return files


def on_page_markdown(markdown, page, config, files):
    return outside(lists(markdown), page.file.src_uri, os.environ.get("LARDER_REPOSITORY_URL", ""))


def on_post_page(output, page, config):
    fetched = FETCHED.search(output)
    if fetched:
        raise PluginError(f"{page.file.src_uri} fetches from a network: {fetched[0]}")
    return output


def outside(text, page, repository):
    """`text` of `page` (its path below docs/) with absolute links in place of links out of
    docs/."""

    def replaced(link):
        label, target, section = link[1], link[2], link[3] or ""
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
        if path.startswith("docs/"):
            return link[0]
        if repository:
            return f"[{label}]({repository.rstrip('/')}/{path}{section})"
        named = label.strip("`") in (path, posixpath.basename(path))
        return f"`{path}`" if named else f"{label} (`{path}`)"

    lines = with_code(text.split("\n"))
    return "\n".join(line if code else LINK.sub(replaced, line) for line, code in lines)


def with_code(lines):
    """(line, whether the line belongs to a fenced block)."""
    fence = None
    for line in lines:
        mark = FENCE.match(line)
        if fence is None and mark:
            fence = mark[1]
            yield line, True
        else:
            yield line, fence is not None
            if fence is not None and line.strip() == fence:
                fence = None


def lists(text):
    """Blank lines before lists; the content of an item is indented by four."""
    done, inside, shift = [], False, 0
    for line, code in with_code(text.split("\n")):
        indent = len(line) - len(line.lstrip())
        item = not code and ITEM.match(line)
        if not code or FENCE.match(line):
            shift = 4 - indent if inside and indent in (2, 3) else 0
        before = done[-1] if done else ""
        if item and before.strip() and not inside and not before.startswith("|"):
            done.append("")
        if item:
            inside = True
        elif line.strip() and indent == 0 and not before.strip():
            inside = False
        done.append(" " * shift + line if line.strip() else line)
    return "\n".join(done)
