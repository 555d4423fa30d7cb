"""What each change does to a description of a frame, from the texts that define it."""
from frames import O, ip4, ip6, mac_num, num4, num6, num_mac


class Dropped(Exception):
    """The frame is dropped, for this reason."""


def mix(old, v, m):
    return old & ~m | v & m


def visible(f):
    """What stands behind the tags, as a switch sees it."""
    if f.outer:
        return "outer"
    if f.etype in (0x8847, 0x8848):
        return "mpls" if f.mpls else "other"
    if f.mpls or f.pbb:
        return "other"
    n = f.net
    if f.llc is not None:
        return n.v
    if f.etype in (0x0806, 0x8035) and n.v == "arp":
        return "arp"
    if f.etype == 0x0800 and n.v == 4:
        return 4
    if f.etype == 0x86DD and n.v == 6:
        return 6
    return "other"


def set_field(f, name, v, m):
    see = visible(f)
    n = f.net
    if name == "dl_dst":
        f.dst = mac_num(mix(num_mac(f.dst), v, m))
    elif name == "dl_src":
        f.src = mac_num(mix(num_mac(f.src), v, m))
    elif name in ("vlan_tci", "vlan_vid", "dl_vlan_pcp", "inner_vlan_tci"):
        i = 1 if name == "inner_vlan_tci" else 0
        if len(f.vlans) > i:
            t = f.vlans[i]
            if name == "dl_vlan_pcp":
                v, m = v << 13, m << 13
            tci = mix(t.pcp << 13 | t.vid, v, m & 0xEFFF)
            t.pcp, t.vid = tci >> 13, tci & 0xFFF
    elif name.startswith("mpls_"):
        if see == "mpls":
            key = {"mpls_label": "label", "mpls_tc": "tc", "mpls_ttl": "ttl"}[name]
            f.mpls[0][key] = mix(f.mpls[0][key], v, m)
    elif name == "pbb_isid":
        if f.pbb:
            f.pbb.isid = mix(f.pbb.isid, v, m)
    elif name in ("nw_src", "nw_dst"):
        if see == "outer":
            o = f.outer
            if o.v == 4:
                o[name[3:]] = ip4(mix(num4(o[name[3:]]), v, m))
        elif see == 4:
            n[name[3:]] = ip4(mix(num4(n[name[3:]]), v, m))
    elif name in ("ipv6_src", "ipv6_dst"):
        if see == 6:
            n[name[5:]] = ip6(mix(num6(n[name[5:]]), v, m))
    elif name == "ipv6_label":
        if see == 6:
            n.label = mix(n.label, v, m)
    elif name in ("nw_tos", "ip_dscp", "nw_ecn", "nw_ttl"):
        where = f.outer if see == "outer" else n if see in (4, 6) else None
        if where:
            if name == "ip_dscp":
                v, m = v << 2, m << 2
            key = "ttl" if name == "nw_ttl" else "tos"
            where[key] = mix(where[key], v, m)
    elif name in ("tp_src", "tp_dst"):
        t = n.l4 if see in (4, 6) else None
        whole = not (n and (n.first or n.later))
        if t and not n.later and (t.kind in ("tcp", "udp") or t.kind == "sctp" and whole):
            key = "sport" if name == "tp_src" else "dport"
            t[key] = mix(t[key], v, m)
    elif name in ("icmp_type", "icmp_code"):
        t = n.l4 if see in (4, 6) else None
        if t and not n.later and t.kind in ("icmp", "icmp6", "nd"):
            t[name[5:]] = mix(t[name[5:]], v, m)
    elif name in ("nd_target", "nd_sll", "nd_tll"):
        t = n.l4 if see == 6 else None
        if t and t.kind == "nd" and t.type in (135, 136):
            if name == "nd_target":
                t.target = ip6(mix(num6(t.target), v, m))
            want = {"nd_sll": (135, 1), "nd_tll": (136, 2)}.get(name)
            if want and t.type == want[0]:
                t.opts = [
                    (k, mac_num(mix(num_mac(a), v, m)) if k == want[1] else a) for k, a in t.opts
                ]
    elif name.startswith("arp_"):
        if see == "arp":
            key = name[4:]
            if key == "op":
                n.op = mix(n.op, v, m)
            elif key in ("sha", "tha"):
                n[key] = mac_num(mix(num_mac(n[key]), v, m))
            else:
                n[key] = ip4(mix(num4(n[key]), v, m))
    else:
        raise ValueError(name)


def decrement(d):
    if d.ttl <= 1:
        raise Dropped("ttl-expired")
    d.ttl -= 1


def ttl_pair(f):
    """The two outermost headers with a TTL."""
    see = visible(f)
    if see == "mpls":
        if not f.mpls[0].bos:
            return (f.mpls[0], f.mpls[1]) if len(f.mpls) > 1 else None
        if len(f.mpls) == 1 and f.net and f.net.v in (4, 6):
            return f.mpls[0], f.net
    elif see in (4, 6) and f.net.l4.kind == "ip" and not f.net.later:
        return f.net, f.net.l4.inner
    return None


def push_vlan(f, tpid):
    if f.outer:
        raise NotImplementedError
    old = f.vlans[0] if f.vlans else O(pcp=0, vid=0)
    f.vlans.insert(0, O(tpid=tpid, pcp=old.pcp, dei=0, vid=old.vid))


def push_mpls(f, etype):
    if f.llc is not None:
        raise Dropped("no-such-header")
    see = visible(f)
    if see == "mpls":
        e = O(f.mpls[0], bos=0)
    else:
        ttl = f.net.ttl if see in (4, 6) else 0
        e = O(label=0, tc=0, bos=1, ttl=ttl)
    f.mpls.insert(0, e)
    f.etype = etype


OUTER = {
    "4": dict(v=4, src="192.0.2.1", dst="198.51.100.2"),
    "6": dict(v=6, src="2001:db8::1", dst="2001:db8:1::2"),
}


def encap(f, kind, v, **more):
    o = O(OUTER[v], kind=kind, inner=f, **{"ttl": 61, "tos": 0x28, **more})
    return O(dst="02:00:00:00:0b:0b", src="02:00:00:00:0a:0a", vlans=[], mpls=[], outer=o)


# RFC 6040 §4.2, figure 4: what leaves, by what arrives inside (rows) and outside (columns), each by
# the field's value: Not-ECT, ECT(1), ECT(0), CE.
ECN = ((0, 0, 0, None), (1, 1, 1, 3), (2, 1, 2, 3), (3, 3, 3, 3))


def congestion(outer, inner):
    """Brings what the outer header marks to the header inside, if that is IP's."""
    left = ECN[inner.tos & 3][outer.tos & 3]
    if left is None:
        raise Dropped("congestion")
    inner.tos = inner.tos & ~3 | left


def decap(f, kind):
    o = f.outer
    if not o or o.kind != kind:
        if kind == "vxlan" and visible(f) in (4, 6) and f.net.l4.kind == "udp":
            part = f.net.first or f.net.later
            raise Dropped("fragment" if part else "malformed")
        raise Dropped("no-such-header")
    if o.raw is not None:
        congestion(o, o.net)
        return O(dst=f.dst, src=f.src, vlans=[], mpls=[], etype=o.proto, net=o.net)
    if visible(o.inner) in (4, 6):
        congestion(o, o.inner.net)
    return o.inner


def change(f, text):
    """Carries out one change; gives the frame."""
    w = text.split()
    n = [int(x, 0) if x[0].isdigit() else x for x in w[1:]]
    if w[0] == "set":
        set_field(f, n[0], n[1], n[2])
    elif w[0] == "dec_ttl":
        see = visible(f)
        if see in (4, 6):
            decrement(f.net)
        elif see == "outer":
            decrement(f.outer)
    elif w[0] == "dec_mpls_ttl":
        if visible(f) == "mpls":
            decrement(f.mpls[0])
    elif w[0] in ("copy_ttl_in", "copy_ttl_out"):
        pair = ttl_pair(f)
        if pair:
            a, b = pair if w[0] == "copy_ttl_in" else pair[::-1]
            b.ttl = a.ttl
    elif w[0] == "push_vlan":
        push_vlan(f, n[0])
    elif w[0] == "pop_vlan":
        if f.vlans:
            f.vlans.pop(0)
    elif w[0] == "push_mpls":
        push_mpls(f, n[0])
    elif w[0] == "pop_mpls":
        if visible(f) == "mpls":
            f.mpls.pop(0)
            f.etype = n[0]
    elif w[0] == "push_pbb":
        old = f.pbb.isid if f.pbb and len(f.vlans) <= 2 else 0
        pcp = f.vlans[0].pcp if f.vlans else 0
        return O(dst=f.dst, src=f.src, vlans=[], mpls=[], etype=0x88E7,
                 pbb=O(pcp=pcp, isid=old, inner=f))
    elif w[0] == "pop_pbb":
        if f.pbb:
            inner = f.pbb.inner
            inner.vlans = f.vlans + inner.vlans
            return inner
    elif w[0] == "encap_vxlan":
        return encap(f, "vxlan", w[1], vni=n[1], port=n[2])
    elif w[0] == "encap_gre":
        key = None if w[2] == "-" else n[1]
        seq = None if w[3] == "-" else n[2]
        return encap(f, "gre", w[1], key=key, seq=seq, csum=n[3])
    elif w[0] in ("decap_vxlan", "decap_gre"):
        return decap(f, w[0][6:])
    else:
        raise ValueError(text)
    return f
