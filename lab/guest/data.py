"""Moves random bytes by every operation between two queue pairs, and compares all memory afterwards.

The pingpong programs and perftest look at little or nothing of what they move; this looks at every byte, also
at those that must not change. Says PASS or FAIL for each operation on file 3, as results.sh does.

usage: data.py DEVICE [GID-INDEX]
"""

import os
import random
import sys
import traceback

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from verbs import ACCESS, e, way_to

SIZE = 8 << 20
SIZES = [0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000, 1023, 1024]
SIZES += [1025, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192, 8193, 65535, 65536, 65537, 1000003, 4 << 20]
CHANCE = random.Random(3)


class Side:
    """A queue pair with a region, and what the region's bytes must be."""

    def __init__(self, context, domain):
        self.region = MR(domain, SIZE, ACCESS)
        self.bytes = bytearray(CHANCE.randbytes(SIZE))
        self.region.write(bytes(self.bytes), SIZE)
        self.queue = CQ(context, 64)
        capacity = QPCap(max_send_wr=32, max_recv_wr=32, max_send_sge=4, max_recv_sge=4, max_inline_data=64)
        attributes = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.queue, rcq=self.queue, cap=capacity, sq_sig_all=1)
        self.pair = QP(domain, attributes)

    def connect(self, peer, context, gid_index):
        """Connects this side to the peer, on the first port."""
        port, psn = context.query_port(1), 0xFFFFFE
        way = way_to(context, gid_index, port.lid, peer.pair.qp_num, psn, psn, port.active_mtu)
        self.pair.to_rts(way)

    def part(self, length):
        """A random part of the region, of this length: its offset."""
        return CHANCE.randrange(SIZE - length + 1)

    def elements(self, offset, length, count):
        """Scatter or gather elements for a part, cut at random places."""
        cuts = sorted(CHANCE.randrange(length + 1) for _ in range(count - 1)) if length else []
        parts = []
        for start, end in zip([0, *cuts], [*cuts, length]):
            # A count of zero means 2^31 to some NICs: the program's own business not to ask for that.
            if end > start or length == 0:
                parts.append(SGE(self.region.buf + offset + start, end - start, self.region.lkey))
        return parts

    def completion(self):
        """The next completion, a good one."""
        for _ in range(20_000_000):
            count, found = self.queue.poll(1)
            if count:
                if found[0].status != e.IBV_WC_SUCCESS:
                    raise AssertionError(f"completion status {found[0].status}, vendor {found[0].vendor_err:#x}")
                return found[0]
        raise AssertionError("no completion")

    def check(self, what):
        """Compares all of the region with what it must be."""
        now = self.region.read(SIZE, 0)
        if now != bytes(self.bytes):
            at = next(i for i in range(SIZE) if now[i] != self.bytes[i])
            raise AssertionError(f"{what}: byte {at:#x} is {now[at]:#x}, not {self.bytes[at]:#x}")


def writes(a, b, opcode, inline=False):
    for length in SIZES:
        if inline and length > 64:
            break
        source, target = a.part(length), b.part(length)
        flags = e.IBV_SEND_SIGNALED | (e.IBV_SEND_INLINE if inline else 0)
        request = SendWR(
            opcode=opcode,
            num_sge=1,
            sg=[SGE(a.region.buf + source, length, a.region.lkey)],
            send_flags=flags,
            imm_data=length,
        )
        request.set_wr_rdma(b.region.rkey, b.region.buf + target)
        with_immediate = opcode == e.IBV_WR_RDMA_WRITE_WITH_IMM
        if with_immediate:
            # Nothing goes there; pyverbs wants an element.
            b.pair.post_recv(RecvWR(num_sge=1, sg=[SGE(b.region.buf, 16, b.region.lkey)]))
        a.pair.post_send(request)
        a.completion()
        if with_immediate:
            got = b.completion()
            assert got.byte_len == length, f"length {got.byte_len}, not {length}"
        b.bytes[target : target + length] = a.bytes[source : source + length]
    b.check("peer")
    a.check("own")


def reads(a, b):
    for length in SIZES:
        target, source = a.part(length), b.part(length)
        parts = a.elements(target, length, 3)
        request = SendWR(opcode=e.IBV_WR_RDMA_READ, num_sge=len(parts), sg=parts)
        request.set_wr_rdma(b.region.rkey, b.region.buf + source)
        a.pair.post_send(request)
        a.completion()
        a.bytes[target : target + length] = b.bytes[source : source + length]
    a.check("own")
    b.check("peer")


def sends(a, b, opcode):
    for length in SIZES:
        source, target = a.part(length), b.part(length)
        parts = b.elements(target, length, 3)
        b.pair.post_recv(RecvWR(num_sge=len(parts), sg=parts))
        parts = a.elements(source, length, 4)
        a.pair.post_send(SendWR(opcode=opcode, num_sge=len(parts), sg=parts, imm_data=7))
        a.completion()
        got = b.completion()
        assert got.byte_len == length, f"length {got.byte_len}, not {length}"
        b.bytes[target : target + length] = a.bytes[source : source + length]
    b.check("peer")
    a.check("own")


def atomics(a, b, opcode):
    for turn in range(64):
        result, target = a.part(8) & ~7, b.part(8) & ~7
        old = int.from_bytes(b.bytes[target : target + 8], sys.byteorder)
        # Half of the comparisons hold.
        compare = old if turn % 2 else CHANCE.getrandbits(64)
        operand = CHANCE.getrandbits(64)
        request = SendWR(
            opcode=opcode, num_sge=1, sg=[SGE(a.region.buf + result, 8, a.region.lkey)]
        )
        if opcode == e.IBV_WR_ATOMIC_FETCH_AND_ADD:
            request.set_wr_atomic(b.region.rkey, b.region.buf + target, operand, 0)
            new = (old + operand) % 2**64
        else:
            request.set_wr_atomic(b.region.rkey, b.region.buf + target, compare, operand)
            new = operand if compare == old else old
        a.pair.post_send(request)
        a.completion()
        a.bytes[result : result + 8] = old.to_bytes(8, sys.byteorder)
        b.bytes[target : target + 8] = new.to_bytes(8, sys.byteorder)
    b.check("peer")
    a.check("own")


def many_at_once(a, b):
    for _ in range(40):
        # Parts of their own, for the order of reads and writes on one part is not promised.
        lane = SIZE // 32
        requests = []
        for number in range(16):
            length = CHANCE.randrange(1, lane)
            source = number * lane
            target = (number + 16) * lane
            if CHANCE.random() < 0.5:
                request = SendWR(
                    opcode=e.IBV_WR_RDMA_WRITE,
                    num_sge=1,
                    sg=[SGE(a.region.buf + source, length, a.region.lkey)],
                )
                request.set_wr_rdma(b.region.rkey, b.region.buf + target)
                b.bytes[target : target + length] = a.bytes[source : source + length]
            else:
                request = SendWR(
                    opcode=e.IBV_WR_RDMA_READ,
                    num_sge=1,
                    sg=[SGE(a.region.buf + target, length, a.region.lkey)],
                )
                request.set_wr_rdma(b.region.rkey, b.region.buf + source)
                a.bytes[target : target + length] = b.bytes[source : source + length]
            requests.append(request)
        for request in requests:
            a.pair.post_send(request)
        for _ in requests:
            a.completion()
    b.check("peer")
    a.check("own")


def main():
    context = Context(name=sys.argv[1])
    gid_index = int(sys.argv[2]) if len(sys.argv) > 2 else None
    domain = PD(context)
    a, b = Side(context, domain), Side(context, domain)
    a.connect(b, context, gid_index)
    b.connect(a, context, gid_index)
    steps = {
        "write": lambda: writes(a, b, e.IBV_WR_RDMA_WRITE),
        "write-back": lambda: writes(b, a, e.IBV_WR_RDMA_WRITE),
        "write-inline": lambda: writes(a, b, e.IBV_WR_RDMA_WRITE, inline=True),
        "write-immediate": lambda: writes(a, b, e.IBV_WR_RDMA_WRITE_WITH_IMM),
        "read": lambda: reads(a, b),
        "send": lambda: sends(a, b, e.IBV_WR_SEND),
        "send-immediate": lambda: sends(a, b, e.IBV_WR_SEND_WITH_IMM),
        "fetch-add": lambda: atomics(a, b, e.IBV_WR_ATOMIC_FETCH_AND_ADD),
        "compare-swap": lambda: atomics(a, b, e.IBV_WR_ATOMIC_CMP_AND_SWP),
        "many-at-once": lambda: many_at_once(a, b),
    }
    for name, step in steps.items():
        try:
            step()
            os.write(3, f"PASS {name}\n".encode())
        except Exception as error:
            traceback.print_exc()
            os.write(3, f"FAIL {name} {error!r}\n".encode())
            return


main()
