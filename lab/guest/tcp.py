"""Random bytes over TCP, both ways at once, all compared.

Both ends know what the other sends. busybox's nc is no judge of a NIC: it hangs up when its input ends.

usage: tcp.py listen ADDRESS | connect ADDRESS
"""

import random
import socket
import sys
import threading

PORT = 5000
LENGTH = 20_000_000
PATIENCE = 100


def main():
    listens, address = sys.argv[1] == "listen", sys.argv[2]
    there, back = (random.Random(way).randbytes(LENGTH) for way in range(2))
    if listens:
        there, back = back, there
        listener = socket.create_server((address, PORT))
        stream, _ = listener.accept()
    else:
        stream = socket.create_connection((address, PORT), PATIENCE)
    stream.settimeout(PATIENCE)

    def send():
        stream.sendall(there)
        stream.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    received = bytearray()
    while piece := stream.recv(1 << 16):
        received += piece
    sender.join()
    if received != back:
        differ = (at for at, (a, b) in enumerate(zip(back, received)) if a != b)
        same = next(differ, min(LENGTH, len(received)))
        sys.exit(f"received {len(received)} bytes of {LENGTH}, of which the first {same} are as they were sent")
    print(f"sent {LENGTH} bytes and received as many")


main()
