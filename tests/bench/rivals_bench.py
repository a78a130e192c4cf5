"""make bench-rivals: LMCache 0.5.6's multi-process server beside larderd, on the same engine, model
and prompts, taking turns.

Parts, chosen by RIVALS_PARTS=ttft,second,calls,kill (default: all); rows of other parts stay from
the existing report:
  ttft    warm TTFT of 512, 2,048 and 4,096 tokens on one engine an arm (the demo's model)
  second  the first query of 4,096 tokens of engines that never saw the prompt (RIVALS_STARTS a
          side, default 2)
  calls   lookup, store and retrieve of 512 and 16k tokens from Python, and idle memory
  kill    SIGKILL of the server under traffic, down for 1 s (the small model; RIVALS_KILL_BOUND_S) A
  warm answer counts only if nearly the whole prompt came from the arm's cache and the tokens equal
  the tokens of the cold answer; retrieved bytes are compared. Python packages: .ci/rivals.lock.
  Variables: as in the demo."""

from __future__ import annotations

import datetime
import importlib
import os
import sys
import time

from demo.model import demo_model
from engine_model import small_model
from harness import goals
from harness.bench import run as run_bench
from rivals_arms import BUILD

PARTS = {
    "ttft": ("rivals_ttft", "run_ttft", demo_model),
    "second": ("rivals_ttft", "run_second", demo_model),
    "calls": ("rivals_calls", "run", lambda: ""),
    "kill": ("rivals_kill", "run", small_model),
}


def judge(rows: list[dict]) -> list[dict]:
    """The goals of the parts that were measured."""
    parts: dict[str, list[dict]] = {}
    for row in rows:
        parts.setdefault(row["part"], []).append(row)
    verdict = []
    if "ttft" in parts:
        verdict.append(
            goals.goal("rivals.ttft_ratio", max(row["ratio"] for row in parts["ttft"]), "<=", 1.0)
        )
    if "second" in parts:
        verdict.append(
            goals.goal("rivals.second_engine_ratio", parts["second"][0]["ratio"], "<=", 0.6)
        )
    if "calls" in parts:
        factors = {row["what"]: row["factor"] for row in parts["calls"]}
        verdict += [
            goals.goal("rivals.lookup_16k_factor", factors["lookup 16384"], ">=", 100),
            goals.goal("rivals.store_16k_factor", factors["store 16384"], ">=", 2),
            goals.goal("rivals.retrieve_16k_factor", factors["retrieve 16384"], ">=", 1.5),
            goals.goal("rivals.idle_rss_factor", factors["idle memory"], ">=", 10),
        ]
    if "kill" in parts:
        verdict += judge_kill({row["what"]: row for row in parts["kill"]})
    return verdict


def judge_kill(rows: dict[str, dict]) -> list[dict]:
    """Larder's figures against the goals; a missing answer counts with the whole time of the wait.
    LMCache's figures stand beside Larder's."""
    verdict = []
    for name, row in rows.items():
        prefix = "rivals." if name == "larder" else f"rivals.{name}_"
        rehit = row["rehit_s"] if row["rehit_s"] is not None else max(row["looked_s"], 1e-3)
        if name == "larder":
            verdict.append(
                goals.goal(
                    f"{prefix}kill_slowest_answer_s",
                    row["slowest_s"],
                    "<=",
                    round(row["cold_s"] + 1, 3),
                )
            )
            verdict.append(goals.goal(f"{prefix}kill_rehit_s", rehit, "<=", 2))
            if row["unanswered"] or row["rehit_s"] is None:
                verdict[-1]["met"] = False
                verdict[-2]["met"] = verdict[-2]["met"] and not row["unanswered"]
        else:
            verdict.append(goals.figure(f"{prefix}kill_slowest_answer_s", row["slowest_s"]))
            verdict.append(goals.figure(f"{prefix}kill_rehit_s", rehit))
    return verdict


def main() -> int:
    started = time.monotonic()
    wanted = [part for part in os.environ.get("RIVALS_PARTS", ",".join(PARTS)).split(",") if part]
    unknown = set(wanted) - set(PARTS)
    if unknown:
        print(
            f"bench-rivals: unknown part {sorted(unknown)[0]}; known: {', '.join(PARTS)}",
            file=sys.stderr,
        )
        return 1
    # the client of the rival would talk between the rows
    os.environ.setdefault("LMCACHE_LOG_LEVEL", "WARNING")
    report = BUILD / "rivals.json"
    for part in wanted:
        module, function, model = PARTS[part]
        measured = getattr(importlib.import_module(module), function)(model())
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        rows = goals.kept_rows(report, {part}) + [{**row, "date": now} for row in measured]
        goals.write(report, "rivals", rows, judge(rows))
    goals.print_goals(judge(goals.kept_rows(report, set())))
    print(f"  {time.monotonic() - started:.0f} s; written to {os.path.relpath(report)}")
    return 0


if __name__ == "__main__":
    run_bench("bench-rivals", main)
