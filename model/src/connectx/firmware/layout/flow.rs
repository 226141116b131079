//! Flow tables, and the interfaces behind them.

structure! {
    /// Makes a flow table (`struct mlx5_ifc_create_flow_table_in_bits`).
    create_flow_table_in [64] {
        TABLE_TYPE: 0x80, 8;
    }

    /// Changes a flow table, or makes it the root (`struct mlx5_ifc_modify_flow_table_in_bits`,
    /// `_set_flow_table_root_in_bits`, `_destroy_flow_table_in_bits`).
    flow_table_in [64] {
        MODIFY_FIELD_SELECT: 0x70, 16;
        TABLE_TYPE: 0x80, 8;
        TABLE_ID: 0xa8, 24;
    }

    /// A flow table (`struct mlx5_ifc_flow_table_context_bits`).
    flow_table_context [40] {
        TABLE_MISS_ACTION: 0x4, 4;
        LEVEL: 0x8, 8;
        LOG_SIZE: 0x18, 8;
        TABLE_MISS_ID: 0x28, 24;
    }

    /// Makes a group of a flow table (`struct mlx5_ifc_create_flow_group_in_bits`).
    create_flow_group_in [1024] {
        TABLE_ID: 0xa8, 24;
        MATCH_CRITERIA_ENABLE: 0x1f8, 8;
    }

    /// Names a group (`struct mlx5_ifc_create_flow_group_out_bits`).
    create_flow_group_out [16] {
        GROUP_ID: 0x48, 24;
    }

    /// Destroys a group (`struct mlx5_ifc_destroy_flow_group_in_bits`).
    destroy_flow_group_in [64] {
        TABLE_ID: 0xa8, 24;
        GROUP_ID: 0xc0, 32;
    }

    /// Sets an entry, or takes it away (`struct mlx5_ifc_set_fte_in_bits`, `_delete_fte_in_bits`).
    set_fte_in [64] {
        TABLE_ID: 0xa8, 24;
        FLOW_INDEX: 0x100, 32;
    }

    /// An entry (`struct mlx5_ifc_flow_context_bits`).
    flow_context [768] {
        GROUP_ID: 0x20, 32;
        FLOW_TAG: 0x48, 24;
        ACTION: 0x70, 16;
        DESTINATION_LIST_SIZE: 0x88, 24;
        FLOW_COUNTER_LIST_SIZE: 0xa8, 24;
    }

    /// Where an entry's frames go (`struct mlx5_ifc_dest_format_struct_bits`).
    destination [8] {
        DESTINATION_TYPE: 0x0, 8;
        DESTINATION_ID: 0x8, 24;
    }

    /// Reads a counter (`struct mlx5_ifc_query_flow_counter_in_bits`).
    query_flow_counter_in [32] {
        CLEAR: 0xc0, 1;
        FLOW_COUNTER_ID: 0xe0, 32;
    }

    /// What was counted (`struct mlx5_ifc_traffic_counter_bits`).
    traffic_counter [16] {
        PACKETS: 0x0, 64;
        OCTETS: 0x40, 64;
    }

    /// An interface that receives (`struct mlx5_ifc_tirc_bits`).
    tirc [240] {
        DISP_TYPE: 0x20, 4;
        INLINE_RQN: 0xe8, 24;
        INDIRECT_TABLE: 0x108, 24;
        SELF_LB_BLOCK: 0x126, 2;
        TRANSPORT_DOMAIN: 0x128, 24;
        RX_HASH_FIELD_SELECTOR_OUTER: 0x280, 32;
    }

    /// What of an interface changes (`struct mlx5_ifc_modify_tir_bitmask_bits`).
    modify_tir_bitmask [8] {
        SELF_LB_EN: 0x3b, 1;
        HASH: 0x3d, 1;
    }

    /// An interface that sends (`struct mlx5_ifc_tisc_bits`).
    tisc [160] {
        TRANSPORT_DOMAIN: 0x128, 24;
    }

    /// The outer headers of a frame (`struct mlx5_ifc_fte_match_set_lyr_2_4_bits`).
    headers [64] {
        SMAC_47_16: 0x0, 32;
        SMAC_15_0: 0x20, 16;
        ETHERTYPE: 0x30, 16;
        DMAC_47_16: 0x40, 32;
        DMAC_15_0: 0x60, 16;
        FIRST_PRIO: 0x70, 3;
        FIRST_CFI: 0x73, 1;
        FIRST_VID: 0x74, 12;
        IP_PROTOCOL: 0x80, 8;
        IP_DSCP: 0x88, 6;
        IP_ECN: 0x8e, 2;
        CVLAN_TAG: 0x90, 1;
        FRAG: 0x92, 1;
        IP_VERSION: 0x93, 4;
        TCP_FLAGS: 0x97, 9;
        TCP_SPORT: 0xa0, 16;
        TCP_DPORT: 0xb0, 16;
        L4_TYPE: 0xc0, 2;
        IPV4_IHL: 0xd0, 4;
        TTL_HOPLIMIT: 0xd8, 8;
        UDP_SPORT: 0xe0, 16;
        UDP_DPORT: 0xf0, 16;
        SOURCE_IP_HIGH: 0x100, 64;
        SOURCE_IP_LOW: 0x140, 64;
        DESTINATION_IP_HIGH: 0x180, 64;
        DESTINATION_IP_LOW: 0x1c0, 64;
    }

    /// What of the headers is hashed (`struct mlx5_ifc_rx_hash_field_select_bits`; the fields are bits of
    /// `MLX5_HASH_FIELD_SEL_*`).
    hash_fields [4] {
        UDP: 0x1, 1;
        DESTINATION_PORT: 0x1c, 1;
        SOURCE_PORT: 0x1d, 1;
        DESTINATION_IP: 0x1e, 1;
        SOURCE_IP: 0x1f, 1;
    }
}
