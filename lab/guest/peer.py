"""The other end of a `doorbell pingpong --connect`, on libmlx5: writes, reads, sends and atomics both ways.

It speaks that program's exchange (cli/src/pingpong/conversation.rs) as the side that listens, plays each round
as it does (cli/src/pingpong/apart.rs), and compares every byte that comes here.

usage: peer.py DEVICE PORT [GID-INDEX]
"""

import json
import socket
import sys
import time

from pyverbs.addr import GID
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from verbs import ACCESS, e, way_to

GUARD = 64
GUARDS = b"\xa5" * GUARD
WORD = (1 << 64) - 1
PATIENCE = 140
# How a round of each operation is seen to be done, which way its bytes go, and its opcode.
OPERATIONS = {
    "write": ("memory", "there", e.IBV_WR_RDMA_WRITE),
    "write-immediate": ("receive", "there", e.IBV_WR_RDMA_WRITE_WITH_IMM),
    "read": ("request", "here", e.IBV_WR_RDMA_READ),
    "send": ("receive", "there", e.IBV_WR_SEND),
    "send-immediate": ("receive", "there", e.IBV_WR_SEND_WITH_IMM),
    "fetch-add": ("request", "word", e.IBV_WR_ATOMIC_FETCH_AND_ADD),
    "compare-swap": ("request", "word", e.IBV_WR_ATOMIC_CMP_AND_SWP),
}


class Random:
    """wyrand, as the crate fastrand has it."""

    def __init__(self, seed):
        self.state = seed & WORD

    def word(self):
        self.state = (self.state + 0x2D358DCCAA6C78A5) & WORD
        product = self.state * (self.state ^ 0x8BB84B93962EACC9)
        return (product ^ product >> 64) & WORD


class Message:
    """The bytes of a message, and the numbers that go with it."""

    def __init__(self, seed, number, size):
        contents = (seed ^ number * 0x9E3779B97F4A7C15) & WORD
        self.number, self.size = number, size
        bytes_ = Random(contents)
        words = (bytes_.word().to_bytes(8, "little") for _ in range((size + 7) // 8))
        self.bytes = b"".join(words)[:size]
        self.opposite = bytes(byte ^ 0xFF for byte in self.bytes)
        numbers = Random(~contents)
        self.immediate = numbers.word() & 0xFFFFFFFF
        self.original, self.operand = numbers.word(), numbers.word()
        differs = (numbers.word() & 0xFFFFFFFF) >> 30 == 0
        self.compare = self.original ^ WORD if differs else self.original

    def outcome(self, op):
        """What an atomic leaves in the word."""
        if op == "fetch-add":
            return (self.original + self.operand) & WORD
        return self.operand if self.original == self.compare else self.original


def same(what, expected, found):
    if expected != found:
        raise AssertionError(f"{what} is {found!r:.80}, and must be {expected!r:.80}")


class Conversation:
    """Lines of JSON."""

    def __init__(self, port):
        listener = socket.create_server(("", port))
        stream, _ = listener.accept()
        stream.settimeout(PATIENCE)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = stream.makefile("rw")

    def say(self, line):
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def hear(self):
        return json.loads(self.file.readline())

    def wait(self):
        same("the other side's word", "ready", self.hear())

    def meet(self):
        self.say("ready")
        self.wait()


class End:
    """A queue pair, its completions, and its memory."""

    def __init__(self, context, longest):
        domain = PD(context)
        self.sent, self.received = CQ(context, 64), CQ(context, 8)
        self.source, self.target = (MR(domain, longest + 2 * GUARD, ACCESS) for _ in range(2))
        capacity = QPCap(max_send_wr=64, max_recv_wr=8, max_send_sge=1, max_recv_sge=1)
        self.pair = QP(domain, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.sent, rcq=self.received, cap=capacity))
        self.psn = 0xFFFFF0

    def connect(self, context, peer, mtu, gid_index):
        mtu = min(context.query_port(1).active_mtu, peer[2], mtu)
        lid, number, psn = (int.from_bytes(peer[at:end], "big") for at, end in ((4, 6), (10, 13), (13, 16)))
        gid = GID(":".join(peer[at : at + 2].hex() for at in range(16, 32, 2)))
        reads = max(1, min(8, peer[3]))
        self.pair.to_rts(way_to(context, gid_index, lid, number, psn, self.psn, mtu, reads, gid))

    def endpoint(self, context, version, mtu, gid_index):
        port = context.query_port(1)
        ethernet = gid_index is not None
        address = bytes(6) if ethernet else port.lid.to_bytes(2, "big") + bytes(4)
        raw = context.query_gid(1, gid_index or 0).gid
        gid = socket.inet_pton(socket.AF_INET6, raw) if isinstance(raw, str) else bytes(raw)
        head = bytes([version, 0 if ethernet else 1, min(mtu, port.active_mtu), 8])
        return head + address + self.pair.qp_num.to_bytes(3, "big") + self.psn.to_bytes(3, "big") + gid

    def completion(self, queue, number):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            count, found = queue.poll(1)
            if count:
                same("the completion's status", e.IBV_WC_SUCCESS, found[0].status)
                same("the completion's id", number, found[0].wr_id)
                return found[0]
        raise AssertionError("no completion came")

    def play(self, conversation, op, there, back, peer):
        """One message here, and one back."""
        seen, moves, opcode = OPERATIONS[op]
        size = there.size
        source, target = self.source, self.target
        # Made ready for what comes.
        if moves == "here":
            source.write(there.bytes, size, GUARD)
            target.write(GUARDS + back.opposite + GUARDS, size + 2 * GUARD)
        elif moves == "there":
            target.write(GUARDS + there.opposite + GUARDS, size + 2 * GUARD)
            source.write(back.bytes, size, GUARD)
        else:
            source.write(GUARDS + there.original.to_bytes(8, "little") + GUARDS, size + 2 * GUARD)
            target.write(GUARDS + (back.original ^ WORD).to_bytes(8, "little") + GUARDS, size + 2 * GUARD)
        if seen == "receive":
            room = SGE(target.buf + GUARD, size, target.lkey)
            self.pair.post_recv(RecvWR(wr_id=there.number, num_sge=1, sg=[room]))
        conversation.meet()

        if seen == "request":
            conversation.wait()
        elif seen == "memory":
            end = time.monotonic() + PATIENCE
            while target.read(1, GUARD + size - 1) != there.bytes[-1:]:
                if time.monotonic() > end:
                    raise AssertionError("the last byte of a message did not come")
        else:
            came = self.completion(self.received, there.number)
            same("the length of what came", size, came.byte_len)
            if op.endswith("immediate"):
                same("what came with it", there.immediate, socket.ntohl(came.imm_data))
        local = source if moves == "there" else target
        piece = SGE(local.buf + GUARD, size, local.lkey)
        request = SendWR(
            wr_id=back.number,
            opcode=opcode,
            num_sge=1,
            sg=[piece],
            send_flags=e.IBV_SEND_SIGNALED,
            imm_data=socket.htonl(back.immediate),
        )
        address, _, key = peer["target" if moves == "there" else "source"]
        if moves == "word":
            operands = (back.operand, 0) if op == "fetch-add" else (back.compare, back.operand)
            request.set_wr_atomic(key, address + GUARD, *operands)
        elif op not in ("send", "send-immediate"):
            request.set_wr_rdma(key, address + GUARD)
        self.pair.post_send(request)
        self.completion(self.sent, back.number)
        if seen == "request":
            conversation.say("ready")

        whole = size + 2 * GUARD
        if moves == "there":
            same("what was written here", GUARDS + there.bytes + GUARDS, target.read(whole, 0))
        elif moves == "here":
            same("what was read", GUARDS + back.bytes + GUARDS, target.read(whole, 0))
        else:
            left = there.outcome(op).to_bytes(8, "little")
            same("what an atomic left here", GUARDS + left + GUARDS, source.read(whole, 0))
            fetched = back.original.to_bytes(8, "little")
            same("what an atomic fetched", GUARDS + fetched + GUARDS, target.read(whole, 0))


def main():
    device, port = sys.argv[1], int(sys.argv[2])
    gid_index = int(sys.argv[3]) if len(sys.argv) > 3 else None
    context = Context(name=device)
    conversation = Conversation(port)
    ask = conversation.hear()["ask"]
    peer = ask["greeting"]
    mtu = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}[ask["mtu"]]
    end = End(context, max(plan["size"] for plan in ask["plans"]))
    buffers = {name: (mr.buf, mr.length, mr.rkey) for name, mr in (("source", end.source), ("target", end.target))}
    endpoint = end.endpoint(context, peer["endpoint"][0], mtu, gid_index)
    conversation.say({"answer": {"endpoint": list(endpoint), **buffers}})
    end.connect(context, bytes(peer["endpoint"]), mtu, gid_index)
    conversation.meet()
    for plan in ask["plans"]:
        for turn in range(plan["warmup"] + plan["iterations"]):
            there, back = (Message(ask["seed"], 2 * turn + way, plan["size"]) for way in range(2))
            try:
                end.play(conversation, plan["op"], there, back, peer)
            except AssertionError as why:
                conversation.say({"failed": str(why)})
                raise
        print(f"{plan['op']}, {plan['size']} bytes: {plan['iterations']} rounds", flush=True)
    conversation.meet()


main()
