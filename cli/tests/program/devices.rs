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
    let virtual_one = devices.last().unwrap();
    if has_none() {
        assert_eq!(devices.len(), 1);
    }
    assert_eq!(virtual_one["name"], "virtual-connectx");
    assert_eq!(virtual_one["virtual"], true);
    assert_eq!(virtual_one["link_layer"], "Ethernet");
    assert_eq!(virtual_one["mtu"], 4096);
    assert_eq!(virtual_one["max_message"], 1 << 30);
    for field in ["max_sends", "max_receives", "max_completions"] {
        assert!(virtual_one[field].as_u64().unwrap() > 0, "{virtual_one}");
    }
    let gid = virtual_one["gid"].as_str().unwrap();
    assert!(gid.parse::<std::net::Ipv6Addr>().is_ok(), "{gid}");
}
