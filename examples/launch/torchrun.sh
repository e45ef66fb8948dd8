#!/bin/sh
# A run on the processes that torchrun starts on this machine. On several machines, start this file on each of them with
#   --nnodes 2 --rdzv-backend c10d --rdzv-endpoint FIRST_HOST:29400 --rdzv-id my_run
# in place of --standalone. docs/scale.md says what troupe reads from torchrun.
#
# A signal to torchrun (TERM, Ctrl-C) ends the run with a checkpoint, and the same line resumes it.

# Change this line: the config and the flags of `troupe train`.
train="cartpole --run runs/cartpole_ranks"

# Without the --, torchrun would take --run for a flag of its own.
exec torchrun --standalone --no-python --nproc-per-node "${RANKS:-2}" -- troupe train $train
