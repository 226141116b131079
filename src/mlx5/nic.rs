//! An open NIC.

use super::abi::driver::{
    AllocPdResp, AllocUcontextReqV2, AllocUcontextResp, LibCaps, UarAllocType,
};
use super::abi::verbs::device::{QueryDevice, QueryDeviceResp};
use super::abi::verbs::method::{self, UHW_IN, UHW_OUT};
use super::abi::verbs::port::{self, GidEntry, GidType, PortState, QueryPortRespEx};
use super::abi::verbs::write::{self, WriteCommand};
use super::abi::{self, wqe};
use super::call::Call;
use super::context::{Context, DeviceLimits, Port, UarPage};
use super::ring::entry::LEAST_SLOTS;
use crate::endpoint::{LinkLayer, Mtu};
use crate::error::{Error, Refused, destroy_alone};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use doorbell_hal::uverbs::Uverbs;
use zerocopy::FromZeros;

/// An open NIC: port 1 of one ConnectX function, and one protection domain that its regions and
/// queue pairs share.
///
/// `V` is the verbs file that it was opened through:
/// [`VerbsFile`](doorbell_hal::linux::VerbsFile) for a NIC of this machine. Any thread may make any
/// call. The objects made on it keep it open; [`close`](Self::close) says whether it was closed.
///
/// A child of `fork` must not use its parent's NICs or their objects: their rings are not mapped in
/// the child.
pub struct Nic<V: Uverbs> {
    pub(super) context: Arc<Context<V>>,
}

/// The only port that a ConnectX function has.
const PORT: u8 = 1;

/// The most entries that a request for the table of global identifiers can ask for.
const MOST_GIDS: u32 = u16::MAX as u32 / size_of::<GidEntry>() as u32;

impl<V: Uverbs> Nic<V> {
    /// Opens the NIC behind `verbs`, which must be of the mlx5 family.
    ///
    /// Fails if the kernel refuses a call, if port 1 is not active, if it is an Ethernet port with
    /// no RoCE v2 global identifier, or if the kernel gives fewer doorbell registers than a page
    /// holds.
    pub fn open(verbs: V) -> Result<Self, Error> {
        let driver = get_context(&verbs)?;
        let device = query_device(&verbs)?;
        let port = query_port(&verbs)?;
        let protection_domain = allocate_protection_domain(&verbs)?;
        let uncached = UarPage::make(&verbs, UarAllocType::NonCached)?;
        // A queue's index in a record has 16 bits, which must tell a full ring from an empty one.
        let most_slots = 1 << 15;
        let limits = DeviceLimits {
            queue_pairs: device.max_qp,
            // The NIC counts completions in 24 bits, which must tell a full ring from an empty one.
            completion_entries: device.max_cqe.min((1 << 23) - 1),
            send_slots: driver.max_send_wqebb.min(most_slots),
            send_entry_bytes: u32::from(driver.max_sq_desc_sz)
                .min((wqe::MAX_SEGMENTS * wqe::SEGMENT_BYTES) as u32),
            receives: driver.max_recv_wr.min(most_slots),
            receive_entry_bytes: driver.max_rq_desc_sz.into(),
            read_depth: u8::try_from(device.max_qp_rd_atom).unwrap_or(u8::MAX),
            initiator_depth: u8::try_from(device.max_qp_init_rd_atom).unwrap_or(u8::MAX),
        };
        let context = Context::new(verbs, port, limits, protection_domain, uncached);
        Ok(Nic { context: Arc::new(context) })
    }

    /// The name of the RDMA device, such as `mlx5_0`.
    pub fn name(&self) -> &str {
        self.context.verbs.device_name()
    }

    /// The verbs file that the NIC was opened through.
    pub fn verbs(&self) -> &V {
        &self.context.verbs
    }

    /// The link layer of the port.
    pub fn link(&self) -> LinkLayer {
        self.context.port.link
    }

    /// The most bytes that a packet of the port carries.
    pub fn mtu(&self) -> Mtu {
        self.context.port.mtu
    }

    /// The port's global identifier that connections use: on Ethernet a RoCE v2 one, IPv4-mapped
    /// if there is such.
    pub fn gid(&self) -> [u8; 16] {
        self.context.port.gid
    }

    /// The most bytes that one message carries: that one write, read or send moves.
    pub fn max_message(&self) -> u32 {
        self.context.port.max_message
    }

    /// The most entries that a completion queue holds.
    pub fn max_completions(&self) -> u32 {
        self.context.limits.completion_entries
    }

    /// The most 64-byte slots that a send queue holds.
    pub fn max_sends(&self) -> u32 {
        self.context.limits.send_slots
    }

    /// The most receives that a receive queue holds.
    pub fn max_receives(&self) -> u32 {
        self.context.limits.receives
    }

    /// Closes the NIC. The kernel then destroys every object of its file.
    ///
    /// Fails, and gives the NIC back, while objects of it, or other handles on it, exist.
    pub fn close(self) -> Result<(), Refused<Self>> {
        // Dropping the context is what closes it.
        match destroy_alone(self.context, |_| Ok(())) {
            Ok(_) => Ok(()),
            Err(Refused { object: context, error }) => {
                Err(Refused { object: Nic { context }, error })
            }
        }
    }
}

impl<V: Uverbs> Clone for Nic<V> {
    /// Another handle on the same open NIC.
    fn clone(&self) -> Self {
        Nic { context: self.context.clone() }
    }
}

impl<V: Uverbs> fmt::Debug for Nic<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nic").field("name", &self.name()).field("link", &self.link()).finish()
    }
}

/// Makes the context of the file.
fn get_context<V: Uverbs>(verbs: &V) -> Result<AllocUcontextResp, Error> {
    const CALL: &str = "GET_CONTEXT";
    let request = AllocUcontextReqV2 {
        max_cqe_version: 1,
        lib_caps: LibCaps::new().with_uar_4k(true).with_dyn_uar(true),
        ..FromZeros::new_zeroed()
    };
    let (mut response, mut vectors, mut support) = (AllocUcontextResp::new_zeroed(), 0u32, 0u64);
    let call = Call::new(CALL, method::device::GET_CONTEXT)
        .output(method::get_context::NUM_COMP_VECTORS, &mut vectors)
        .output(method::get_context::CORE_SUPPORT, &mut support)
        .input(UHW_IN, &request)
        .output(UHW_OUT, &mut response);
    // SAFETY: K2: the call hands no memory to the device.
    unsafe { call.make(verbs) }?;
    let answer = |wrong, value| Error::Answer {
        device: verbs.device_name().into(),
        call: CALL,
        wrong,
        value,
    };
    if response.cqe_version != 1 {
        // Completions that carry a queue pair number would need a search for each.
        return Err(answer("a completion version that is not 1:", response.cqe_version.into()));
    }
    // 0 says that this machine cannot combine writes: BlueFlame is off, the registers are the same.
    if ![0, abi::uar::SEND_REGISTER_BYTES].contains(&(response.bf_reg_size as usize)) {
        return Err(answer("a register size that is not 512:", response.bf_reg_size.into()));
    }
    if usize::from(response.max_sq_desc_sz) < LEAST_SLOTS * wqe::SLOT_BYTES {
        let given = response.max_sq_desc_sz.into();
        return Err(answer("a send entry size below 256:", given));
    }
    Ok(response)
}

fn query_device<V: Uverbs>(verbs: &V) -> Result<QueryDeviceResp, Error> {
    let request = QueryDevice::new_zeroed();
    let mut response = QueryDeviceResp::new_zeroed();
    let call = Call::write("QUERY_DEVICE", WriteCommand::QueryDevice, &request, &mut response);
    // SAFETY: K2: the call hands no memory to the device.
    unsafe { call.make(verbs) }?;
    Ok(response)
}

fn query_port<V: Uverbs>(verbs: &V) -> Result<Port, Error> {
    const CALL: &str = "QUERY_PORT";
    let mut response = QueryPortRespEx::new_zeroed();
    let call = Call::new(CALL, method::device::QUERY_PORT)
        .constant(method::query_port::PORT_NUM, PORT.into())
        .output(method::query_port::RESP, &mut response);
    // SAFETY: K2: the call hands no memory to the device.
    unsafe { call.make(verbs) }?;
    let port = response.legacy_resp;
    let device = verbs.device_name();
    let answer = |wrong, value| Error::Answer { device: device.into(), call: CALL, wrong, value };
    if port.state != PortState::Active.code() {
        let state = state_name(port.state);
        return Err(Error::PortNotActive { device: device.into(), state });
    }
    let link = match port::LinkLayer::from_code(port.link_layer) {
        // What older kernels say of InfiniBand ports.
        Some(port::LinkLayer::InfiniBand | port::LinkLayer::Unspecified) => LinkLayer::InfiniBand,
        Some(port::LinkLayer::Ethernet) => LinkLayer::Ethernet,
        None => return Err(answer("an unknown link layer", port.link_layer.into())),
    };
    let mtu = Mtu::from_code(port.active_mtu)
        .ok_or_else(|| answer("an unknown MTU", port.active_mtu.into()))?;
    let gids = query_gids(verbs, port.gid_tbl_len)?;
    let (gid, gid_index) = choose_gid(link, &gids)
        .ok_or_else(|| Error::NoRoceV2Identifier { device: device.into() })?;
    let gid_index =
        u8::try_from(gid_index).map_err(|_| answer("a GID index over 255:", gid_index.into()))?;
    let max_message = port.max_msg_sz.min(crate::wr::MAX_MESSAGE);
    let mac = gids.iter().find_map(|entry| mac_of(&entry.gid));
    Ok(Port { link, mtu, lid: port.lid, gid, gid_index, mac, max_message })
}

/// The specification's name of a port's state.
fn state_name(code: u8) -> &'static str {
    match PortState::from_code(code) {
        Some(PortState::Down) => "Down",
        Some(PortState::Init) => "Initialize",
        Some(PortState::Armed) => "Armed",
        Some(PortState::ActiveDefer) => "ActiveDefer",
        Some(PortState::Active) => "Active",
        Some(PortState::Nop) | None => "in no state that the specification knows",
    }
}

/// The valid entries of port 1's table of global identifiers, which has `len` places.
fn query_gids<V: Uverbs>(verbs: &V, len: u32) -> Result<Vec<GidEntry>, Error> {
    let places = len.clamp(1, MOST_GIDS) as usize;
    let mut entries = alloc::vec![GidEntry::new_zeroed(); places];
    let mut count = 0u64;
    use method::query_gid_table as attribute;
    let call = Call::new("QUERY_GID_TABLE", method::device::QUERY_GID_TABLE)
        .constant(attribute::ENTRY_SIZE, size_of::<GidEntry>() as u64)
        .number(attribute::FLAGS, 0)
        .output(attribute::RESP_ENTRIES, entries.as_mut_slice())
        .output(attribute::RESP_NUM_ENTRIES, &mut count);
    // SAFETY: K2: the call hands no memory to the device.
    unsafe { call.make(verbs) }?;
    entries.truncate(usize::try_from(count).unwrap_or(places));
    entries.retain(|entry| entry.port_num == u32::from(PORT));
    Ok(entries)
}

/// The identifier that connections use: on InfiniBand the port's first; on Ethernet a RoCE v2 one,
/// and among those the first IPv4-mapped one, else the first that is not link-local, else the first.
fn choose_gid(link: LinkLayer, gids: &[GidEntry]) -> Option<([u8; 16], u32)> {
    let kind = match link {
        LinkLayer::Ethernet => GidType::RoceV2,
        LinkLayer::InfiniBand => GidType::InfiniBand,
    };
    let rank = |entry: &&GidEntry| match entry.gid {
        _ if link == LinkLayer::InfiniBand => 0,
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..] => 0,
        [0xfe, 0x80, ..] => 2,
        _ => 1,
    };
    let usable = gids.iter().filter(|entry| entry.gid_type == kind.code() && entry.gid != [0; 16]);
    let chosen = usable.min_by_key(rank).map(|entry| (entry.gid, entry.gid_index));
    match link {
        LinkLayer::Ethernet => chosen,
        // Connections on one subnet go by local identifiers, and need none of this kind.
        LinkLayer::InfiniBand => Some(chosen.unwrap_or(([0; 16], 0))),
    }
}

/// The Ethernet address that a link-local identifier was made from (RFC 4291, appendix A).
fn mac_of(gid: &[u8; 16]) -> Option<[u8; 6]> {
    match *gid {
        [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, 0xff, 0xfe, d, e, f] => {
            Some([a ^ 2, b, c, d, e, f])
        }
        _ => None,
    }
}

fn allocate_protection_domain<V: Uverbs>(verbs: &V) -> Result<u32, Error> {
    let request = write::AllocPd::new_zeroed();
    let (mut response, mut driver) = (write::AllocPdResp::new_zeroed(), AllocPdResp::new_zeroed());
    let call = Call::write("ALLOC_PD", WriteCommand::AllocPd, &request, &mut response)
        .output(UHW_OUT, &mut driver);
    // SAFETY: K2: the call hands no memory to the device.
    unsafe { call.make(verbs) }?;
    Ok(response.pd_handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u32, kind: GidType, gid: [u8; 16]) -> GidEntry {
        GidEntry { gid, gid_index: index, port_num: 1, gid_type: kind.code(), netdev_ifindex: 0 }
    }

    const LOCAL: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1];
    const GLOBAL: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    const IPV4: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];

    #[test]
    fn a_link_local_identifier_says_the_ethernet_address() {
        assert_eq!(mac_of(&LOCAL), Some([0, 0, 0, 0, 0, 1]));
        assert_eq!((mac_of(&GLOBAL), mac_of(&IPV4)), (None, None));
    }

    #[test]
    fn ethernet_takes_roce_v2_and_prefers_ipv4_then_global_addresses() {
        let (v1, v2) = (GidType::RoceV1, GidType::RoceV2);
        let table = [
            entry(0, v1, LOCAL),
            entry(1, v2, LOCAL),
            entry(2, v1, IPV4),
            entry(3, v2, GLOBAL),
            entry(4, v2, IPV4),
        ];
        let choose = |table: &[GidEntry]| choose_gid(LinkLayer::Ethernet, table);
        assert_eq!(choose(&table), Some((IPV4, 4)));
        assert_eq!(choose(&table[..4]), Some((GLOBAL, 3)));
        assert_eq!(choose(&table[..3]), Some((LOCAL, 1)));
        assert_eq!(choose(&table[..1]), None, "RoCE v1 is no RoCE v2");
        assert_eq!(choose(&[entry(0, v2, [0; 16])]), None);
        assert_eq!(choose(&[]), None);
    }

    #[test]
    fn infiniband_takes_the_first_identifier_and_needs_none() {
        let table = [entry(0, GidType::InfiniBand, LOCAL), entry(1, GidType::InfiniBand, GLOBAL)];
        assert_eq!(choose_gid(LinkLayer::InfiniBand, &table), Some((LOCAL, 0)));
        assert_eq!(choose_gid(LinkLayer::InfiniBand, &[]), Some(([0; 16], 0)));
    }
}
