#!/usr/bin/env bash
# Records testdata/real.pcap: real programs talk between network namespaces across one bridge, and tcpdump
# keeps every frame the bridge sees, once. Also writes synthetic.pcap and the tables in README.md.
# Needs root and the programs listed in `need`. Leaves no namespace, process or file behind but its results.
#
# usage: testdata/record.sh [DIRECTORY]      (default: the directory of this script)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here}
python=${PYTHON:-/usr/bin/python3}

need="ip ethtool tcpdump tshark editcap capinfos ping traceroute dig dnsmasq sshd ssh ssh-keygen iperf3 curl $python"
missing=
for program in $need; do command -v "$program" >/dev/null || missing="$missing $program"; done
"$python" -c 'import scapy' 2>/dev/null || missing="$missing scapy"
if [ -n "$missing" ]; then
	echo "record.sh: missing:$missing; on Debian or Ubuntu: apt-get install iproute2 ethtool tcpdump tshark" \
		"iputils-ping traceroute bind9-dnsutils dnsmasq-base openssh-server iperf3 curl python3-scapy" >&2
	exit 2
fi
if [ "$(id -u)" != 0 ]; then echo "record.sh: needs root to make namespaces; try sudo" >&2; exit 2; fi
if [ -e "$out/real.pcap" ] && [ ! -w "$out/real.pcap" ]; then echo "record.sh: cannot write $out/real.pcap" >&2; exit 2; fi

tag=wrec$$
work=$(mktemp -d)
made_run_sshd=
pids=()
spaces=()

cleanup() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
	for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
	for space in "${spaces[@]}"; do ip netns del "$space" 2>/dev/null || true; done
	if [ -n "$made_run_sshd" ]; then rmdir /run/sshd; fi
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

in_ns() { local host=$1; shift; ip netns exec "$tag-$host" "$@"; }
# Starts a server in a host's namespace and remembers its pid (`ip netns exec` replaces itself with the program).
serve() { local host=$1; shift; ip netns exec "$tag-$host" "$@" >"$work/$host.$(basename "$1").log" 2>&1 & pids+=($!); }
say() { echo "record.sh: $*"; }

new_space() {
	ip netns add "$tag-$1"
	spaces+=("$tag-$1")
	in_ns "$1" ip link set lo up
}

# The kernel's shortcuts (segments joined, checksums left to hardware that is not there) stay off, so that
# the capture holds frames as a wire would.
plain_frames() {
	in_ns "$1" ethtool -K "$2" rx off tx off sg off tso off gso off gro off >/dev/null 2>&1 || true
	in_ns "$1" ethtool -K "$2" rxvlan off txvlan off >/dev/null 2>&1 || true
}

# host NAME MAC: a namespace with one interface, `net0`, whose other end is a port of the bridge.
host() {
	local name=$1 mac=$2
	new_space "$name"
	ip link add net0 netns "$tag-$name" address "$mac" type veth peer name "p-$name" netns "$tag-sw"
	in_ns sw ip link set "p-$name" master br0
	plain_frames "$name" net0
	plain_frames sw "p-$name"
	in_ns sw ip link set "p-$name" up
}

# address HOST DEVICE PREFIX...: without the device up there is no duplicate address detection to record.
address() {
	local name=$1 device=$2 prefix
	shift 2
	in_ns "$name" ip link set "$device" up
	for prefix in "$@"; do in_ns "$name" ip addr add "$prefix" dev "$device"; done
}

# tagged_host NAME MAC TAGS: its stack speaks through a TAP, `app0`; tagger.py carries each frame between
# that and `net0`, adding and removing the VLAN tags.
tagged_host() {
	local name=$1 mac=$2 tags=$3
	host "$name" "$mac"
	in_ns "$name" ip link set net0 up promisc on
	in_ns "$name" sysctl -qw net.ipv6.conf.net0.disable_ipv6=1
	serve "$name" "$python" "$here/tagger.py" app0 net0 "$mac" "$tags"
	for _ in $(seq 100); do in_ns "$name" ip link show app0 >/dev/null 2>&1 && break; sleep 0.05; done
	plain_frames "$name" app0
}

say "building the bridge and four tenants"
new_space sw
in_ns sw ip link add br0 type bridge mcast_snooping 0
in_ns sw sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
# Where br_netfilter is loaded, it would put fragments together on their way through the bridge.
in_ns sw sysctl -qw net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0 2>/dev/null || true
in_ns sw ip link set br0 up promisc on
plain_frames sw br0

# Tenant 1: web and ping, untagged.
host a1 02:00:00:00:01:01
host a2 02:00:00:00:01:02
# Tenant 2: ssh, DNS and ping in VLAN 20; ping and DNS in VLAN 21 behind service tag 200.
tagged_host b1 02:00:00:00:02:01 8100:20
tagged_host b2 02:00:00:00:02:02 8100:20
tagged_host b3 02:00:00:00:02:03 88a8:200,8100:21
tagged_host b4 02:00:00:00:02:04 88a8:200,8100:21
# Tenant 3: bulk TCP and UDP, untagged.
host c1 02:00:00:00:03:01
host c2 02:00:00:00:03:02
# Tenant 4: two subnets and a router between them, fragments, traceroute, VXLAN; untagged.
host d1 02:00:00:00:04:01
host d2 02:00:00:00:04:02
host dr 02:00:00:00:04:fe

# The capture starts before any interface of a host is up, so duplicate address detection is in it.
ip netns exec "$tag-sw" tcpdump -i br0 -s 0 -U --immediate-mode -B 16384 --time-stamp-precision=nano -Z root \
	-w "$work/real.pcap" >"$work/tcpdump.log" 2>&1 &
capture=$!
pids+=("$capture")
for _ in $(seq 100); do grep -q 'listening on' "$work/tcpdump.log" && break; sleep 0.05; done

address a1 net0 10.1.0.1/24 fd00:1::1/64
address a2 net0 10.1.0.2/24 fd00:1::2/64
address b1 app0 10.2.0.1/24 fd00:2::1/64
address b2 app0 10.2.0.2/24 fd00:2::2/64
address b3 app0 10.2.1.1/24 fd00:2:1::1/64
address b4 app0 10.2.1.2/24 fd00:2:1::2/64
address c1 net0 10.3.0.1/24 fd00:3::1/64
address c2 net0 10.3.0.2/24 fd00:3::2/64
address d1 net0 10.4.0.2/24 fd00:4::2/64
address d2 net0 10.4.1.2/24 fd00:4:1::2/64
address dr net0 10.4.0.1/24 10.4.1.1/24 fd00:4::1/64 fd00:4:1::1/64
in_ns dr sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
	net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.net0.send_redirects=0
in_ns d1 ip route add default via 10.4.0.1
in_ns d2 ip route add default via 10.4.1.1
in_ns d1 ip -6 route add default via fd00:4::1
in_ns d2 ip -6 route add default via fd00:4:1::1

# VXLAN 42 from d1 to d2, across the router.
in_ns d1 ip link add vx42 address 02:00:00:00:42:01 type vxlan id 42 dstport 4789 local 10.4.0.2 remote 10.4.1.2
in_ns d2 ip link add vx42 address 02:00:00:00:42:02 type vxlan id 42 dstport 4789 local 10.4.1.2 remote 10.4.0.2
plain_frames d1 vx42
plain_frames d2 vx42
address d1 vx42 10.42.0.1/24
address d2 vx42 10.42.0.2/24

say "waiting for duplicate address detection"
for pair in a1 a2 b1 b2 b3 b4 c1 c2 d1 d2 dr; do
	for _ in $(seq 100); do
		[ -z "$(in_ns "$pair" ip -6 addr show tentative 2>/dev/null)" ] && break
		sleep 0.1
	done
done

say "starting the servers"
mkdir "$work/www"
for n in $(seq 800); do echo "line $n of a page that is served over HTTP"; done >"$work/www/page.txt"
serve a2 "$python" -m http.server --directory "$work/www" --bind :: 80

if [ ! -d /run/sshd ]; then mkdir -p /run/sshd; made_run_sshd=1; fi # sshd insists on it
ssh-keygen -q -t ed25519 -N '' -C weir -f "$work/host_key"
ssh-keygen -q -t ed25519 -N '' -C weir -f "$work/user_key"
cp "$work/user_key.pub" "$work/authorized_keys"
cat >"$work/sshd_config" <<-CONFIG
	ListenAddress 10.2.0.2
	HostKey $work/host_key
	AuthorizedKeysFile $work/authorized_keys
	PermitRootLogin prohibit-password
	PasswordAuthentication no
	StrictModes no
	UsePAM no
	PidFile none
CONFIG
serve b2 "$(command -v sshd)" -D -e -f "$work/sshd_config"

cat >"$work/hosts" <<-HOSTS
	10.1.0.2 web.weir.test
	fd00:1::2 web.weir.test
	10.2.0.2 shell.weir.test
	10.4.1.2 far.weir.test
HOSTS
txt=
for n in $(seq 12); do txt="$txt --txt-record=long.weir.test,part-$n-of-an-answer-that-fills-more-than-one-small-datagram"; done
for name in b1 b4 d2; do
	# shellcheck disable=SC2086 # one option per record
	serve "$name" dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --local=/weir.test/ \
		--addn-hosts="$work/hosts" --user=root --pid-file= --log-facility=- --edns-packet-max=4096 $txt
done
serve c2 iperf3 --server --port 5201
serve c2 iperf3 --server --port 5202

listening() { # listening HOST PORT: waits until something does
	for _ in $(seq 100); do
		in_ns "$1" ss -Hlntu "sport = :$2" | grep -q . && return
		sleep 0.05
	done
	echo "record.sh: nothing listens on port $2 of $1; see its log:" >&2
	cat "$work/$1".*.log >&2
	exit 1
}
listening a2 80
listening b2 22
listening b1 53
listening b4 53
listening d2 53
listening c2 5201
listening c2 5202

tenant1() {
	in_ns a1 ping -q -c 5 -i 0.2 10.1.0.2
	in_ns a1 ping -q -c 5 -i 0.2 fd00:1::2
	in_ns a1 ping -q -c 2 -i 0.2 -R 10.1.0.2            # record route: an IPv4 option
	in_ns a1 ping -q -c 2 -i 0.2 -T tsandaddr 10.1.0.2  # time stamps: another
	in_ns a1 curl -sS -o /dev/null http://10.1.0.2/page.txt
	in_ns a1 curl -sS -o /dev/null 'http://[fd00:1::2]/page.txt'
	in_ns a1 curl -sS -o /dev/null http://10.1.0.2/no-such-page
	in_ns a1 curl -sS -o /dev/null http://10.1.0.2:81/ 2>/dev/null || true # a closed port answers with RST
}

tenant2() {
	in_ns b1 ping -q -c 5 -i 0.2 10.2.0.2
	in_ns b2 ping -q -c 3 -i 0.2 fd00:2::1
	in_ns b1 ssh -i "$work/user_key" -F /dev/null -o UserKnownHostsFile="$work/known" -o StrictHostKeyChecking=no \
		-o LogLevel=ERROR -o BatchMode=yes root@10.2.0.2 'uname -a; head -c 12000 /dev/urandom | od -A n -t x1'
	names b2 10.2.0.1
	names b2 fd00:2::1
	in_ns b3 ping -q -c 5 -i 0.2 10.2.1.2
	in_ns b3 ping -q -c 3 -i 0.2 fd00:2:1::2
	names b3 10.2.1.2
}

names() { # names HOST SERVER: answers with an address, two, none, one too long for 512 bytes, and one over TCP
	in_ns "$1" dig +noall +answer @"$2" web.weir.test A
	in_ns "$1" dig +noall +answer @"$2" web.weir.test AAAA
	in_ns "$1" dig +noall +answer @"$2" nobody.weir.test A
	in_ns "$1" dig +noall +answer +noedns +ignore @"$2" long.weir.test TXT
	in_ns "$1" dig +noall +answer +tcp @"$2" long.weir.test TXT
}

tenant3() {
	in_ns c1 ping -q -c 3 -i 0.2 10.3.0.2
	in_ns c1 iperf3 --client 10.3.0.2 --port 5201 --bytes 40K --length 4K &
	local tcp=$!
	in_ns c1 iperf3 --client 10.3.0.2 --port 5202 --udp --bytes 24K --length 400 --bitrate 2M &
	local udp=$!
	wait "$tcp"
	wait "$udp"
	in_ns c1 iperf3 --client fd00:3::2 --port 5201 --bytes 40K --length 4K --reverse
	in_ns c1 iperf3 --client fd00:3::2 --port 5202 --udp --bytes 12K --length 1200 --bitrate 2M
}

tenant4() {
	in_ns d1 ping -q -c 5 -i 0.2 10.4.1.2
	in_ns d1 ping -q -c 2 -i 0.2 -s 4000 10.4.1.2     # three fragments each way
	in_ns d1 ping -q -c 2 -i 0.2 -s 4000 fd00:4:1::2  # IPv6 fragment headers
	in_ns d1 traceroute -n -q 1 10.4.1.2
	in_ns d1 traceroute -n -q 1 -I 10.4.1.2
	in_ns d1 traceroute -n -q 1 -6 fd00:4:1::2
	in_ns d1 dig +noall +answer +bufsize=4096 @10.4.1.2 long.weir.test TXT
	in_ns d1 ping -q -c 3 -i 0.2 10.42.0.2            # inside VXLAN
	in_ns d1 dig +noall +answer @10.42.0.2 far.weir.test A
	in_ns d1 ping -q -c 1 -W 1 10.4.7.7 || true       # no route: an ICMP error from the router
}

say "four tenants talk at once"
talkers=()
for n in 1 2 3 4; do
	(set -e; "tenant$n") >"$work/tenant$n.log" 2>&1 &
	talkers+=($!)
done
for n in 1 2 3 4; do
	if ! wait "${talkers[$((n - 1))]}"; then
		echo "record.sh: tenant $n's programs failed:" >&2
		cat "$work/tenant$n.log" >&2
		exit 1
	fi
done
sleep 1 # the last ACKs, and what the capture still holds
kill -INT "$capture"
wait "$capture" || true
cat "$work/tcpdump.log"
if ! grep -q '^0 packets dropped by kernel' "$work/tcpdump.log"; then
	echo "record.sh: the capture lost frames; run it again on a quieter machine" >&2
	exit 1
fi

"$python" "$here/synthetic.py" "$work/synthetic.pcap"
"$here/check.sh" "$work/real.pcap" "$work/synthetic.pcap"
mv "$work/real.pcap" "$out/real.pcap"
mv "$work/synthetic.pcap" "$out/synthetic.pcap"
chmod 644 "$out/real.pcap" "$out/synthetic.pcap"
"$here/describe.sh" "$out"
say "wrote $out/real.pcap ($(stat -c %s "$out/real.pcap") bytes) and $out/synthetic.pcap"
