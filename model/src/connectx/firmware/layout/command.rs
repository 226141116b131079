//! What every command and every answer begins with, and those that are little more.

structure! {
    /// The start of any command (`struct mlx5_ifc_create_qp_in_bits`).
    command [272] {
        OPCODE: 0x0, 16;
        UID: 0x10, 16;
        OP_MOD: 0x30, 16;
    }

    /// The start of any answer (`struct mlx5_ifc_create_qp_out_bits`).
    answer [16] {
        STATUS: 0x0, 8;
        SYNDROME: 0x20, 32;
    }

    /// Which interface is spoken (`struct mlx5_ifc_query_issi_out_bits`).
    query_issi_out [112] {
        CURRENT_ISSI: 0x50, 16;
        SUPPORTED_ISSI_DW0: 0x360, 32;
    }

    /// How many pages the device wants (`struct mlx5_ifc_query_pages_in_bits`).
    query_pages_in [16] {
        FUNCTION_ID: 0x50, 16;
    }

    /// How many pages the device wants (`struct mlx5_ifc_query_pages_out_bits`).
    query_pages_out [16] {
        FUNCTION_ID: 0x50, 16;
        NUM_PAGES: 0x60, 32;
    }

    /// Who made the device (`struct mlx5_ifc_query_adapter_param_block_bits`).
    adapter [256] {
        IEEE_VENDOR_ID: 0xc8, 24;
        VSD_VENDOR_ID: 0xf0, 16;
    }

    /// Keys that the device defines (`struct mlx5_ifc_query_special_contexts_out_bits`).
    query_special_contexts_out [32] {
        DUMP_FILL_MKEY: 0x40, 32;
        RESD_LKEY: 0x60, 32;
        NULL_MKEY: 0x80, 32;
        TERMINATE_SCATTER_LIST_MKEY: 0xa0, 32;
        REPEATED_MKEY: 0xc0, 32;
    }

    /// Takes device memory (`struct mlx5_ifc_alloc_memic_in_bits`).
    alloc_memic_in [32] {
        LOG_MEMIC_ADDR_ALIGNMENT: 0x78, 8;
        RANGE_START_ADDR: 0x80, 64;
        RANGE_SIZE: 0xc0, 32;
        MEMIC_SIZE: 0xe0, 32;
    }

    /// Takes device memory (`struct mlx5_ifc_alloc_memic_out_bits`).
    alloc_memic_out [16] {
        MEMIC_START_ADDR: 0x40, 64;
    }

    /// Gives device memory back (`struct mlx5_ifc_dealloc_memic_in_bits`).
    dealloc_memic_in [32] {
        MEMIC_START_ADDR: 0x80, 64;
        MEMIC_SIZE: 0xc0, 32;
    }

    /// Reads or writes a register (`struct mlx5_ifc_access_register_in_bits`).
    access_register_in [16] {
        REGISTER_ID: 0x50, 16;
        ARGUMENT: 0x60, 32;
    }
}
