//! Entries that change memory keys (UMR): rights and protection domain of keys that are there.
//!
//! The rest of what such entries can do (page lists, windows) is not done here; the capabilities say
//! so.

use super::entry::Malformed;
use super::host::Attendant;
use crate::rc::Status;
use doorbell::mlx5::abi::wqe::SEGMENT_BYTES;

/// The number of such entries (`MLX5_OPCODE_UMR`).
pub(super) const OPCODE: u8 = 0x25;

/// A change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// Which key.
    key: u32,
    /// What of it changes.
    mask: u64,
    /// The key's new rights: a bit each, as its context has them.
    rights: u8,
    /// Its new protection domain.
    protection_domain: u32,
}

/// What changes (`MLX5_MKEY_MASK_*`): what the key allows, one bit each, and its domain.
mod mask {
    pub(super) const DOMAIN: u64 = 1 << 7;
    pub(super) const KEY: u64 = 1 << 13;
    pub(super) const SMALL_FENCE: u64 = 1 << 23;
    pub(super) const LOCAL_READ: u64 = 1 << 17;
    pub(super) const LOCAL_WRITE: u64 = 1 << 18;
    pub(super) const REMOTE_READ: u64 = 1 << 19;
    pub(super) const REMOTE_WRITE: u64 = 1 << 20;
    pub(super) const ATOMIC: u64 = 1 << 21;
    pub(super) const RELAXED: u64 = 1 << 25 | 1 << 47;
    /// What this device can change.
    pub(super) const KNOWN: u64 = DOMAIN
        | KEY
        | SMALL_FENCE
        | LOCAL_READ
        | LOCAL_WRITE
        | REMOTE_READ
        | REMOTE_WRITE
        | ATOMIC
        | RELAXED;
}

/// Rights in the third byte of a key's context.
mod right {
    pub(super) const ATOMIC: u8 = 1 << 6;
    pub(super) const REMOTE_WRITE: u8 = 1 << 5;
    pub(super) const REMOTE_READ: u8 = 1 << 4;
    pub(super) const LOCAL_WRITE: u8 = 1 << 3;
}

/// Where parts are in an entry: the key in the control segment; the mask in the segment that follows
/// (`struct mlx5_wqe_umr_ctrl_seg`), and the list's length; then the context (`struct mlx5_mkey_seg`).
mod place {
    pub(super) const KEY: usize = 12;
    pub(super) const LIST_LENGTH: usize = 16 + 4;
    pub(super) const MASK: usize = 16 + 8;
    pub(super) const RIGHTS: usize = 64 + 2;
    pub(super) const DOMAIN: usize = 64 + 12;
    pub(super) const SEGMENTS: usize = 8;
}

/// Decodes an entry's bytes.
pub(super) fn decode(bytes: &[u8]) -> Result<KeyChange, Malformed> {
    let number = |at: usize, length: usize| {
        let bytes = bytes.get(at..at + length).ok_or(Malformed::Truncated)?;
        Ok(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    };
    if bytes.len() < place::SEGMENTS * SEGMENT_BYTES {
        return Err(Malformed::Truncated);
    }
    let mask = number(place::MASK, 8)?;
    if mask & !mask::KNOWN != 0 || number(place::LIST_LENGTH, 2)? != 0 {
        return Err(Malformed::Opcode(OPCODE));
    }
    Ok(KeyChange {
        key: number(place::KEY, 4)? as u32,
        mask,
        rights: number(place::RIGHTS, 1)? as u8,
        protection_domain: number(place::DOMAIN, 4)? as u32 & 0xff_ffff,
    })
}

impl Attendant<'_> {
    /// Changes a key. Only queue pairs of the NIC's own domain may.
    pub(super) fn change_key(&mut self, change: &KeyChange) -> Status {
        let new_domain = change.mask & mask::DOMAIN != 0;
        let known = |domain: u32, domains: &std::collections::BTreeMap<u32, u32>| {
            domain == 0 || domains.contains_key(&domain)
        };
        let allowed = self.core.context.protection_domain == 0
            && (!new_domain || known(change.protection_domain, self.domains));
        let Some(registration) = self.memory.keys.get(change.key).filter(|_| allowed) else {
            self.log.note(format_args!("key {:#x} cannot be changed so", change.key));
            return Status::MemoryWindowBind;
        };
        let old = registration.protection_domain;
        self.memory.keys.change(change.key, |registration| {
            let access = &mut registration.access;
            for (bit, right, allows) in [
                (mask::LOCAL_WRITE, right::LOCAL_WRITE, &mut access.local_write),
                (mask::REMOTE_READ, right::REMOTE_READ, &mut access.remote_read),
                (mask::REMOTE_WRITE, right::REMOTE_WRITE, &mut access.remote_write),
                (mask::ATOMIC, right::ATOMIC, &mut access.remote_atomic),
            ] {
                if change.mask & bit != 0 {
                    *allows = change.rights & right != 0;
                }
            }
            if new_domain {
                registration.protection_domain = change.protection_domain;
            }
        });
        if new_domain {
            if let Some(users) = self.domains.get_mut(&old) {
                *users = users.saturating_sub(1);
            }
            if let Some(users) = self.domains.get_mut(&change.protection_domain) {
                *users += 1;
            }
        }
        Status::Success
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_names_a_key_what_changes_and_how() {
        let mut bytes = [0; 128];
        bytes[12..16].copy_from_slice(&0x40b42u32.to_be_bytes());
        let mask = mask::DOMAIN | mask::REMOTE_READ | mask::REMOTE_WRITE;
        bytes[24..32].copy_from_slice(&mask.to_be_bytes());
        bytes[66] = right::REMOTE_READ;
        bytes[76..80].copy_from_slice(&0x8000_0055u32.to_be_bytes());
        let change = decode(&bytes).unwrap();
        assert_eq!((change.key, change.mask, change.rights), (0x40b42, mask, right::REMOTE_READ));
        assert_eq!(change.protection_domain, 0x55);
        assert_eq!(decode(&bytes[..112]), Err(Malformed::Truncated));
        bytes[31] |= 1;
        assert_eq!(decode(&bytes), Err(Malformed::Opcode(OPCODE)));
    }
}
