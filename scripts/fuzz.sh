#!/bin/sh
# Fuzzes with libFuzzer and a stable compiler: cargo-fuzz's coverage flags without its nightly-only sanitizer.
#
# usage: scripts/fuzz.sh list                     the targets
#        scripts/fuzz.sh build                    only build them, for short runs
#        scripts/fuzz.sh SECONDS [TARGET]         run one, or each, for so long
#
# Starts from fuzz/seeds/TARGET/ and what earlier runs found (fuzz/corpus/TARGET/, not committed); an input that
# makes a target fail is kept in fuzz/artifacts/TARGET/.
set -eu
cd "$(dirname "$0")/.."

targets() { sed -n '/^\[\[bin\]\]/,/^$/ s/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml; }

host=$(rustc -vV | sed -n 's/^host: //p')
directory=${CARGO_TARGET_DIR:+$CARGO_TARGET_DIR/fuzz}
directory=${directory:-fuzz/target}
# Runs shorter than this many seconds take less time than an optimiser would.
short=30
profile=release
case ${1:-} in
build) profile=short ;;
'' | *[!0-9]*) ;;
*) [ "$1" -ge $short ] || profile=short ;;
esac

build() {
	# `--target` keeps these flags away from build scripts. Overflow and debug assertions are on: they are findings.
	RUSTFLAGS="-Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares \
-Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
-Cdebug-assertions -Coverflow-checks --cfg fuzzing" \
		cargo build --quiet --profile "$profile" --manifest-path fuzz/Cargo.toml --target "$host" --target-dir "$directory" --bins
}

run_one() {
	target=$1
	mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
	set -- "fuzz/corpus/$target"
	if [ -d "fuzz/seeds/$target" ]; then set -- "$@" "fuzz/seeds/$target"; fi
	log=$(mktemp)
	status=0
	# An input that takes 25 s or 2 GiB is a finding: a parser that hangs, or memory that input can claim.
	"$directory/$host/$profile/$target" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix="fuzz/artifacts/$target/" "$@" >"$log" 2>&1 || status=$?
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
	coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
	if [ "$status" != 0 ]; then
		tail -n 30 "$log"
		echo "fuzz $target: FAILED after ${runs:-?} inputs; the input is in fuzz/artifacts/$target/"
	elif [ -z "$coverage" ] || [ "$coverage" = 0 ]; then
		echo "fuzz $target: FAILED: the build counts no coverage, so the fuzzer was blind"
		status=1
	else
		echo "fuzz $target: $runs inputs, $coverage edges covered"
	fi
	rm -f "$log"
	return "$status"
}

case ${1:-} in
list) targets ;;
build) build ;;
'' | *[!0-9]*)
	sed -n 's/^# usage: /usage: /p; s/^#        /       /p' "$0" >&2
	exit 2
	;;
*)
	seconds=$1
	if [ -n "${2:-}" ] && ! targets | grep -qx "$2"; then
		echo "fuzz.sh: no target '$2'; there are: $(targets | tr '\n' ' ')" >&2
		exit 2
	fi
	build
	status=0
	for name in ${2:-$(targets)}; do run_one "$name" || status=1; done
	exit "$status"
	;;
esac
