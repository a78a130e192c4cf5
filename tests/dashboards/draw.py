"""A dashboard as a picture: an SVG with the panels in Grafana's places, drawn from the same
queries. The picture says that Grafana did not draw it."""

import html
import math
import re
from datetime import UTC, datetime

from expressions import filled

COLUMN, ROW, GAP, TOP = 50, 22, 6, 58  # pixels of one unit of gridPos
WIDTH = 24 * COLUMN
COLORS = (
    "#3274d9",
    "#e0812c",
    "#299c46",
    "#a352cc",
    "#d44a3a",
    "#0a9bb5",
    "#b8860b",
    "#8f8f8f",
    "#c15c9e",
    "#5f7d2a",
)
MOST_LEGENDS = 6
POINTS = 120
STYLE = (
    "text{font-family:sans-serif;font-size:10px;fill:#444}.t{font-size:12px;font-weight:bold;fill:"
    "#222}.r{font-size:13px;font-weight:bold;fill:#222}"
    ".s{font-size:24px;fill:#299c46}.p{fill:#fff;stroke:#ddd}.g{stroke:#eee}path{fill:none;"
    "stroke-width:1.3}"
)


def said(value, unit):
    """A number in Grafana's form."""
    if unit == "percentunit":
        return f"{value * 100:.3g}%"
    if unit in ("bytes", "Bps"):
        power = min(int(math.log(abs(value), 1024)), 4) if abs(value) >= 1 else 0
        return (
            f"{value / 1024**power:.3g} "
            f"{('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}{'/s' if unit == 'Bps' else ''}"
        )
    if unit == "s" and abs(value) >= 86400:
        return f"{value / 86400:.3g} days"
    if unit == "s" and 0 < abs(value) < 1:
        return f"{value * 1e3:.3g} ms" if abs(value) >= 1e-3 else f"{value * 1e6:.3g} µs"
    ending = {"s": " s", "h": " h", "ops": "/s", "reqps": "/s"}.get(unit, "")
    if abs(value) >= 1000:
        return f"{value / 1e3:.3g} K{ending}"  # as Grafana's short numbers
    return f"{value:.3g}{ending}"


def legend(target, labels):
    return re.sub(
        r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match[1], ""), target["legendFormat"]
    )


def text(x, y, words, kind="", anchor="start"):
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" '
        f'text-anchor="{anchor}">{html.escape(words)}</text>'
    )


class Picture:
    """`start`, `end`: the shown time, in seconds since 1970."""

    def __init__(self, prometheus, start, end):
        self._prometheus, self._start, self._end = prometheus, start, end
        self._parts = []

    def of(self, dashboard):
        for panel in dashboard["panels"]:
            self._panel(panel)
        height = (
            TOP
            + ROW
            * max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
            + GAP
        )
        when = datetime.fromtimestamp(self._start, UTC).strftime("%Y-%m-%d %H:%M")
        note = (
            "Drawn by tests/dashboards/draw.py from this dashboard's own queries, no screenshot "
            f"of Grafana. {self._end - self._start:.0f} s of a tiny model on a CPU under test "
            f"load, from {when} UTC."
        )
        head = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 '
            f'0 {WIDTH} {height}">'
        ]
        head += [
            f"<style>{STYLE}</style>",
            f'<rect width="{WIDTH}" height="{height}" fill="#f4f5f5"/>',
        ]
        head += [text(GAP, 24, dashboard["title"], "r"), text(GAP, 44, note)]
        return "\n".join([*head, *self._parts, "</svg>"]) + "\n"

    def _panel(self, panel):
        place = panel["gridPos"]
        x, y = place["x"] * COLUMN + GAP / 2, TOP + place["y"] * ROW
        w, h = place["w"] * COLUMN - GAP, place["h"] * ROW - GAP
        if panel["type"] == "row":
            self._parts.append(text(x, y + 15, panel["title"], "r"))
            return
        self._parts.append(
            f'<rect x="{x:.0f}" y="{y}" width="{w}" height="{h}" class="p"/>'
            + text(x + 8, y + 16, panel["title"], "t")
        )
        unit = panel["fieldConfig"]["defaults"]["unit"]
        if panel["type"] == "timeseries":
            self._lines(panel, unit, x + 8, y + 24, w - 16, h - 32)
        else:
            self._numbers(panel, unit, x + 8, y + 24, w - 16, h - 32)

    def _numbers(self, panel, unit, x, y, w, h):
        found = [
            (legend(target, labels), value)
            for target in panel["targets"]
            for labels, value in self._prometheus.now(filled(target["expr"]))
        ]
        if panel["type"] == "stat" and found:
            self._parts.append(
                text(x + w / 2, y + h / 2 + 8, said(found[0][1], unit), "s", "middle")
            )
            return
        for line, (name, value) in enumerate(found[: h // 15]):
            self._parts.append(
                text(x, y + 14 + 15 * line, name)
                + text(x + w, y + 14 + 15 * line, said(value, unit), anchor="end")
            )

    def _series(self, panel):
        step = max((self._end - self._start) / POINTS, 1)
        for target in panel["targets"]:
            for labels, values in self._prometheus.over(
                filled(target["expr"]), self._start, self._end, step
            ):
                yield legend(target, labels), values

    def _lines(self, panel, unit, x, y, w, h):
        series = sorted(self._series(panel), key=lambda one: -max(value for _, value in one[1]))
        if not series:
            self._parts.append(text(x + w / 2, y + h / 2, "no data", anchor="middle"))
            return
        most = max(max(value for _, value in values) for _, values in series)
        most = panel["fieldConfig"]["defaults"].get("max", most * 1.1 or 1)
        rows = (min(len(series), MOST_LEGENDS) + 2) // 3
        left, bottom = x + 48, y + h - 13 * rows - 4
        for share in (0, 0.5, 1):
            line = bottom - share * (bottom - y - 4)
            self._parts.append(
                f'<path d="M{left:.0f} {line:.0f}H{x + w:.0f}" class="g"/>'
                + text(left - 4, line + 3, said(share * most, unit), anchor="end")
            )
        across = (x + w - left) / (self._end - self._start)
        for number, (name, values) in reversed(list(enumerate(series))):
            points = [
                (
                    left + (when - self._start) * across,
                    bottom - min(max(value / most, 0), 1) * (bottom - y - 4),
                )
                for when, value in values
            ]
            path = "M" + "L".join(f"{px:.0f} {py:.0f}" for px, py in points)
            color = COLORS[number % len(COLORS)]
            self._parts.append(f'<path d="{path}" stroke="{color}"/>')
            if number < MOST_LEGENDS:
                lx, ly = x + (number % 3) * w / 3, bottom + 14 + 13 * (number // 3)
                self._parts.append(
                    f'<rect x="{lx:.0f}" y="{ly - 7:.0f}" width="8" height="8" fill="{color}"/>'
                    + text(lx + 12, ly, name[: int((w / 3 - 14) / 5.5)])
                )
