//! A pingpong with a stranger: rdma-core's `ibv_rc_pingpong`, as its client or as its server.
//!
//! The two say over TCP who they are, once each, as text (`pp_client_exch_dest` and
//! `pp_server_exch_dest` of `libibverbs/examples/rc_pingpong.c`). Then the client sends a message, the
//! server sends one back, and so on. That program sends what it has received last, so a client
//! gets its own bytes back and compares all of them. A server knows the bytes of that program's
//! client, and compares them, too.

use super::conversation;
use super::end::{End, ONE_AT_A_TIME, RemoteBuffers, Unconnected};
use super::verify::{GUARD, same};
use crate::arguments::PingpongOptions;
use crate::completions::{Completions, Patience};
use crate::failure::Failure;
use crate::family::{Facts, Family};
use crate::units;
use doorbell::completion::Arrival;
use doorbell::connection::Connection;
use doorbell::endpoint::{Endpoint, LinkLayer, Mtu, Parts};
use doorbell::family::{ReceiveQueue, Region, SendQueue};
use doorbell::wr::{self, RemoteSlice};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// What that program does when nobody says otherwise: bytes of a message, and messages each way.
const SIZE: u32 = 4096;
const ITERATIONS: u64 = 1000;
/// The most bytes of its packets, likewise.
const MTU: Mtu = Mtu::B1024;
/// The byte that its messages are of; with `-c` there is a zero at the beginning of each page.
const FILLING: u8 = 0x7b;
const PAGE: usize = 4096;

/// Bytes of an address: `lid:queue pair:packet sequence:gid`, and a zero.
const ADDRESS: usize = "0000:000000:000000:00000000000000000000000000000000".len() + 1;
/// What the client says when it has the server's address.
const DONE: &[u8] = b"done\0";

/// Who a queue pair is, as that program says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address {
    lid: u16,
    queue_pair: u32,
    packet_sequence: u32,
    gid: [u8; 16],
}

impl Address {
    fn of(endpoint: &Endpoint) -> Address {
        // A global identifier asks the other side for packets with a global header, which a path
        // within a subnet of InfiniBand does without.
        let gid = match endpoint.link() {
            LinkLayer::Ethernet => endpoint.gid(),
            LinkLayer::InfiniBand => [0; 16],
        };
        Address {
            lid: endpoint.lid(),
            queue_pair: endpoint.queue_pair(),
            packet_sequence: endpoint.packet_sequence(),
            gid,
        }
    }

    fn to_bytes(self) -> [u8; ADDRESS] {
        let Address { lid, queue_pair, packet_sequence, gid } = self;
        let gid = u128::from_be_bytes(gid);
        let text = format!("{lid:04x}:{queue_pair:06x}:{packet_sequence:06x}:{gid:032x}\0");
        let mut bytes = [0; ADDRESS];
        // These numbers have as many digits as they have room: 24 bits each.
        bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        bytes
    }

    fn from_bytes(bytes: &[u8; ADDRESS]) -> Result<Address, Failure> {
        let shown = || String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
        let wrong = || Failure::Peer(format!("\"{}\" is no address of ibv_rc_pingpong", shown()));
        let text = std::str::from_utf8(bytes).map_err(|_| wrong())?;
        let text = text.split('\0').next().unwrap_or_default();
        let fields: Vec<&str> = text.split(':').collect();
        let [lid, queue_pair, packet_sequence, gid] = fields[..] else { return Err(wrong()) };
        let number = |text: &str| u32::from_str_radix(text, 16).map_err(|_| wrong());
        let gid = u128::from_str_radix(gid, 16).map_err(|_| wrong())?;
        Ok(Address {
            lid: u16::from_str_radix(lid, 16).map_err(|_| wrong())?,
            queue_pair: number(queue_pair)?,
            packet_sequence: number(packet_sequence)?,
            gid: gid.to_be_bytes(),
        })
    }

    /// The endpoint that it stands for, on a port like this side's, whose Ethernet address is `mac`.
    fn endpoint(
        self,
        link: LinkLayer,
        mtu: Mtu,
        mac: Option<[u8; 6]>,
    ) -> Result<Endpoint, Failure> {
        let Address { lid, queue_pair, packet_sequence, gid } = self;
        // That program answers one read at a time.
        let read_depth = 1;
        let parts = Parts { link, mtu, read_depth, lid, mac, queue_pair, packet_sequence, gid };
        Endpoint::from_parts(&parts).map_err(|error| Failure::Peer(error.to_string()))
    }
}

/// Plays what the options say, with the server at their host, or as the server. A NIC that finds no
/// Ethernet addresses by itself needs that of the other side's port, `peer_mac`.
pub fn play<F: Family, W: Completions<F>>(
    nic: &F::Nic,
    options: &PingpongOptions,
    peer_mac: Option<[u8; 6]>,
    patience: &Patience,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let size = *options.sizes.first().unwrap_or(&SIZE);
    let iterations = options.iterations.unwrap_or(ITERATIONS);
    let mtu = options.mtu.map_or(MTU, Mtu::from).min(nic.mtu());
    let connection = Connection { max_mtu: Some(mtu), ..Connection::new() };
    let unconnected = Unconnected::<F, W>::make(nic, size as usize, ONE_AT_A_TIME)?;
    let own = Address::of(&unconnected.endpoint());
    let connect = |address: Address| {
        let endpoint = address.endpoint(nic.link(), mtu, peer_mac)?;
        // That program names no memory.
        let nothing = RemoteSlice::new(0, 0, 0);
        let peer = RemoteBuffers { source: nothing, target: nothing };
        unconnected.connect(&endpoint, peer, &connection)
    };
    let (end, is_client) = match &options.host {
        Some(host) => {
            let mut stream = conversation::reach(host, options.port, patience)?;
            send(&mut stream, &own.to_bytes())?;
            let theirs = Address::from_bytes(&receive(&mut stream, patience)?)?;
            // The other side may send as soon as it knows that this side is there: it does not, for
            // the first message is the client's.
            let end = connect(theirs)?;
            send(&mut stream, DONE)?;
            (end, true)
        }
        None => {
            let address = format!("0.0.0.0:{}", options.port);
            let mut stream = conversation::accept(&address, patience, out)?;
            let theirs = Address::from_bytes(&receive(&mut stream, patience)?)?;
            let mut end = connect(theirs)?;
            // The client sends when it has this side's address.
            post_receive(&mut end, size, 0)?;
            send(&mut stream, &own.to_bytes())?;
            let _: [u8; DONE.len()] = receive(&mut stream, patience)?;
            (end, false)
        }
    };
    let mut game = Game { end, size, patience, seed: options.seed, verified: 0 };
    let start = Instant::now();
    for number in 0..iterations {
        let last = number + 1 == iterations;
        let played = if is_client { game.ask(number) } else { game.answer(number, last) };
        played.map_err(|failure| failure.during(|| format!("message {number}")))?;
    }
    let time = start.elapsed();
    let moved = iterations * u64::from(size) * 2;
    let (moved, verified) = (units::bytes(moved), units::bytes(game.verified));
    writeln!(
        out,
        "{iterations} messages each way, {moved} in {:.2} s, {:.2} us a message; \
         {verified} came here and were verified",
        time.as_secs_f64(),
        time.as_secs_f64() * 1e6 / (2 * iterations) as f64,
    )?;
    Ok(())
}

/// The rounds.
struct Game<'a, F: Family, W> {
    end: End<F, W>,
    size: u32,
    patience: &'a Patience,
    seed: u64,
    /// Bytes that came here and were compared.
    verified: u64,
}

impl<F: Family, W: Completions<F>> Game<'_, F, W> {
    /// A message there, which comes back.
    fn ask(&mut self, number: u64) -> Result<(), Failure> {
        let mut bytes = vec![0; self.size as usize];
        fastrand::Rng::with_seed(self.seed ^ number).fill(&mut bytes);
        // What that program looks for with `-c`.
        bytes.iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
        self.clear(&bytes)?;
        post_receive(&mut self.end, self.size, number)?;
        self.send(&bytes, number)?;
        let came = self.received(number)?;
        self.verify(&bytes, &came)
    }

    /// Waits for a message, and sends it back. The receive of the first is posted already.
    fn answer(&mut self, number: u64, last: bool) -> Result<(), Failure> {
        let came = self.received(number)?;
        let mut expected = vec![FILLING; self.size as usize];
        let first = came.first().copied();
        if first == Some(0) {
            expected.iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
        }
        // The bytes of another client are its own business: it gets them back.
        if came == expected || self.verified > 0 {
            self.verify(&expected, &came)?;
        }
        self.clear(&came)?;
        if !last {
            post_receive(&mut self.end, self.size, number + 1)?;
        }
        self.send(&came, number)
    }

    /// Puts the opposite of each byte where they are to come: one that does not come is noticed.
    fn clear(&self, bytes: &[u8]) -> Result<(), Failure> {
        let opposite: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        Ok(self.end.memory.target.write_at(GUARD, &opposite)?)
    }

    fn send(&mut self, bytes: &[u8], number: u64) -> Result<(), Failure> {
        let End { sends, sent, memory, .. } = &mut self.end;
        memory.source.write_at(GUARD, bytes)?;
        let piece = memory.source.slice(GUARD..GUARD + bytes.len())?;
        sends.post(wr::send(piece).id(number).signaled())?;
        sends.ring();
        same("the id of the request's completion", number, sent.sent(self.patience)?.id)
    }

    fn received(&mut self, number: u64) -> Result<Vec<u8>, Failure> {
        let received = self.end.received.received(self.patience, &mut || Ok(()))?;
        same("the id of the receive's completion", number, received.id)?;
        same("the length in the receive's completion", self.size, received.len)?;
        same("what the receive's completion says", Arrival::Send, received.by)?;
        let mut bytes = vec![0; self.size as usize];
        self.end.memory.target.read_at(GUARD, &mut bytes)?;
        Ok(bytes)
    }

    fn verify(&mut self, expected: &[u8], found: &[u8]) -> Result<(), Failure> {
        let differs = |(expected, found): &(&u8, &u8)| expected != found;
        if let Some(at) = expected.iter().zip(found).position(|pair| differs(&pair)) {
            let (expected, found) = (expected[at], found[at]);
            return Err(Failure::Byte { at: at as u64, expected, found });
        }
        self.verified += expected.len() as u64;
        Ok(())
    }
}

fn post_receive<F: Family, W>(end: &mut End<F, W>, size: u32, number: u64) -> Result<(), Failure> {
    let into = end.memory.target.slice(GUARD..GUARD + size as usize)?;
    end.receives.post(wr::receive(into).id(number))?;
    end.receives.ring();
    Ok(())
}

fn send(stream: &mut TcpStream, bytes: &[u8]) -> Result<(), Failure> {
    // In one piece: that program reads once.
    stream.write_all(bytes).map_err(conversation::lost)
}

fn receive<const N: usize>(
    stream: &mut TcpStream,
    patience: &Patience,
) -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    let mut came = 0;
    let since = Instant::now();
    while came < N {
        match stream.read(&mut bytes[came..]) {
            Ok(0) => return Err(Failure::Peer("the other process has hung up".into())),
            Ok(more) => came += more,
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => return Err(conversation::lost(error)),
            },
        }
        patience.check()?;
        if since.elapsed() > patience.most() && came < N {
            let after = patience.most();
            return Err(Failure::TimedOut { what: "word from the other process", after });
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `ibv_rc_pingpong` of rdma-core 44 wrote them, on Ethernet and on InfiniBand.
    const ETHERNET: &[u8; ADDRESS] = b"0000:0000c7:a6c9ed:00000000000000000000ffff0a090001\0";
    const INFINIBAND: &[u8; ADDRESS] = b"0001:0000c5:3b0f1e:00000000000000000000000000000000\0";

    #[test]
    fn an_address_is_written_as_the_stranger_writes_it() {
        let mut gid = [0; 16];
        gid[10..].copy_from_slice(&[0xff, 0xff, 10, 9, 0, 1]);
        let ethernet = Address { lid: 0, queue_pair: 0xc7, packet_sequence: 0xa6_c9ed, gid };
        assert_eq!(Address::from_bytes(ETHERNET).unwrap(), ethernet);
        assert_eq!(&ethernet.to_bytes(), ETHERNET);
        let infiniband =
            Address { lid: 1, queue_pair: 0xc5, packet_sequence: 0x3b_0f1e, gid: [0; 16] };
        assert_eq!(Address::from_bytes(INFINIBAND).unwrap(), infiniband);
        assert_eq!(&infiniband.to_bytes(), INFINIBAND);
    }

    #[test]
    fn an_address_that_is_none_is_an_error_that_shows_it() {
        let texts: [&[u8; ADDRESS]; 4] = [
            b"GET / HTTP/1.1\r\nHost: somewhere.example\r\nAccept: *\r\n",
            b"0000:0000c7:a6c9ed:0000000000000000000000000000000g\0",
            b"0000:0000c7:a6c9ed00000000000000000000ffff0a0900010\0",
            &[0xff; ADDRESS],
        ];
        for text in texts {
            let why = Address::from_bytes(text).unwrap_err().to_string();
            assert!(why.contains("no address of ibv_rc_pingpong"), "{why}");
        }
        // Numbers that are too large are the endpoint's to refuse.
        let large = b"0000:ffffffff:a6c9ed:000000000000000000ffff0a090001\0";
        let address = Address::from_bytes(large).unwrap();
        assert!(address.endpoint(LinkLayer::Ethernet, Mtu::B1024, None).is_err());
    }
}
