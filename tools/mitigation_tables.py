#!/usr/bin/env python3
"""The tables of docs/model_mitigations.md, between its <!-- NAME --> and <!-- end --> lines, from
docs/mitigations/table.csv and pairs.csv as `kvphase compare` writes them.

  tools/mitigation_tables.py
"""
import csv
import pathlib

from markdown_tables import write_tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "mitigations"
PADDINGS = ("prefix", "in-sequence")


def read(name):
    with open(FOLDER / name, newline="") as file:
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
    lines = ["| design | seeds | bytes / token | prefix: mean, worst residue, gap | period | in-sequence: mean, worst, gap | period | loss, nats |",
             "|---|---|---|---|---|---|---|---|"]
    for label, rows in groups().items():
        cells = []
        for padding in PADDINGS:
            mine = [r for r in rows if r["padding"] == padding]
            if not mine:
                cells += ["-", "-"]
                continue
            of = lambda key: [float(r[key]) for r in mine]
            cells += [f"{percent(mean(of('mean')))}, {spread(of('worst'))}, {spread(of('gap'))}", periods(mine)]
        seeds = sorted({r["seed"] for r in rows})
        loss = mean([float(r["training_loss"]) for r in rows])
        lines.append(f"| {label} | {len(seeds)} | {float(rows[0]['bytes_per_token']):.0f} | " + " | ".join(cells) + f" | {loss:.2f} |")
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
    lines = ["| design | against | padding | worst phase, points (by seed) | 95% | gap, points | mean, points | p of the worst phase, Holm |",
             "|---|---|---|---|---|---|---|---|"]
    for (design, _, reference, padding), pairs in found.items():
        of = lambda key: [float(p[key]) for p in pairs if p[key] != ""]
        by_seed = " ".join(percent(v, "+") for v in of("worst"))
        bounds = f"{percent(min(of('worst_low')), '+')} to {percent(max(of('worst_high')), '+')}" if of("worst_low") else "-"
        p = of("worst_p_holm")
        largest = "-" if not p else "< 0.001" if max(p) < 0.001 else f"{min(p):.2g} to {max(p):.2g}" if len(p) > 1 else f"{p[0]:.2g}"
        lines.append(f"| {design} | {reference} | {padding} | {by_seed} | {bounds} | {spread(of('gap'), '+')} | {spread(of('mean'), '+')} | {largest} |")
    return lines


if __name__ == "__main__":
    write_tables(ROOT / "docs" / "model_mitigations.md", {"models": model_table, "model-pairs": pair_table})
