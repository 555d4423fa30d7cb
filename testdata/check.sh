#!/usr/bin/env bash
# Fails where tshark finds a wrong checksum, a malformed or a cut frame in one of the captures.
# usage: testdata/check.sh FILE.pcap...
set -euo pipefail

bad='ip.checksum.status == "Bad" || tcp.checksum.status == "Bad" || udp.checksum.status == "Bad"
	|| icmp.checksum.status == "Bad" || icmpv6.checksum.status == "Bad" || sctp.checksum.status == "Bad"
	|| gre.checksum.status == "Bad" || _ws.malformed || frame.len != frame.cap_len'

# `Bad` checksums are found only where tshark is told to verify.
verify=(-o ip.check_checksum:TRUE -o tcp.check_checksum:TRUE -o udp.check_checksum:TRUE -o sctp.checksum:crc32c)

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
status=0
for file; do
	count=$(capinfos -Mc "$file" | sed -n 's/^Number of packets: *//p')
	# A fragment carries a part of a datagram: each is judged alone, and the whole once more when put together.
	for reassembly in TRUE FALSE; do
		found=$(tshark -r "$file" -o "ip.defragment:$reassembly" -o "ipv6.defragment:$reassembly" "${verify[@]}" -Y "$bad" 2>"$errors") || {
			cat "$errors" >&2
			exit 1
		}
		if [ -n "$found" ]; then
			echo "check.sh: $file holds frames that tshark finds wrong (reassembly $reassembly):" >&2
			echo "$found" >&2
			status=1
		fi
	done
	echo "check.sh: $file: $count frames read"
done
exit $status
