//! A work request that a requester took: its PSNs, and its packets.

use super::responder::{MAX_MESSAGE, packets};
use super::{
    AtomicEth, Attributes, Data, Headers, Host, Opcode, Operation, Psn, Remote, Request, Reth,
    SendAttributes, Status,
};
use crate::memory::Payload;

/// A work request that was taken.
pub(super) struct Taken {
    pub(super) request: Request,
    pub(super) length: u64,
    pub(super) first: Psn,
    /// PSNs that it consumes: none if it sends nothing.
    pub(super) packets: u32,
    /// Bytes of a read that arrived.
    pub(super) arrived: u64,
    /// It cannot be sent, and completes with this in its turn.
    pub(super) failed: Option<Status>,
}

impl Taken {
    pub(super) fn new(
        request: Request,
        first: Psn,
        attributes: &Attributes,
        settings: &SendAttributes,
    ) -> Self {
        let length = match &request.data {
            Data::List(list) => list.iter().map(|entry| u64::from(entry.length)).sum(),
            Data::Inline(bytes) => bytes.as_slice().len() as u64,
        };
        let answered = is_answered(&request.operation);
        let failed = match request.operation {
            Operation::Refused(status) => Some(status),
            Operation::Local => None,
            _ if length > MAX_MESSAGE => Some(Status::LocalLength),
            Operation::FetchAdd { .. } | Operation::CompareSwap { .. } if length != 8 => {
                Some(Status::LocalLength)
            }
            _ if answered
                && (settings.max_outstanding_reads == 0
                    || matches!(request.data, Data::Inline(_))) =>
            {
                Some(Status::LocalQpOperation)
            }
            _ => None,
        };
        let packets = match request.operation {
            _ if failed.is_some() => 0,
            Operation::Local => 0,
            Operation::FetchAdd { .. } | Operation::CompareSwap { .. } => 1,
            _ => packets(length, attributes.mtu.bytes()),
        };
        Taken { request, length, first, packets, arrived: 0, failed }
    }

    /// The PSN after its last.
    pub(super) fn end(&self) -> Psn {
        self.first.add(self.packets)
    }

    /// Completes by an answer of its own, not by an acknowledgement.
    pub(super) fn is_answered(&self) -> bool {
        is_answered(&self.request.operation)
    }
}

fn is_answered(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Read(_) | Operation::FetchAdd { .. } | Operation::CompareSwap { .. }
    )
}

impl Taken {
    /// The packet at `psn`: the whole request of a read or atomic, or a part of a message.
    pub(super) fn packet(
        &self,
        psn: Psn,
        last: bool,
        attributes: &Attributes,
        host: &impl Host,
    ) -> Result<(Opcode, Headers, Payload), Status> {
        use Opcode::*;
        let mtu = u64::from(attributes.mtu.bytes());
        let offset = u64::from(psn.since(self.first)) * mtu;
        let first = psn == self.first;
        let choose = |only, begin, middle, end| match (first, last) {
            (true, true) => only,
            (true, false) => begin,
            (false, false) => middle,
            (false, true) => end,
        };
        let reth = |remote: Remote| Reth {
            address: remote.address.wrapping_add(offset),
            rkey: remote.rkey,
            length: (self.length - offset) as u32,
        };
        let atomic = |remote: Remote, swap_add, compare| {
            let Remote { address, rkey } = remote;
            Headers::Atomic(AtomicEth { address, rkey, swap_add, compare })
        };
        let (opcode, headers) = match self.request.operation {
            Operation::Send => (choose(SendOnly, SendFirst, SendMiddle, SendLast), Headers::Plain),
            Operation::SendImmediate(word) => (
                choose(SendOnlyImmediate, SendFirst, SendMiddle, SendLastImmediate),
                if last { Headers::Immediate(word) } else { Headers::Plain },
            ),
            Operation::SendInvalidate(key) => (
                choose(SendOnlyInvalidate, SendFirst, SendMiddle, SendLastInvalidate),
                if last { Headers::Invalidate(key) } else { Headers::Plain },
            ),
            Operation::Write(remote) => (
                choose(WriteOnly, WriteFirst, WriteMiddle, WriteLast),
                if first { Headers::Remote(reth(remote)) } else { Headers::Plain },
            ),
            Operation::WriteImmediate(remote, word) => (
                choose(WriteOnlyImmediate, WriteFirst, WriteMiddle, WriteLastImmediate),
                match (first, last) {
                    (true, true) => Headers::RemoteImmediate(reth(remote), word),
                    (true, false) => Headers::Remote(reth(remote)),
                    (false, false) => Headers::Plain,
                    (false, true) => Headers::Immediate(word),
                },
            ),
            Operation::Read(remote) => {
                return Ok((ReadRequest, Headers::Remote(reth(remote)), Payload::Empty));
            }
            Operation::FetchAdd { remote, add } => {
                return Ok((FetchAdd, atomic(remote, add, 0), Payload::Empty));
            }
            Operation::CompareSwap { remote, compare, swap } => {
                return Ok((CompareSwap, atomic(remote, swap, compare), Payload::Empty));
            }
            Operation::Local | Operation::Refused(_) => return Err(Status::LocalQpOperation),
        };
        let len = (self.length - offset).min(mtu) as usize;
        let payload = match &self.request.data {
            Data::List(list) => host
                .memory()
                .gather(attributes.protection_domain, list, offset, len)
                .map_err(|_| Status::LocalProtection)?,
            Data::Inline(bytes) => {
                let rest = bytes.as_slice().get(offset as usize..).unwrap_or_default();
                Payload::copy_of(rest.get(..len).ok_or(Status::LocalQpOperation)?)
            }
        };
        Ok((opcode, headers, payload))
    }

    /// The `run` middle packets from `psn` on in one piece, if they can be: a send or write whose
    /// bytes lie together and may be read. If not, they go one by one, to the one that is wrong.
    pub(super) fn run(
        &self,
        psn: Psn,
        run: u32,
        attributes: &Attributes,
        host: &impl Host,
    ) -> Option<(Opcode, Headers, Payload)> {
        let opcode = match self.request.operation {
            Operation::Write(_) | Operation::WriteImmediate(..) => Opcode::WriteMiddle,
            _ => Opcode::SendMiddle,
        };
        let Data::List(list) = &self.request.data else { return None };
        let mtu = attributes.mtu.bytes();
        let offset = u64::from(psn.since(self.first)) * u64::from(mtu);
        let domain = attributes.protection_domain;
        let len = (run * mtu) as usize;
        let payload = host.memory().refer(domain, list, offset, len).ok()??;
        Some((opcode, Headers::Plain, payload))
    }
}
