# Shared by the scripts in this folder (source it): messages with elapsed seconds, quiet steps, configure and build.
# shellcheck shell=bash

set -euo pipefail

TROUPE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TROUPE_VENV=$TROUPE_ROOT/.venv
cd "$TROUPE_ROOT"

# Prints one line with the seconds since the script started.
say() { printf '[%4ds] %s\n' "$SECONDS" "$*"; }

# die MESSAGE [CODE]: prints one line on stderr and exits. 1 = a problem of this machine or tree, 2 = of the command line.
die() {
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
  exit "${2:-1}"
}

[[ ${TROUPE_JOBS:-1} =~ ^[1-9][0-9]*$ ]] || die "TROUPE_JOBS is '$TROUPE_JOBS', expected a number of processes" 2

# report_tail LOG: prints the last line of LOG every 15 s, until it is killed.
report_tail() {
  local line
  # Whoever reads our output would wait for a sleep that outlives this function. It ends with the script, however that ends.
  while sleep 15 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    line=$(tail -c 400 "$1" | tr '\r' '\n' | tail -n 1)
    say "  ... ${line:0:110}"
  done
}

# quietly LOG COMMAND...: runs it with its output in LOG; prints the last line now and then, and the last 40 on failure.
quietly() {
  local log=$1 reporter status=0
  shift
  mkdir -p "$(dirname "$log")"
  : >"$log"
  report_tail "$log" 9>&- &  # without the lock of tools/setup, because its sleep outlives it
  reporter=$!
  # The command stays in the foreground, so that Ctrl-C reaches it.
  "$@" >"$log" 2>&1 </dev/null || status=$?
  { kill "$reporter" && wait "$reporter"; } 2>/dev/null || true
  if ((status != 0)); then
    tail -n 40 "$log" >&2
    printf '%s: %s failed with status %d; the whole output is in %s\n' "$(basename "$0")" "$1" "$status" "$log" >&2
  fi
  return "$status"
}

# The number of compiler processes at a time: TROUPE_JOBS, else one per core, as far as memory allows (1.5 GB for a file that
# includes LibTorch).
build_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo)
  echo "${TROUPE_JOBS:-$((memory < 1 ? 1 : memory < cores ? memory : cores))}"
}

# build PRESET "CMAKE OPTIONS" [TARGET...]: configures and builds; without targets, everything.
build() {
  local preset=$1 options=$2 started=$SECONDS targets=()
  shift 2
  (($# == 0)) || targets=(--target "$@")
  if [[ -n ${CI:-} ]]; then options+=" -DTROUPE_WERROR=ON"; fi
  say "configuring build/$preset"
  # shellcheck disable=SC2086  # options are words
  quietly "build/$preset/configure.log" cmake --preset "$preset" $options || return 1
  grep -h '^-- troupe: ' "build/$preset/configure.log" | sed 's/^-- troupe: /         /' || true
  say "building $preset ($(build_jobs) at a time; the log is build/$preset/build.log)"
  quietly "build/$preset/build.log" cmake --build "build/$preset" -j "$(build_jobs)" "${targets[@]}" || return 1
  say "built in $((SECONDS - started)) s"
}
