#!/usr/bin/env bash
# What a newcomer meets: a bare system of the given release in a temporary directory, a clean clone of HEAD in it,
# and `./run VERB` there. Needs root, git and debootstrap; leaves nothing behind.
#
# usage: scripts/try-fresh.sh SUITE VERB [ARGUMENTS]        SUITE: bookworm (Debian 12), noble (Ubuntu 24.04)
#
# How this machine reaches the outside (name servers, proxies, certificates, a Cargo configuration) is lent to the
# bare system while it runs. MIRROR in the environment names a mirror other than debootstrap's own.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 2 ]; then
	sed -n 's/^# usage: /usage: /p' "$0" >&2
	exit 2
fi
suite=$1
shift
for program in debootstrap git unshare; do
	if ! command -v "$program" >/dev/null; then
		echo "try-fresh.sh: needs $program" >&2
		exit 2
	fi
done
if [ "$(id -u)" != 0 ]; then echo "try-fresh.sh: needs root" >&2; exit 2; fi

root=$(mktemp -d /var/tmp/weir-fresh.XXXXXX)
# As the root of a system is: not its owner's alone.
chmod 755 "$root"
trap 'rm -rf --one-file-system "$root"' EXIT
trap 'exit 130' INT TERM

components=main
script=
case $suite in
bookworm) ;;
noble)
	components=main,universe
	# An older debootstrap does not know the name; all of Ubuntu's releases share one script.
	[ -e /usr/share/debootstrap/scripts/noble ] || script=/usr/share/debootstrap/scripts/gutsy
	;;
*)
	echo "try-fresh.sh: knows bookworm and noble, not '$suite'" >&2
	exit 2
	;;
esac
mirror=${MIRROR:-}
if [ -n "$script" ] && [ -z "$mirror" ]; then
	mirror=$(sed -n 's/^ *default_mirror \(.*\)/\1/p' "$script" | head -n 1)
fi

echo "try-fresh.sh: a bare $suite in $root"
# shellcheck disable=SC2086 # absent arguments are no arguments
if ! debootstrap --variant=minbase --components=$components "$suite" "$root" $mirror $script >"$root.log" 2>&1; then
	tail -n 5 "$root.log" >&2
	rm -f "$root.log"
	echo "try-fresh.sh: cannot build a bare $suite here" >&2
	exit 1
fi
rm -f "$root.log"

cp -L /etc/resolv.conf "$root/etc/resolv.conf"
# No service is to start in there: its init would be this machine's.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
for file in /etc/apt/apt.conf.d/*proxy*; do
	if [ -e "$file" ]; then cp "$file" "$root/etc/apt/apt.conf.d/"; fi
done
if [ -e "$HOME/.cargo/config.toml" ]; then install -D "$HOME/.cargo/config.toml" "$root/root/.cargo/config.toml"; fi
lent=()
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
	if [ -n "${!name:-}" ]; then lent+=("$name=${!name}"); fi
done
if [ -n "${SSL_CERT_FILE:-}" ]; then
	install -D -m 644 "$SSL_CERT_FILE" "$root/etc/weir-lent-certificates.pem"
	lent+=(SSL_CERT_FILE=/etc/weir-lent-certificates.pem CARGO_HTTP_CAINFO=/etc/weir-lent-certificates.pem PIP_CERT=/etc/weir-lent-certificates.pem)
fi
git clone -q --no-hardlinks . "$root/root/weir"

# The mounts live in a namespace of their own, and go with it.
export root
started=$SECONDS
status=0
unshare --mount --pid --fork --kill-child bash -c '
	set -e
	# Its root is to be a mount of its own, not a corner of ours: namespaces of networks and of users ask for that.
	mount --make-rprivate /
	mount --bind "$root" "$root"
	mount -t proc proc "$root/proc"
	mount -t sysfs sysfs "$root/sys"
	mount --rbind /dev "$root/dev"
	mount -t tmpfs tmpfs "$root/run"
	cd "$root"
	mkdir outside
	pivot_root . outside
	cd /
	umount -l /outside
	rmdir /outside
	exec /usr/bin/env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
' bare "${lent[@]}" sh -c 'cd /root/weir && exec ./run "$@"' run "$@" || status=$?
echo "try-fresh.sh: ./run $* on a bare $suite: exit $status after $((SECONDS - started)) seconds"
exit "$status"
