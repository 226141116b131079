//! The codes of times.

/// Receiver-not-ready times by code, in units of 10 µs (IBTA vol. 1, chapter 9, "RNR NAK timer
/// field").
const RNR_TIMERS: [u64; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// The time that a requester waits after a receiver-not-ready NAK, in nanoseconds, by the NAK's
/// 5-bit code (IBTA vol. 1, chapter 9, "RNR NAK timer field"). Code 0 is the longest: 655.36 ms.
/// Higher bits are not looked at.
pub fn rnr_timer(code: u8) -> u64 {
    RNR_TIMERS[usize::from(code & 31)] * 10_000
}

/// The time without progress after which a requester sends again, in nanoseconds:
/// `4.096 µs << code`, 5 bits; `None` for code 0, which waits for ever (IBTA vol. 1, chapter 9,
/// "local ACK timeout"). Hardware may take up to four times as long; this model does not.
pub fn ack_timeout(code: u8) -> Option<u64> {
    let code = code & 31;
    (code != 0).then_some(4096 << code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnr_timers_are_the_specification_s() {
        // The digits of the kernel's names for the codes (`enum ib_rnr_timeout`, `ib_verbs.h`):
        // milliseconds and hundredths.
        let names = [
            "655_36", "000_01", "000_02", "000_03", "000_04", "000_06", "000_08", "000_12",
            "000_16", "000_24", "000_32", "000_48", "000_64", "000_96", "001_28", "001_92",
            "002_56", "003_84", "005_12", "007_68", "010_24", "015_36", "020_48", "030_72",
            "040_96", "061_44", "081_92", "122_88", "163_84", "245_76", "327_68", "491_52",
        ];
        for (code, name) in names.iter().enumerate() {
            let hundredths: u64 = name.replace('_', "").parse().unwrap();
            assert_eq!(rnr_timer(code as u8), hundredths * 10_000, "code {code}");
        }
    }

    #[test]
    fn ack_timeouts_double_with_each_code() {
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(1), Some(8_192));
        assert_eq!(ack_timeout(14), Some(67_108_864));
        assert_eq!(ack_timeout(31), Some(8_796_093_022_208));
    }
}
