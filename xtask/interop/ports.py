"""Ports for servers of a check."""

import socket


def free_ports(count):
    """Ports of loopback that nobody has at this moment."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports
