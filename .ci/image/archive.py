#!/usr/bin/env python3
"""archive.py NAME:TAG ROOTFS OUT.tar: a folder as a container image of one layer, in the form that `docker load`, `podman load`,
`skopeo copy docker-archive:` and `ctr images import` read. The same folder gives the same bytes, whenever and wherever: no time,
owner or order of the file system's gets in."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import pathlib
import stat
import tarfile
import tempfile
from typing import BinaryIO

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
EPOCH = "1970-01-01T00:00:00Z"


def _permissions(mode: int) -> int:
    """Permissions as written down, not as the builder's umask left them: what one may read, all may."""
    bits = stat.S_IMODE(mode)
    return bits | (0o055 if bits & 0o100 else 0o044) if bits & 0o400 else bits


def _neutral(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()):
        return None  # devices and sockets are made by whoever runs the image
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    entry.mode = 0o777 if entry.issym() else _permissions(entry.mode)
    return entry


def _write_layer(rootfs: pathlib.Path, out: BinaryIO) -> None:
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as layer:
        for name in sorted(os.listdir(rootfs)):  # add() sorts what is below
            layer.add(rootfs / name, arcname=name, filter=_neutral)


def _digest(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()


def _add(archive: tarfile.TarFile, name: str, content: BinaryIO, size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    content.seek(0)
    archive.addfile(entry, content)


def write_image(name: str, rootfs: pathlib.Path, out: pathlib.Path, config: dict) -> int:
    """The size of the layer in bytes. `config`: User, Cmd, Labels and so on, as the image specification names them."""
    with tempfile.TemporaryFile() as layer:
        _write_layer(rootfs, layer)
        size, digest = layer.tell(), _digest(layer)
        settings = {"Env": [PATH], "WorkingDir": "/"} | config
        image = json.dumps({"architecture": "amd64", "os": "linux", "created": EPOCH, "config": settings,
                            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
                            "history": [{"created": EPOCH, "created_by": "archive.py"}]}, sort_keys=True).encode()
        image_name = hashlib.sha256(image).hexdigest() + ".json"
        manifest = json.dumps([{"Config": image_name, "RepoTags": [name], "Layers": [digest + "/layer.tar"]}]).encode()
        unfinished = out.with_suffix(".new")
        with tarfile.open(unfinished, "w", format=tarfile.GNU_FORMAT) as archive:
            _add(archive, image_name, io.BytesIO(image), len(image))
            _add(archive, digest + "/layer.tar", layer, size)
            _add(archive, "manifest.json", io.BytesIO(manifest), len(manifest))
    unfinished.rename(out)
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="NAME:TAG")
    parser.add_argument("rootfs", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--config", type=json.loads, default={}, help='a JSON object: {"User": "65532:65532"}')
    given = parser.parse_args()
    size = write_image(given.name, given.rootfs, given.out, given.config)
    print(f"{given.out}: {given.name}, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
