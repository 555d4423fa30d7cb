#!/bin/sh
# Every check of the project, in one pass; called by ./run, which has installed what can be installed.
# `quick` leaves out what takes long: all tests but the crate boundaries, the fuzzers, callgrind.
# What cannot be done here is skipped, listed and counted. Last line: "N passed, N failed, N skipped".
set -u
. scripts/setup.sh

mode=${1:-full}
logs=${CARGO_TARGET_DIR:-target}/checks
mkdir -p "$logs"
rm -f "$logs"/*.log "$logs"/*.status
passed=0 failed=0 skipped=0
: >"$logs/skipped" >"$logs/failed"
started=$(date +%s)

export CARGO_TERM_COLOR=never
export CARGO_INCREMENTAL=0
# The property tests and oracles run several times faster for a somewhat longer build; assertions stay on.
export CARGO_PROFILE_DEV_OPT_LEVEL=1
# What a failure says has its file and line without.
export CARGO_PROFILE_DEV_DEBUG=0
# Nor is it needed to count instructions.
export CARGO_PROFILE_RELEASE_DEBUG=0
# Optimising the units of a crate across each other takes a fifth of a build; all tests together are no slower without.
export CARGO_PROFILE_DEV_LTO=off
# These wait for others in their tests, or compute little: optimised they take three times as long to build.
wiring=
for crate in weir weir-agent weir-estimate weir-supervisor; do
	wiring="$wiring --config profile.dev.package.$crate.opt-level=0"
done

pass() { passed=$((passed + 1)); }
fail() {
	failed=$((failed + 1))
	echo "$1" >>"$logs/failed"
}
skip() { # skip WHAT REASON
	skipped=$((skipped + 1))
	echo "$1: $2" >>"$logs/skipped"
	echo "skipped  $1: $2"
}

# step NAME COMMAND...: exit status 77 of the command means that it cannot be done here; its last line says why.
step() {
	name=$1
	shift
	log=$logs/$(echo "$name" | tr -c 'a-z0-9\n' '_').log
	from=$(date +%s)
	status=0
	"$@" >"$log" 2>&1 || status=$?
	told "$name" "$status" "$(($(date +%s) - from))" "$log"
}
# told NAME STATUS SECONDS LOG
told() {
	case $2 in
	0)
		pass
		echo "ok       $1 ($3 s)"
		;;
	77) skip "$1" "$(tail -n 1 "$4")" ;;
	*)
		fail "$1: see $4"
		echo "FAILED   $1 ($3 s); the end of $4:"
		tail -n 40 "$4" | sed 's/^/         /'
		;;
	esac
}

# begin NAME COMMAND...: one check that asks for no quiet begins beside those that follow; `ended NAME` is its end.
begin() {
	{ beside "$@"; } &
}
# beside NAME COMMAND...: what it says and how it ends goes to files.
beside() {
	as=$logs/beside_$(echo "$1" | tr -c 'a-z0-9\n' '_')
	shift
	at=$(date +%s)
	status=0
	"$@" >"$as.log" 2>&1 || status=$?
	echo "$status $(($(date +%s) - at))" >"$as.status"
}
# ended NAME: waits for it, and counts it.
ended() {
	as=$logs/beside_$(echo "$1" | tr -c 'a-z0-9\n' '_')
	while [ ! -s "$as.status" ]; do sleep 0.2; done
	read -r status took <"$as.status"
	told "$1" "$status" "$took" "$as.log"
}
# lowly: this shell and what it starts have only what time others leave, so that tests beside them keep theirs.
lowly() {
	me=$(exec sh -c 'echo $PPID')
	chrt --idle --pid 0 "$me" 2>/dev/null || renice -n 19 -p "$me" >/dev/null 2>&1 || true
}

# started_by PID: what it started and what that did, as far as these are still there.
started_by() (for child in $(pgrep -P "$1"); do started_by "$child"; echo "$child"; done)

documentation() { RUSTDOCFLAGS=-Dwarnings cargo doc --locked --workspace --no-deps; }

formatted() { cargo fmt --all --check && cargo fmt --manifest-path fuzz/Cargo.toml --check; }

# Licences, bans and sources need no network beyond what the build took. Advisories need a database that is fetched.
dependencies() {
	cargo deny --locked check licenses bans sources
}

captures() { testdata/check.sh testdata/real.pcap testdata/synthetic.pcap; }

# Pictures of what was measured are what their pages' tables say.
plots() {
	has python3 || { echo "python3 is not installed"; return 77; }
	python3 bench/peers/plots.py --check
}

# The tests of the whole workspace, with one line for each program of tests as it ends.
cargo_tests() {
	log=$logs/tests.log
	echo "         building and running the tests of every crate"
	{
		# shellcheck disable=SC2086 # a list of options
		cargo test $wiring --locked --workspace --no-fail-fast -- --show-output 2>&1
		echo "cargo's exit status: $?"
	} | tee "$log" | awk '
		/^ *(Running|Doc-tests) / { program = $0; sub(/^ *Running (unittests )?/, "", program); sub(/^ */, "", program); sub(/ \(.*/, "", program) }
		/^ *Running / { crate = $0; sub(/.*\/deps\//, "", crate); sub(/-[0-9a-f]*\)$/, "", crate); program = crate " " program }
		/^test result: / && $4 + $6 + $8 > 0 { printf "%s %s: %s passed, %s failed, %s ignored\n", $3 == "ok." ? "ok      " : "FAILED  ", program, $4, $6, $8; fflush() }
		/^error(\[|:)/ { print "         " $0; fflush() }
	'
	# A test that lacks something passes and says "SKIPPED: why": it counts as skipped, once.
	awk '
		/^---- .* stdout ----$/ { test = $2; said = 0 }
		/^test result: / { test = "" }
		/SKIPPED: / && test != "" && !said { said = 1; why = $0; sub(/.*SKIPPED: /, "", why); print test ": " why }
		/^test .* \.\.\. ignored/ { why = $0; sub(/.*ignored,? ?/, "", why); print $2 ": ignored" (why == "" ? "" : ", " why) }
	' "$log" >"$logs/tests.skipped"
	awk '/^test .* \.\.\. FAILED$/ { print $2 ": see '"$log"'" }' "$log" >>"$logs/failed"
	cat "$logs/tests.skipped" >>"$logs/skipped"
	said=$(grep -c -v ': ignored' "$logs/tests.skipped")
	counts=$(awk '/^test result: / { p += $4; f += $6; i += $8 } END { print p + 0, f + 0, i + 0 }' "$log")
	passed=$((passed + ${counts%% *} - said))
	test_failures=$(echo "$counts" | cut -d' ' -f2)
	failed=$((failed + test_failures))
	skipped=$((skipped + said + ${counts##* }))
	if ! grep -q "^cargo's exit status: 0$" "$log" && [ "$test_failures" = 0 ]; then
		fail "cargo test: a program of tests did not build, or did not end by itself; see $log"
		echo "FAILED   cargo test; the end of $log:"
		tail -n 40 "$log" | sed 's/^/         /'
	elif [ "$test_failures" != 0 ]; then
		awk '/^failures:$/ { show = 1 } show { print "         " $0 } /^test result: / { show = 0 }' "$log" | head -n 200
	fi
}

# Other people's controllers and testers against weir, a selection of every kind. Of rates three short cases alone (a group,
# a meter of each band), whose generator keeps time; `./run conformance` has them all.
judge() {
	[ "$(id -u)" = 0 ] || { echo "needs root for network namespaces"; return 77; }
	has ovs-vswitchd && python3 -c 'import ensurepip' 2>/dev/null || { echo "needs openvswitch-switch and python3-venv"; return 77; }
	[ -x "$built" ] || { echo "needs weir built"; return 77; }
	WEIR=$built ./run conformance "$@"
}

# Who judges what weir says asks the program that its tests asked: overflows are found, and it is there.
case ${CARGO_TARGET_DIR:-} in /*) built=$CARGO_TARGET_DIR/debug/weir ;; *) built=$PWD/${CARGO_TARGET_DIR:-target}/debug/weir ;; esac

if cargo fmt --version >/dev/null 2>&1; then step "format" formatted; else skip "format" "rustfmt is not installed"; fi

# Builds and fuzzers ask for no quiet, and tests wait more than they work: these take the time that the others leave.
cxx=no
if has c++ || has g++; then cxx=yes; fi
fuzzers() {
	for target in $(sh scripts/fuzz.sh list); do beside "fuzz $target" sh scripts/fuzz.sh 4 "$target"; done
}
if [ "$mode" != quick ]; then
	(
		lowly
		beside "release build of what is counted" bash scripts/callgrind.sh build
		if [ $cxx = yes ]; then
			beside "fuzz targets build" sh scripts/fuzz.sh build
			fuzzers &
		fi
		beside "classifier on AArch64" sh scripts/aarch64.sh
		wait
	) &
	lowly=$!
	trap 'kill $(started_by "$lowly") "$lowly"; exit 130' INT TERM
fi

if cargo clippy --version >/dev/null 2>&1; then
	step "lints" cargo clippy --locked --workspace --all-targets -- -D warnings
else
	skip "lints" "clippy is not installed"
fi
step "documentation" documentation

if cargo deny --version >/dev/null 2>&1; then
	step "dependencies: licences, bans, sources" dependencies
	echo "         (advisories are not checked: their database is not fetched here)"
else
	skip "dependencies: licences, bans, sources" "cargo-deny is not installed (cargo install cargo-deny --locked)"
fi
step "plots of pages" plots
if has tshark && has capinfos; then step "captures" captures; else skip "captures" "tshark is not installed"; fi

if [ "$mode" = quick ]; then
	step "crate boundaries" cargo test --locked -p weir-testkit --test layering
else
	# The demo's test has os-ken's controllers where they can be had.
	want_osken
	cargo_tests
	# shellcheck disable=SC2086 # a list of options
	step "examples" cargo build $wiring --locked --workspace --examples
	ended "release build of what is counted"
	step "judge: os-ken's switch tester, a selection" judge --quick
	# Counts of instructions are the same on a busy machine.
	begin "instructions per frame" bash scripts/callgrind.sh
	step "judge: Faucet and Gauge" judge faucet --target weir
	step "judge: os-ken's applications" judge osken_apps --target weir
	step "judge: ovs-ofctl" judge ofctl --target weir
	step "judge: tenants of the slicer" judge slicer
	step "judge: Mininet" judge mininet_labs
	step "judge: schemathesis against the HTTP API" judge api
	ended "instructions per frame"
	if [ $cxx = yes ]; then
		ended "fuzz targets build"
		for target in $(sh scripts/fuzz.sh list); do ended "fuzz $target"; done
	else
		skip "fuzz targets" "a C++ compiler is not installed"
	fi
	ended "classifier on AArch64"
fi

echo
if [ -s "$logs/skipped" ]; then
	echo "skipped:"
	sed 's/^/  /' "$logs/skipped"
fi
if [ -s "$logs/failed" ]; then
	echo "failed:"
	sed 's/^/  /' "$logs/failed"
fi
echo "took $(($(date +%s) - started)) s; logs in $logs"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
