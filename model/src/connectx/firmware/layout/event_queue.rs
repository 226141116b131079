//! Event queues.

structure! {
    /// Makes an event queue (`struct mlx5_ifc_create_eq_out_bits`).
    create_eq_out [16] {
        EQ_NUMBER: 0x58, 8;
    }

    /// Destroys an event queue (`struct mlx5_ifc_destroy_eq_in_bits`).
    destroy_eq_in [16] {
        EQ_NUMBER: 0x58, 8;
    }

    /// An event queue (`struct mlx5_ifc_eqc_bits`).
    eqc [64] {
        STATUS: 0x0, 4;
        ST: 0x14, 4;
        PAGE_OFFSET: 0x54, 6;
        LOG_EQ_SIZE: 0x63, 5;
        UAR_PAGE: 0x68, 24;
        INTR: 0xb4, 12;
        LOG_PAGE_SIZE: 0xc3, 5;
        CONSUMER_COUNTER: 0x148, 24;
        PRODUCER_COUNTER: 0x168, 24;
    }
}
