#!/bin/bash
# replay.sh SIMULATION SEED...: runs each seed twice, with the heap elsewhere and other options of
# the command line, and compares what is told of it, line by line.
set -euo pipefail
simulation=$1
shift
told() { sed 's/weft-sim\.[0-9]*/weft-sim/g' | grep -v ' of 1 seeds'; }
for seed; do
  one=$("$simulation" --seed "$seed" --trace 2>&1 | told)
  other=$(GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.perturb=85 \
    MALLOC_TOP_PAD_=1000000 "$simulation" --trace --jobs 1 --seed "$seed" 2>&1 | told)
  if [[ "$one" != "$other" ]]; then
    echo "seed $seed goes two ways:"
    diff <(echo "$one") <(echo "$other") | head -20
    exit 1
  fi
  echo "seed $seed: $(wc -l <<< "$one") lines, the same twice"
done
