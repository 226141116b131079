//! Queue pairs.

structure! {
    /// Makes a queue pair (`struct mlx5_ifc_create_qp_out_bits`).
    create_qp_out [16] {
        QPN: 0x48, 24;
    }

    /// Changes, queries or destroys a queue pair (`struct mlx5_ifc_init2rtr_qp_in_bits`).
    modify_qp_in [272] {
        QPN: 0x48, 24;
        OPT_PARAM_MASK: 0x80, 32;
    }

    /// A queue pair (`struct mlx5_ifc_qpc_bits`).
    qpc [232] {
        STATE: 0x0, 4;
        ST: 0x8, 8;
        PM_STATE: 0x13, 2;
        WQ_SIGNATURE: 0x20, 1;
        PD: 0x28, 24;
        MTU: 0x40, 3;
        LOG_MSG_MAX: 0x43, 5;
        LOG_RQ_SIZE: 0x49, 4;
        LOG_RQ_STRIDE: 0x4d, 3;
        NO_SQ: 0x50, 1;
        LOG_SQ_SIZE: 0x51, 4;
        RLKY: 0x5b, 1;
        COUNTER_SET_ID: 0x60, 8;
        UAR_PAGE: 0x68, 24;
        USER_INDEX: 0x88, 24;
        LOG_PAGE_SIZE: 0xa3, 5;
        REMOTE_QPN: 0xa8, 24;
        LOG_SRA_MAX: 0x388, 3;
        RETRY_COUNT: 0x38d, 3;
        RNR_RETRY: 0x390, 3;
        NEXT_SEND_PSN: 0x3c8, 24;
        CQN_SND: 0x3e8, 24;
        DETH_SQPN: 0x408, 24;
        LOG_RRA_MAX: 0x488, 3;
        ATOMIC_MODE: 0x48c, 4;
        RRE: 0x490, 1;
        RWE: 0x491, 1;
        RAE: 0x492, 1;
        PAGE_OFFSET: 0x494, 6;
        MIN_RNR_NAK: 0x4a3, 5;
        NEXT_RCV_PSN: 0x4a8, 24;
        XRCD: 0x4c8, 24;
        CQN_RCV: 0x4e8, 24;
        DBR_ADDR: 0x500, 64;
        Q_KEY: 0x540, 32;
        RQ_TYPE: 0x565, 3;
        SRQN_RMPN_XRQN: 0x568, 24;
        HW_SQ_WQEBB_COUNTER: 0x5a0, 16;
        SW_SQ_WQEBB_COUNTER: 0x5b0, 16;
        HW_RQ_COUNTER: 0x5c0, 32;
        SW_RQ_COUNTER: 0x5e0, 32;
        CS_REQ: 0x630, 8;
        CS_RES: 0x638, 8;
    }

    /// A path to a peer (`struct mlx5_ifc_ads_bits`).
    path [44] {
        PKEY_INDEX: 0x10, 16;
        GRH: 0x28, 1;
        MLID: 0x29, 7;
        RLID: 0x30, 16;
        ACK_TIMEOUT: 0x40, 5;
        SRC_ADDR_INDEX: 0x48, 8;
        STAT_RATE: 0x54, 4;
        HOP_LIMIT: 0x58, 8;
        TCLASS: 0x64, 8;
        FLOW_LABEL: 0x6c, 20;
        DSCP: 0x10a, 6;
        UDP_SPORT: 0x110, 16;
        SL: 0x124, 4;
        VHCA_PORT_NUM: 0x128, 8;
        RMAC_47_32: 0x130, 16;
        RMAC_31_0: 0x140, 32;
    }
}
