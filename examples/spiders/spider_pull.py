"""A spider of the pull dialect: it connects to the node and asks for URLs.

Run it as: python3 spider_pull.py NODE_HOST:PORT STORE_HOST:PORT [USER_AGENT]
"""
import socket
import sys
import time

from spider_work import Store, address, serve

AT_ONCE = 16


def main(node, store, agent="example-spider/1"):
    store = Store(address(store))
    while True:
        try:
            control = socket.create_connection(address(node), 10)
            control.settimeout(None)
            control.sendall(b"GET %d\n" % AT_ONCE)
            serve(control, store, agent, "{1} {0}\n", "GET 1\n")
        except OSError as error:
            print("node:", error, file=sys.stderr)
        time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
