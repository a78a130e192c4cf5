#!/usr/bin/env python3
"""archive.py NAME:TAG ROOTFS OUT.tar: packs a folder as a container image of one layer.

The archive is an OCI image layout, which `skopeo copy oci-archive:`, `podman load` and
`ctr images import` read. The file manifest.json makes the same archive readable for `docker load`.
The same folder gives the same bytes on every machine: the archive holds no time, no owner and no
order of the file system."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import pathlib
import platform
import stat
import tarfile
import tempfile
from typing import BinaryIO

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
EPOCH = "1970-01-01T00:00:00Z"
BLOBS = "blobs/sha256/"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # as image indexes name them


def _permissions(mode: int) -> int:
    """The permissions without the builder's umask: all users may read a file that the owner may."""
    bits = stat.S_IMODE(mode)
    return bits | (0o055 if bits & 0o100 else 0o044) if bits & 0o400 else bits


def _neutral(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()):
        return None  # the user of the image makes devices and sockets
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    entry.mode = 0o777 if entry.issym() else _permissions(entry.mode)
    return entry


def _write_layer(rootfs: pathlib.Path, out: BinaryIO) -> None:
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as layer:
        for name in sorted(os.listdir(rootfs)):  # add() sorts the files below
            layer.add(rootfs / name, arcname=name, filter=_neutral)


def _digest(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()


def _json(value: object) -> io.BytesIO:
    return io.BytesIO(json.dumps(value, sort_keys=True).encode())


class _Layout:
    """An OCI image layout as a tar file. Owned by one thread."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive

    def add(self, name: str, content: BinaryIO) -> int:
        """The size of `content` in bytes."""
        entry = tarfile.TarInfo(name)
        entry.size = content.seek(0, os.SEEK_END)
        content.seek(0)
        self._archive.addfile(entry, content)
        return entry.size

    def add_blob(self, kind: str, content: BinaryIO) -> dict:
        """The descriptor of `content`, a media type after `application/vnd.oci.image.`."""
        digest = _digest(content)
        size = self.add(BLOBS + digest, content)
        return {
            "mediaType": f"application/vnd.oci.image.{kind}",
            "digest": f"sha256:{digest}",
            "size": size,
        }


def _path(descriptor: dict) -> str:
    return BLOBS + descriptor["digest"].removeprefix("sha256:")


def _image(layer: dict, config: dict) -> dict:
    settings = {"Env": [PATH], "WorkingDir": "/"} | config
    return {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "created": EPOCH,
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        "history": [{"created": EPOCH, "created_by": "archive.py"}],
    }


def _write_layout(name: str, layer_file: BinaryIO, config: dict, layout: _Layout) -> int:
    layout.add("oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
    layer = layout.add_blob("layer.v1.tar", layer_file)
    image = layout.add_blob("config.v1+json", _json(_image(layer, config)))
    manifest = layout.add_blob(
        "manifest.v1+json",
        _json(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": image,
                "layers": [layer],
            }
        ),
    )
    # containerd reads the name from the first annotation, skopeo and podman the tag from the
    # second.
    manifest["annotations"] = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    layout.add(
        "index.json",
        _json(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.index.v1+json",
                "manifests": [manifest],
            }
        ),
    )
    # `docker load` before version 25 reads this file alone.
    layout.add(
        "manifest.json",
        _json([{"Config": _path(image), "RepoTags": [name], "Layers": [_path(layer)]}]),
    )
    return layer["size"]


def write_image(name: str, rootfs: pathlib.Path, out: pathlib.Path, config: dict) -> int:
    """Returns the size of the layer in bytes.

    `config`: User, Cmd, Labels and so on, under the names of the image specification."""
    unfinished = out.with_suffix(".new")
    with (
        tempfile.TemporaryFile() as layer,
        tarfile.open(unfinished, "w", format=tarfile.GNU_FORMAT) as archive,
    ):
        _write_layer(rootfs, layer)
        size = _write_layout(name, layer, config, _Layout(archive))
    unfinished.rename(out)
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="NAME:TAG")
    parser.add_argument("rootfs", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument(
        "--config", type=json.loads, default={}, help='a JSON object: {"User": "65532:65532"}'
    )
    given = parser.parse_args()
    size = write_image(given.name, given.rootfs, given.out, given.config)
    print(f"{given.out}: {given.name}, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
