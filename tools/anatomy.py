#!/usr/bin/env python3
"""The runs behind docs/anatomy.md and its tables.

  tools/anatomy.py run KVPHASE STUDY OUT    every run below that OUT (a folder beside STUDY) lacks,
                                            on the checkpoints of a `kvphase family` STUDY (seeds 42
                                            to 44); each result.json to docs/study/anatomy/RUN.json
  tools/anatomy.py tables                   writes the tables of docs/anatomy.md, between its
                                            <!-- NAME --> and <!-- end --> lines, from those files
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

from markdown_tables import write_tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "study" / "anatomy"
SEEDS = (42, 43, 44)
EVERY_SEED = [
    ("knockout", "full-1kv", "--heads query"),
    ("knockout", "full-4kv", ""),
    ("knockout", "full-8kv", ""),
    ("knockout", "w8s8-1kv", "--heads query"),
    ("knockout", "w4s4-1kv", "--heads query"),
    ("knockout", "w8s8-2kv", ""),
    ("knockout", "w8s8-4kv", ""),
    ("knockout", "w8s8-8kv", ""),
    ("knockout", "w8s8-4kv-staggered", ""),
    ("gates", "w8s8-1kv", ""),
    ("gates", "w8s8-4kv", ""),
    ("gates", "w12s12-1kv", ""),
    ("cycle", "w8s8-1kv", "--delta -3..3"),
    ("cycle", "w8s8-4kv", "--delta -3..3"),
    ("cycle", "w8s8-4kv-staggered", "--delta -3..3"),
    ("cycle", "w12s12-1kv", "--delta -3..3"),
    ("cycle", "w4s4-1kv", "--delta -3..3"),
    ("cycle", "w8s4-1kv", "--delta -3..3"),
    ("cycle", "w8s6-1kv", "--delta -3..3"),
    ("readout", "full-4kv", ""),
    ("readout", "w8s8-1kv", ""),
    ("readout", "w8s8-4kv", ""),
    ("readout", "w12s12-1kv", ""),
]
ITEMS = {"knockout": 120, "cycle": 72, "readout": 48}
# (command, run, checkpoint, options); models/ has the demonstration's, family-short (beside STUDY, docs/study.md) controls
# that were stopped while they learn, so that their heads have something to lose.
OTHERS = [
    ("knockout", "knockout-short-full-1kv-seed42", "family-short/full-1kv-seed42/model", "--heads query"),
    ("knockout", "knockout-short-full-1kv-seed43", "family-short/full-1kv-seed43/model", "--heads query"),
    ("knockout", "knockout-short-full-1kv-seed44", "family-short/full-1kv-seed44/model", "--heads query"),
    ("knockout", "knockout-w8s8-1kv-seed44-480", "w8s8-1kv-seed44", "--heads query --items 480"),
    ("knockout", "knockout-w8s8-4kv-seed42-1000", "w8s8-4kv-seed42", "--items 1000"),
    ("knockout", "knockout-w8s8-4kv-seed43-1000", "w8s8-4kv-seed43", "--items 1000"),
    ("knockout", "knockout-w8s8-4kv-seed44-1000", "w8s8-4kv-seed44", "--items 1000"),
    ("cycle", "cycle-w8s4-1kv-seed42-stride", "w8s4-1kv-seed42", "--delta -3..3 --rotate stride"),
    ("knockout", "knockout-ref-chunked-w4s4", "models/chunked-w4s4", "--heads query"),
    ("knockout", "knockout-ref-full-attention", "models/full-attention", "--heads query --stride 4"),
]


def runs():
    """(run, command, checkpoint, options) in the order of the tables."""
    all_runs = [(f"{command}-{design}-seed{seed}", command, f"{design}-seed{seed}", options)
                for command, design, options in EVERY_SEED for seed in SEEDS]
    all_runs += [(run, command, checkpoint, options) for command, run, checkpoint, options in OTHERS]
    return all_runs


def run_all(program, study, out):
    home = study.parent  # recorded commands name all paths from here, so that a reader can type them
    (home / out).mkdir(parents=True, exist_ok=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    if not (home / "models").exists():
        (home / "models").symlink_to(ROOT / "models")
    for run, command, checkpoint, options in runs():
        folder = home / out / run
        model = checkpoint if "/" in checkpoint else f"{study.name}/{checkpoint}/model"
        if not (home / model / "card.json").exists():
            print(f"left out: {run}, no checkpoint {model} yet", flush=True)
            continue
        if not (folder / "result.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            asked = [program, command, model, "--threads", "1", "--out", f"{out}/{run}"]
            if command in ITEMS and "--items" not in options:
                asked += ["--items", str(ITEMS[command])]
            if command == "knockout" and "stride" not in options and "full-" in checkpoint:
                asked += ["--stride", "8"]
            asked += options.split()
            print(" ".join(asked[1:]), flush=True)
            done = subprocess.run(asked, cwd=home, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{run}: exit code {done.returncode}\n{done.stderr[-2000:]}")
        shutil.copy(folder / "result.json", RESULTS / f"{run}.json")


def percent(estimate, digits=1):
    if estimate is None or estimate.get("value") is None:
        return "-"
    text = f"{estimate['value']:.{digits}f}"
    if estimate.get("low") is None or estimate["low"] == estimate["high"]:
        return text
    return f"{text} [{estimate['low']:.{digits}f} to {estimate['high']:.{digits}f}]"


def link(run):
    return f"[{run}](study/anatomy/{run}.json)"


def rows_of(command):
    for run, kind, _, _ in runs():
        if kind == command and (RESULTS / f"{run}.json").exists():
            yield run, json.loads((RESULTS / f"{run}.json").read_text())


def folded(clean, stride):
    return [100 * sum(r["right"] for r in group) / sum(r["n"] for r in group)
            for group in ([r for r in clean if r["residue"] % stride == phase]
                          for phase in range(stride))]


def counted(tally):
    return "{significant} of {tested} ({all})".format(**tally)


def knockout_table():
    lines = ["| run | n | clean accuracy by phase, % | heads whose net change depends on phase, of those tested (all) | layers | "
             "heads, right answers alone | most phase-concentrated heads by net change: largest loss, % of clean accuracy; minus the "
             "mean loss, the phase chosen on other items |",
             "|---|---|---|---|---|---|---|"]
    for run, result in rows_of("knockout"):
        data = result["data"]
        net, lost = data["net_depends_on_phase"], data["loss_depends_on_phase"]
        named = [site for site in data["sites"] if not site["whole_layer"]
                 and site["depends_on_phase"]]
        named.sort(key=lambda site: -site["largest_loss_minus_mean_crossed"]["value"])
        text = "; ".join(
            f"{site['name']}: {percent(site['change_by_phase'][site['largest_loss_at_phase']])} at "
            f"phase {site['largest_loss_at_phase']}; {percent(site['largest_loss_minus_mean_crossed'])}"
            for site in named[:2])
        lines.append("| {} | {} | {} | {} | {} | {} | {} |".format(
            link(run), data["clean"][0]["n"], " ".join(f"{a:.1f}" for a in folded(data["clean"], data["stride"])),
            counted(net["heads"]), counted(net["layers"]), counted(lost["heads"]), text or "none"))
    return lines


def head_table():
    """Who covers which phase in one model: change by phase of every site of its chunked layer."""
    result = json.loads((RESULTS / "knockout-w8s8-4kv-seed42.json").read_text())
    stride = result["data"]["stride"]
    lines = ["| knocked out | " + " | ".join(str(phase) for phase in range(stride)) + " |",
             "|---" * (stride + 1) + "|"]
    for site in result["data"]["sites"]:
        if site["layer"] == 1:
            lines.append(f"| {site['name']} | "
                         + " | ".join(percent({"value": c["value"]}) for c in site["change_by_phase"])
                         + " |")
    return lines


def gate_table():
    lines = ["| run | gate | static | per window | peak offset | value lags key by |",
             "|---|---|---|---|---|---|"]
    for run, result in rows_of("gates"):
        for gate in result["data"]["gates"]:
            lag = "" if gate.get("value_lag") is None else (
                f"{gate['value_lag']} (r {gate['value_lag_correlation']:.2f})")
            lines.append(f"| {link(run)} | layer {gate['layer']} head {gate['head']} {gate['branch']} | "
                         f"{percent(gate['static_effective_offsets'], 2)} | "
                         f"{percent(gate['per_window_effective_offsets'], 2)} | "
                         f"{gate['peak_offset']} | {lag} |")
    return lines


DELTAS = (-3, -2, -1, 1, 2, 3)


def by_delta(data, text_of):
    """A cell per rotation; one that is the same as another names it."""
    texts = {delta["delta"]: text_of(delta) for delta in data["deltas"]}
    texts.update({same["delta"]: f"as {same['same_rotation_as']:+d}" for same in data["left_out"]})
    return " | ".join(texts.get(delta, "-") for delta in DELTAS)


def cycle_table():
    lines = ["| run | phases | -3 | -2 | -1 | +1 | +2 | +3 | all together | had the pattern vanished | in words |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]

    def fit(delta):
        # Where windows overlap no phase is a boundary, and all phases count.
        text = percent(delta["r_squared_without_boundary"] or delta["r_squared_all"], 2)
        correlation = delta["correlation"]["value"]
        return text + (" (inverted)" if correlation is not None and correlation < 0 else "")

    for run, result in rows_of("cycle"):
        data = result["data"]
        verb = re.search(r"(moves the pattern of accuracy as predicted|moves the pattern of accuracy in part|"
                         r"does not move|is not shown to move|gives no R\^2)", result["sentence"]).group(1)
        lines.append(f"| {link(run)} | {data['phases_compared']} | {by_delta(data, fit)} | "
                     f"{percent(data['pooled_r_squared'], 2)} | "
                     f"{percent(data['pooled_r_squared_had_it_vanished'], 2)} | "
                     f"{verb.replace(' the pattern of accuracy', '')} |")
    return lines


def cycle_more_table():
    lines = ["| run | | -3 | -2 | -1 | +1 | +2 | +3 |", "|---|---|---|---|---|---|---|---|"]
    for run, result in rows_of("cycle"):
        data = result["data"]
        for name, key in (("all phases", "r_squared_all"), ("interior", "r_squared_interior"),
                          ("had it vanished", "r_squared_had_it_vanished")):
            if any((d[key] or {}).get("value") is not None for d in data["deltas"]):
                lines.append(f"| {run} | {name} | " + by_delta(data, lambda d: percent(d[key], 2)) + " |")
        before = next(d for d in data["deltas"] if d["delta"] == 0)["mean_accuracy"]["value"]
        lines.append(f"| {run} | mean accuracy, %, {100 * before:.1f} before | "
                     + by_delta(data, lambda d: share(d["mean_accuracy"])) + " |")
    return lines


SHARES = ("not found", "not written", "not read out", "right by luck, other entry",
          "stays right, entry handed", "where wrong", "stays right, token handed", "other record's answer, its token")


def share(value):
    if value["value"] is None:
        return "-"
    return percent({key: 100 * value[key] for key in ("value", "low", "high") if value[key] is not None})


def readout_table():
    lines = ["| run | wrong of all | not found, % | not written, % | not read out, % | right by luck, % | "
             "right answers that stay right, entry handed, %: all phases | at the phases of wrong answers | token handed, % | "
             "answers another record's token, % |", "|---|---|---|---|---|---|---|---|---|---|"]
    for run, result in rows_of("readout"):
        total = result["data"]["phases"][-1]
        shares = {value["name"]: value for value in total["shares"]}
        shares["where wrong"] = result["data"]["stays_right_where_wrong"]
        lines.append(f"| {link(run)} | {total['wrong']:.0f} of {total['prompts']:.0f} | "
                     + " | ".join(share(shares[name]) for name in SHARES) + " |")
    return lines


def readout_phases():
    lines = []
    for run, result in rows_of("readout"):
        *phases, _ = result["data"]["phases"]
        if any(phase["wrong"] for phase in phases):
            lines.append(f"- {run}: " + "; ".join(
                f"{p['phase']}: {p['wrong']:.0f} = {p['not_found']:.0f} / {p['not_written']:.0f} / "
                f"{p['not_read_out']:.0f}" for p in phases))
    return lines


def command_table():
    lines = ["| run | command | commit |", "|---|---|---|"]
    for run, _, _, _ in runs():
        if not (RESULTS / f"{run}.json").exists():
            continue
        context = json.loads((RESULTS / f"{run}.json").read_text())["context"]
        lines.append(f"| {run} | `{context['command']}` | {context['commit']} |")
    return lines


TABLES = {"knockouts": knockout_table, "heads": head_table, "gates": gate_table,
          "cycle": cycle_table, "cycle more": cycle_more_table, "readout": readout_table,
          "readout phases": readout_phases,
          "commands": command_table}


if __name__ == "__main__":
    if sys.argv[1:] == ["tables"]:
        write_tables(ROOT / "docs" / "anatomy.md", TABLES)
    elif len(sys.argv) == 5 and sys.argv[1] == "run":
        run_all(str(pathlib.Path(sys.argv[2]).resolve()), pathlib.Path(sys.argv[3]).resolve(),
                pathlib.Path(sys.argv[4]).name)
    else:
        sys.exit(__doc__)
