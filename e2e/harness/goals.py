"""Figures and goals in the one form of all benchmarks: {"name", "date", "commit", "machine",
"rows", "goals"}. A benchmark makes a figure only after it compared the answers."""

from __future__ import annotations

import datetime
import json
import operator
import os
import pathlib
import platform
import subprocess
import time

_OPS = {"<=": operator.le, ">=": operator.ge}


def machine() -> str:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}"


def commit() -> str:
    """The commit of the benchmark: LARDER_COMMIT, which `make` sets, or of this checkout. "-": not
    known."""
    if told := os.environ.get("LARDER_COMMIT"):
        return told
    command = ["git", "describe", "--always", "--dirty"]
    try:
        ended = subprocess.run(
            command, cwd=pathlib.Path(__file__).parent, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return "-"
    return ended.stdout.strip() or "-"


def goal(identifier: str, value: float, op: str, bound: float) -> dict:
    return {
        "id": identifier,
        "value": round(value, 4),
        "op": op,
        "goal": bound,
        "met": _OPS[op](value, bound),
    }


def not_measured(identifier: str, why: str, op: str, bound: float) -> dict:
    """A goal without a result in this run."""
    return {"id": identifier, "not_measured": why, "op": op, "goal": bound}


def figure(identifier: str, value: float) -> dict:
    """A figure without a goal of its own."""
    return {"id": identifier, "value": round(value, 4)}


def kept_rows(path: pathlib.Path, renewed: set[str]) -> list[dict]:
    """Rows of an earlier report, less the rows of the newly measured parts: benchmarks of several
    parts may run one at a time."""
    if not path.exists():
        return []
    return [row for row in json.loads(path.read_text())["rows"] if row.get("part") not in renewed]


def write(path: pathlib.Path, name: str, rows: list[dict], goals: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "name": name,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "rows": rows,
        "goals": goals,
    }
    path.write_text(json.dumps(report, indent=2) + "\n")


def print_goals(goals: list[dict]) -> None:
    for g in goals:
        if "not_measured" in g:
            print(
                f"  {g['id']:<28} not measured: {g['not_measured']}  goal {g['op']} {g['goal']:g}"
            )
        elif "goal" in g:
            print(
                f"  {g['id']:<28} {g['value']:>10g}  goal {g['op']} {g['goal']:g}  "
                f"{'met' if g['met'] else 'MISSED'}"
            )
        else:
            print(f"  {g['id']:<28} {g['value']:>10g}  {g.get('beside', '')}".rstrip())


def conclude(
    path: pathlib.Path, name: str, rows: list[dict], goals: list[dict], started: float
) -> None:
    """The end of a bench that began at `started`, by time.monotonic(): prints the goals, writes the
    report."""
    print_goals(goals)
    write(path, name, rows, goals)
    print(f"  {time.monotonic() - started:.0f} s; written to {os.path.relpath(path)}")
