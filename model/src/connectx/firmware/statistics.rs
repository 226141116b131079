//! Commands that ask for numbers: what the port carried, and what happened to queue pairs.

use super::Firmware;
use super::field::Field;
use super::layout::port::{ppcnt, query_q_counter_in, query_q_counter_out};
use super::numbers::Kind;
use super::status::Done;
use crate::connectx::{Carried, Traffic};

/// A number of a port.
const NUMBER: Field = Field::new(0, 64);

/// Groups of a port's numbers (`MLX5_*_COUNTERS_GROUP` in `linux/mlx5/device.h`), of which each is a
/// structure of 64-bit numbers (`struct mlx5_ifc_eth_802_3_cntrs_grp_data_layout_bits` and so on).
mod group {
    pub(super) const IEEE_802_3: u64 = 0;
    pub(super) const RFC_2863: u64 = 1;
}

/// What a port carried one way: packets and bytes of all kinds, and packets by where they went.
struct OneWay {
    all: (u64, u64),
    to_one: u64,
    to_group: u64,
    to_all: u64,
}

impl Firmware {
    /// QUERY_VPORT_COUNTER (`struct mlx5_ifc_query_vport_counter_out_bits`): for each kind of traffic,
    /// packets and bytes received, then sent.
    pub(super) fn query_vport_counter(&mut self, output: &mut [u8]) -> Done {
        /// Where RDMA packets to one queue pair begin, and the bytes of a kind.
        const FIRST: usize = 48;
        const KIND: usize = 32;
        for (kind, [received, sent]) in self.carried()?.iter().enumerate() {
            let at = FIRST + kind * KIND;
            let values = [received.packets, received.octets, sent.packets, sent.octets];
            for (place, value) in values.into_iter().enumerate() {
                NUMBER.within(at + place * 8).set(output, value);
            }
        }
        Ok(())
    }

    /// What the port carried of each kind: received and sent.
    fn carried(&self) -> Done<[[Carried; 2]; 5]> {
        self.with_nic(|nic, _, _| {
            let statistics = nic.statistics();
            let both = Traffic::ALL.map(|kind| [statistics.received(kind), statistics.sent(kind)]);
            Ok::<_, super::Refusal>(both)
        })
    }

    /// The register PPCNT: what the port carried, of all kinds. The numbers of other groups than these
    /// are of what does not happen here.
    pub(super) fn port_counters(&self, asked: &[u8], data: &mut [u8]) -> Done {
        let carried = self.carried()?;
        let [received, sent] = [0, 1].map(|way| {
            let sum = |kinds: &[Traffic]| {
                kinds
                    .iter()
                    .map(|&kind| carried[kind as usize][way])
                    .fold((0, 0), |sum, one| (sum.0 + one.packets, sum.1 + one.octets))
            };
            OneWay {
                all: sum(&Traffic::ALL),
                to_one: sum(&[Traffic::ToOne, Traffic::FrameToOne]).0,
                to_group: sum(&[Traffic::ToGroup, Traffic::FrameToGroup]).0,
                to_all: sum(&[Traffic::FrameToAll]).0,
            }
        });
        ppcnt::LOCAL_PORT.copy(asked, data);
        ppcnt::GROUP.copy(asked, data);
        // A number's place, counted in numbers, and the number.
        let numbers: &[(usize, u64)] = match ppcnt::GROUP.get(asked) {
            group::IEEE_802_3 => &[
                (0, sent.all.0),
                (1, received.all.0),
                (4, sent.all.1),
                (5, received.all.1),
                (6, sent.to_group),
                (7, sent.to_all),
                (8, received.to_group),
                (9, received.to_all),
            ],
            group::RFC_2863 => &[
                (0, received.all.1),
                (1, received.to_one),
                (5, sent.all.1),
                (6, sent.to_one),
                (9, received.to_group),
                (10, received.to_all),
                (11, sent.to_group),
                (12, sent.to_all),
            ],
            _ => &[],
        };
        for &(place, number) in numbers {
            NUMBER.within(8 + place * 8).set(data, number);
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
