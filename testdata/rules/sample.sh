#!/bin/sh
# Cuts the samples beside this script from the full rule sets and traces (rules/*.zst and
# traces/*.zst under the folder given): the first 180 rules, and 250 lookups whose answer is the
# same for those rules as for the whole set.
set -eu
[ $# = 1 ] || { echo "usage: $0 FOLDER (with rules/ and traces/)" >&2; exit 2; }
cd "$(dirname "$0")"
rules=180
for set in nc_acl1_1k nc_fw1_1k of1_1k tern_1k vdp_100k; do
    # In five-tuple sets the first line wins, so a key whose winner is cut off misses. In the others
    # it might meet a rule of lower priority: only keys whose winner stays are taken.
    case $set in nc_*) ext= first=1 ;; *) ext=.oft first=0 ;; esac
    zstdcat "$1/rules/$set$ext.zst" | head -n $rules >"$set$ext"
    zstdcat "$1/traces/${set}_trace_u$ext.zst" |
        awk -v n=$rules -v first=$first '
            { hit = $NF >= 0 && $NF < n }
            !hit && !first && $NF != -1 { next }
            { if (!hit) $NF = -1 }
            hit && hits < 200 { hits++; print }
            !hit && misses < 50 { misses++; print }' >"${set}_trace$ext"
done
