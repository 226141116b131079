//! Completion queues.

structure! {
    /// Makes a completion queue (`struct mlx5_ifc_create_cq_out_bits`).
    create_cq_out [16] {
        CQN: 0x48, 24;
    }

    /// Destroys or queries a completion queue (`struct mlx5_ifc_destroy_cq_in_bits`).
    destroy_cq_in [16] {
        CQN: 0x48, 24;
    }

    /// Changes a completion queue (`struct mlx5_ifc_modify_cq_in_bits`).
    modify_cq_in [272] {
        CQN: 0x48, 24;
        MODIFY_FIELD_SELECT_RESIZE_FIELD_SELECT: 0x60, 32;
    }

    /// A completion queue (`struct mlx5_ifc_cqc_bits`).
    cqc [64] {
        STATUS: 0x0, 4;
        CQE_SZ: 0x8, 3;
        CC: 0xb, 1;
        OI: 0xe, 1;
        CQ_PERIOD_MODE: 0xf, 2;
        CQE_COMP_EN: 0x11, 1;
        ST: 0x14, 4;
        PAGE_OFFSET: 0x54, 6;
        LOG_CQ_SIZE: 0x63, 5;
        UAR_PAGE: 0x68, 24;
        CQ_PERIOD: 0x84, 12;
        CQ_MAX_COUNT: 0x90, 16;
        C_EQN_OR_APU_ELEMENT: 0xa0, 32;
        LOG_PAGE_SIZE: 0xc3, 5;
        CONSUMER_COUNTER: 0x148, 24;
        PRODUCER_COUNTER: 0x168, 24;
        DBR_ADDR: 0x1c0, 64;
    }
}
