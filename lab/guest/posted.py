"""Posts work requests with the machine's libibverbs, and prints one line each: what was posted, by which values,
and the bytes of the entry as the virtual NIC fetched it. The bytes are the same on every machine: keys and
addresses are made up, each request is the first of a queue pair of its own, and all come to a bad end.

Left out is what libbnxt_re does not post: atomics where nothing on the way to memory does them, a piece of 2^31
bytes (its length is a negative number there), and a send that invalidates, of which it makes an entry with opcode
0xff.

usage: posted.py DEVICE GID-INDEX >FILE
"""

import os
import socket
import sys

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from verbs import e

REMOTE, RKEY = 0x0123456789ABCDE8, 0xA1B2C3D4
VALUE = 0x91827364
KINDS = {
    "write": e.IBV_WR_RDMA_WRITE,
    "write_immediate": e.IBV_WR_RDMA_WRITE_WITH_IMM,
    "read": e.IBV_WR_RDMA_READ,
    "send": e.IBV_WR_SEND,
    "send_immediate": e.IBV_WR_SEND_WITH_IMM,
}
SIGNALED, FENCED, SOLICITED = e.IBV_SEND_SIGNALED, e.IBV_SEND_FENCE, e.IBV_SEND_SOLICITED
PIECES, INLINE = 6, 96


def ask(request):
    """Asks the host for something, as results.sh does."""
    os.write(3, f"ASK {request}\n".encode())
    answer = bytearray()
    while not answer.endswith(b"\n"):
        answer += os.read(3, 1)
    return answer.decode().strip()


class Poster:
    def __init__(self, device, gid_index):
        self.context = Context(name=device)
        self.domain = PD(self.context)
        self.gid_index = gid_index
        # What is inline is read from the program's own memory.
        self.region = MR(self.domain, 4096, e.IBV_ACCESS_LOCAL_WRITE)
        self.region.write(bytes((at * 7 + 1) & 0xFF for at in range(INLINE)), INLINE)
        self.lines = []
        # pyverbs makes no request of no pieces, but lets one say so afterwards.
        self.nothing = [SGE(0, 0, 0)]

    def pair(self):
        """A queue pair that is connected to itself, and its completion queue. It is never asked twice."""
        queue = CQ(self.context, 16)
        capacity = QPCap(max_send_wr=8, max_recv_wr=8, max_send_sge=PIECES, max_recv_sge=3, max_inline_data=INLINE)
        pair = QP(self.domain, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=queue, rcq=queue, cap=capacity, sq_sig_all=0))
        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
        attributes.qp_access_flags |= e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC
        attributes.dest_qp_num = pair.qp_num
        attributes.path_mtu = self.context.query_port(1).active_mtu
        attributes.max_dest_rd_atomic = attributes.max_rd_atomic = 4
        attributes.min_rnr_timer, attributes.timeout = 1, 14
        # A message that finds no receive fails at once.
        attributes.retry_cnt, attributes.rnr_retry = 7, 0
        route = GlobalRoute(dgid=self.context.query_gid(1, self.gid_index), sgid_index=self.gid_index)
        attributes.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
        pair.to_rts(attributes)
        return pair, queue

    def post(self, words, request, receive=None):
        """Posts a request, and a receive before it, and waits until it is over."""
        pair, queue = self.pair()
        if receive is not None:
            pair.post_recv(receive)
        pair.post_send(request)
        for _ in range(10_000_000):
            if queue.poll(1)[0]:
                break
        else:
            raise AssertionError(f"no completion: {words}")
        self.lines.append((words, receive is not None))

    def pieces(self, lengths):
        """Made-up pieces of these lengths, and the words for them."""
        elements = [SGE(0x7766554433221100 + (at << 16), length, 0xC0FFEE + at) for at, length in enumerate(lengths)]
        words = [f"pieces={len(lengths):#x}"]
        for at, element in enumerate(elements):
            words.append(f"addr{at}={element.addr:#x} len{at}={element.length:#x} lkey{at}={element.lkey:#x}")
        return elements, " ".join(words)

    def send(self, kind, flags, lengths=(), inline=None):
        """Posts a request of this kind."""
        if inline is None:
            elements, words = self.pieces(lengths)
        else:
            elements, words = [SGE(self.region.buf, inline, 0)], f"inline={inline:#x}"
        signaled, fenced, solicited = (int(flags & flag != 0) for flag in (SIGNALED, FENCED, SOLICITED))
        head = f"{kind} signaled={signaled:#x} fenced={fenced:#x} solicited={solicited:#x} {words}"
        if inline is not None:
            flags |= e.IBV_SEND_INLINE
        request = SendWR(opcode=KINDS[kind], num_sge=len(elements) or 1, sg=elements or self.nothing, send_flags=flags)
        request.num_sge = len(elements)
        if not kind.startswith("send"):
            request.set_wr_rdma(RKEY, REMOTE)
            head += f" raddr={REMOTE:#x} rkey={RKEY:#x}"
        if kind.endswith("immediate"):
            request.imm_data = socket.htonl(VALUE)
            head += f" value={VALUE:#x}"
        self.post(head, request)

    def receive(self, lengths):
        """Posts a receive, and a message that is too much for it."""
        elements, words = self.pieces(lengths)
        receive = RecvWR(num_sge=len(elements) or 1, sg=elements or self.nothing)
        receive.num_sge = len(elements)
        request = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(self.region.buf, 8, 0)])
        request.send_flags = SIGNALED | e.IBV_SEND_INLINE
        self.post(f"receive {words}", request, receive)

    def kind(self, kind):
        # doorbell has no word for a solicited write.
        solicits = kind.startswith("send") or kind == "write_immediate"
        for flags in (0, SIGNALED, FENCED, SIGNALED | FENCED, SOLICITED, SIGNALED | FENCED | SOLICITED):
            if solicits or not flags & SOLICITED:
                self.send(kind, flags, [0x1234567])
        self.send(kind, SIGNALED)
        self.send(kind, SIGNALED, [0x7FFFFFFF])
        for count in range(2, PIECES + 1):
            self.send(kind, SIGNALED, [100 * at + 1 for at in range(count)])
        self.send(kind, SIGNALED, [1, 0, 201])
        if kind != "read":
            for inline in (1, 8, 15, 16, 17, 31, 32, 33, 64, 80, 96):
                self.send(kind, SIGNALED, inline=inline)

    def print(self):
        """Prints a line for each request, with what the NIC has fetched."""
        fetched = ask("model recorded").split()
        sends = [entry.removeprefix("send=") for entry in fetched if entry.startswith("send=")]
        receives = [entry.removeprefix("receive=") for entry in fetched if entry.startswith("receive=")]
        assert len(sends) == len(self.lines), f"{len(self.lines)} requests, and {len(sends)} entries fetched"
        for words, is_receive in self.lines:
            entry = bytes.fromhex(sends.pop(0))
            if is_receive:
                entry = bytes.fromhex(receives.pop(0))
                # As long as it says; the rest of its place is nobody's.
                entry = entry[: 16 * entry[2]]
            print(words, ":", entry.hex(" "))
        assert not receives, "receives were fetched that nobody posted"


ask("model record")
ask("model recorded")
poster = Poster(sys.argv[1], int(sys.argv[2]))
for kind in KINDS:
    poster.kind(kind)
for lengths in ([], [1], [0x7FFFFFFF], [1, 2], [1, 2, 3]):
    poster.receive(lengths)
poster.print()
