"""The rules of Grafana's JSON model for a dashboard, as far as our dashboards use the model:
`faults(dashboard)` names the faults, one line each.

Neither a Grafana server nor its linter is available as a package. This module checks types, fields,
units, variables, data sources, legends, identifiers, and that no two panels overlap."""

import re

COLUMNS = 24
PANEL_KEYS = {
    "id",
    "type",
    "title",
    "description",
    "datasource",
    "gridPos",
    "fieldConfig",
    "options",
    "targets",
}
OPTIONS = {  # panel type: the required options
    "timeseries": {"legend", "tooltip"},
    "stat": {"reduceOptions", "orientation", "colorMode", "graphMode", "justifyMode", "textMode"},
    "bargauge": {"reduceOptions", "orientation", "displayMode", "showUnfilled"},
    "table": {"showHeader", "cellHeight", "footer"},
}
# Grafana's identifiers of the units in use here (Grafana's list:
# packages/grafana-data/src/valueFormats/categories.ts).
UNITS = {"short", "percentunit", "s", "h", "bytes", "Bps", "ops", "reqps"}
COLORS = {"green", "orange", "red", "yellow", "blue"}
BUILT_IN = {"__rate_interval", "__range", "__interval"}
DASHBOARD = {
    "uid": str,
    "title": str,
    "description": str,
    "tags": list,
    "schemaVersion": int,
    "version": int,
    "editable": bool,
    "graphTooltip": int,
    "refresh": str,
    "time": dict,
    "timezone": str,
    "annotations": dict,
    "links": list,
    "templating": dict,
    "panels": list,
}


def faults(dashboard):
    found = [
        f"{key}: no {kind.__name__}"
        for key, kind in DASHBOARD.items()
        if type(dashboard.get(key)) is not kind
    ]
    if found:
        return found
    if not re.fullmatch(r"[a-z0-9-]{1,40}", dashboard["uid"]):
        found.append(f"uid {dashboard['uid']!r}: at most 40 of a-z, 0-9 and -")
    if dashboard.get("id") is not None:
        found.append("id: Grafana gives it")
    names = [variable["name"] for variable in dashboard["templating"]["list"]]
    found += variable_faults(dashboard["templating"]["list"])
    found += place_faults(dashboard["panels"])
    for panel in dashboard["panels"]:
        found += [f"{panel.get('title')}: {fault}" for fault in panel_faults(panel, set(names))]
    text = str(dashboard)
    found += [
        f"variable {name} is used nowhere"
        for name in names
        if f"${name}" not in text and f"${{{name}}}" not in text
    ]
    return found


def variable_faults(variables):
    names = [variable["name"] for variable in variables]
    if (
        names[:1] != ["datasource"]
        or variables[0]["type"] != "datasource"
        or variables[0]["query"] != "prometheus"
    ):
        yield "the first variable chooses the data source"
    if missing := {"cluster", "namespace", "pool"} - set(names):
        yield f"variables are missing: {missing}"
    if len(set(names)) != len(names):
        yield "two variables of one name"
    for number, variable in enumerate(variables):
        name = variable["name"]
        if not variable.get("label") or variable.get("hide") != 0:
            yield f"variable {name}: no label, or hidden"
        if variable["type"] == "query":
            if (
                not re.fullmatch(r"label_values\(\w+(\{.*\})?, \w+\)", variable["query"]["query"])
                or not variable["query"]["refId"]
            ):
                yield f"variable {name}: no label_values(metric, label)"
            if variable["datasource"] != {"type": "prometheus", "uid": "${datasource}"}:
                yield f"variable {name}: asks another data source"
            if (
                variable["refresh"] != 2
                or variable["allValue"] != ".*"
                or not variable["includeAll"]
            ):
                yield (
                    f"variable {name}: has no refresh on a change of the time range, or has no "
                    "All that matches series without the label"
                )
            if later := set(re.findall(r"\$(\w+)", variable["query"]["query"])) - set(
                names[:number]
            ):
                yield f"variable {name}: asks for later variables: {later}"
        elif variable["type"] not in ("datasource", "textbox"):
            yield f"variable {name}: type {variable['type']}"


def place_faults(panels):
    numbers = [panel.get("id") for panel in panels]
    if len(set(numbers)) != len(numbers) or not all(
        isinstance(number, int) and number > 0 for number in numbers
    ):
        yield f"panels' ids are not unique positive numbers: {numbers}"
    taken = {}
    for panel in panels:
        place = panel["gridPos"]
        if (
            set(place) != {"h", "w", "x", "y"}
            or min(place.values()) < 0
            or not place["h"]
            or not place["w"]
        ):
            yield f"{panel['title']}: no place: {place}"
        if place["x"] + place["w"] > COLUMNS:
            yield f"{panel['title']}: reaches beyond column {COLUMNS}"
        for cell in (
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ):
            if cell in taken:
                yield f"{panel['title']}: lies on {taken[cell]}"
                break
            taken[cell] = panel["title"]


def panel_faults(panel, variables):
    if not panel.get("title"):
        yield "no title"
    if panel.get("type") == "row":
        if (
            set(panel) != {"id", "type", "title", "collapsed", "gridPos", "panels"}
            or panel["panels"]
            or panel["gridPos"]["w"] != COLUMNS
        ):
            yield "no row over the whole width, with its panels behind"
        return
    if panel.get("type") not in OPTIONS:
        yield f"type {panel.get('type')}: one of {sorted(OPTIONS)}"
        return
    if missing := PANEL_KEYS - set(panel):
        yield f"has no {missing}"
        return
    if len(panel["description"]) < 20 or not panel["description"].endswith("."):
        yield "no sentence describes the panel"
    if set(panel["options"]) != OPTIONS[panel["type"]]:
        yield f"options {sorted(panel['options'])}, not {sorted(OPTIONS[panel['type']])}"
    yield from field_faults(panel["fieldConfig"])
    yield from target_faults(panel, variables)


def field_faults(config):
    defaults = config["defaults"]
    if defaults.get("unit") not in UNITS:
        yield f"unit {defaults.get('unit')!r}: one of {sorted(UNITS)}"
    steps = defaults["thresholds"]["steps"]
    values = [step["value"] for step in steps[1:]]
    if steps[0]["value"] is not None or values != sorted(values):
        yield "thresholds: the first has no value, and the others grow"
    if {step["color"] for step in steps} - COLORS:
        yield "thresholds: a colour that Grafana does not name"
    if "min" in defaults and "max" in defaults and not defaults["min"] < defaults["max"]:
        yield "min is not below max"


def target_faults(panel, variables):
    refs = [target.get("refId") for target in panel["targets"]]
    if not refs or len(set(refs)) != len(refs):
        yield f"queries' refIds are not unique: {refs}"
    for target in panel["targets"]:
        expression, legend = target.get("expr", ""), target.get("legendFormat", "")
        if target.get("datasource") != {"type": "prometheus", "uid": "${datasource}"}:
            yield "a query asks another data source than the chosen one"
        if not legend or legend == "__auto":
            yield "a query has no legend"
        grouped = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", expression))))
        if unknown := set(re.findall(r"\{\{\s*(\w+)\s*\}\}", legend)) - grouped:
            yield f"the legend names labels that the query does not keep: {unknown}"
        if unknown := set(re.findall(r"\$\{?(\w+)", expression)) - variables - BUILT_IN:
            yield f"unknown variables: {unknown}"
        if re.search(r"\[\$__interval", expression) or re.search(
            r"\b(rate|irate)\([^\[]*\[(?!\$__rate_interval)", expression
        ):
            yield f"rate() over another time than $__rate_interval: {expression}"
        if panel["type"] == "table" and (target["format"] != "table" or not target["instant"]):
            yield "a table asks for one moment, as a table"
