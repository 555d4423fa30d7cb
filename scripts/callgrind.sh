#!/usr/bin/env bash
# Compares the instructions that each case of weir-dataplane's example `instructions` takes per frame with docs/callgrind-baseline.txt.
# More than 3 % above the baseline fails; a baseline is changed only with a reason, which stands beside it.
#
# usage: scripts/callgrind.sh                   compare
#        scripts/callgrind.sh build             only build what is counted
#        scripts/callgrind.sh write "REASON"    make today's numbers the baseline for this compiler
#
# A case runs with two counts of frames under callgrind, which counts while frames are carried and not while tables are made;
# the difference leaves the first bursts out, which are dearer. Instruction counts depend on the compiler, so the baseline
# has a section for each rustc that was measured; with another one there is nothing to compare with: exit status 77, and
# the last line says so.
set -euo pipefail
# What fails in a command substitution ends it.
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

baseline=docs/callgrind-baseline.txt
few=2000
many=6000
# Per cent above the baseline that a case may take.
allowed=3
# The example's function that is counted.
counted=carry_frames
program=${CARGO_TARGET_DIR:-target}/release/examples/instructions

cannot() {
	echo "$*"
	exit 77
}
cargo build --quiet --locked --release -p weir-dataplane --example instructions
[ "${1:-}" != build ] || exit 0
command -v valgrind >/dev/null || cannot "valgrind is not installed"

compiler=$(rustc --version | sed -n 's/^rustc \([0-9]*\.[0-9]*\).*/rustc \1/p')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

instructions() { # instructions CASE FRAMES
	valgrind --tool=callgrind --toggle-collect="*$counted*" --callgrind-out-file="$work/out" "$program" "$1" "$2" >"$work/log" 2>&1 || {
		tail -n 10 "$work/log" >&2
		return 1
	}
	# Nothing counted would be the fewest there can be.
	sed -n 's/^summary: \([1-9][0-9]*\).*/\1/p' "$work/out" | grep . || {
		echo "callgrind.sh: callgrind has counted nothing in $counted of $program" >&2
		return 1
	}
}

# Counts a case three times more with each number of frames, and prints what a frame takes: the fewest so far of each, as hash
# tables have seeds of their own in each process, and a rare one makes an insertion dear.
count() {
	for _ in 1 2 3; do
		instructions "$1" $few >>"$work/$1.few"
		instructions "$1" $many >>"$work/$1.many"
	done
	echo "$(sort -n "$work/$1.few" | head -n 1) $(sort -n "$work/$1.many" | head -n 1)" |
		awk -v frames=$((many - few)) '{ printf "%.1f\n", ($2 - $1) / frames }'
}

# The lines of this compiler's section: name, instructions per frame, reason.
section() {
	[ -e $baseline ] || return 0
	awk -v wanted="[$compiler]" '/^\[/ { inside = $0 == wanted; next } inside && NF && !/^#/' $baseline
}
section >"$work/old"

# Whether a case takes more than its line allows.
is_too_much() { # is_too_much CASE INSTRUCTIONS
	awk -v name="$1" -v now="$2" -v allowed=$allowed \
		'$1 == name && 100 * (now / $2 - 1) > allowed { found = 1 } END { exit !found }' "$work/old"
}

names=$("$program" | awk '{ print $1 }')
[ -n "$names" ] || { echo "$program names no case"; exit 1; }
for name in $names; do
	now=$(count "$name")
	# Seeds may have been rare ones: what is too much stays so however often it is counted.
	for _ in 1 2; do
		! is_too_much "$name" "$now" || now=$(count "$name")
	done
	echo "$name $now"
done >"$work/now"

if [ "${1:-}" = write ]; then
	reason=${2:-}
	[ -n "$reason" ] || { echo "callgrind.sh: a baseline changes only with a reason: write \"REASON\"" >&2; exit 2; }
	mkdir -p docs
	{
		if [ -e $baseline ]; then
			# Everything but this compiler's section.
			awk -v wanted="[$compiler]" '/^\[/ { inside = $0 == wanted } !inside' $baseline
		else
			echo "# Instructions per frame under callgrind: name, instructions, reason. Compared by scripts/callgrind.sh."
			echo "# One section for each compiler; more than 3 % above a line fails."
		fi
		echo "[$compiler]"
		# A line that did not move keeps its reason.
		awk -v reason="$reason" '
			FILENAME == ARGV[1] { was[$1] = $2; line[$1] = $0; next }
			($1 in was) && $2 <= was[$1] * 1.005 && $2 >= was[$1] * 0.995 { print line[$1]; next }
			{ print $1, $2, reason }
		' "$work/old" "$work/now"
	} >"$work/new"
	cat "$work/new" >$baseline
	cat $baseline
	exit
fi

if [ ! -s "$work/old" ]; then
	cat "$work/now"
	cannot "$baseline has no numbers for $compiler to compare with"
fi
awk -v allowed=$allowed '
	FILENAME == ARGV[1] { was[$1] = $2; next }
	!($1 in was) { printf "%s: %.1f instructions per frame, and no line in the baseline\n", $1, $2; bad = 1; next }
	{
		growth = 100 * ($2 / was[$1] - 1)
		printf "%s: %.1f instructions per frame, baseline %.1f, %+.1f %%%s\n", $1, $2, was[$1], growth, (growth > allowed ? ": TOO MUCH" : "")
		if (growth > allowed) bad = 1
		seen[$1] = 1
	}
	END {
		for (name in was) if (!(name in seen)) { printf "%s: in the baseline, and no longer a case\n", name; bad = 1 }
		exit bad
	}
' "$work/old" "$work/now"
