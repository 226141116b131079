//! Which command does what.

use super::Firmware;
use super::field::Field;
use super::layout::command::{answer, command};
use super::numbers::Kind;
use super::opcode::Opcode;
use super::status::{Done, Refusal, Status};
use crate::connectx::Transition;

/// Where most commands name an object, and most answers a new one: 24 bits from byte 9 on.
const OBJECT: Field = Field::new(0x48, 24);
/// Where a counter's number is in an answer, and in a command.
const COUNTER: Field = Field::new(0x58, 8);

impl Firmware {
    /// Does what `input` asks for. `output` is the answer, zeroes at first.
    pub(super) fn execute(&mut self, input: &[u8], output: &mut [u8]) {
        let code = command::OPCODE.get(input) as u16;
        let done = match Opcode::from_code(code) {
            Some(opcode) => self
                .planned
                .meet(opcode)
                .and_then(|()| self.perform(opcode, input, output))
                .map_err(|refusal| (opcode.name().to_owned(), refusal)),
            None => Err((
                format!("command {code:#x}"),
                Refusal::new(Status::BadOperation, "there is no such command"),
            )),
        };
        if let Err((name, refusal)) = done {
            self.note(format_args!("{name} is refused. {refusal}"));
            output.fill(0);
            answer::STATUS.set(output, refusal.status as u64);
            answer::SYNDROME.set(output, code.into());
        }
    }

    fn perform(&mut self, opcode: Opcode, input: &[u8], output: &mut [u8]) -> Done {
        use Opcode::*;
        let object = OBJECT.get32(input);
        match opcode {
            EnableHca | InitHca | SetDriverVersion | Nop | ManagePages => Ok(()),
            // The device needs no pages of the driver.
            QueryPages => Ok(()),
            DisableHca | TeardownHca => {
                self.forget_all();
                Ok(())
            }
            QueryIssi => self.query_issi(output),
            SetIssi => self.set_issi(input),
            QueryAdapter => self.query_adapter(output),
            QueryHcaCap => self.query_capabilities(input, output),
            SetHcaCap => self.set_capabilities(input),
            QuerySpecialContexts => self.query_special_contexts(output),

            AllocUar => self.allocate_uar(output),
            DeallocUar => self.with_nic(|nic, _, _| nic.free_uar(object)),
            AllocPd => {
                let number = self.with_nic(|nic, _, _| nic.create_domain())?;
                OBJECT.set(output, number.into());
                Ok(())
            }
            DeallocPd => self.with_nic(|nic, _, _| nic.destroy_domain(object)),
            AllocTransportDomain => self.take(Kind::TransportDomain, output),
            DeallocTransportDomain => self.numbers.give_back(Kind::TransportDomain, object),
            AllocXrcd => self.take(Kind::ExtendedDomain, output),
            DeallocXrcd => self.numbers.give_back(Kind::ExtendedDomain, object),
            AllocQCounter => {
                let number = self.numbers.take(Kind::Counter)?;
                COUNTER.set(output, number.into());
                Ok(())
            }
            DeallocQCounter => self.numbers.give_back(Kind::Counter, COUNTER.get32(input)),
            QueryQCounter => self.query_q_counter(input, output),
            QueryVportCounter => self.query_vport_counter(output),

            CreateMkey => self.create_key(input, output),
            QueryMkey => self.query_key(input, output),
            DestroyMkey => self.destroy_key(input),
            AllocMemic => self.allocate_device_memory(input, output),
            DeallocMemic => self.free_device_memory(input),
            CreateEq => self.events.create(input, output),
            DestroyEq => self.events.destroy(input),
            QueryEq => self.events.query(input, output),
            CreateCq => self.create_completion_queue(input, output),
            DestroyCq => self.destroy_completion_queue(input),
            QueryCq => self.query_completion_queue(input, output),
            ModifyCq => self.modify_completion_queue(input),

            CreateQp => self.create_queue_pair(input, output),
            DestroyQp => self.destroy_queue_pair(input),
            QueryQp => self.query_queue_pair(input, output),
            QpResetToInit => self.modify_queue_pair(input, Transition::ResetToInit),
            QpInitToInit => self.modify_queue_pair(input, Transition::InitToInit),
            QpInitToRtr => self.modify_queue_pair(input, Transition::InitToReadyToReceive),
            QpRtrToRts => self.modify_queue_pair(input, Transition::ReadyToReceiveToReadyToSend),
            QpRtsToRts => self.modify_queue_pair(input, Transition::ReadyToSendToReadyToSend),
            QpToError => self.modify_queue_pair(input, Transition::ToError),
            QpToReset => self.modify_queue_pair(input, Transition::ToReset),

            AttachToMcg => self.join_group(input),
            DetachFromMcg => self.leave_group(input),

            CreateRmp => self.create_memory_pool(input, output),
            CreateXrcSrq => self.create_extended_receives(input, output),
            CreateSrq => self.create_shared_receives(input, output),
            DestroyRmp | DestroyXrcSrq | DestroySrq => self.destroy_shared_receives(input),
            QueryRmp => self.query_shared_receives(input, output, true),
            QueryXrcSrq | QuerySrq => self.query_shared_receives(input, output, false),
            ArmRq | ArmXrcSrq => self.arm_shared_receives(input),
            ModifyRmp => self.modify_memory_pool(input),

            CreateSq => self.create_frame_queue(input, output, true),
            ModifySq => self.modify_frame_queue(input, true),
            QuerySq => self.query_frame_queue(input, output, true),
            DestroySq => self.destroy_frame_queue(input, true),
            CreateRq => self.create_frame_queue(input, output, false),
            ModifyRq => self.modify_frame_queue(input, false),
            QueryRq => self.query_frame_queue(input, output, false),
            DestroyRq => self.destroy_frame_queue(input, false),
            CreateRqt => self.create_receive_table(input, output),
            ModifyRqt => self.modify_receive_table(input),
            DestroyRqt => self.destroy_receive_table(input),
            CreateTir => self.create_receive_interface(input, output),
            ModifyTir => self.modify_receive_interface(input),
            DestroyTir => self.destroy_receive_interface(input),
            CreateTis => self.create_send_interface(input, output),
            ModifyTis => self.expect(Kind::SendInterface, object),
            DestroyTis => self.destroy_send_interface(input),
            CreateFlowTable => self.create_flow_table(input, output),
            DestroyFlowTable => self.destroy_flow_table(input),
            ModifyFlowTable => self.modify_flow_table(input),
            SetFlowTableRoot => self.set_flow_table_root(input),
            CreateFlowGroup => self.create_flow_group(input, output),
            DestroyFlowGroup => self.destroy_flow_group(input),
            SetFlowTableEntry => self.set_flow_table_entry(input),
            DeleteFlowTableEntry => self.delete_flow_table_entry(input),
            AllocFlowCounter => self.allocate_flow_counter(output),
            DeallocFlowCounter => self.free_flow_counter(input),
            QueryFlowCounter => self.query_flow_counter(input, output),
            SetL2TableEntry | DeleteL2TableEntry => Ok(()),

            QueryVportState => self.query_vport_state(output),
            QueryHcaVportContext => self.query_hca_vport(output),
            ModifyHcaVportContext => self.modify_hca_vport(input),
            QueryHcaVportGid => self.query_hca_vport_gid(input, output),
            QueryHcaVportPkey => self.query_hca_vport_pkey(input, output),
            QueryNicVportContext => self.query_nic_vport(output),
            ModifyNicVportContext => self.modify_nic_vport(input),
            SetRoceAddress => self.set_roce_address(input),
            MadIfc => self.manage(input, output),
            AccessReg => self.access_register(input, output),

            _ => Err(Refusal::new(Status::BadOperation, "this device does not")),
        }
    }

    /// Hands out a number of a kind that is only numbers.
    pub(super) fn take(&mut self, kind: Kind, output: &mut [u8]) -> Done {
        let number = self.numbers.take(kind)?;
        OBJECT.set(output, number.into());
        Ok(())
    }

    /// That there is such an object, of a kind that is only numbers.
    pub(super) fn expect(&self, kind: Kind, number: u32) -> Done {
        match self.numbers.contains(kind, number) {
            true => Ok(()),
            false => Err(Refusal::unknown(&format!("{kind:?}"), number)),
        }
    }

    fn allocate_uar(&mut self, output: &mut [u8]) -> Done {
        let page = self.with_nic(|nic, _, _| nic.allocate_uar())?;
        OBJECT.set(output, page.into());
        Ok(())
    }
}
