#!/usr/bin/env bash
# The long repetitions in full: every test with `soak` in its name, optimised (profile `soak`), with WEIR_SOAK=1, which
# such tests read to run their full counts (`./run test` runs them reduced; both print the count). Only programs of
# tests that have such a test are built. The result, with its commit, is kept in docs/soak.txt.
# With a name as argument: only tests that have it in theirs; the result is kept in docs/soak-NAME.txt.
# WEIR_SOAK_PROFILE: another of Cargo's profiles, as "release".
set -euo pipefail
cd "$(dirname "$0")/.."

name=${1:-soak}
profile=${WEIR_SOAK_PROFILE:-soak}
result=docs/soak${1:+-$1}.txt
log=${CARGO_TARGET_DIR:-target}/soak.log
mkdir -p docs "$(dirname "$log")"
echo "soak: full repetitions; this takes long. Everything printed is in $log"
from=$SECONDS
status=0
# Before the result is written, which changes the tree.
commit=$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
# Their file is their program of tests: crates/CRATE/tests/PROGRAM.rs, or of a folder that this one names.
programs=()
for file in crates/*/tests/*.rs; do
	modules=$(sed -n "s|^mod \([a-z_]*\);|${file%/*}/\1|p" "$file")
	# shellcheck disable=SC2086 # A list of folders.
	grep -rqs "fn [a-z0-9_]*$name" "$file" $modules || continue
	crate=${file#crates/}
	programs+=(-p "${crate%%/*}" --test "$(basename "$file" .rs)")
done
WEIR_SOAK=1 CARGO_TERM_COLOR=never cargo test --locked --profile "$profile" --no-fail-fast "${programs[@]}" -- \
	--show-output --test-threads=1 "$name" 2>&1 | tee "$log" | grep -E '^(test .*(ok|FAILED)$|soak:)|SKIPPED: ' || true
grep -q "^test .*$name" "$log" || { echo "soak: no test ran; see $log"; exit 1; }
if grep -qE '^error|^test .* FAILED$|^test result: FAILED' "$log"; then status=1; fi

{
	echo "# The last full run of ./run soak${1:+ $1}"
	echo "commit: $commit"
	echo "date: $(date -u +%Y-%m-%dT%H:%M:%SZ)"
	echo "machine: $(uname -sr), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
	echo "compiler: $(rustc --version)"
	echo "profile: $profile"
	echo "took: $((SECONDS - from)) s"
	if [ "$status" = 0 ]; then echo "result: passed"; else echo "result: FAILED"; fi
	echo
	# Each test with its outcome, then what each said, which follows all outcomes of its program.
	awk -v name="$name" '$1 == "test" && $2 ~ name { print }
		/^---- .* stdout ----$/ { test = $2 }
		test != "" && (/^soak:/ || /SKIPPED: /) { print "  " test ": " $0 }' "$log"
} >"$result"
cat "$result"
exit $status
