"""Writes the dashboards' JSON into the chart from the descriptions of this folder: `python
manifests/dashboards/build.py`. A test compares the two.

A description (*.yaml) has rows of panels. A panel has the fields that a person decides: title,
type, unit, description, queries with legends. All other fields are Grafana's form and the same for
each panel; this file has the form once."""

import json
import sys
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parent
CHART = FOLDER.parents[1] / "charts" / "larder" / "files" / "dashboards"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
HEIGHTS = {"stat": 4, "bargauge": 7, "table": 7, "timeseries": 8}
WIDTHS = {"stat": 6, "bargauge": 8, "table": 12, "timeseries": 8}
# Abbreviations in queries. Series of engines have no label for the pool. @joined selects series of
# pods with a larderd of the pool, or (placement Node) of pods whose connector names the pool.
POOL = 'cluster=~"$cluster",namespace=~"$namespace",pool=~"$pool"'
WORDS = {
    "@rate": "$__rate_interval",
    "@range": "$__range",
    "@pool": POOL,
    "@engine": 'cluster=~"$cluster",namespace=~"$namespace"',
    "@joined": (
        f"and on (cluster, namespace, pod) (larder_ready{{{POOL}}} or larder_engine_info{{{POOL}}})"
    ),
    "@operator": 'cluster=~"$cluster",job=~"$operator"',
}


def expanded(expression):
    for word, text in WORDS.items():
        expression = expression.replace(word, text)
    return " ".join(expression.split())


def query_variable(name, label, query):
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{name}"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",  # also matches series without the label
        "current": {"text": ["All"], "value": ["$__all"]},
        "hide": 0,
    }


def variables(description):
    chosen = [
        {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
            "refresh": 1,
            "multi": False,
            "includeAll": False,
            "current": {},
            "hide": 0,
        },
        query_variable("cluster", "Cluster", "label_values(larder_build_info, cluster)"),
        query_variable(
            "namespace",
            "Namespace",
            'label_values(larder_build_info{cluster=~"$cluster"}, namespace)',
        ),
        query_variable(
            "pool",
            "Pool",
            'label_values(larder_build_info{cluster=~"$cluster",namespace=~"$namespace"}, pool)',
        ),
    ]
    for name, (label, query) in description.get("variables", {}).items():
        chosen.append(query_variable(name, label, query))
    for name, (label, value) in description.get("numbers", {}).items():
        current = {"text": str(value), "value": str(value)}
        chosen.append(
            {
                "name": name,
                "label": label,
                "type": "textbox",
                "query": str(value),
                "current": current,
                "options": [current],
                "hide": 0,
            }
        )
    return chosen


def field_config(panel):
    steps = [{"color": "green", "value": None}]
    steps += [
        {"color": color, "value": value} for value, color in panel.get("thresholds", {}).items()
    ]
    defaults = {
        "unit": panel["unit"],
        "color": {"mode": "thresholds"},
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    defaults |= {key: panel[key] for key in ("min", "max", "decimals", "noValue") if key in panel}
    if panel["type"] == "timeseries":
        stacked = {"mode": "normal" if panel.get("stacked") else "none", "group": "A"}
        defaults["color"] = {"mode": "palette-classic"}
        defaults["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 20 if panel.get("stacked") else 5,
        }
        defaults["custom"] |= {
            "showPoints": "never",
            "spanNulls": False,
            "stacking": stacked,
            "axisSoftMin": 0,
        }
    return {"defaults": defaults, "overrides": []}


def options(kind):
    reduce = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    if kind == "timeseries":
        legend = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
        return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    if kind == "stat":
        shown = {
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "textMode": "auto",
        }
        return {"reduceOptions": reduce, "orientation": "auto", **shown}
    if kind == "bargauge":
        return {
            "reduceOptions": reduce,
            "orientation": "horizontal",
            "displayMode": "basic",
            "showUnfilled": True,
        }
    return {
        "showHeader": True,
        "cellHeight": "sm",
        "footer": {"show": False, "reducer": ["sum"], "fields": ""},
    }


def targets(panel):
    table = panel["type"] == "table"
    return [
        {
            "refId": chr(ord("A") + number),
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": expanded(query["expr"]),
            "legendFormat": query["legend"],
            "format": "table" if table else "time_series",
            "instant": table,
            "range": not table,
        }
        for number, query in enumerate(panel["queries"])
    ]


def panel_json(panel, number, place):
    made = {
        "id": number,
        "type": panel["type"],
        "title": panel["title"],
        "description": " ".join(panel["description"].split()),
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": field_config(panel),
        "options": options(panel["type"]),
        "targets": targets(panel),
    }
    if panel["type"] == "table":
        made["transformations"] = [
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True},
                    "renameByName": {"Value": panel["title"]},
                },
            }
        ]
    return made


def panels(rows):
    made, y = [], 0
    for row in rows:
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": y}
        made.append(
            {
                "id": len(made) + 1,
                "type": "row",
                "title": row["title"],
                "collapsed": False,
                "gridPos": place,
                "panels": [],
            }
        )
        x, y, height = 0, y + 1, 0
        for panel in row["panels"]:
            w, h = (
                panel.get("width", WIDTHS[panel["type"]]),
                panel.get("height", HEIGHTS[panel["type"]]),
            )
            if x + w > COLUMNS:
                x, y, height = 0, y + height, 0
            made.append(panel_json(panel, len(made) + 1, {"h": h, "w": w, "x": x, "y": y}))
            x, height = x + w, max(height, h)
        y += height
    return made


def dashboard(description):
    return {
        "uid": description["uid"],
        "title": description["title"],
        "description": " ".join(description["description"].split()),
        "tags": ["larder"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,  # these files are the source; a copy under another name is editable
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "Larder",
                "tags": ["larder"],
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {"list": variables(description)},
        "panels": panels(description["rows"]),
    }


def made_of(path):
    """Where the JSON of the description at `path` stands."""
    return CHART / f"{path.stem}.json"


def text(path):
    """The JSON of the description at `path`."""
    return (
        json.dumps(dashboard(yaml.safe_load(path.read_text())), indent=1, ensure_ascii=False) + "\n"
    )


def main():
    for path in sorted(FOLDER.glob("*.yaml")):
        made_of(path).write_text(text(path))


if __name__ == "__main__":
    sys.exit(main())
