//! From the addresses of a registration to device addresses: pages, and parts of other registrations.

use super::{Fault, Keys, Pages, Part, Refusal, Registration, Right, Strides};

/// Registrations that stand on others that stand on others: how far this goes at most. The limit of
/// ConnectX-5 (`max_indirection` of its capabilities).
pub const MAX_INDIRECTION: u8 = 4;

/// Calls `each` with the device addresses of the `len` bytes at `address` of `registration`, which
/// are in its bounds and may be used with `right`: address, how far in, length.
pub(super) fn translate(
    keys: &Keys,
    registration: &Registration,
    right: Right,
    address: u64,
    len: usize,
    mut each: impl FnMut(u64, usize, usize) -> Result<(), Fault>,
) -> Result<(), Refusal> {
    let offset = address - registration.start;
    match &registration.pages {
        Pages::Flat { .. } | Pages::List { .. } => {
            Ok(pages(registration, address, offset, len, each)?)
        }
        Pages::Parts(_) | Pages::Strides(_) => {
            let right = match right {
                Right::LocalRead | Right::RemoteRead => Right::LocalRead,
                _ => Right::LocalWrite,
            };
            let walk = Walk { keys, right, domain: registration.protection_domain };
            walk.parts(registration, offset, 0, len, MAX_INDIRECTION, &mut each)
        }
    }
}

/// The bytes from `offset` on of a registration of pages.
fn pages(
    registration: &Registration,
    address: u64,
    offset: u64,
    len: usize,
    mut each: impl FnMut(u64, usize, usize) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let fault = Fault { address, len };
    match &registration.pages {
        Pages::Flat { device_start } => {
            let address = device_start.checked_add(offset).ok_or(fault)?;
            each(address, 0, len)
        }
        Pages::List { log_size, addresses } => {
            let page = 1u64.checked_shl(u32::from(*log_size)).ok_or(fault)?;
            let mut at = (registration.start & (page - 1)).checked_add(offset).ok_or(fault)?;
            let mut done = 0;
            while done < len {
                let mut index = usize::try_from(at >> log_size).map_err(|_| fault)?;
                let within = at & (page - 1);
                let start = addresses.get(index).ok_or(fault)?;
                let start = start.checked_add(within).ok_or(fault)?;
                // Pages that follow each other are one piece.
                let mut here = page - within;
                while here < (len - done) as u64
                    && addresses.get(index + 1) == start.checked_add(here).as_ref()
                {
                    index += 1;
                    here += page;
                }
                let here = here.min((len - done) as u64);
                each(start, done, here as usize)?;
                at += here;
                done += here as usize;
            }
            Ok(())
        }
        // They have no pages of their own.
        Pages::Parts(_) | Pages::Strides(_) => Err(fault),
    }
}

/// A way through registrations that stand on others.
struct Walk<'a> {
    keys: &'a Keys,
    right: Right,
    domain: u32,
}

impl Walk<'_> {
    /// The `len` bytes from `offset` on of a registration, `before` bytes into the access.
    fn parts(
        &self,
        registration: &Registration,
        offset: u64,
        before: usize,
        len: usize,
        depth: u8,
        each: &mut dyn FnMut(u64, usize, usize) -> Result<(), Fault>,
    ) -> Result<(), Refusal> {
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let fault = Fault { address: registration.start.wrapping_add(at), len: len - done };
            let (part, within) = match &registration.pages {
                Pages::Parts(parts) => part_at(parts, at),
                Pages::Strides(strides) => strides.part_at(at),
                Pages::Flat { .. } | Pages::List { .. } => None,
            }
            .ok_or(fault)?;
            let here = (part.length - within).min((len - done) as u64) as usize;
            let address = part.address.checked_add(within).ok_or(fault)?;
            let depth = depth.checked_sub(1).ok_or(Refusal::Nested { key: part.key })?;
            let below = self.keys.check(part.key, self.domain, self.right, address, here as u64)?;
            let offset = address - below.start;
            match &below.pages {
                Pages::Flat { .. } | Pages::List { .. } => {
                    pages(below, address, offset, here, |address, within, len| {
                        each(address, before + done + within, len)
                    })?;
                }
                Pages::Parts(_) | Pages::Strides(_) => {
                    self.parts(below, offset, before + done, here, depth, each)?;
                }
            }
            done += here;
        }
        Ok(())
    }
}

/// The part that byte `at` is in, and how far in it is.
fn part_at(parts: &[Part], mut at: u64) -> Option<(Part, u64)> {
    for part in parts {
        if at < part.length {
            return Some((*part, at));
        }
        at -= part.length;
    }
    None
}

impl Strides {
    /// The part that byte `at` is in, and how far in it is.
    fn part_at(&self, at: u64) -> Option<(Part, u64)> {
        let round: u64 = self.parts.iter().map(|(part, _)| part.length).sum();
        let number = at.checked_div(round)?;
        let mut within = at % round;
        for (part, stride) in self.parts.iter() {
            if within < part.length {
                let address = part.address.checked_add(number.checked_mul(u64::from(*stride))?)?;
                return Some((Part { address, ..*part }, within));
            }
            within -= part.length;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Access;

    const DOMAIN: u32 = 5;

    fn register(keys: &mut Keys, start: u64, length: u64, pages: Pages) -> u32 {
        let registration = Registration {
            protection_domain: DOMAIN,
            access: Access::ALL,
            start,
            length,
            pages,
            relaxed: false,
            remote_invalidate: false,
        };
        keys.insert(registration, None).unwrap()
    }

    /// The pieces of an access.
    fn pieces(
        keys: &Keys,
        key: u32,
        address: u64,
        len: usize,
    ) -> Result<Vec<(u64, usize, usize)>, Refusal> {
        let right = Right::RemoteWrite;
        let registration = keys.check(key, DOMAIN, right, address, len as u64)?;
        let mut pieces = Vec::new();
        translate(keys, registration, right, address, len, |address, at, len| {
            pieces.push((address, at, len));
            Ok(())
        })?;
        Ok(pieces)
    }

    #[test]
    fn parts_of_other_keys_follow_each_other() {
        let mut keys = Keys::new(1, 100);
        let flat = register(&mut keys, 0, 0x1000, Pages::Flat { device_start: 0x10_0000 });
        let part = |address, length| Part { key: flat, address, length };
        let parts = [part(0x20, 0x10), part(0x800, 4), part(0, 0x100)];
        let list = register(&mut keys, 0x50, 0x114, Pages::Parts(parts.into()));
        assert_eq!(
            pieces(&keys, list, 0x58, 0x10).unwrap(),
            [(0x10_0028, 0, 8), (0x10_0800, 8, 4), (0x10_0000, 12, 4)]
        );
        // A window on that.
        let window = Pages::Parts([Part { key: list, address: 0x60, length: 8 }].into());
        let window = register(&mut keys, 0, 8, window);
        assert_eq!(pieces(&keys, window, 2, 6).unwrap(), [(0x10_0802, 0, 2), (0x10_0000, 2, 4)]);
        // What a part's key does not allow is refused.
        keys.change(flat, |registration| registration.access.local_write = false);
        assert_eq!(
            pieces(&keys, window, 0, 8),
            Err(Refusal::Right { key: flat, right: Right::LocalWrite })
        );
        assert!(keys.remove(flat).is_some());
        assert_eq!(pieces(&keys, window, 0, 8), Err(Refusal::UnknownKey { key: flat }));
    }

    #[test]
    fn strides_are_taken_again_and_again_further_on() {
        let mut keys = Keys::new(1, 100);
        let flat = register(&mut keys, 0, 0x1000, Pages::Flat { device_start: 0 });
        let part = |address, length| Part { key: flat, address, length };
        let parts = [(part(0x100, 4), 8), (part(0x200, 2), 0x10)].into();
        let list = register(&mut keys, 0, 18, Pages::Strides(Strides { parts }));
        assert_eq!(
            pieces(&keys, list, 1, 12).unwrap(),
            [(0x101, 0, 3), (0x200, 3, 2), (0x108, 5, 4), (0x210, 9, 2), (0x110, 11, 1)]
        );
    }

    #[test]
    fn keys_that_stand_on_themselves_are_refused() {
        let mut keys = Keys::new(1, 100);
        let own = Pages::Parts([Part { key: 1 << 8 | 1, address: 0, length: 16 }].into());
        let key = register(&mut keys, 0, 16, own);
        assert_eq!(key, 1 << 8 | 1);
        assert_eq!(pieces(&keys, key, 0, 1), Err(Refusal::Nested { key }));
        let none = register(&mut keys, 0, 16, Pages::Parts([].into()));
        assert!(matches!(pieces(&keys, none, 0, 1), Err(Refusal::Fault(_))));
        let empty = Strides { parts: [].into() };
        let empty = register(&mut keys, 0, 16, Pages::Strides(empty));
        assert!(matches!(pieces(&keys, empty, 0, 1), Err(Refusal::Fault(_))));
    }
}
