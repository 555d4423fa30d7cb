#!/usr/bin/env bash
# The long repetitions in full: every test with `soak` in its name, built for release, with WEIR_SOAK=1, which such
# tests read to run their full counts (`./run test` runs them reduced; both print the count). The result, with its
# commit, is kept in docs/soak.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

log=${CARGO_TARGET_DIR:-target}/soak.log
mkdir -p docs "$(dirname "$log")"
echo "soak: full repetitions; this takes long. Everything printed is in $log"
from=$SECONDS
status=0
WEIR_SOAK=1 CARGO_TERM_COLOR=never cargo test --locked --release --workspace --no-fail-fast --tests -- \
	--show-output --test-threads=1 soak 2>&1 | tee "$log" | grep -E '^(test .*(ok|FAILED)$|soak:)|SKIPPED: ' || true
grep -q '^test .*soak' "$log" || { echo "soak: no test ran; see $log"; exit 1; }
if grep -qE '^error|^test .* FAILED$|^test result: FAILED' "$log"; then status=1; fi

{
	echo "# The last full run of ./run soak"
	echo "commit: $(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)"
	echo "date: $(date -u +%Y-%m-%dT%H:%M:%SZ)"
	echo "machine: $(uname -sr), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
	echo "compiler: $(rustc --version)"
	echo "took: $((SECONDS - from)) s"
	if [ "$status" = 0 ]; then echo "result: passed"; else echo "result: FAILED"; fi
	echo
	grep -E '^test .*soak|^soak:|SKIPPED: ' "$log" | sort -u
} >docs/soak.txt
cat docs/soak.txt
exit $status
