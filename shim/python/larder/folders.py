"""The files in and below a folder. Links are followed, as glob does."""

import os


class TooManyFiles(OSError):
    """The folder has more files than a model or a package has."""


def files_below(folder, enters, counts, most):
    """{name below the folder: path} of the regular files, in the order of their names. enters,
    counts: whether a folder, or a file, of this name counts. OSError, TooManyFiles: above `most`
    files."""
    found = {}
    _walk(folder, "", set(), enters, counts, most, found)
    return found


def _walk(folder, below, ancestors, enters, counts, most, found):
    """A link to one of its own ancestors is not entered again."""
    identity = os.stat(folder)
    identity = (identity.st_dev, identity.st_ino)
    if identity in ancestors:
        return
    with os.scandir(folder) as entries:
        entries = sorted(entries, key=lambda entry: entry.name)
    for entry in entries:
        name = below + entry.name
        if entry.is_dir():
            if enters(entry.name):
                inside = ancestors | {identity}
                _walk(entry.path, name + "/", inside, enters, counts, most, found)
        elif entry.is_file() and counts(entry.name):
            found[name] = entry.path
            if len(found) > most:
                raise TooManyFiles(f"{folder} has more than {most:,} files")
