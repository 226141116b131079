//! The port of a virtual NIC, as the kernel describes it.

use crate::fabric::Address;
use crate::rc::Mtu;
use std::net::IpAddr;

/// What a port's link is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkLayer {
    /// RoCE: peers are addressed by global identifiers.
    Ethernet,
    /// InfiniBand: peers are addressed by local identifiers.
    InfiniBand,
}

/// What packets to and from a global identifier look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GidKind {
    /// InfiniBand.
    InfiniBand,
    /// RoCE v1: Ethernet frames.
    RoceV1,
    /// RoCE v2: UDP.
    RoceV2,
}

/// An entry of a port's table of global identifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gid {
    /// The identifier, in the order that it crosses the wire in.
    pub raw: [u8; 16],
    /// What packets look like.
    pub kind: GidKind,
}

/// A port's settings.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) link_layer: LinkLayer,
    pub(super) up: bool,
    pub(super) lid: u16,
    pub(super) active_mtu: Mtu,
    /// The table, by index; `None` where there is no identifier.
    pub(super) gids: Vec<Option<Gid>>,
}

/// The size of the table of identifiers: 8 on InfiniBand, 32 on Ethernet.
pub(super) fn gid_table_size(link_layer: LinkLayer) -> usize {
    match link_layer {
        LinkLayer::Ethernet => 32,
        LinkLayer::InfiniBand => 8,
    }
}

impl Port {
    /// The addresses that packets reach the port by.
    pub(super) fn addresses(&self) -> Vec<Address> {
        match self.link_layer {
            LinkLayer::InfiniBand => vec![Address::Lid(self.lid)],
            LinkLayer::Ethernet => {
                self.gids.iter().flatten().map(|gid| Address::Gid(gid.raw)).collect()
            }
        }
    }
}

/// The link-local identifier of an interface (RFC 4291, appendix A: a modified EUI-64).
pub(super) fn link_local(mac: [u8; 6]) -> [u8; 16] {
    let [a, b, c, d, e, f] = mac;
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f]
}

/// The table that Linux fills in for an interface with one address: link-local, then that address (an
/// IPv4 one is mapped), each as RoCE v1 and v2.
pub(super) fn roce_table(mac: [u8; 6], address: Option<IpAddr>) -> Vec<Option<Gid>> {
    let own = address.map(|address| match address {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    });
    let raws = std::iter::once(link_local(mac)).chain(own);
    raws.flat_map(|raw| [GidKind::RoceV1, GidKind::RoceV2].map(|kind| Some(Gid { raw, kind })))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roce_table_has_link_local_then_ipv4_each_in_both_versions() {
        let table = roce_table([0x02, 0x11, 0x22, 0x33, 0x44, 0x55], Some([10, 9, 0, 1].into()));
        let kinds: Vec<_> = table.iter().flatten().map(|gid| gid.kind).collect();
        use GidKind::{RoceV1, RoceV2};
        assert_eq!(kinds, [RoceV1, RoceV2, RoceV1, RoceV2]);
        let text = |at: usize| std::net::Ipv6Addr::from(table[at].unwrap().raw).to_string();
        assert_eq!(text(1), "fe80::11:22ff:fe33:4455");
        assert_eq!(text(3), "::ffff:10.9.0.1");
    }
}
