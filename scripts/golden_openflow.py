#!/usr/bin/env python3
"""Golden vectors of OpenFlow 1.3, made by os-ken: crates/weir-openflow/testdata/of13/*.bin. (1.0: golden_openflow10.py)

    python3 -m venv V && V/bin/pip install os-ken==3.1.1
    V/bin/python scripts/golden_openflow.py

Beside the messages stands `index.txt`: a line a message, its file and what must be found in the decoded message (in
Rust's `{:?}`), set apart by tabs. The tests need no Python: they read these files.

What a switch says os-ken reads but does not write. Those messages are packed here by os-ken's own layouts, read by
os-ken, and refused unless it finds in them what was meant.
"""

import importlib
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
DATA = pathlib.Path(__file__).parent.parent / "crates/weir-openflow/testdata"
VERSIONS = {"of13": "golden_of13"}


class Datapath:
    """What os-ken's messages ask of a connection: its version."""

    def __init__(self, ofproto, parser):
        self.ofproto = ofproto
        self.ofproto_parser = parser
        self.id = 1


class Vectors:
    """The messages of one version, as they are made."""

    def __init__(self, ofproto, parser):
        self.ofproto = ofproto
        self.dp = Datapath(ofproto, parser)
        self.made = {}

    def says(self, name, message, *fragments):
        """A message that os-ken writes."""
        message.set_xid(0x1000 + len(self.made))
        message.serialize()
        self.add(name, bytes(message.buf), fragments)

    def hears(self, name, kind, body, meant, *fragments):
        """A message that os-ken reads; `meant` tells of it whether it was read as meant."""
        from os_ken.ofproto import ofproto_parser

        xid = 0x1000 + len(self.made)
        version = self.ofproto.OFP_VERSION
        frame = struct.pack("!BBHI", version, kind, 8 + len(body), xid) + body
        message = ofproto_parser.msg(self.dp, version, kind, len(frame), xid, frame)
        if message is None or not meant(message):
            sys.exit(f"{name}: os-ken reads {message}")
        self.add(name, frame, fragments)

    def add(self, name, frame, fragments):
        if name in self.made:
            sys.exit(f"{name} is made twice")
        self.made[name] = (frame, fragments)

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.bin"):
            old.unlink()
        lines = []
        for name, (frame, fragments) in self.made.items():
            (folder / f"{name}.bin").write_bytes(frame)
            lines.append("\t".join([f"{name}.bin", *fragments]))
        (folder / "index.txt").write_text("\n".join(lines) + "\n")
        print(f"{folder.name}: {len(lines)} messages")


def main():
    for folder, module in VERSIONS.items():
        part = importlib.import_module(module)
        vectors = Vectors(part.ofproto, part.parser)
        part.make(vectors)
        vectors.write(DATA / folder)


if __name__ == "__main__":
    main()
