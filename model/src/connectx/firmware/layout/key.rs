//! Memory keys.

structure! {
    /// Makes a memory key (`struct mlx5_ifc_create_mkey_in_bits`).
    create_mkey_in [272] {
        PG_ACCESS: 0x60, 1;
        MKEY_UMEM_VALID: 0x61, 1;
        TRANSLATIONS_OCTWORD_ACTUAL_SIZE: 0x300, 32;
    }

    /// Makes a memory key (`struct mlx5_ifc_create_mkey_out_bits`).
    create_mkey_out [16] {
        MKEY_INDEX: 0x48, 24;
    }

    /// Destroys or queries a memory key (`struct mlx5_ifc_destroy_mkey_in_bits`).
    destroy_mkey_in [16] {
        MKEY_INDEX: 0x48, 24;
    }

    /// A memory key (`struct mlx5_ifc_mkc_bits`).
    mkc [64] {
        FREE: 0x1, 1;
        ACCESS_MODE_4_2: 0x3, 3;
        RELAXED_ORDERING_WRITE: 0xd, 1;
        UMR_EN: 0x10, 1;
        A: 0x11, 1;
        RW: 0x12, 1;
        RR: 0x13, 1;
        LW: 0x14, 1;
        LR: 0x15, 1;
        ACCESS_MODE_1_0: 0x16, 2;
        QPN: 0x20, 24;
        MKEY_7_0: 0x38, 8;
        LENGTH64: 0x60, 1;
        BSF_EN: 0x61, 1;
        EN_RINVAL: 0x67, 1;
        PD: 0x68, 24;
        START_ADDR: 0x80, 64;
        LEN: 0xc0, 64;
        TRANSLATIONS_OCTWORD_SIZE: 0x1a0, 32;
        RELAXED_ORDERING_READ: 0x1d9, 1;
        LOG_PAGE_SIZE: 0x1da, 6;
    }
}
