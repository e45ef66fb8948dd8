#!/bin/sh
# A Python in which numpy is missing.
shift  # -u
exec "${TROUPE_PYTHON:-python3}" -c '
import runpy, sys
sys.modules["numpy"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")' "$@"
