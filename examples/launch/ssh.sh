#!/bin/sh
# A run on machines that ssh reaches without a password: one rank on each. The program, the config and this folder have to be at
# the same paths there; the run folder is written on the first one. Each process is told its rank by TROUPE_RANK, TROUPE_RANKS and
# TROUPE_RANK0, which are right for any other launcher too (docs/scale.md).
#
# Ctrl-C or TERM ends the run with a checkpoint, and the same line resumes it.

# Change these lines: the machines, and the config and the flags of `troupe train`.
hosts=${HOSTS:-"first.local second.local"}
train="cartpole --run runs/cartpole_ranks"

set -- $hosts
rank=0
for host in $hosts; do
  # With a terminal (-tt), the process there gets HUP when ssh ends here.
  ssh -tt "$host" "cd '$PWD' && TROUPE_RANK=$rank TROUPE_RANKS=$# TROUPE_RANK0=$1:5599 troupe train $train" </dev/null &
  processes="$processes $!"
  rank=$((rank + 1))
done
trap 'kill $processes' INT TERM
code=0
for process in $processes; do wait "$process" || code=$?; done
wait
exit "$code"
