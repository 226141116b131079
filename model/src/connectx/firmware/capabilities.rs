//! What the device says it can (QUERY_HCA_CAP): the general structure, and one for each protocol.

use super::device_memory as memory;
use super::field::Field;
use super::layout::capability::{atomic, device_memory, ethernet, flow_table, general, roce};
use super::port::Port;
use crate::connectx::Capabilities;
use crate::kernel::LinkLayer;

/// Bytes of a capability structure, whichever it is (`union mlx5_ifc_hca_cap_union_bits`).
pub(super) const BYTES: usize = 0x1000;

/// The kinds of structures (`enum mlx5_cap_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    General,
    Ethernet,
    Atomic,
    Roce,
    NicFlowTable,
    DeviceMemory,
    /// One that this device has nothing of.
    Other(u16),
}

impl Kind {
    pub(super) fn from_code(code: u16) -> Self {
        match code {
            0 => Kind::General,
            1 => Kind::Ethernet,
            3 => Kind::Atomic,
            4 => Kind::Roce,
            7 => Kind::NicFlowTable,
            0xf => Kind::DeviceMemory,
            other => Kind::Other(other),
        }
    }
}

/// Where the properties of receive tables are in the structure of flow tables
/// (`flow_table_properties_nic_receive`).
const RECEIVE_TABLES: usize = 0x40;
/// Where those say which fields can be matched, and under a mask (`ft_field_support`,
/// `ft_field_bitmask_support`).
const MATCHED_FIELDS: [usize; 2] = [0x20, 0x30];
/// Outer addresses, types, ports, fragments and tags: the first word of
/// `struct mlx5_ifc_flow_table_fields_supported_bits`, without tunnels and source ports.
const OUTER_FIELDS: Field = Field::new(0, 32);
const OUTER_FIELDS_VALUE: u64 = 0xfe0f_3e00;

/// The structure of `kind`. What is enabled is what there can be.
pub(super) fn structure(kind: Kind, nic: &Capabilities, port: &Port) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    let ethernet = port.link_layer == LinkLayer::Ethernet;
    let mut put = |fields: &[(Field, u64)]| {
        for &(field, value) in fields {
            field.set(&mut bytes, value);
        }
    };
    match kind {
        Kind::General => {
            put(&general_for_all(nic));
            put(if ethernet { GENERAL_ETHERNET } else { GENERAL_INFINIBAND });
        }
        Kind::Ethernet if ethernet => put(&[
            (ethernet::CSUM_CAP, 1),
            (ethernet::VLAN_CAP, 1),
            (ethernet::WQE_VLAN_INSERT, 1),
            (ethernet::SELF_LB_EN_MODIFIABLE, 1),
            (ethernet::MAX_LSO_CAP, 18),
            // The port says how much of a frame has to be in its entry: nothing.
            (ethernet::WQE_INLINE_MODE, 1),
            (ethernet::RSS_IND_TBL_CAP, 8),
            (ethernet::SCATTER_FCS, 1),
        ]),
        Kind::Atomic => put(&[
            (atomic::SUPPORTED_ATOMIC_REQ_8B_ENDIANNESS_MODE_1, 1),
            // Compare-and-swap, fetch-and-add.
            (atomic::ATOMIC_OPERATIONS, 3),
            (atomic::ATOMIC_SIZE_QP, 8),
            (atomic::ATOMIC_SIZE_DC, 8),
        ]),
        Kind::Roce if ethernet => put(&[
            (roce::FL_RC_QP_WHEN_ROCE_DISABLED, 1),
            (roce::FL_RC_QP_WHEN_ROCE_ENABLED, 1),
            // IPv4 and IPv6.
            (roce::L3_TYPE, 6),
            // Versions 1 and 2.
            (roce::ROCE_VERSION, 5),
            (roce::R_ROCE_DEST_UDP_PORT, 4791),
            (roce::R_ROCE_MAX_SRC_UDP_PORT, 0xffff),
            (roce::R_ROCE_MIN_SRC_UDP_PORT, 0xc000),
            (roce::ROCE_ADDRESS_TABLE_SIZE, super::port::ROCE_ADDRESSES as u64),
        ]),
        Kind::NicFlowTable if ethernet => {
            let table = |field: Field, value| (field.within(RECEIVE_TABLES), value);
            put(&[
                table(flow_table::FT_SUPPORT, 1),
                table(flow_table::FLOW_MODIFY_EN, 1),
                table(flow_table::MODIFY_ROOT, 1),
                table(flow_table::IDENTIFIED_MISS_TABLE_MODE, 1),
                table(flow_table::FLOW_TABLE_MODIFY, 1),
                table(flow_table::LOG_MAX_FT_SIZE, 22),
                table(flow_table::MAX_FT_LEVEL, 64),
                table(flow_table::LOG_MAX_FT_NUM, 10),
                table(flow_table::LOG_MAX_DESTINATION, 16),
                table(flow_table::LOG_MAX_FLOW, 20),
            ]);
            for at in MATCHED_FIELDS {
                put(&[(OUTER_FIELDS.within(RECEIVE_TABLES + at), OUTER_FIELDS_VALUE)]);
            }
        }
        Kind::DeviceMemory => put(&[
            (device_memory::MEMIC, 1),
            (device_memory::LOG_MIN_MEMIC_ALLOC_SIZE, memory::LOG_LEAST),
            // Any alignment up to a page's: it is had in pages.
            (device_memory::LOG_MAX_MEMIC_ADDR_ALIGNMENT, 12 - memory::LOG_LEAST),
            (device_memory::MEMIC_BAR_START_ADDR, memory::BAR_START),
            (device_memory::MEMIC_BAR_SIZE, memory::BYTES),
            (device_memory::MAX_MEMIC_SIZE, memory::MOST),
        ]),
        Kind::Ethernet | Kind::Roce | Kind::NicFlowTable | Kind::Other(_) => {}
    }
    bytes
}

fn general_for_all(nic: &Capabilities) -> Vec<(Field, u64)> {
    use general::*;
    vec![
        (VHCA_ID, 1),
        (LOG_MAX_SRQ_SZ, nic.log_max_ring.into()),
        (LOG_MAX_QP_SZ, nic.log_max_ring.into()),
        (LOG_MAX_QP, nic.log_max_queue_pairs.into()),
        (LOG_MAX_SRQ, nic.log_max_queue_pairs.into()),
        (LOG_MAX_CQ_SZ, nic.log_max_completion_ring.into()),
        (LOG_MAX_CQ, nic.log_max_completion_queues.into()),
        (LOG_MAX_EQ_SZ, 22),
        (LOG_MAX_MKEY, nic.log_max_keys.into()),
        (LOG_MAX_EQ, 6),
        (MAX_INDIRECTION, crate::memory::MAX_INDIRECTION.into()),
        (LOG_MAX_MRW_SZ, 40),
        (NULL_MKEY, 1),
        (LOG_MAX_KLM_LIST_SIZE, 6),
        (LOG_MAX_RA_REQ_QP, nic.log_max_outstanding_reads.into()),
        (LOG_MAX_RA_RES_QP, nic.log_max_responder_resources.into()),
        (MAX_QP_CNT, 8),
        // 128 keys, the fewest that it can say.
        (PKEY_TABLE_SIZE, 0),
        (LOCAL_CA_ACK_DELAY, 16),
        (NUM_PORTS, 1),
        (LOG_MAX_MSG, nic.log_max_message.into()),
        (CQE_VERSION, 1),
        // Paging on demand, of no transport: the driver registers dma-bufs by its means.
        (PG, 1),
        // On InfiniBand, the driver's test of write-combining takes one.
        (LOG_MAX_SQ, 16),
        (COMPACT_ADDRESS_VECTOR, 1),
        (DEVICE_MEMORY, 1),
        // Keys that stand on others.
        (IMAICL, 1),
        (UMR_EXTENDED_TRANSLATION_OFFSET, 1),
        (RELAXED_ORDERING_WRITE, 1),
        (RELAXED_ORDERING_WRITE_UMR, 1),
        (RELAXED_ORDERING_READ, 1),
        (RELAXED_ORDERING_READ_UMR, 1),
        (WQ_SIGNATURE, 1),
        (ATOMIC, 1),
        (CQ_OI, 1),
        (CQ_RESIZE, 1),
        (CQ_MODERATION, 1),
        (BLOCK_LB_MC, 1),
        (QKV, 1),
        (PKV, 1),
        (SET_DETH_SQPN, 1),
        (XRC, 1),
        (UD, 1),
        (UC, 1),
        (RC, 1),
        (VPORT_COUNTERS, 1),
        (UAR_4K, 1),
        (UAR_SZ, 5),
        (LOG_PG_SZ, 12),
        (BF, nic.blue_flame.into()),
        (DRIVER_VERSION, 1),
        (LOG_BF_REG_SIZE, 9),
        (MAX_WQE_SZ_SQ, nic.max_send_entry.into()),
        (MAX_WQE_SZ_RQ, nic.max_receive_entry.into()),
        (MAX_WQE_SZ_SQ_DC, 512),
        (MAX_QP_MCG, 240),
        (LOG_MAX_MCG, 16),
        (LOG_MAX_TRANSPORT_DOMAIN, 16),
        (LOG_MAX_PD, nic.log_max_protection_domains.into()),
        (LOG_MAX_XRCD, 16),
        (LOG_MAX_RMP, 16),
        // The clock counts nanoseconds.
        (DEVICE_FREQUENCY_MHZ, 1000),
        (DEVICE_FREQUENCY_KHZ, 1_000_000),
        (NUM_OF_UARS_PER_PAGE, 1),
        (NATIVE_PORT_NUM, 1),
    ]
}

const GENERAL_INFINIBAND: &[(Field, u64)] =
    &[(general::PORT_TYPE, 0), (general::GID_TABLE_SIZE, 0), (general::IB_VIRT, 1)];

const GENERAL_ETHERNET: &[(Field, u64)] = {
    use general::*;
    &[
        (PORT_TYPE, 1),
        // 256 entries.
        (GID_TABLE_SIZE, 5),
        (VPORT_GROUP_MANAGER, 1),
        (NIC_FLOW_TABLE, 1),
        (MAX_TC, 8),
        (ETH_NET_OFFLOADS, 1),
        (ROCE, 1),
        (ROCE_RW_SUPPORTED, 1),
        (MAX_FLOW_COUNTER_15_0, 0xffff),
        (LOG_MAX_RQ, 16),
        (LOG_MAX_TIR, 16),
        (LOG_MAX_TIS, 16),
        (LOG_MAX_RQT, 16),
        (LOG_MAX_RQT_SIZE, 8),
        (LOG_MAX_STRIDE_SZ_RQ, 12),
        (LOG_MIN_STRIDE_SZ_RQ, 4),
        (LOG_MAX_STRIDE_SZ_SQ, 12),
        (LOG_MIN_STRIDE_SZ_SQ, 4),
        (LOG_MAX_WQ_SZ, 16),
        (NIC_VPORT_CHANGE_EVENT, 1),
        (DISABLE_LOCAL_LB_UC, 1),
        (DISABLE_LOCAL_LB_MC, 1),
        (LOG_MAX_VLAN_LIST, 8),
        (LOG_MAX_CURRENT_MC_LIST, 10),
        (LOG_MAX_CURRENT_UC_LIST, 7),
        (LOG_MAX_L2_TABLE, 8),
        (LOG_MAX_TIS_PER_SQ, 1),
        (BASIC_CYCLIC_RCV_WQE, 1),
    ]
};
