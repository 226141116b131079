//! The firmware channel (HWRM): a request out of the mailbox, its answer into memory.
//!
//! A request that cannot be read, or whose answer cannot be written, is not answered: the driver's
//! time runs out, as with hardware.

mod backing;
mod function;
mod port;
mod receive;
mod rings;

pub(super) use function::Reservations;

use super::nic::Netxtreme;
use super::refusal::Asked;
use crate::fabric::Fabric;
use doorbell::bnxt::abi::firmware::{
    AnswerHeader, EmptyAnswer, ErrorAnswer, ErrorCode, NO_RING, Request, RequestHeader,
    RequestType, SHORT_SIGNATURE, ShortRequest,
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Bytes of the longest request, and more than any of ours has.
const MOST_REQUEST: usize = 512;

/// The bytes of an answer, or why there is none.
pub(super) type Answered = Result<Vec<u8>, ErrorCode>;

/// The answer that says only that all went well.
fn done() -> Answered {
    Ok(EmptyAnswer::new_zeroed().as_bytes().to_vec())
}

/// A typed answer's bytes.
fn answer(answer: &(impl IntoBytes + zerocopy::Immutable)) -> Answered {
    Ok(answer.as_bytes().to_vec())
}

/// A request out of its bytes; what was not sent is 0.
fn parse<R: Request>(bytes: &[u8; MOST_REQUEST]) -> Result<R, ErrorCode> {
    R::read_from_prefix(bytes).map(|(request, _)| request).map_err(|_| ErrorCode::InvalidParams)
}

impl Netxtreme {
    /// The mailbox was triggered.
    pub(super) fn take_request(&mut self, fabric: &mut dyn Fabric) {
        if !self.works() {
            return;
        }
        self.counters.requests += 1;
        let Some(bytes) = self.fetch_request() else { return };
        let Ok((header, _)) = RequestHeader::read_from_prefix(&bytes[..]) else { return };
        let kind = RequestType::from_code(header.req_type.get());
        let answered = match self.refuses(Asked::Request(kind)) {
            true => Err(ErrorCode::Fail),
            false => self.act_on_request(kind, &bytes, fabric),
        };
        let answered = answered.unwrap_or_else(|why| {
            self.counters.requests_refused += 1;
            // What this firmware does not have, it is asked for at every start.
            if why != ErrorCode::CmdNotSupported {
                self.log.note(format_args!("{kind:?} is refused: {why:?}"));
            }
            let mut refusal = ErrorAnswer::new_zeroed();
            refusal.header.error_code = why.code().into();
            refusal.as_bytes().to_vec()
        });
        self.answer_request(&header, answered);
    }

    /// The request in the mailbox, or in memory where the mailbox says so.
    fn fetch_request(&mut self) -> Option<[u8; MOST_REQUEST]> {
        let mut bytes = [0; MOST_REQUEST];
        let window = &self.registers.window;
        bytes[..window.len()].copy_from_slice(window);
        let (short, _) = ShortRequest::read_from_prefix(window).ok()?;
        if short.signature.get() != SHORT_SIGNATURE {
            return Some(bytes);
        }
        let size = usize::from(short.size.get());
        if !(size_of::<RequestHeader>()..=MOST_REQUEST).contains(&size) {
            self.log.note(format_args!("a request of {size} bytes is not answered"));
            return None;
        }
        bytes = [0; MOST_REQUEST];
        if let Err(fault) = self.memory.space().read(short.req_addr.get(), &mut bytes[..size]) {
            self.log.note(format_args!("lost access: a request is not answered: {fault}"));
            return None;
        }
        Some(bytes)
    }

    fn answer_request(&mut self, request: &RequestHeader, mut bytes: Vec<u8>) {
        let length = bytes.len();
        let Ok((header, _)) = AnswerHeader::mut_from_prefix(&mut bytes) else { return };
        header.req_type = request.req_type;
        header.seq_id = request.seq_id;
        header.resp_len = (length as u16).into();
        let (space, address) = (self.memory.space(), request.resp_addr.get());
        let written = space.write(address, &bytes).and_then(|()| {
            // The last byte says that the others are there.
            space.store_byte(address.wrapping_add(length as u64 - 1), 1)
        });
        if let Err(fault) = written {
            return self.log.note(format_args!("lost access: an answer is lost: {fault}"));
        }
        let ring = request.cmpl_ring.get();
        if ring != NO_RING {
            self.tell_done(ring, request.seq_id.get());
        }
    }

    fn act_on_request(
        &mut self,
        kind: RequestType,
        bytes: &[u8; MOST_REQUEST],
        fabric: &mut dyn Fabric,
    ) -> Answered {
        use RequestType::*;
        match kind {
            VerGet => self.version(),
            FuncReset => {
                self.forget_everything(fabric);
                done()
            }
            FuncQcaps => self.function_capabilities(),
            FuncQcfg => self.function_configuration(),
            FuncCfg => self.configure_function(&parse(bytes)?),
            FuncResourceQcaps => self.function_resources(),
            FuncDrvRgtr => self.register_driver(),
            FuncDrvUnrgtr => self.unregister_driver(fabric),
            FuncDbrPacingQcfg => self.doorbell_pacing(),
            FuncBackingStoreQcapsV2 => self.context_type(&parse(bytes)?),
            FuncBackingStoreCfgV2 => self.lend_context(&parse(bytes)?),
            QueueQportcfg => self.port_queues(),
            QueuePri2cosQcfg => self.port_priorities(),
            PortPhyQcaps => self.link_capabilities(),
            PortPhyQcfg => self.link_state(),
            PortPhyCfg => self.configure_link(&parse(bytes)?),
            FwSetTime => done(),
            // Counts of no bytes, no lamps, no flash memory.
            PortQstats | PortQstatsExt => done(),
            PortLedQcaps => Ok(vec![0; 48]),
            NvmGetDevInfo => Ok(vec![0; 96]),
            RingAlloc => self.allocate_ring(&parse(bytes)?),
            RingFree => self.free_ring(&parse(bytes)?),
            RingCmplRingCfgAggintParams => done(),
            RingAggintQcaps => self.interrupt_bounds(),
            StatCtxAlloc => self.allocate_statistics(&parse(bytes)?),
            StatCtxFree => self.free_statistics(&parse(bytes)?),
            VnicQcaps => self.interface_capabilities(),
            VnicAlloc => self.allocate_interface(&parse(bytes)?),
            VnicFree => self.free_interface(&parse(bytes)?),
            VnicCfg => self.configure_interface(&parse(bytes)?),
            VnicRssCosLbCtxAlloc => self.allocate_scaling(),
            VnicRssCosLbCtxFree => self.free_scaling(&parse(bytes)?),
            VnicRssCfg => self.configure_scaling(&parse(bytes)?),
            VnicPlcmodesCfg | VnicTpaCfg => done(),
            CfaL2FilterAlloc => self.allocate_filter(&parse(bytes)?),
            CfaL2FilterFree => self.free_filter(&parse(bytes)?),
            CfaL2SetRxMask => self.set_receive_mask(&parse(bytes)?),
            _ => Err(ErrorCode::CmdNotSupported),
        }
    }
}
