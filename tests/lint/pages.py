"""Markdown as the checks of this folder read it. Pure Python, no package."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tracked(*patterns):
    """Files of the repository, new ones too, by git's patterns; sorted paths relative to ROOT."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(line) for line in sorted(listed.splitlines()) if (ROOT / line).is_file()]


def report(faults):
    """Prints each fault on a line. The exit status of a check with these faults."""
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def without_code(text):
    """The text without fenced blocks, comments and inline code; lines keep their numbers."""
    kept, fence = [], None
    for line in text.splitlines():
        mark = re.match(r" *(```+|~~~+)", line)
        if fence is None and mark:
            fence = mark[1]
        elif fence is not None:
            if line.strip().startswith(fence):
                fence = None
        else:
            kept.append(re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "`code`", line))
            continue
        kept.append("")
    text = "\n".join(kept)
    return re.sub(
        r"<!--.*?-->", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.DOTALL
    )


def anchors(text):
    """The names of a page's headings, as GitHub makes them."""
    seen, names = {}, set()
    fenced = False
    for line in text.splitlines():
        if re.match(r" *(```|~~~)", line):
            fenced = not fenced
        title = None if fenced else re.match(r"#+ +(.*?)\s*#*$", line)
        if not title:
            continue
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title[1])
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return names
