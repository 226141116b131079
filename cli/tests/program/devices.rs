//! `doorbell devices`.

use crate::doorbell;
use std::path::Path;

/// Whether this machine has no RDMA device at all, so that the answer is known.
fn has_none() -> bool {
    !Path::new("/sys/class/infiniband").exists()
}

#[test]
fn a_machine_without_an_rdma_nic_is_told_so_and_shown_the_virtual_one() {
    let out = doorbell(&["devices"]).well();
    if has_none() {
        assert!(out.starts_with("There is no RDMA NIC in this machine"), "{out}");
    }
    assert!(out.contains("\nvirtual-connectx (virtual"), "{out}");
    assert!(out.contains("link layer         Ethernet"), "{out}");
    assert!(out.contains("doorbell pingpong --device virtual-connectx"), "{out}");
    assert!(out.lines().all(|line| line.len() <= 80), "{out}");
}

#[test]
fn the_json_document_has_what_the_text_has() {
    let document = doorbell(&["devices", "--json"]).json();
    let devices = document["devices"].as_array().unwrap();
    if has_none() {
        assert_eq!(devices.len(), 2);
    }
    let virtual_ones = &devices[devices.len() - 2..];
    let expected = [("virtual-connectx", 1 << 30), ("virtual-netxtreme", 1u64 << 31)];
    for (device, (name, max_message)) in virtual_ones.iter().zip(expected) {
        assert_eq!(device["name"], name);
        assert_eq!(device["virtual"], true);
        assert_eq!(device["link_layer"], "Ethernet");
        assert_eq!(device["mtu"], 4096);
        assert_eq!(device["max_message"], max_message);
        for field in ["max_sends", "max_receives", "max_completions"] {
            assert!(device[field].as_u64().unwrap() > 0, "{device}");
        }
        let gid = device["gid"].as_str().unwrap();
        assert!(gid.parse::<std::net::Ipv6Addr>().is_ok(), "{gid}");
    }
}
