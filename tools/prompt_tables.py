#!/usr/bin/env python3
"""The prompt-side tables of docs/mitigations.md, between its <!-- NAME --> and <!-- end --> lines, from
docs/mitigations/prompts.csv.

  tools/prompt_tables.py                      # writes the tables
  tools/prompt_tables.py COMPARISON.json ...  # first writes prompts.csv from what `kvphase compare` wrote,
                                              # one file per model; its folder is the model's name
"""
import csv
import json
import pathlib
import sys

from markdown_tables import write_tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
CSV = ROOT / "docs" / "mitigations" / "prompts.csv"
ORDER = ("plain", "restate", "list", "retrieve", "query-first", "random-padding", "majority")


def order(row):
    return (ORDER.index(row["mitigation"].split()[0]), row["mitigation"])


def rows_of(path):
    comparison = json.loads(path.read_text())
    pairs = {p["run"]: p for p in comparison["pairs"] if p["rule"] == "plain prompts"}
    rows = []
    for run in comparison["runs"]:
        if run["published"]:
            continue
        curve = run["folded"] or {"worst": run["worst"], "gap": run["gap"], "stride": run["audit"]["modulus"]}
        row = {"model": path.parent.name, "control": int(run["control"]), "modulus": curve["stride"],
               "mitigation": run["audit"].get("mitigation", "plain"), "items": run["audit"]["items"],
               "prompts": run["audit"]["observations"], "tokens_per_answer": run["audit"]["tokens_per_answer"]}
        for name, e in (("mean", run["mean"]), ("worst", curve["worst"]), ("gap", curve["gap"])):
            row |= {name: e["value"], f"{name}_low": e["low"], f"{name}_high": e["high"]}
        pair = pairs.get(run["name"])
        for name in ("mean", "worst", "gap"):
            for key in ("value", "low", "high", "p_holm"):
                row[f"d_{name}_{key}"] = pair[name][key] if pair else ""
        rows.append(row)
    return sorted(rows, key=order)


def write_csv(paths):
    rows = [row for path in paths for row in rows_of(path)]
    CSV.parent.mkdir(exist_ok=True)
    with open(CSV, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read():
    with open(CSV, newline="") as file:
        return list(csv.DictReader(file))


def points(value, sign=""):
    text = f"{100 * float(value):{sign}.1f}"
    return "0.0" if text.lstrip("+-") == "0.0" else text


def interval(row, name, sign=""):
    value = name + ("_value" if name.startswith("d_") else "")
    if row[value] == "":
        return ""
    bounds = [points(row[f"{name}_{end}"], sign) for end in ("low", "high")]
    return f"{points(row[value], sign)} [{bounds[0]} to {bounds[1]}]"


def at_ceiling(rows):
    """As many cells of one value as columns say; every mitigation and plain alike."""
    return len({(r["mean"], r["worst"], r["gap"]) for r in rows}) == 1


def marked(row, name):
    """A difference with its interval; an asterisk where it is significant after correction."""
    text = interval(row, f"d_{name}", "+")
    return text + ("*" if text and float(row[f"d_{name}_p_holm"]) <= 0.05 else "")


def one_model(model, control):
    lines = ["| prompts | tokens per answer | mean % | worst phase % | gap | mean, difference | worst phase, difference | gap, difference |",
             "|---|---|---|---|---|---|---|---|"]
    of_control = [row for row in read() if row["model"] == control]
    for row in read():
        if row["model"] != model:
            continue
        cells = [row["mitigation"], f"{float(row['tokens_per_answer']):.0f}"]
        cells += [interval(row, name) for name in ("mean", "worst", "gap")]
        cells += [marked(row, name) for name in ("mean", "worst", "gap")]
        lines.append("| " + " | ".join(cells) + " |")
    if of_control and at_ceiling(of_control):
        plain = of_control[0]
        cells = [f"`{control}` (control), plain and all {len(of_control) - 1} others", "as above"]
        cells += [interval(plain, name) for name in ("mean", "worst", "gap")]
        cells += [interval(of_control[1], f"d_{name}", "+") for name in ("mean", "worst", "gap")]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def spread(values, sign=""):
    low, high = points(min(values), sign), points(max(values), sign)
    return low if low == high else f"{low} to {high}"


def over_seeds(rows, name, sign=""):
    """The seeds' values, and of their 95% intervals the lowest and the highest bound."""
    value = name + ("_value" if name.startswith("d_") else "")
    of = lambda key: [float(r[key]) for r in rows]
    return f"{spread(of(value), sign)} [{points(min(of(name + '_low')), sign)}, {points(max(of(name + '_high')), sign)}]"


def seeds(rows, name):
    """How many seeds' differences are significant after correction, up and down."""
    up = sum(float(r[f"d_{name}_p_holm"]) <= 0.05 and float(r[f"d_{name}_value"]) > 0 for r in rows)
    down = sum(float(r[f"d_{name}_p_holm"]) <= 0.05 and float(r[f"d_{name}_value"]) < 0 for r in rows)
    return f"{up} up, {down} down"


def by_design():
    columns = ["design (seeds)", "prompts", "tokens per answer", "mean %", "worst phase %", "gap"]
    for name in ("mean", "worst phase", "gap"):
        columns += [f"{name}, difference", "significant"]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    groups = {}
    for row in read():
        design, found, _ = row["model"].partition("-seed")
        if found:
            groups.setdefault(design, {}).setdefault(row["mitigation"], []).append(row)
    for design, mitigations in sorted(groups.items(), key=lambda g: g[0].startswith("full")):
        everything = [r for rows in mitigations.values() for r in rows]
        ceiling = at_ceiling(everything)
        for mitigation, rows in mitigations.items():
            if ceiling and mitigation not in ("plain", "restate"):
                continue
            names = [f"{design} ({len(rows)})" if mitigation == "plain" else "", mitigation]
            tokens = f"{sum(float(r['tokens_per_answer']) for r in rows) / len(rows):.0f}"
            if ceiling and mitigation == "restate":
                names[1], tokens = f"all {len(mitigations) - 1} others", "as above"
            cells = names + [tokens] + [over_seeds(rows, name) for name in ("mean", "worst", "gap")]
            for name in ("mean", "worst", "gap"):
                cells += ["", ""] if mitigation == "plain" else [over_seeds(rows, f"d_{name}", "+"), seeds(rows, name)]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def main():
    if len(sys.argv) > 1:
        write_csv([pathlib.Path(path) for path in sys.argv[1:]])
    write_tables(ROOT / "docs" / "mitigations.md",
                 {"prompts: chunked-w4s4": lambda: one_model("chunked-w4s4", "full-attention"),
                  "prompts: designs": by_design})


if __name__ == "__main__":
    main()
