#!/bin/sh
# Called by `./run conformance`, from the root of the repository: sees to packages and weir, then hands over to
# scripts/conformance/main.py (its --help says what can be asked). Where the first word is faucet, osken_apps, ofctl, slicer, api or mininet_labs,
# to that judge in scripts/judges instead.
set -eu
. scripts/setup.sh

weir_wanted=yes
for argument in "$@"; do
	case $argument in
	ovs | ovs-cacheless | --target=ovs* | --list | --docs | -h | --help) weir_wanted=no ;;
	esac
done
if [ $weir_wanted = yes ] && [ -z "${WEIR:-}" ]; then
	need_rust
	build_weir
	WEIR=$PWD/${CARGO_TARGET_DIR:-target}/release/weir
	case ${CARGO_TARGET_DIR:-} in /*) WEIR=$CARGO_TARGET_DIR/release/weir ;; esac
	export WEIR
fi
script=scripts/conformance/main.py
case ${1:-} in
faucet | osken_apps | ofctl | slicer | api | mininet_labs)
	script=scripts/judges/$1.py
	shift
	;;
esac
want_packages 'python3:python3 ip:iproute2 ovs-vswitchd:openvswitch-switch ethtool:ethtool tshark:tshark iperf3:iperf3'
missing=$(missing_of_python)
[ $script != scripts/judges/mininet_labs.py ] || has mn || missing="$missing mininet"
want_missing
exec python3 $script "$@"
