//! Work queues of one direction: shared receive queues, and those of Ethernet.

structure! {
    /// Makes a work queue (`struct mlx5_ifc_create_rmp_out_bits`).
    create_out [16] {
        RMPN: 0x48, 24;
    }

    /// Changes, queries or destroys a work queue (`struct mlx5_ifc_modify_rq_in_bits`).
    modify_in [272] {
        RQ_STATE: 0x40, 4;
        RQN: 0x48, 24;
        MODIFY_BITMASK: 0x80, 64;
    }

    /// A work queue (`struct mlx5_ifc_wq_bits`).
    wq [192] {
        WQ_TYPE: 0x0, 4;
        WQ_SIGNATURE: 0x4, 1;
        PAGE_OFFSET: 0x2b, 5;
        LWM: 0x30, 16;
        PD: 0x48, 24;
        UAR_PAGE: 0x68, 24;
        DBR_ADDR: 0x80, 64;
        HW_COUNTER: 0xc0, 32;
        SW_COUNTER: 0xe0, 32;
        LOG_WQ_STRIDE: 0x10c, 4;
        LOG_WQ_PG_SZ: 0x113, 5;
        LOG_WQ_SZ: 0x11b, 5;
    }

    /// A memory pool of receives (`struct mlx5_ifc_rmpc_bits`).
    rmpc [240] {
        STATE: 0x8, 4;
        BASIC_CYCLIC_RCV_WQE: 0x20, 1;
    }

    /// A shared receive queue of extended connections (`struct mlx5_ifc_xrc_srqc_bits`).
    xrc_srqc [64] {
        STATE: 0x0, 4;
        LOG_XRC_SRQ_SIZE: 0x4, 4;
        WQ_SIGNATURE: 0x20, 1;
        BASIC_CYCLIC_RCV_WQE: 0x24, 1;
        LOG_RQ_STRIDE: 0x25, 3;
        XRCD: 0x28, 24;
        PAGE_OFFSET: 0x40, 6;
        CQN: 0x48, 24;
        USER_INDEX_EQUAL_XRC_SRQN: 0x80, 1;
        LOG_PAGE_SIZE: 0x82, 6;
        USER_INDEX: 0x88, 24;
        PD: 0xc8, 24;
        LWM: 0xe0, 16;
        WQE_CNT: 0xf0, 16;
        DB_RECORD_ADDR_H: 0x140, 32;
    }

    /// A shared receive queue (`struct mlx5_ifc_srqc_bits`).
    srqc [64] {
        STATE: 0x0, 4;
        LOG_SRQ_SIZE: 0x4, 4;
        WQ_SIGNATURE: 0x20, 1;
        LOG_RQ_STRIDE: 0x25, 3;
        XRCD: 0x28, 24;
        PAGE_OFFSET: 0x40, 6;
        CQN: 0x48, 24;
        LOG_PAGE_SIZE: 0x82, 6;
        PD: 0xc8, 24;
        LWM: 0xe0, 16;
        WQE_CNT: 0xf0, 16;
        DBR_ADDR: 0x140, 64;
    }

    /// An Ethernet receive queue (`struct mlx5_ifc_rqc_bits`).
    rqc [240] {
        VSD: 0x3, 1;
        MEM_RQ_TYPE: 0x4, 4;
        STATE: 0x8, 4;
        USER_INDEX: 0x28, 24;
        CQN: 0x48, 24;
        COUNTER_SET_ID: 0x60, 8;
        RMPN: 0x88, 24;
    }

    /// An Ethernet send queue (`struct mlx5_ifc_sqc_bits`).
    sqc [240] {
        MIN_WQE_INLINE_MODE: 0x5, 3;
        STATE: 0x8, 4;
        USER_INDEX: 0x28, 24;
        CQN: 0x48, 24;
        TIS_LST_SZ: 0x100, 16;
        TIS_NUM_0: 0x168, 24;
    }

    /// Asks for an event when few receives are left (`struct mlx5_ifc_arm_rq_in_bits`).
    arm_rq_in [16] {
        SRQ_NUMBER: 0x48, 24;
        LWM: 0x70, 16;
    }
}
