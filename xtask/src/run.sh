#!/usr/bin/env bash
# Runs the bundle on a machine with an NVIDIA GPU; neither Rust nor CUDA is needed (the sanitizer is CUDA's own).
#
#   ./run.sh [all|info|check|tests|bench|tutorial|sanitizer]     without an argument: all but the sanitizer
#
# Each step writes its log to $OUT (./out), prints one line, PASS or FAIL with its seconds, and may take $LIMIT
# seconds (600). The exit status is 0 when all passed, 1 when one failed, 2 for an unknown step. $DEVICE is cuda:0.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

OUT="${OUT:-out}"
LIMIT="${LIMIT:-600}"
DEVICE="${DEVICE:-cuda:0}"
mkdir -p "$OUT"
OUT="$(cd "$OUT" && pwd)"

# Where the tests find their data and the program. A GPU must be there, and the sweep over the cases is the full one.
export HOST_TEST_DATA="$PWD/tests/data"
export HOST_BIN="$PWD/host"
export HOST_TEST_GPU=require
export HOST_TEST_SWEEP=full

failed=0

# step NAME COMMAND...: the log is $OUT/NAME.log.
step() {
    local name="$1" start=$SECONDS status=0
    shift
    timeout --kill-after=10 "$LIMIT" "$@" >"$OUT/$name.log" 2>&1 </dev/null || status=$?
    if [ "$status" -eq 0 ]; then
        echo "PASS $name $((SECONDS - start)) s"
    else
        failed=1
        echo "FAIL $name $((SECONDS - start)) s (exit status $status, see $OUT/$name.log)"
        tail -n 5 "$OUT/$name.log" | sed 's/^/    /'
    fi
}

tests() {
    local binary found=0
    for binary in tests/*; do
        if [ -f "$binary" ] && [ -x "$binary" ]; then
            found=1
            step "test-$(basename "$binary")" "./$binary"
        fi
    done
    if [ "$found" -eq 0 ]; then
        failed=1
        echo "FAIL tests 0 s (the bundle has none)"
    fi
}

sanitizer() {
    local program tool
    program="$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)"
    if [ ! -x "$program" ]; then
        failed=1
        echo "FAIL sanitizer 0 s (compute-sanitizer is neither on the PATH nor in /usr/local/cuda/bin)"
        return
    fi
    for tool in memcheck racecheck initcheck synccheck; do
        step "sanitizer-$tool" "$program" --tool "$tool" --error-exitcode 9 ./host check --device "$DEVICE" --quick
    done
}

info() { step info ./host info; }
check() { step check ./host check --device "$DEVICE"; }
bench() {
    rm -f "$OUT/bench.json"
    step bench ./host bench --device "$DEVICE" --json "$OUT/bench.json"
    if [ ! -s "$OUT/bench.json" ]; then
        failed=1
        echo "FAIL bench.json 0 s (the benchmark wrote none)"
    fi
}

tutorial() { step tutorial ./host tutorial all --device "$DEVICE" --overwrite -o "$OUT/tutorial"; }

case "${1:-}" in
    "") info; check; tests; bench; tutorial ;;
    all) info; check; tests; bench; tutorial; sanitizer ;;
    info | check | tests | bench | tutorial | sanitizer) "$1" ;;
    *)
        sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
exit "$failed"
