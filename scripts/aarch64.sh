#!/bin/sh
# The classifier's tests on AArch64, whose vectors are NEON's, by qemu-user. Called by scripts/test.sh.
# Rust's standard library for AArch64 is the toolchain's own where it is there; else Debian's, in a folder under target/,
# so that the system needs no second architecture; else rustup is asked. Exit status 77: cannot be done here.
set -eu
cd "$(dirname "$0")/.."
. scripts/setup.sh

target=aarch64-unknown-linux-gnu
own=${CARGO_TARGET_DIR:-$PWD/target}/aarch64
cannot() {
	echo "$*"
	exit 77
}

tools() { has qemu-aarch64 && has aarch64-linux-gnu-gcc && [ -e /usr/aarch64-linux-gnu/lib/crt1.o ]; }
tools || { can_install && install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross; } || true
tools || cannot "needs qemu-aarch64 and a linker: apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross"

# Debian's rustc, and beside its own standard library that of the same version for AArch64.
debian_sysroot() {
	[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || return 1
	if [ "$(apt-cache policy rustc-web 2>/dev/null | sed -n 's/^  Installed: //p')" = '(none)' ] || [ ! -x /usr/bin/rustc ]; then
		can_install && install rustc-web libstd-rust-web-dev || return 1
	fi
	version=$(dpkg-query -W -f '${Version}' libstd-rust-web-dev 2>/dev/null) || return 1
	libraries=$own/$version
	if [ ! -e "$libraries/lib/rustlib/$target" ]; then
		rm -rf "$own" && mkdir -p "$own/lists/partial" "$own/cache/archives/partial" "$libraries/lib/rustlib" || return 1
		apt="-qq -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 -o Dir::State::Lists=$own/lists -o Dir::Cache=$own/cache"
		# shellcheck disable=SC2086 # options
		(cd "$own" && apt-get $apt update && apt-get $apt download "libstd-rust-web-dev:arm64=$version") &&
			dpkg-deb -x "$own"/libstd-rust-web-dev_*_arm64.deb "$libraries/arm64" &&
			ln -s "/usr/lib/rustlib/$(/usr/bin/rustc --print host-tuple)" "$libraries/lib/rustlib/" &&
			ln -s "$libraries/arm64/usr/lib/rustlib/$target" "$libraries/lib/rustlib/" || return 1
		rm -rf "$own"/*.deb "$own/lists" "$own/cache"
	fi
	RUSTC=/usr/bin/rustc
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="--sysroot $libraries"
	export RUSTC CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS
}

if [ ! -d "$(rustc --print target-libdir --target $target)" ] && ! debian_sysroot; then
	has rustup && rustup target add $target || cannot "needs Rust's standard library for AArch64: rustup target add $target"
fi

export CARGO_TARGET_DIR="$own/build"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER='qemu-aarch64 -L /usr/aarch64-linux-gnu'
exec cargo test --locked --target $target -p weir-classify --lib --tests
