"""A spider of the push dialect: it listens, and the node connects to it and sends URLs.

Run it as: python3 spider_push.py LISTEN_HOST:PORT STORE_HOST:PORT [USER_AGENT]
"""
import socket
import sys
import threading

from spider_work import Store, address, serve


def main(listen, store, agent="example-spider/1"):
    store = Store(address(store))
    with socket.create_server(address(listen)) as listener:
        while True:
            control, _ = listener.accept()
            # A thread, so that a new connection is served even if the end of the old one went unnoticed.
            threading.Thread(target=serve, args=(control, store, agent, "{0} {1}\n"), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
