//! Memory keys.

use super::layout::key::{create_mkey_in, create_mkey_out, destroy_mkey_in, mkc};
use super::status::{Done, Refusal, Status};
use super::{Firmware, answer};
use super::{device_memory, page_list};
use crate::connectx::registration::{self, MOST_UNITS, UNIT};
use crate::connectx::{Changeable, Refused};
use crate::memory::{Access, Pages, Registration};

/// Where the context is in CREATE_MKEY, and in QUERY_MKEY's answer.
const CONTEXT: usize = 16;
/// Page addresses in a unit of the list's length.
const PAGES_IN_UNIT: u64 = 2;

/// How a key's memory is found (`MLX5_MKC_ACCESS_MODE_*`).
mod mode {
    pub(super) const ONE_PIECE: u64 = 0;
    pub(super) const PAGES: u64 = 1;
    pub(super) const PARTS: u64 = 2;
    pub(super) const DEVICE: u64 = 5;
}

/// A key, and what it was made of.
pub(super) struct Key {
    context: Vec<u8>,
}

impl Firmware {
    pub(super) fn create_key(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let context = input.get(CONTEXT..CONTEXT + mkc::BYTES).ok_or_else(|| {
            Refusal::new(Status::BadInputLength, format_args!("{} bytes", input.len()))
        })?;
        let registration = registered(context, input)?;
        let variant = mkc::MKEY_7_0.get(context) as u8;
        let free = mkc::FREE.is_set(context);
        let form = mkc::UMR_EN.is_set(context).then(|| Changeable {
            // Entries write lists in blocks of 64 bytes (`MLX5_UMR_FLEX_ALIGNMENT`).
            units: mkc::TRANSLATIONS_OCTWORD_SIZE
                .get32(context)
                .min(MOST_UNITS)
                .next_multiple_of(4),
            parts: access_mode(context) == mode::PARTS,
            queue_pair: None,
        });
        let number = self.with_nic(|nic, _, _| {
            let key = nic.create_key(registration, Some(variant))?;
            if let Some(form) = form {
                nic.make_changeable(key, form, free);
            }
            Ok::<_, Refused>(key)
        })?;
        create_mkey_out::MKEY_INDEX.set(output, (number >> 8).into());
        self.keys.insert(number >> 8, Key { context: context.to_vec() });
        Ok(())
    }

    pub(super) fn destroy_key(&mut self, input: &[u8]) -> Done {
        let index = destroy_mkey_in::MKEY_INDEX.get32(input);
        self.with_nic(|nic, fabric, _| {
            let key = nic.key_at(index);
            nic.destroy_key(key.unwrap_or(index << 8), fabric)
        })?;
        self.keys.remove(&index);
        Ok(())
    }

    pub(super) fn query_key(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let index = destroy_mkey_in::MKEY_INDEX.get32(input);
        let key = self.keys.get(&index).ok_or_else(|| Refusal::unknown("key", index))?;
        answer(output, CONTEXT, &key.context);
        Ok(())
    }
}

/// The memory that a context, and the list in its command, stand for.
fn registered(context: &[u8], input: &[u8]) -> Done<Registration> {
    let start = mkc::START_ADDR.get(context);
    let whole = mkc::LENGTH64.is_set(context);
    let length = if whole { u64::MAX - start } else { mkc::LEN.get(context) };
    let mode = access_mode(context);
    // A key that is free is made to be written by work entries later; nothing is behind it.
    let (pages, length) = match mode {
        _ if mkc::FREE.is_set(context) => (Pages::identity(start), 0),
        mode::ONE_PIECE => (Pages::identity(start), length),
        mode::PAGES => (listed_pages(context, input, start, length)?, length),
        mode::PARTS => (listed_parts(input)?, length),
        mode::DEVICE => {
            let address = device_memory::device_address(start, length);
            let device_start =
                address.ok_or_else(|| Refusal::parameter("address of device memory", start))?;
            (Pages::Flat { device_start }, length)
        }
        other => return Err(Refusal::parameter("access mode of a key", other)),
    };
    Ok(Registration {
        protection_domain: mkc::PD.get32(context),
        access: Access {
            local_write: mkc::LW.is_set(context),
            remote_write: mkc::RW.is_set(context),
            remote_read: mkc::RR.is_set(context),
            remote_atomic: mkc::A.is_set(context),
        },
        // Device memory is named from its own start on.
        start: if mode == mode::DEVICE { 0 } else { start },
        length,
        pages,
        relaxed: mkc::RELAXED_ORDERING_WRITE.is_set(context),
        remote_invalidate: mkc::EN_RINVAL.is_set(context),
    })
}

fn access_mode(context: &[u8]) -> u64 {
    mkc::ACCESS_MODE_4_2.get(context) << 2 | mkc::ACCESS_MODE_1_0.get(context)
}

fn listed_parts(input: &[u8]) -> Done<Pages> {
    let units = create_mkey_in::TRANSLATIONS_OCTWORD_ACTUAL_SIZE.get(input) as usize;
    let list =
        units.checked_mul(UNIT).and_then(|length| input.get(page_list::LIST..)?.get(..length));
    let list = list.ok_or_else(|| {
        let length = input.len();
        Refusal::new(
            Status::BadInputLength,
            format_args!("a list of {units} parts in a command of {length} bytes"),
        )
    })?;
    Ok(Pages::Parts(list.chunks_exact(UNIT).map(registration::part).collect()))
}

fn listed_pages(context: &[u8], input: &[u8], start: u64, length: u64) -> Done<Pages> {
    let log_size = mkc::LOG_PAGE_SIZE.get32(context);
    if !(12..=40).contains(&log_size) {
        return Err(Refusal::parameter("log of a page", log_size));
    }
    let size = 1u64 << log_size;
    let within = start & (size - 1);
    let pages = within
        .checked_add(length)
        .ok_or_else(|| Refusal::parameter("length of a key", length))?
        .div_ceil(size);
    let listed = create_mkey_in::TRANSLATIONS_OCTWORD_ACTUAL_SIZE.get(input) * PAGES_IN_UNIT;
    if pages > listed {
        return Err(Refusal::new(
            Status::BadParameter,
            format_args!("{length:#x} bytes take {pages} pages, of which {listed} are listed"),
        ));
    }
    let addresses = page_list::addresses(input, page_list::LIST, pages as usize)?;
    Ok(Pages::List { log_size: log_size as u8, addresses: addresses.into() })
}
