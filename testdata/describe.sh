#!/usr/bin/env bash
# Rewrites the tables between the markers of README.md from what tshark counts in the captures.
# usage: testdata/describe.sh DIRECTORY
set -euo pipefail
cd "$1"
errors=$(mktemp)
trap 'rm -f "$errors" README.tables README.new' EXIT

rows() { # rows FILE, then lines "name => display filter" on standard input
	local line frames
	while read -r line; do
		frames=$(tshark -r "$1" -Y "${line#* => }" 2>"$errors") || {
			cat "$errors" >&2
			exit 1
		}
		printf '| %s | %s |\n' "${line% => *}" "$(printf '%s' "$frames" | grep -c '')"
	done
}

table() {
	local file=$1
	echo "\`$file\`: $(capinfos -Mc "$file" | sed -n 's/^Number of packets: *//p') frames, $(stat -c %s "$file") bytes, sizes $(
		tshark -r "$file" -T fields -e frame.len 2>/dev/null | sort -n | sed -n '1p;$p' | paste -sd- | sed 's/-/ to /'
	) bytes without FCS."
	echo
	echo "| frames with | count |"
	echo "| --- | --- |"
	rows "$file"
	echo
}

{
	echo "<!-- tables: written by describe.sh -->"
	table real.pcap <<-'LIST'
		tenant 1's MACs => eth.addr[0:5] == 02:00:00:00:01
		tenant 2's MACs (all tagged) => eth.addr[0:5] == 02:00:00:00:02
		tenant 3's MACs => eth.addr[0:5] == 02:00:00:00:03
		tenant 4's MACs => eth.addr[0:5] == 02:00:00:00:04
		tenant 4's IP prefixes outermost => (ip.addr == 10.4.0.0/16 || ipv6.addr == fd00:4::/32)
		VLAN 20 (802.1Q) => vlan.id == 20
		VLAN 21 within service tag 200 (802.1ad) => ieee8021ad.id == 200 && vlan.id == 21
		ARP => arp
		IPv4 => ip
		IPv4 options => ip.opt.type
		IPv4 fragments => ip.flags.mf == 1 || ip.frag_offset > 0
		IPv6 => ipv6
		IPv6 hop-by-hop options => ipv6.hopopts
		IPv6 fragments => ipv6.fraghdr
		ICMP echo => icmp.type == 0 || icmp.type == 8
		ICMP errors => icmp.type == 3 || icmp.type == 11
		ICMPv6 neighbour discovery => icmpv6.type >= 133 && icmpv6.type <= 136
		ICMPv6 multicast listener reports => icmpv6.type == 143
		ICMPv6 echo => icmpv6.type == 128 || icmpv6.type == 129
		ICMPv6 errors => icmpv6.type >= 1 && icmpv6.type <= 4
		TCP => tcp
		UDP => udp
		HTTP (TCP port 80) => tcp.port == 80
		ssh (TCP port 22) => tcp.port == 22
		iperf3 over TCP (port 5201, and the control of 5202) => tcp.port in {5201, 5202}
		iperf3 over UDP (port 5202) => udp.port == 5202
		DNS over UDP => udp.port == 53
		DNS over TCP => tcp.port == 53
		VXLAN, network 42 => vxlan.vni == 42
		TCP retransmissions => tcp.analysis.retransmission
	LIST
	table synthetic.pcap <<-'LIST'
		MPLS => mpls
		GRE => gre
		VXLAN => vxlan
		SCTP => sctp
		LLDP => lldp
		802.1Q => vlan
		802.1ad => ieee8021ad
		ARP => arp
		IPv4 options => ip.opt.type
		IPv6 extension headers => ipv6.hopopts || ipv6.fraghdr || ipv6.routing || ipv6.dstopts
		IEEE 802.3 with LLC => llc
	LIST
	echo "<!-- end of tables -->"
} >README.tables
awk '
	/^<!-- tables:/ { while ((getline line < "README.tables") > 0) print line; skip = 1 }
	!skip { print }
	/^<!-- end of tables -->/ { skip = 0 }
' README.md >README.new
mv README.new README.md
