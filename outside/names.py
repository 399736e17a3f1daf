"""The resolver of the web: answers A, AAAA and aliases over UDP on loopback."""

import asyncio
import ipaddress
import random
import struct

TTL = 300
NO_ERROR, NO_NAME = 0x8180, 0x8183
A, CNAME, AAAA = 1, 5, 28


class Resolver(asyncio.DatagramProtocol):
    """Answers from `names` (name to IPv4 and IPv6 addresses) and `aliases` (name to its other name)."""

    def __init__(self, names, aliases, turning=()):
        self.names, self.aliases, self.turning, self.asked = names, aliases, set(turning), 0

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        try:
            answer = self.answer(data)
        except (IndexError, struct.error, UnicodeDecodeError):
            return
        self.asked += 1
        self.transport.sendto(answer, address)

    def answer(self, data):
        """The answer to one question."""
        at, labels = 12, []
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode("ascii"))
            at += 1 + data[at]
        kind = struct.unpack(">H", data[at + 1:at + 3])[0]
        question = data[12:at + 5]
        name = ".".join(labels).lower()
        records = []
        owner = b"\xc0\x0c"
        if name in self.aliases:
            target = encoded(self.aliases[name])
            records.append(owner + struct.pack(">HHIH", CNAME, 1, TTL, len(target)) + target)
            owner, name = target, self.aliases[name]
        if name not in self.names:
            return data[:2] + struct.pack(">HHHHH", NO_NAME, 1, 0, 0, 0) + question
        four, six = self.names[name]
        addresses = list(four if kind == A else six if kind == AAAA else ())
        if name in self.turning:
            random.shuffle(addresses)
        for address in addresses:
            packed = ipaddress.ip_address(address).packed
            records.append(owner + struct.pack(">HHIH", kind, 1, TTL, len(packed)) + packed)
        head = data[:2] + struct.pack(">HHHHH", NO_ERROR, 1, len(records), 0, 0)
        return head + question + b"".join(records)


def encoded(name):
    """A name as DNS writes it."""
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
