#!/usr/bin/env python3
"""The tables of docs/model_mitigations.md, between its <!-- NAME --> and <!-- end --> lines, from
docs/mitigations/table.csv, pairs.csv and pairs_unchanged.csv.

  tools/mitigation_tables.py                   # writes the tables
  tools/mitigation_tables.py ALL OTHERS...     # first writes the files from folders of `kvphase compare`

ALL compares every study; its table.csv and pairs.csv are taken as they are. OTHERS compare runs with
a reference that ALL does not pair them with (the docs have the lines): their pairs become
pairs_unchanged.csv, with Holm's correction over all of them anew, and runs that ALL does not have
(layers/GRID-seedN) become rows of table.csv.
"""
import csv
import pathlib
import re
import sys

from markdown_tables import write_tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "mitigations"
PADDINGS = ("prefix", "in-sequence")


def read(name):
    return read_file(FOLDER / name)


def write(name, rows):
    with open(FOLDER / name, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def holm(rows):
    """Sets the corrected p-values of all tests of all rows."""
    cells = [(float(row[key]), row, key + "_holm") for row in rows
             for key in ("mean_p", "worst_p", "gap_p", "p_items") if row[key] != ""]
    running = 0
    for i, (p, row, key) in enumerate(sorted(cells, key=lambda cell: cell[0])):
        running = max(running, min(1, p * (len(cells) - i)))
        row[key] = running


def name_layers(text):
    """A run of the study by layer, which no design names, in a study's words."""
    return re.sub(r".*layers/(\w+)-seed(\d+)/(.*)", lambda m: f"main-cc-{m[1]}-seed{m[2]}/{m[3]}", text)


def merge(everything, others):
    rows = read_file(everything / "table.csv")
    pairs = []
    for folder in others:
        new = read_file(folder / "pairs.csv")
        runs = {r["name"]: r for r in read_file(folder / "table.csv") if r["published"] == "0"}
        lengths = len({r["training_steps"] for r in runs.values()})
        for pair in new:
            if runs[pair["run"]]["padding"] not in PADDINGS:
                continue
            for side in ("run", "reference"):
                pair[side] = name_of_steps(runs[pair[side]], lengths)
            pairs.append(pair)
        for row in runs.values():
            if "layers/" not in row["folder"]:
                continue
            row["name"] = name_layers(row["name"])
            row["design"] = row["name"].partition("-seed")[0]
            rows.append(row)
    holm(pairs)
    pairs.sort(key=lambda pair: not pair["run"].endswith("/prefix"))
    write("table.csv", rows)
    write("pairs.csv", read_file(everything / "pairs.csv"))
    write("pairs_unchanged.csv", pairs)


def name_of_steps(run, lengths):
    if "layers/" in run["folder"]:
        return name_layers(run["name"])
    length = f", {run['training_steps']} steps" if lengths > 1 else ""
    return f"{run['design']}{length}-seed{run['seed']}/{run['padding']}"


def read_file(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def percent(value, sign=""):
    text = f"{100 * value:{sign}.1f}"
    return {"+-0.0": "0.0", "-0.0": "0.0", "+0.0": "0.0"}.get(text, text)


def mean(values):
    return sum(values) / len(values)


def spread(values, sign=""):
    """"57.3", or the least and the greatest value of several."""
    low, high = percent(min(values), sign), percent(max(values), sign)
    return low if low == high else f"{low} to {high}"


def with_interval(rows, key):
    """The seeds' values, and of their 95% intervals the lowest and the highest bound."""
    of = lambda name: [float(r[name]) for r in rows]
    return f"{spread(of(key))} [{percent(min(of(key + '_low')))}, {percent(max(of(key + '_high')))}]"


def groups():
    """Runs by design, variant and steps where these differ, ours only, in the order of the table."""
    rows = [r for r in read("table.csv") if r["published"] == "0" and r["padding"] in PADDINGS]
    steps = {}
    for r in rows:
        steps.setdefault((r["design"], r["variant"]), set()).add(r["training_steps"])
    found = {}
    for r in rows:
        label = ", ".join(filter(None, (r["design"], r["variant"])))
        if len(steps[(r["design"], r["variant"])]) > 1:
            label += f", {r['training_steps']} steps"
        found.setdefault(label, []).append(r)
    return found


def periods(rows):
    named = [r["period"] if r["verdict"] == "periodic" else "none" for r in rows]
    counts = {p: named.count(p) for p in dict.fromkeys(named)}
    return ", ".join(f"{p} ({n})" if len(counts) > 1 else p for p, n in counts.items())


def model_table():
    lines = ["| design | seeds | bytes / token | prefix: mean | worst residue | gap | period | in-sequence: mean | worst residue | gap | period | loss, nats |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for label, rows in groups().items():
        cells = []
        for padding in PADDINGS:
            mine = [r for r in rows if r["padding"] == padding]
            if not mine:
                cells += ["-"] * 4
                continue
            cells += [percent(mean([float(r["mean"]) for r in mine])), with_interval(mine, "worst"), with_interval(mine, "gap"),
                      periods(mine)]
        seeds = sorted({r["seed"] for r in rows})
        loss = mean([float(r["training_loss"]) for r in rows])
        lines.append(f"| {label} | {len(seeds)} | {float(rows[0]['bytes_per_token']):.0f} | " + " | ".join(cells) + f" | {loss:.2f} |")
    return lines


def significant(pairs, key):
    """In how many of the pairs a difference is significant after correction, up and down."""
    known = [p for p in pairs if p[f"{key}_p_holm"] != ""]
    up = sum(float(p[f"{key}_p_holm"]) <= 0.05 and float(p[key]) > 0 for p in known)
    down = sum(float(p[f"{key}_p_holm"]) <= 0.05 and float(p[key]) < 0 for p in known)
    text = ", ".join(f"{n} {way}" for n, way in ((up, "up"), (down, "down")) if n) or "0"
    return f"{text} of {len(pairs)}"


def lines_of_pairs(found):
    lines = ["| design | against | padding | worst phase, points (by seed) | 95% | significant | gap, points (by seed) | 95% | significant | mean, points |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for (design, _, reference, padding), pairs in found.items():
        cells = [design, reference, padding]
        for key in ("worst", "gap"):
            of = lambda name: [float(p[name]) for p in pairs if p[name] != ""]
            bounds = f"{percent(min(of(key + '_low')), '+')} to {percent(max(of(key + '_high')), '+')}" if of(key + "_low") else "-"
            cells += [" ".join(percent(v, "+") for v in of(key)), bounds, significant(pairs, key)]
        cells.append(spread([float(p["mean"]) for p in pairs], "+"))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def pair_table():
    runs = {r["name"]: r for r in read("table.csv")}
    found = {}
    for pair in read("pairs.csv"):
        run, reference = runs[pair["run"]], runs[pair["reference"]]
        if pair["rule"] == "control" or run["padding"] not in PADDINGS:
            continue
        name = lambda r: ", ".join(filter(None, (r["design"], r["variant"])))
        key = (name(run), run["training_steps"], name(reference), run["padding"])
        found.setdefault(key, []).append(pair)
    return lines_of_pairs(found)


def unchanged_table():
    found = {}
    for pair in read("pairs_unchanged.csv"):
        design, padding = re.fullmatch(r"(.*)-seed\d+/(.*)", pair["run"]).groups()
        reference = pair["reference"].partition("-seed")[0]
        found.setdefault((design, "", reference, padding), []).append(pair)
    return lines_of_pairs(found)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        merge(pathlib.Path(sys.argv[1]), [pathlib.Path(folder) for folder in sys.argv[2:]])
    write_tables(ROOT / "docs" / "model_mitigations.md",
                 {"models": model_table, "model-pairs": pair_table, "unchanged-pairs": unchanged_table})
