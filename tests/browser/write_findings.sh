#!/bin/sh
# Writes the pages of theory and, with MODELS, of every look into a checkpoint, for check_findings.mjs.
# Usage: write_findings.sh PROGRAM FOLDER [MODELS]
set -e
program=$1 out=$2 models=$3
rm -rf "$out"
mkdir -p "$out"
"$program" theory --stride 4 --heads 2 --records 4 --vocabulary 1024 --runs 60 --other-runs 0 --gated-runs 10 \
  --sgd-runs 1 --rules 2 --optimised 2 --time 8000 --no-broken --quiet --out "$out/theory" >"$out/theory.txt"
[ -n "$models" ] || exit 0
look() { # COMMAND CHECKPOINT NAME [OPTION...]
  command=$1 checkpoint=$2 name=$3
  shift 3
  "$program" "$command" "$checkpoint" --modulus 8 --items 24 --threads 1 -q --out "$out/$name" "$@" >"$out/$name.txt"
}
control=$models/full-attention
for command in knockout cycle readout gates; do
  more=
  [ $command = readout ] && more='--calibration 32'
  [ $command = cycle ] && more='--delta -1..1'
  look $command "$control" "$command-control" --stride 4 $more
  look $command "$models/chunked-w4s4" $command --control "$out/$command-control" $more
done
# Gates that a training logged.
"$program" train --recipe small-wc --steps 40 --set batch=8 --trace-gates 5 -q --out "$out/training" >"$out/training.txt"
look gates "$out/training" gates-traced
