//! The numbers of the RoCE engine's commands.
//!
//! From Linux' `roce_hsi.h` (`CMDQ_BASE_OPCODE_*`).

codes! {
    /// A command of the RoCE engine's firmware.
    pub enum Opcode: u8, "command" {
        /// [`CreateQueuePair`](super::command::CreateQueuePair).
        CreateQueuePair = 0x01, "CMDQ_BASE_OPCODE_CREATE_QP";
        /// [`DestroyQueuePair`](super::command::DestroyQueuePair).
        DestroyQueuePair = 0x02, "CMDQ_BASE_OPCODE_DESTROY_QP";
        /// [`ModifyQueuePair`](super::command::ModifyQueuePair).
        ModifyQueuePair = 0x03, "CMDQ_BASE_OPCODE_MODIFY_QP";
        /// [`QueryQueuePair`](super::command::QueryQueuePair).
        QueryQueuePair = 0x04, "CMDQ_BASE_OPCODE_QUERY_QP";
        /// [`CreateSharedReceiveQueue`](super::command::CreateSharedReceiveQueue).
        CreateSharedReceiveQueue = 0x05, "CMDQ_BASE_OPCODE_CREATE_SRQ";
        /// [`DestroySharedReceiveQueue`](super::command::DestroySharedReceiveQueue).
        DestroySharedReceiveQueue = 0x06, "CMDQ_BASE_OPCODE_DESTROY_SRQ";
        /// [`QuerySharedReceiveQueue`](super::command::QuerySharedReceiveQueue).
        QuerySharedReceiveQueue = 0x08, "CMDQ_BASE_OPCODE_QUERY_SRQ";
        /// [`CreateCompletionQueue`](super::command::CreateCompletionQueue).
        CreateCompletionQueue = 0x09, "CMDQ_BASE_OPCODE_CREATE_CQ";
        /// [`DestroyCompletionQueue`](super::command::DestroyCompletionQueue).
        DestroyCompletionQueue = 0x0a, "CMDQ_BASE_OPCODE_DESTROY_CQ";
        /// [`ResizeCompletionQueue`](super::command::ResizeCompletionQueue).
        ResizeCompletionQueue = 0x0c, "CMDQ_BASE_OPCODE_RESIZE_CQ";
        /// [`AllocateKey`](super::command::AllocateKey).
        AllocateKey = 0x0d, "CMDQ_BASE_OPCODE_ALLOCATE_MRW";
        /// [`DeallocateKey`](super::command::DeallocateKey).
        DeallocateKey = 0x0e, "CMDQ_BASE_OPCODE_DEALLOCATE_KEY";
        /// [`RegisterRegion`](super::command::RegisterRegion).
        RegisterRegion = 0x0f, "CMDQ_BASE_OPCODE_REGISTER_MR";
        /// [`DeregisterRegion`](super::command::DeregisterRegion).
        DeregisterRegion = 0x10, "CMDQ_BASE_OPCODE_DEREGISTER_MR";
        /// [`AddGid`](super::command::AddGid).
        AddGid = 0x11, "CMDQ_BASE_OPCODE_ADD_GID";
        /// [`DeleteGid`](super::command::DeleteGid).
        DeleteGid = 0x12, "CMDQ_BASE_OPCODE_DELETE_GID";
        /// [`CreateAddressHandle`](super::command::CreateAddressHandle).
        CreateAddressHandle = 0x15, "CMDQ_BASE_OPCODE_CREATE_AH";
        /// [`DestroyAddressHandle`](super::command::DestroyAddressHandle).
        DestroyAddressHandle = 0x16, "CMDQ_BASE_OPCODE_DESTROY_AH";
        /// [`ModifyGid`](super::command::ModifyGid).
        ModifyGid = 0x17, "CMDQ_BASE_OPCODE_MODIFY_GID";
        /// [`QueryGid`](super::command::QueryGid).
        QueryGid = 0x18, "CMDQ_BASE_OPCODE_QUERY_GID";
        /// [`InitializeFirmware`](super::command::InitializeFirmware).
        InitializeFirmware = 0x80, "CMDQ_BASE_OPCODE_INITIALIZE_FW";
        /// [`DeinitializeFirmware`](super::command::DeinitializeFirmware).
        DeinitializeFirmware = 0x81, "CMDQ_BASE_OPCODE_DEINITIALIZE_FW";
        /// [`QueryFunction`](super::command::QueryFunction).
        QueryFunction = 0x83, "CMDQ_BASE_OPCODE_QUERY_FUNC";
        /// [`QueryVersion`](super::command::QueryVersion).
        QueryVersion = 0x8b, "CMDQ_BASE_OPCODE_QUERY_VERSION";
        /// [`ModifyCongestionControl`](super::command::ModifyCongestionControl).
        ModifyCongestionControl = 0x8c, "CMDQ_BASE_OPCODE_MODIFY_ROCE_CC";
        /// How congestion is controlled.
        QueryCongestionControl = 0x8d, "CMDQ_BASE_OPCODE_QUERY_ROCE_CC";
        /// [`QueryStatistics`](super::command::QueryStatistics).
        QueryStatistics = 0x8e, "CMDQ_BASE_OPCODE_QUERY_ROCE_STATS";
        /// [`QueryExtendedStatistics`](super::command::QueryExtendedStatistics).
        QueryExtendedStatistics = 0x92, "CMDQ_BASE_OPCODE_QUERY_ROCE_STATS_EXT";
    }
}
