"""Runs commands for the guest at the other end of the cable: a connection for each, a line of the shell (remote.sh)."""

import socketserver
import subprocess


class Command(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline().decode()
        ended = subprocess.run(
            ["/bin/sh", "-c", line], stdin=subprocess.DEVNULL, stdout=self.connection, stderr=subprocess.STDOUT
        )
        # What a shell says of a program that a signal ended.
        status = ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
        self.wfile.write(f"\nended with {status}\n".encode())


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


Server(("", 99), Command).serve_forever()
