//! Commands that ask for numbers: what the port carried, and what happened to queue pairs.

use super::Firmware;
use super::field::Field;
use super::layout::port::{query_q_counter_in, query_q_counter_out};
use super::numbers::Kind;
use super::status::Done;
use crate::connectx::Traffic;

impl Firmware {
    /// QUERY_VPORT_COUNTER (`struct mlx5_ifc_query_vport_counter_out_bits`): for each kind of traffic,
    /// packets and bytes received, then sent.
    pub(super) fn query_vport_counter(&mut self, output: &mut [u8]) -> Done {
        /// Where RDMA packets to one queue pair begin, and the bytes of a kind.
        const FIRST: usize = 48;
        const KIND: usize = 32;
        let kinds = [
            Traffic::ToOne,
            Traffic::ToGroup,
            Traffic::FrameToAll,
            Traffic::FrameToOne,
            Traffic::FrameToGroup,
        ];
        let numbers = self.with_nic(|nic, _, _| {
            let statistics = nic.statistics();
            let both = kinds.map(|kind| [statistics.received(kind), statistics.sent(kind)]);
            Ok::<_, super::Refusal>(both)
        })?;
        let word = Field::new(0, 64);
        for (kind, [received, sent]) in numbers.iter().enumerate() {
            let at = FIRST + kind * KIND;
            let values = [received.packets, received.octets, sent.packets, sent.octets];
            for (place, value) in values.into_iter().enumerate() {
                word.within(at + place * 8).set(output, value);
            }
        }
        Ok(())
    }

    /// QUERY_Q_COUNTER.
    pub(super) fn query_q_counter(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let set = query_q_counter_in::COUNTER_SET_ID.get(input) as u8;
        let clear = query_q_counter_in::CLEAR.is_set(input);
        self.expect(Kind::Counter, set.into())?;
        let numbers = self
            .with_nic(|nic, _, _| Ok::<_, super::Refusal>(nic.statistics().queues(set, clear)))?;
        for (field, value) in [
            (query_q_counter_out::RX_WRITE_REQUESTS, numbers.writes),
            (query_q_counter_out::RX_READ_REQUESTS, numbers.reads),
            (query_q_counter_out::RX_ATOMIC_REQUESTS, numbers.atomics),
            (query_q_counter_out::OUT_OF_BUFFER, numbers.out_of_buffer),
            (query_q_counter_out::OUT_OF_SEQUENCE, numbers.out_of_sequence),
            (query_q_counter_out::PACKET_SEQ_ERR, numbers.sequence_errors),
        ] {
            field.set(output, value.into());
        }
        Ok(())
    }
}
