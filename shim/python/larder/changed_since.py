"""Whether files may be others now than when an engine loaded them: their content, or the
place that their path leads to.

A file's ctime moves with its content, its name and its mode, and no program can set it back. Files
of a hub's cache are left out: the cache writes a file once and renames it to its place, so that a
young file was downloaded by this start, not changed."""

import os
import re
import stat

_MOST_LINKS = 40  # as the kernel follows
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
    """`path` where it is a link that is younger, or leads there by one; else None."""
    for _ in range(_MOST_LINKS):
        found = os.lstat(path)
        if not stat.S_ISLNK(found.st_mode):
            return None
        if found.st_ctime_ns > since_ns:
            return path
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return path


def _led_elsewhere(folder, since_ns, links_left):
    """The first part of the folder's path that was put there later: a link, or a folder that was
    renamed. A folder's ctime moves with its mtime where an entry comes or goes, and alone where it
    is renamed."""
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
