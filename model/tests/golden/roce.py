#!/usr/bin/env python3
# Writes roce.txt: RoCE v2 packets as scapy builds them, with the invariant CRC that it computes.
# Needs scapy 2.5 or newer.
from scapy.all import IP, IPv6, UDP, Raw, raw
from scapy.contrib.roce import AETH, BTH

V4 = dict(src="10.9.0.1", dst="10.9.0.2", flags="DF", id=0)
V6 = dict(src="fe80::200:ff:fe00:1", dst="fe80::200:ff:fe00:2")
UDP_HEADER = dict(sport=0xC001, dport=4791, chksum=0)


def line(name, packet):
    print(name, raw(packet).hex())


def bth(opcode, **fields):
    return BTH(opcode=opcode, migreq=1, pkey=0xFFFF, dqpn=0x42, **fields)


print("# Written by roce.py. Name, IP packet.")
for version, header in [("4", IP(**V4)), ("6", IPv6(**V6))]:
    udp = header / UDP(**UDP_HEADER)
    line("send" + version, udp / bth(0x04, padcount=1, psn=0x123456, ackreq=1) / Raw(b"abc\0"))
    line("ack" + version, udp / bth(0x11, psn=7) / AETH(syndrome=0x1F, msn=9))
    line("write" + version, udp / bth(0x0A, psn=8) / Raw(bytes(range(16)) + b"\x11" * 64))
    line("unreliable" + version, udp / bth(0x24, psn=9) / Raw(b"12345678"))
    deth = (0x11223344).to_bytes(4, "big") + (0x000055).to_bytes(4, "big")
    line("datagram" + version, udp / bth(0x64, padcount=2, psn=10) / Raw(deth + b"datagram\x01\x02\0\0"))
# What routers change is not covered.
line("routed4", IP(**(V4 | dict(ttl=3, tos=0x68))) / UDP(**UDP_HEADER) / bth(0x11, psn=7, fecn=1) / AETH(syndrome=0x1F, msn=9))
line("routed6", IPv6(**V6, hlim=2, tc=0x44, fl=0x12345) / UDP(**UDP_HEADER) / bth(0x11, psn=7, becn=1) / AETH(syndrome=0x1F, msn=9))
