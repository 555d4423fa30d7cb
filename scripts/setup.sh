# Finds what the other scripts need, and installs what is missing through apt where root or sudo allows it.
# Sourced by ./run, from the root of the repository. Says nothing while everything is there.
#
#   need_rust           a cargo and rustc at least as new as the workspace's rust-version, and a C linker; or exit 1
#   want_rust_tools     rustfmt and clippy, if they can be had
#   want_test_tools     those and what the tests compare with, if they can be had: a test that lacks one skips, visibly
#   want_packages LIST  the same for any "program:package" pairs
#   build_weir          target/release/weir
#   want_osken          WEIR_OSKEN_MANAGER: os-ken's manager, if it can be had without root's help

say() { echo "run: $*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }

setup_log=${TMPDIR:-/tmp}/weir-setup.$$.log

# ---- apt -----------------------------------------------------------------------------------------------------------

# as_root COMMAND...: exit status 126 where neither root nor sudo is to be had.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif has sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
		sudo "$@"
	else
		return 126
	fi
}

can_install() {
	has apt-get && as_root true 2>/dev/null
}

apt_updated=
apt_update() {
	[ -z "$apt_updated" ] || return 0
	say "reading the package lists"
	as_root apt-get update -qq >"$setup_log" 2>&1 || say "apt-get update complained: $(tail -n 1 "$setup_log")"
	apt_updated=1
}

# install PACKAGE...: one line of progress; on failure the end of apt's own words.
install() {
	apt_update
	say "installing $*"
	if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >"$setup_log" 2>&1; then
		tail -n 5 "$setup_log" >&2
		say "could not install: $*"
		return 1
	fi
	rm -f "$setup_log"
}

# The version apt would install, as "1.96"; nothing where there is no such package.
candidate() {
	apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: *\([0-9]*:\)\{0,1\}\([0-9]*\.[0-9]*\).*/\2/p'
}

# ---- Rust ----------------------------------------------------------------------------------------------------------

rust_wanted=$(sed -n 's/^rust-version = "\([0-9.]*\)"$/\1/p' Cargo.toml)

# at_least VERSION: is it at least what the workspace wants? Compares major and minor.
at_least() {
	echo "$1 $rust_wanted" | awk '{
		split($1, have, "."); split($2, want, ".")
		exit !(have[1] > want[1] || (have[1] == want[1] && have[2] + 0 >= want[2] + 0))
	}'
}

# Do the cargo and rustc in directory $1 (or on PATH, where it is empty) work, and are they new enough?
usable_rust() {
	for tool in cargo rustc; do
		version=$("${1:+$1/}$tool" --version 2>/dev/null | awk '{ print $2 }')
		[ -n "$version" ] && at_least "$version" || return 1
	done
}

find_rust() {
	if usable_rust ''; then return; fi
	for directory in "${CARGO_HOME:-$HOME/.cargo}/bin" /usr/lib/rust-*/bin /usr/bin; do
		if [ -x "$directory/cargo" ] && usable_rust "$directory"; then
			PATH=$directory:$PATH
			export PATH
			return
		fi
	done
	return 1
}

# A system installed without its security updates has a Rust that is too old, and no rustup: add the updates.
add_debian_security() {
	[ -r /etc/os-release ] || return 1
	suite=$(. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}") || return 1
	[ -n "$suite" ] || return 1
	if apt-cache policy | grep -q "n=$suite-security"; then return 1; fi
	mirror=$(apt-cache policy | sed -n "s|^ *[0-9]* \(http[^ ]*/debian\)/* $suite/main .*|\1|p" | head -n 1)
	[ -n "$mirror" ] || return 1
	say "this system lacks Debian's security updates, where a Rust that is new enough comes from;"
	say "adding them in /etc/apt/sources.list.d/debian-security.list"
	echo "deb $mirror-security $suite-security main" |
		as_root tee /etc/apt/sources.list.d/debian-security.list >/dev/null
	apt_updated=
	apt_update
}

# The packages that bring a new enough Rust, or nothing.
rust_packages() {
	for suffix in -web ''; do
		version=$(candidate "cargo$suffix")
		if [ -n "$version" ] && at_least "$version"; then echo "cargo$suffix rustc$suffix"; return; fi
	done
	# Ubuntu keeps several: cargo-1.89 beside rustc-1.89. The newest is taken.
	newest=$(apt-cache search --names-only '^cargo-1\.[0-9]+$' | awk '{ print $1 }' | sort -t. -k2n | tail -n 1)
	if [ -n "$newest" ] && at_least "${newest#cargo-}"; then echo "$newest rustc-${newest#cargo-}"; return; fi
	if [ -n "$(candidate rustup)" ]; then echo rustup; fi
}

install_rust() {
	if ! can_install; then
		say "needs Rust $rust_wanted or newer: install cargo-web and rustc-web (Debian 12), rustup (Ubuntu 24.04)," \
			"or see https://rustup.rs"
		exit 1
	fi
	apt_update
	packages=$(rust_packages)
	if [ -z "$packages" ] && add_debian_security; then packages=$(rust_packages); fi
	if [ -z "$packages" ]; then
		say "needs Rust $rust_wanted or newer, and this system's packages have none: see https://rustup.rs"
		exit 1
	fi
	# shellcheck disable=SC2086 # a list of packages
	install $packages ca-certificates || exit 1
	if [ "$packages" = rustup ]; then
		say "rustup fetches the stable toolchain"
		rustup toolchain install stable --profile minimal -c rustfmt -c clippy >"$setup_log" 2>&1 &&
			rustup default stable >>"$setup_log" 2>&1 || {
			tail -n 5 "$setup_log" >&2
			exit 1
		}
	fi
	find_rust || {
		say "installed $packages, and still find no cargo and rustc of $rust_wanted or newer"
		exit 1
	}
}

need_rust() {
	find_rust || install_rust
	if ! has cc && ! has gcc; then
		can_install && install gcc libc6-dev || {
			say "needs a C linker: apt-get install gcc libc6-dev"
			exit 1
		}
	fi
}

# Fetched and built the first time: a few minutes.
build_weir() {
	[ -x target/release/weir ] || say "building weir; the first time takes a few minutes"
	if [ -t 2 ]; then quiet=; else quiet=-q; fi
	cargo build $quiet --locked --release -p weir || exit 1
}

# ---- Tools that are good to have -----------------------------------------------------------------------------------

# want_packages "PROGRAM:PACKAGE ...": installs what is missing; where it cannot, says so and goes on.
want_packages() {
	missing=
	for pair in $1; do
		has "${pair%%:*}" || missing="$missing ${pair#*:}"
	done
	want_missing
}

want_missing() {
	[ -n "$missing" ] || return 0
	if ! can_install; then
		say "goes on without:$missing (to have all: apt-get install$missing)"
		return 0
	fi
	# One by one where together fails, so that one missing package does not cost the others.
	# shellcheck disable=SC2086 # a list of packages
	install $missing || for package in $missing; do install "$package" || true; done
}

# The packages of rustfmt and clippy go by the name of the rustc that is used.
want_rust_tools() {
	if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then return; fi
	rustc=$(readlink -f "$(command -v rustc)")
	case $rustc in
	*/rustup) rustup component add rustfmt clippy >/dev/null 2>&1 || say "rustup could not add rustfmt and clippy" ;;
	/usr/lib/rust-*)
		version=${rustc#/usr/lib/rust-}
		missing="rustfmt-${version%%/*} rust-${version%%/*}-clippy"
		want_missing
		;;
	*)
		if has dpkg && dpkg -S "$rustc" 2>/dev/null | grep -q '^rustc-web'; then
			missing="rustfmt-web rust-web-clippy"
		else
			missing="rustfmt rust-clippy"
		fi
		want_missing
		;;
	esac
}

want_test_tools() {
	want_rust_tools
	missing=
	for pair in tshark:tshark tcpdump:tcpdump ip:iproute2 ethtool:ethtool iperf3:iperf3 ping:iputils-ping \
		sysctl:procps curl:curl ovs-vswitchd:openvswitch-switch valgrind:valgrind g++:g++ git:git snmpd:snmpd snmpget:snmp \
		chromium:chromium mn:mininet; do
		has "${pair%%:*}" || missing="$missing ${pair#*:}"
	done
	# Its daemons are not on PATH.
	[ -x /usr/lib/frr/zebra ] || missing="$missing frr"
	/usr/bin/python3 -c 'import scapy' 2>/dev/null || missing="$missing python3-scapy"
	missing="$missing$(missing_of_python)"
	want_missing
}

# What judges' virtual environments need: pip, and headers, since some of their packages are C.
missing_of_python() {
	has python3 || { printf ' python3 python3-venv python3-dev'; return; }
	python3 -c 'import ensurepip' 2>/dev/null || printf ' python3-venv'
	python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
		2>/dev/null || printf ' python3-dev'
}

# ---- os-ken ---------------------------------------------------------------------------------------------------------

# The demo's controllers are os-ken's where Python and pip's packages are at hand; without them it brings its own, so
# nothing here may fail or wait long.
want_osken() {
	has python3 && python3 -c 'import venv, ensurepip' 2>/dev/null || return 0
	venv=$(timeout 300 python3 scripts/judges/locked_venv.py osken-apps 2>/dev/null) || return 0
	WEIR_OSKEN_MANAGER=$(dirname "$venv")/osken-manager
	printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$venv/bin/python" "$PWD/scripts/judges/osken_apps_manager.py" \
		>"$WEIR_OSKEN_MANAGER" && chmod +x "$WEIR_OSKEN_MANAGER" || return 0
	export WEIR_OSKEN_MANAGER
}
