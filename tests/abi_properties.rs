//! What holds for any bytes and any values of the layouts in `doorbell::mlx5::abi`.

use doorbell::mlx5::abi::cqe::{
    Completion, Completion128, CompletionFormat, CompletionOpcode, OpcodeOwner, Syndrome,
};
use doorbell::mlx5::abi::doorbell::{ArmSequence, ArmWord};
use doorbell::mlx5::abi::event::AsyncEventType;
use doorbell::mlx5::abi::verbs::ioctl::{Attribute, Header};
use doorbell::mlx5::abi::verbs::method;
use doorbell::mlx5::abi::wqe::{
    ControlFlags, ControlSegment, DataSegment, InlineHeader, Opcode, SEGMENT_BYTES,
};
use doorbell::mlx5::abi::{U24, Unknown};
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

proptest! {
    #[test]
    fn any_64_bytes_are_a_completion_whose_every_accessor_answers(bytes: [[u8; 32]; 2]) {
        let completion = Completion::read_from_bytes(bytes.as_bytes()).expect("64 bytes");
        prop_assert_eq!(completion.as_bytes(), bytes.as_bytes());

        let last = bytes[1][31];
        let owner = completion.op_own;
        prop_assert_eq!(owner.owner(), last & 1 == 1);
        match owner.kind() {
            Ok(kind) => prop_assert_eq!(kind.code(), last >> 4),
            Err(unknown) => {
                prop_assert_eq!(unknown, Unknown { what: "completion opcode", value: (last >> 4).into() });
                prop_assert!((7..12).contains(&(last >> 4)));
            }
        }
        prop_assert_eq!(owner.format() as u8, last >> 2 & 3);
        prop_assert_eq!(&completion.inline32()[..], &bytes[0][..]);

        let error = completion.as_error();
        prop_assert_eq!(error.syndrome().code(), bytes[1][23]);
        prop_assert_eq!(error.as_completion(), &completion);
        prop_assert!(completion.srqn_uidx.user_index() <= U24::MAX);
        prop_assert!(completion.sop_drop_qpn.queue_pair() <= U24::MAX);
    }

    #[test]
    fn the_second_half_of_128_bytes_is_the_completion(first: [u8; 32], second: [[u8; 32]; 2]) {
        let mut bytes = [0; 128];
        bytes[..32].copy_from_slice(&first);
        bytes[64..].copy_from_slice(second.as_bytes());
        let entry = Completion128::read_from_bytes(&bytes).expect("128 bytes");
        prop_assert_eq!(entry.completion.as_bytes(), second.as_bytes());
        prop_assert_eq!(&entry.data[..32], &first[..]);
    }

    #[test]
    fn a_control_segment_says_what_it_was_made_with(
        opcode in proptest::sample::select(Opcode::SYMBOLS),
        index: u16,
        queue_pair: u32,
        segments in 1u8..=63,
        flags: u8,
        immediate: u32,
    ) {
        let (opcode, _) = opcode;
        let queue_pair = U24::truncate(queue_pair);
        let flags = ControlFlags::from_bits(flags);
        let segment = ControlSegment::new(opcode, index, queue_pair, segments, flags, immediate);
        prop_assert_eq!(segment.opcode(), Ok(opcode));
        prop_assert_eq!(segment.opmod_idx_opcode.index(), index);
        prop_assert_eq!(segment.opmod_idx_opcode.modifier(), 0);
        prop_assert_eq!(segment.qpn_ds.queue_pair(), queue_pair);
        prop_assert_eq!(segment.qpn_ds.segments(), segments);
        prop_assert_eq!(segment.fm_ce_se, flags);
        prop_assert_eq!(segment.imm.get(), immediate);
        prop_assert_eq!(ControlSegment::from_words(segment.to_words()), segment);
    }

    #[test]
    fn any_flags_byte_is_its_fields(byte: u8) {
        // Bits 0 and 4 belong to no field.
        let flags = ControlFlags::from_bits(byte);
        let again = ControlFlags::of(flags.completion(), flags.solicited(), flags.fence());
        prop_assert_eq!(again.into_bits(), byte & 0b1110_1110);
    }

    #[test]
    fn a_data_segment_keeps_every_length_and_is_not_inline(
        address: u64,
        lkey: u32,
        length in 1..=DataSegment::MAX_BYTES,
    ) {
        let segment = DataSegment::new(address, lkey, length);
        prop_assert_eq!(segment.length(), length);
        prop_assert_eq!((segment.addr.get(), segment.lkey.get()), (address, lkey));
        prop_assert!(!segment.is_inline());
    }

    #[test]
    fn an_inline_header_keeps_its_length_and_is_no_data_segment(length: u16, rest: [u8; 12]) {
        let header = InlineHeader::of(length);
        prop_assert_eq!(header.length(), u32::from(length));
        let mut bytes = [0; SEGMENT_BYTES];
        bytes[..4].copy_from_slice(header.as_bytes());
        bytes[4..].copy_from_slice(&rest);
        prop_assert!(DataSegment::read_from_bytes(&bytes).expect("16 bytes").is_inline());
    }

    #[test]
    fn an_arm_word_keeps_its_fields_apart(consumer: u32, solicited: bool, events: u32) {
        let consumer = U24::truncate(consumer);
        let word = ArmWord::of(consumer, solicited, ArmSequence::of(events));
        let word = ArmWord::from_memory(word.to_memory());
        prop_assert_eq!(word.consumer(), consumer);
        prop_assert_eq!(word.solicited_only(), solicited);
        prop_assert_eq!(u32::from(word.sequence().get()), events % 4);
    }

    #[test]
    fn a_24_bit_number_is_made_of_24_bits_only(value: u32) {
        let made = U24::new(value);
        prop_assert_eq!(made.is_some(), value < 1 << 24);
        prop_assert_eq!(made.map_or(value, U24::get), value);
        prop_assert_eq!(U24::truncate(value).get(), value % (1 << 24));
    }
}

#[test]
fn the_longest_data_segment_is_told_as_zero_bytes() {
    let segment = DataSegment::new(0x1000, 1, DataSegment::MAX_BYTES);
    assert_eq!(segment.byte_count.get(), 0);
    assert_eq!(segment.length(), 1 << 31);
    assert!(!segment.is_terminator());
    assert!(DataSegment::TERMINATOR.is_terminator());
}

#[test]
fn every_code_of_a_work_entry_is_an_opcode_or_is_refused() {
    for code in 0..=u8::MAX {
        match Opcode::try_from(code) {
            Ok(opcode) => assert_eq!(opcode.code(), code),
            Err(unknown) => {
                assert_eq!(unknown, Unknown { what: "work entry opcode", value: code.into() });
                assert!(Opcode::SYMBOLS.iter().all(|&(opcode, _)| opcode.code() != code));
            }
        }
    }
    let unknown = Opcode::try_from(0x0e).expect_err("segmentation is not ours");
    assert_eq!(unknown.to_string(), "0xe is no known work entry opcode");
}

#[test]
fn every_syndrome_and_event_keeps_its_number() {
    for code in 0..=u8::MAX {
        assert_eq!(Syndrome::from(code).code(), code);
        assert_eq!(AsyncEventType::from(u32::from(code)).code(), code.into());
    }
    assert_eq!(Syndrome::from(0x7f), Syndrome::Other(0x7f));
    assert_eq!(AsyncEventType::from(u32::MAX), AsyncEventType::Other(u32::MAX));
}

#[test]
fn only_a_written_completion_of_this_pass_is_new() {
    for byte in 0..=u8::MAX {
        let last = OpcodeOwner::from_bits(byte);
        for owner in [false, true] {
            let written = byte & 1 == u8::from(owner) && byte >> 4 != 15;
            assert_eq!(last.is_new(owner), written, "{byte:#x} in a pass of {owner}");
        }
    }
    let fresh = Completion::fresh();
    for owner in [false, true] {
        assert!(!fresh.op_own.is_new(owner), "a fresh completion in a pass of {owner}");
    }
}

#[test]
fn a_kind_replaces_the_opcode_alone() {
    for byte in 0..=u8::MAX {
        for &(kind, _) in CompletionOpcode::SYMBOLS {
            let last = OpcodeOwner::from_bits(byte).with_kind(kind);
            assert_eq!(last.kind(), Ok(kind));
            assert_eq!(last.into_bits() & 0xf, byte & 0xf);
        }
    }
    let inline = OpcodeOwner::new().with_format(CompletionFormat::Inline64);
    assert_eq!(inline.with_kind(CompletionOpcode::ReceiveSend).into_bits(), 0x28);
}

#[test]
fn a_command_has_as_many_attributes_as_its_length_can_say() {
    let most = (usize::from(u16::MAX) - size_of::<Header>()) / size_of::<Attribute>();
    let header = Header::new(method::cq::CREATE, most).expect("the most attributes");
    assert_eq!(usize::from(header.length), size_of::<Header>() + most * size_of::<Attribute>());
    assert_eq!(Header::new(method::cq::CREATE, most + 1), None);
    assert_eq!(Header::new(method::cq::CREATE, usize::MAX), None);
}
