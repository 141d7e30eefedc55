#!/bin/sh
# The 128K-token plan end to end: 16,000 records in 130,000 tokens through a real llama.cpp. The model has
# random weights (its answers are wrong; positions, cache, cost and journal are what is shown). About
# 5 minutes on 2 cores. Usage: tests/llama_cpp/long_context.sh NEW_FOLDER   (after ./test or a release build)
set -eu
out=${1:?usage: long_context.sh NEW_FOLDER}
cd "$(dirname "$0")/../.."
bin=build/release/bin
mkdir "$out"
$bin/make_full_checkpoint words "$out/words"
$bin/kvphase export "$out/words" --format gguf --out "$out/words.gguf" >/dev/null
mkfifo "$out/hold"
third_party/python/venv/bin/python tests/llama_cpp/long_context_server.py "$out/words.gguf" 140000 \
  <"$out/hold" >"$out/url" 2>"$out/server.log" &
exec 3>"$out/hold" # the server ends when this does
while ! grep -q http "$out/url"; do sleep 0.2; done
status=0
$bin/kvphase audit "$(head -n 1 "$out/url")" --task records --records 16000 --haystack 130000 --modulus 8 \
  --items 16 --per-haystack 16 --timeout 600 --out "$out/run" || status=$?
echo "exit code $status (3: the model has not learned the task, as expected of random weights)"
exec 3>&-
wait
