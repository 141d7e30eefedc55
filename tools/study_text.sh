#!/bin/sh
# The study of docs/study_text.md: text from Debian packages, a pair of models trained on it, an audit by phase of each.
# Safe to run again: what is finished is kept, what was interrupted is resumed.
# Usage: tools/study_text.sh FOLDER STEPS [JOB...]     a JOB is text- or mixture- and a name in docs/study_text, e.g. text-w8s8
# Without a JOB: text-full, text-w8s8 and every mixture.
set -eu
if [ $# -lt 2 ]; then
  sed -n '2,5s/^# //p' "$0" >&2
  exit 2
fi
kvphase=${KVPHASE:-$(cd "$(dirname "$0")/.." && pwd)/build/release/bin/kvphase}
configs=$(cd "$(dirname "$0")/.." && pwd)/docs/study_text
steps=$2
mkdir -p "$1/debs"
folder=$(cd "$1" && pwd)
shift 2

# Free text that Debian 12 ships as it was written (POD, reStructuredText, AsciiDoc); the packages are unpacked, not installed.
if [ ! -d "$folder/source" ]; then
  (cd "$folder/debs" && apt-get download perl-doc python3.11-doc git-doc debian-policy developers-reference)
  rm -rf "$folder/source.part"
  for deb in "$folder"/debs/*.deb; do dpkg-deb -x "$deb" "$folder/source.part"; done
  (cd "$folder/debs" && sha256sum -- *.deb) > "$folder/debs.sha256"
  mv "$folder/source.part" "$folder/source"
fi
if [ ! -d "$folder/tokens" ]; then
  (cd "$folder" && "$kvphase" tokens source --extension pod --extension txt --out tokens)
fi

train() {  # JOB CONFIG LOOKUP_SHARE
  cd "$folder"  # train.json names the text as it is named here
  if [ -d "$1" ]; then
    "$kvphase" train --resume "$1"
  else
    "$kvphase" train --recipe small-wf --model "$configs/$2.json" --steps "$steps" --seed 1 --threads 1 \
      --set data.text='["tokens"]' --set data.sequence=64 --set data.lookup_share="$3" \
      --set batch=32 --set learning_rate=0.003 --set warmup_steps=50 --out "$1"
  fi
  stride=
  [ "$2" != full ] || stride="--stride 8"  # a chunked model knows its own
  for padding in prefix in-sequence; do
    if [ ! -d "audit-$1-$padding" ]; then
      "$kvphase" audit "$1" --task lookup --padding $padding --modulus 16 $stride --demonstrations 2 --items 576 --threads 1 --seed 1 \
        --out "audit-$1-$padding" || [ $? -eq 3 ]
    fi
  done
}

[ $# -gt 0 ] || set -- text-full text-w8s8 mixture-full mixture-w8s8 mixture-w4s4 mixture-w4s4-staggered mixture-w8s8-4kv mixture-w8s8-4kv-staggered
for job in "$@"; do
  model=${job#*-}
  if [ ! -f "$configs/$model.json" ]; then
    echo "study_text.sh: expected a model of $configs, got '$model' of '$job'" >&2
    exit 2
  fi
  case $job in
    text-*) train "$job" "$model" 0 ;;
    mixture-*) train "$job" "$model" 0.75 ;;
    *) echo "study_text.sh: expected text-... or mixture-..., got '$job'" >&2; exit 2 ;;
  esac
done
