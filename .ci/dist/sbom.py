#!/usr/bin/env python3
"""sbom.py --version V --commit C --time T [--home URL] KIND=FILE... <PARTS

Writes the SPDX 2.3 document of a release to standard output. KIND is image, chart, wheel or krew;
FILE is the package of that kind. PARTS has a line "KIND PACKAGE HOW" for each Debian package
inside. HOW is shared (a library beside our programs), static (code inside our own files) or data.
dpkg gives the versions, licences.tsv the licences. The same input gives the same bytes: T, in
seconds since 1970, is the only time."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import urllib.parse
import uuid
from typing import Iterable, NamedTuple

PURPOSES = {"image": "CONTAINER", "chart": "ARCHIVE", "wheel": "LIBRARY", "krew": "APPLICATION"}
RELATIONS = {"shared": "CONTAINS", "static": "STATIC_LINK", "data": "CONTAINS"}
SOURCE = "SPDXRef-source"
FIELDS = "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n"


class Part(NamedTuple):
    kind: str
    package: str
    how: str


class DebianPackage(NamedTuple):
    name: str
    version: str
    architecture: str
    source: str
    source_version: str


def read_parts(lines: Iterable[str]) -> list[Part]:
    parts = sorted({Part(*line.split()) for line in lines if line.strip()})
    for part in parts:
        if part.kind not in PURPOSES or part.how not in RELATIONS:
            sys.exit(
                f"error: '{' '.join(part)}': KIND is one of {', '.join(PURPOSES)}, "
                f"HOW of {', '.join(RELATIONS)}"
            )
    return parts


def read_licences(path: pathlib.Path) -> dict[str, str]:
    lines = (line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#"))
    return {source: licence for source, licence in lines}


def ask_dpkg(names: list[str]) -> list[DebianPackage]:
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", FIELDS, *names], capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"error: {done.stderr.strip()}")
    found = {
        line.split("\t")[0]: DebianPackage(*line.split("\t")) for line in done.stdout.splitlines()
    }
    return [found[name] for name in names]


def identifier(name: str) -> str:
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def package(spdx_id: str, name: str, version: str, licence: str, **fields) -> dict:
    return {
        "SPDXID": spdx_id,
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
    } | fields


def describe_debian(deb: DebianPackage, licences: dict[str, str]) -> dict:
    if deb.source not in licences:
        sys.exit(
            f"error: {deb.name} is of Debian's source package {deb.source}, "
            f"which .ci/dist/licences.tsv does not name: "
            f"read /usr/share/doc/{deb.name}/copyright and add a line"
        )
    version = urllib.parse.quote(deb.version, safe="~")
    location = f"pkg:deb/debian/{deb.name}@{version}?arch={deb.architecture}"
    return package(
        identifier(deb.name),
        deb.name,
        deb.version,
        licences[deb.source],
        supplier="Organization: Debian",
        sourceInfo=f"built from Debian source package {deb.source} {deb.source_version}",
        externalRefs=[
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": location,
            }
        ],
    )


def describe_ours(kind: str, path: pathlib.Path, version: str) -> dict:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return package(
        identifier(kind),
        f"larder-{kind}",
        version,
        "Apache-2.0",
        packageFileName=path.name,
        primaryPackagePurpose=PURPOSES[kind],
        checksums=[{"algorithm": "SHA256", "checksumValue": digest}],
    )


def describe_source(version: str, commit: str, home: str) -> dict:
    location = f"git+{home}@{commit}" if home else "NOASSERTION"
    return package(
        SOURCE,
        "larder",
        version,
        "Apache-2.0",
        downloadLocation=location,
        primaryPackagePurpose="SOURCE",
        sourceInfo=f"git commit {commit}",
    )


def relate(parts: list[Part], ours: list[dict]) -> Iterable[dict]:
    def relation(left, kind, right):
        return {"spdxElementId": left, "relationshipType": kind, "relatedSpdxElement": right}

    for described in ours:
        yield relation("SPDXRef-DOCUMENT", "DESCRIBES", described["SPDXID"])
        yield relation(described["SPDXID"], "GENERATED_FROM", SOURCE)
    for part in parts:
        yield relation(identifier(part.kind), RELATIONS[part.how], identifier(part.package))


def write_document(given: argparse.Namespace, parts: list[Part], licences: dict[str, str]) -> dict:
    files = dict(named.split("=", 1) for named in given.files)
    if missing := {part.kind for part in parts} - files.keys():
        sys.exit(f"error: parts are listed for {', '.join(sorted(missing))}, but no KIND=FILE")
    ours = [describe_ours(kind, pathlib.Path(path), given.version) for kind, path in files.items()]
    debian = (
        [
            describe_debian(deb, licences)
            for deb in ask_dpkg(sorted({part.package for part in parts}))
        ]
        if parts
        else []
    )
    name = f"larder-{given.version}"
    # A namespace names one document for ever: other packages make another one.
    content = uuid.uuid5(
        uuid.NAMESPACE_OID, json.dumps([given.commit, ours, debian], sort_keys=True)
    )
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{content}",
        "creationInfo": {
            "created": datetime.datetime.fromtimestamp(given.time, datetime.timezone.utc).strftime(
                "%Y-%m-%dT%H:%M:%SZ"
            ),
            "creators": ["Tool: larder-sbom.py"],
        },
        "packages": [describe_source(given.version, given.commit, given.home), *ours, *debian],
        "relationships": list(relate(parts, ours)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--time", type=int, required=True)
    parser.add_argument("--home", default="", help="address of the repository")
    parser.add_argument("files", nargs="+", metavar="KIND=FILE")
    given = parser.parse_args()
    licences = read_licences(pathlib.Path(__file__).with_name("licences.tsv"))
    print(json.dumps(write_document(given, read_parts(sys.stdin), licences), indent=1))


if __name__ == "__main__":
    main()
