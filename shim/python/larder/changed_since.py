"""Whether files may have changed since an engine loaded the files: the content, or the target of
the path.

A file's ctime moves with content, name and mode, and no program can set the ctime back. Files of a
hub's cache are left out: the cache writes a file once and renames the file to its place. A young
file was therefore downloaded by this start, not changed."""

import os
import re
import stat

_MOST_LINKS = 40  # the kernel's limit
_IN_HUB_CACHE = re.compile(r"/(models|datasets|spaces)--[^/]+/(snapshots/[0-9a-f]{40}|blobs)/")


def changed_since(paths, since_s):
    """The first path that may lead to other bytes than at `since_s` (seconds since the epoch), or
    None. OSError."""
    since_ns = int(since_s * 1e9)
    folders = {}
    for path in paths:
        if is_in_hub_cache(path):
            continue
        folder = os.path.dirname(path)
        if folder not in folders:
            folders[folder] = _led_elsewhere(folder, since_ns, _MOST_LINKS)
        moved = folders[folder] or _link_made(path, since_ns)
        if moved or os.stat(path).st_ctime_ns > since_ns:
            return moved or path
    return None


def is_in_hub_cache(path):
    return bool(_IN_HUB_CACHE.search(path))


def _link_made(path, since_ns):
    """`path` if the path is a younger link, or leads through one; else None."""
    for _ in range(_MOST_LINKS):
        found = os.lstat(path)
        if not stat.S_ISLNK(found.st_mode):
            return None
        if found.st_ctime_ns > since_ns:
            return path
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return path


def _led_elsewhere(folder, since_ns, links_left):
    """The first part of the folder's path that was put there later: a link, or a renamed folder.
    When an entry comes or goes, a folder's ctime moves with the mtime; when the folder is renamed,
    the ctime moves alone."""
    place = "/" if folder.startswith("/") else os.getcwd()
    for name in [part for part in folder.split("/") if part not in ("", ".")]:
        if name == "..":  # above the folder that a link leads to, not above the link
            place = os.path.dirname(os.path.realpath(place))
            continue
        above, place = place, os.path.join(place, name)
        found = os.lstat(place)
        if found.st_ctime_ns > since_ns and (
            stat.S_ISLNK(found.st_mode) or found.st_mtime_ns <= since_ns
        ):
            return place
        if stat.S_ISLNK(found.st_mode):
            if not links_left:
                return place
            moved = _led_elsewhere(
                os.path.join(above, os.readlink(place)), since_ns, links_left - 1
            )
            if moved:
                return moved
    return None
