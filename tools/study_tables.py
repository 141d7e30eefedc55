#!/usr/bin/env python3
"""The tables of docs/study.md, between its <!-- NAME --> and <!-- end --> lines, from docs/study/*.csv
and claims.md as `kvphase compare` writes them.

  tools/study_tables.py
"""
import csv
import pathlib
import re

from markdown_tables import write_tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
PADDINGS = ("prefix", "in-sequence", "around-target")


def runs():
    with open(ROOT / "docs" / "study" / "table.csv", newline="") as file:
        return list(csv.DictReader(file))


def number(text):
    return float(text) if text else None


def mean(values):
    values = [v for v in values if v is not None]
    return sum(values) / len(values) if values else None


def percent(value):
    return "-" if value is None else f"{100 * value:.1f}"


def family(rows):
    """Runs of the commonest length of training by design, in the order of the table."""
    designs = {}
    rows = [r for r in rows if r.get("variant", "") == ""]
    lengths = [int(r["training_steps"]) for r in rows if r["published"] == "0"]
    steps = max(set(lengths), key=lengths.count)
    for row in rows:
        if row["published"] == "0" and int(row["training_steps"]) == steps:
            designs.setdefault(row["design"], []).append(row)
    return designs


def of(rows, padding):
    return [r for r in rows if r["padding"] == padding]


def three(rows):
    return ", ".join(percent(mean(number(r[key]) for r in rows)) for key in ("mean", "worst", "gap"))


def named(rows):
    periods = [r["period"] for r in rows if r["verdict"] == "periodic"]
    counts = {p: periods.count(p) for p in dict.fromkeys(periods)}
    return ", ".join(f"{p} ({n})" for p, n in counts.items()) or "none"


def accuracy_table():
    rows = runs()
    published = {r["design"]: r for r in rows if r["published"] == "1" and r["padding"] == "prefix"
                 and r["seed"] in ("", "42")}
    head = "".join(f" {padding}: mean, worst, gap | period (runs) |" for padding in PADDINGS)
    lines = [f"| design | bytes / token |{head} published (prefix): mean, worst, gap | seconds |",
             "|---|---|" + "---|---|" * len(PADDINGS) + "---|---|"]
    for design, group in family(rows).items():
        cells = [f"{three(of(group, padding))} | {named(of(group, padding))}" for padding in PADDINGS]
        theirs = three([published[design]]) if design in published else ""
        seconds = sorted(float(r["training_seconds"]) for r in of(group, "prefix"))
        lines.append(f"| {design} | {float(group[0]['bytes_per_token']):.0f} | " + " | ".join(cells)
                     + f" | {theirs} | {seconds[len(seconds) // 2]:.0f} |")
    return lines


def seed_table():
    lines = ["| design | " + " | ".join(f"seed {seed}" for seed in ("42", "43", "44")) + " |",
             "|---|---|---|---|"]
    for design, group in family(runs()).items():
        cells = []
        for seed in ("42", "43", "44"):
            mine = [r for r in of(group, "prefix") if r["seed"] == seed]
            if not mine:
                cells.append("-")
                continue
            row = mine[0]
            text = f"{percent(number(row['mean']))}, {percent(number(row['worst']))}"
            if row["worst_phase"] != "":
                text += f" (phase {row['worst_phase']}: {percent(number(row['worst_phase_accuracy']))})"
            cells.append(text)
        lines.append(f"| {design} | " + " | ".join(cells) + " |")
    return lines


def claims_table():
    lines = ["| claim | here | how often |", "|---|---|---|"]
    text = (ROOT / "docs" / "study" / "claims.md").read_text()
    for row in re.findall(r"^\| \*\*.*$", text, re.M):
        lines.append(row)
    return lines


TABLES = {"accuracy": accuracy_table, "seeds": seed_table, "claims": claims_table}


if __name__ == "__main__":
    write_tables(ROOT / "docs" / "study.md", TABLES)
