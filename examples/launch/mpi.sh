#!/bin/sh
# A run on the processes that mpirun (Open MPI) starts on this machine. On several machines, add
#   --hostfile HOSTS -x TROUPE_RANK0=FIRST_HOST:5599
# where FIRST_HOST is the first one in HOSTS. With more ranks than cores add --oversubscribe; root also needs
# --allow-run-as-root. docs/scale.md says what troupe reads from mpirun.
#
# --bind-to none: by default Open MPI binds a process to one core, with all its workers and inference actors.
#
# When mpirun gets TERM or Ctrl-C, it kills its processes within two seconds. It passes USR1 on to them, at which a run writes a
# checkpoint and ends; so this file sends it USR1 instead. With setsid mpirun does not get Ctrl-C itself.

# Change this line: the config and the flags of `troupe train`.
train="cartpole --run runs/cartpole_ranks"

setsid mpirun --bind-to none -n "${RANKS:-2}" troupe train $train &
mpirun=$!
trap 'kill -USR1 "$mpirun"' INT TERM
while :; do
  wait "$mpirun"
  code=$?
  kill -0 "$mpirun" 2>/dev/null || exit "$code"
done
