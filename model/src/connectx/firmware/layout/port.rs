//! Ports: registers, contexts, addresses.

structure! {
    /// Port type and speed (`struct mlx5_ifc_ptys_reg_bits`).
    ptys [64] {
        LOCAL_PORT: 0x8, 8;
        PROTO_MASK: 0x1d, 3;
        AN_STATUS: 0x20, 4;
        ETH_PROTO_CAPABILITY: 0x60, 32;
        IB_LINK_WIDTH_CAPABILITY: 0x80, 16;
        IB_PROTO_CAPABILITY: 0x90, 16;
        ETH_PROTO_ADMIN: 0xc0, 32;
        IB_LINK_WIDTH_ADMIN: 0xe0, 16;
        IB_PROTO_ADMIN: 0xf0, 16;
        ETH_PROTO_OPER: 0x120, 32;
        IB_LINK_WIDTH_OPER: 0x140, 16;
        IB_PROTO_OPER: 0x150, 16;
    }

    /// The most bytes of a packet (`struct mlx5_ifc_pmtu_reg_bits`).
    pmtu [16] {
        LOCAL_PORT: 0x8, 8;
        MAX_MTU: 0x20, 16;
        ADMIN_MTU: 0x40, 16;
        OPER_MTU: 0x60, 16;
    }

    /// Whether a port is to be up, and is (`struct mlx5_ifc_paos_reg_bits`).
    paos [16] {
        LOCAL_PORT: 0x8, 8;
        ADMIN_STATUS: 0x14, 4;
        OPER_STATUS: 0x1c, 4;
    }

    /// Virtual lanes (`struct mlx5_ifc_pvlc_reg_bits`).
    pvlc [16] {
        LOCAL_PORT: 0x8, 8;
        VL_HW_CAP: 0x3c, 4;
        VL_ADMIN: 0x5c, 4;
        VL_OPERATIONAL: 0x7c, 4;
    }

    /// What a port counts (`struct mlx5_ifc_ppcnt_reg_bits`); the group's numbers follow.
    ppcnt [256] {
        LOCAL_PORT: 0x8, 8;
        GROUP: 0x1a, 6;
    }

    /// An InfiniBand port (`struct mlx5_ifc_hca_vport_context_bits`).
    hca_vport_context [512] {
        FIELD_SELECT: 0x0, 32;
        HAS_SMI: 0x101, 1;
        HAS_RAW: 0x102, 1;
        GRH_REQUIRED: 0x103, 1;
        PORT_PHYSICAL_STATE: 0x110, 4;
        VPORT_STATE_POLICY: 0x114, 4;
        PORT_STATE: 0x118, 4;
        VPORT_STATE: 0x11c, 4;
        SYSTEM_IMAGE_GUID: 0x140, 64;
        PORT_GUID: 0x180, 64;
        NODE_GUID: 0x1c0, 64;
        CAP_MASK1: 0x200, 32;
        CAP_MASK1_FIELD_SELECT: 0x220, 32;
        LID: 0x300, 16;
        LMC: 0x318, 3;
        SUBNET_TIMEOUT: 0x31b, 5;
        SM_LID: 0x320, 16;
    }

    /// A global identifier, or all (index 0xffff) (`struct mlx5_ifc_query_hca_vport_gid_in_bits`).
    query_hca_vport_gid_in [16] {
        GID_INDEX: 0x70, 16;
    }

    /// A global identifier (`struct mlx5_ifc_query_hca_vport_gid_out_bits`).
    query_hca_vport_gid_out [16] {
        GIDS_NUM: 0x60, 16;
    }

    /// A partition key, or all (index 0xffff) (`struct mlx5_ifc_query_hca_vport_pkey_in_bits`).
    query_hca_vport_pkey_in [16] {
        PKEY_INDEX: 0x70, 16;
    }

    /// An Ethernet port (`struct mlx5_ifc_nic_vport_context_bits`).
    nic_vport_context [256] {
        MIN_WQE_INLINE_MODE: 0x5, 3;
        DISABLE_MC_LOCAL_LB: 0x1d, 1;
        DISABLE_UC_LOCAL_LB: 0x1e, 1;
        ROCE_EN: 0x1f, 1;
        MTU: 0x130, 16;
        SYSTEM_IMAGE_GUID: 0x140, 64;
        PORT_GUID: 0x180, 64;
        NODE_GUID: 0x1c0, 64;
        PROMISC_UC: 0x780, 1;
        PROMISC_MC: 0x781, 1;
        PROMISC_ALL: 0x782, 1;
        ALLOWED_LIST_TYPE: 0x785, 3;
        ALLOWED_LIST_SIZE: 0x794, 12;
        PERMANENT_ADDRESS: 0x7a0, 64;
    }

    /// An Ethernet port (`struct mlx5_ifc_query_nic_vport_context_in_bits`).
    query_nic_vport_context_in [16] {
        ALLOWED_LIST_TYPE: 0x65, 3;
    }

    /// Which fields a change is about (`struct mlx5_ifc_modify_nic_vport_field_select_bits`).
    nic_vport_fields [4] {
        DISABLE_UC_LOCAL_LB: 0x14, 1;
        DISABLE_MC_LOCAL_LB: 0x15, 1;
        NODE_GUID: 0x16, 1;
        PORT_GUID: 0x17, 1;
        MIN_INLINE: 0x18, 1;
        MTU: 0x19, 1;
        CHANGE_EVENT: 0x1a, 1;
        PROMISC: 0x1b, 1;
        PERMANENT_ADDRESS: 0x1c, 1;
        ADDRESSES_LIST: 0x1d, 1;
        ROCE_EN: 0x1e, 1;
    }

    /// Asks for a set of counters (`struct mlx5_ifc_query_q_counter_in_bits`).
    query_q_counter_in [32] {
        CLEAR: 0xc0, 1;
        COUNTER_SET_ID: 0xf8, 8;
    }

    /// A set of counters (`struct mlx5_ifc_query_q_counter_out_bits`).
    query_q_counter_out [256] {
        RX_WRITE_REQUESTS: 0x80, 32;
        RX_READ_REQUESTS: 0xc0, 32;
        RX_ATOMIC_REQUESTS: 0x100, 32;
        OUT_OF_BUFFER: 0x180, 32;
        OUT_OF_SEQUENCE: 0x1c0, 32;
        PACKET_SEQ_ERR: 0x280, 32;
    }

    /// Whether a port is up (`struct mlx5_ifc_query_vport_state_out_bits`).
    query_vport_state_out [16] {
        ADMIN_STATE: 0x78, 4;
        STATE: 0x7c, 4;
    }

    /// Sets a global identifier (`struct mlx5_ifc_set_roce_address_in_bits`).
    set_roce_address_in [48] {
        ROCE_ADDRESS_INDEX: 0x40, 16;
    }

    /// A global identifier (`struct mlx5_ifc_roce_addr_layout_bits`).
    roce_address [32] {
        VLAN_VALID: 0x83, 1;
        VLAN_ID: 0x84, 12;
        SOURCE_MAC_47_32: 0x90, 16;
        SOURCE_MAC_31_0: 0xa0, 32;
        ROCE_L3_TYPE: 0xd4, 4;
        ROCE_VERSION: 0xd8, 8;
    }
}
