//! The firmware channel: one request at a time, each answered within a bound or never again.

use super::abi::firmware::version::{VerGetAnswer, VerGetRequest, channel_caps};
use super::abi::firmware::{
    AnswerHeader, ErrorCode, Request, SHORT_SIGNATURE, ShortRequest, TRIGGER, WINDOW, WINDOW_BYTES,
};
use super::abi::page::PAGE_BYTES;
use super::memory;
use crate::error::Error;
use alloc::string::ToString;
use core::time::Duration;
use doorbell_hal::Errno;
use doorbell_hal::mmio::{Caching, Uncached};
use doorbell_hal::pci::{Bar, DeviceAddresses, PciFunction};
use doorbell_hal::sync;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// How long a request may take before the firmware has said how long: Linux waits as long.
const FIRST_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest that any firmware is waited for, whatever it says.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the last byte of an answer may take after its first.
const VALID_TIMEOUT: Duration = Duration::from_millis(50);
/// How much longer a reset may take than another request.
const RESET_FACTOR: u32 = 4;
/// Between two looks at memory.
const PAUSE: Duration = Duration::from_micros(10);
/// Where in the channel's memory answers are: requests come before them.
const ANSWER: usize = PAGE_BYTES;

/// The firmware channel of a function.
pub(super) struct Channel<F: PciFunction> {
    memory: F::Memory,
    sequence: u16,
    window: usize,
    longest_request: usize,
    short_required: bool,
    timeout: Duration,
    /// How long the RoCE engine's firmware is waited for.
    pub(super) longest: Duration,
    /// The request that was not answered in time: there are no more after it.
    unanswered: Option<&'static str>,
}

impl<F: PciFunction> Channel<F> {
    pub(super) fn new(function: &F) -> Result<Self, Error> {
        Ok(Channel {
            memory: memory::allocate(function, 2 * PAGE_BYTES)?,
            sequence: 0,
            window: WINDOW_BYTES,
            longest_request: WINDOW_BYTES,
            short_required: false,
            timeout: FIRST_TIMEOUT,
            longest: LONGEST_TIMEOUT,
            unanswered: None,
        })
    }

    /// Whether a request was not answered, so that none can be made any more.
    pub(super) fn poisoned(&self) -> Option<&'static str> {
        self.unanswered
    }

    /// Makes every later request fail: `request` was not answered in time.
    pub(super) fn poison(&mut self, request: &'static str) {
        self.unanswered.get_or_insert(request);
    }

    /// Asks for the version, and takes the channel's bounds from the answer.
    pub(super) fn version(&mut self, function: &F, bar: &F::Bar) -> Result<VerGetAnswer, Error> {
        let mut request = VerGetRequest::new();
        (request.hwrm_intf_maj, request.hwrm_intf_min, request.hwrm_intf_upd) = (1, 10, 3);
        let answer = self.request(function, bar, request)?;
        let window = usize::from(answer.max_req_win_len.get());
        if (size_of::<ShortRequest>()..=TRIGGER).contains(&window) {
            self.window = window;
        }
        self.longest_request = self.window.max(answer.max_ext_req_len.get().into());
        let caps = answer.dev_caps_cfg.get();
        let both = channel_caps::SHORT_CMD_SUPPORTED | channel_caps::SHORT_CMD_REQUIRED;
        self.short_required = caps & both == both;
        if answer.max_req_timeout.get() != 0 {
            let longest = Duration::from_secs(answer.max_req_timeout.get().into());
            self.longest = longest.min(LONGEST_TIMEOUT);
        }
        if answer.def_req_timeout.get() != 0 {
            self.timeout = Duration::from_millis(answer.def_req_timeout.get().into());
        }
        self.timeout = self.timeout.min(self.longest);
        Ok(answer)
    }

    /// Makes a request, and waits for its answer.
    pub(super) fn request<R: Request>(
        &mut self,
        function: &F,
        bar: &F::Bar,
        request: R,
    ) -> Result<R::Answer, Error> {
        self.request_within(function, bar, request, self.timeout)
    }

    /// As [`request`](Self::request), for a reset, which takes longer.
    pub(super) fn request_reset<R: Request>(
        &mut self,
        function: &F,
        bar: &F::Bar,
        request: R,
    ) -> Result<R::Answer, Error> {
        self.request_within(function, bar, request, self.timeout * RESET_FACTOR)
    }

    fn request_within<R: Request>(
        &mut self,
        function: &F,
        bar: &F::Bar,
        mut request: R,
        timeout: Duration,
    ) -> Result<R::Answer, Error> {
        let name = symbol::<R>();
        let device = || function.bus_address().to_string();
        if let Some(unanswered) = self.unanswered {
            return Err(Error::Poisoned { device: device(), call: name, unanswered });
        }
        let answer_address = self.address(function, ANSWER)?;
        self.sequence = self.sequence.wrapping_add(1);
        let header = request.header_mut();
        header.seq_id = self.sequence.into();
        header.resp_addr = answer_address.into();
        let bytes = request.as_bytes();
        // A longer request is cut to what the firmware takes, as Linux does: its end is zeroes.
        let bytes = &bytes[..bytes.len().min(self.longest_request).min(PAGE_BYTES)];
        memory::write(&self.memory, ANSWER, &[0; PAGE_BYTES]);
        if self.short_required && self.sequence > 1 || bytes.len() > self.window {
            memory::write(&self.memory, 0, bytes);
            let short = ShortRequest {
                req_type: R::TYPE.code().into(),
                signature: SHORT_SIGNATURE.into(),
                target_id: 0.into(),
                size: (bytes.len() as u16).into(),
                req_addr: self.address(function, 0)?.into(),
            };
            self.send(function, bar, short.as_bytes(), size_of::<ShortRequest>())?;
        } else {
            self.send(function, bar, bytes, self.window)?;
        }
        let answer = self.wait::<R>(function, timeout);
        if matches!(answer, Err(Error::NoAnswer { .. })) {
            self.poison(name);
        }
        answer
    }

    /// Writes `bytes` and zeroes up to `window` bytes to the window, and announces them.
    fn send(&self, function: &F, bar: &F::Bar, bytes: &[u8], window: usize) -> Result<(), Error> {
        let missing = || memory::refused(function, "the firmware's registers", Errno::ENXIO);
        // Pairs with the firmware reading a request in memory after it saw the register.
        Uncached::before_store();
        for at in (0..window.max(bytes.len())).step_by(4) {
            let mut word = [0; 4];
            if let Some(rest) = bytes.get(at..) {
                let len = rest.len().min(4);
                word[..len].copy_from_slice(&rest[..len]);
            }
            bar.write((WINDOW + at) as u64, u32::from_le_bytes(word)).ok_or_else(missing)?;
        }
        Uncached::before_store();
        bar.write(TRIGGER as u64, 1).ok_or_else(missing)
    }

    fn wait<R: Request>(&self, function: &F, timeout: Duration) -> Result<R::Answer, Error> {
        let name = symbol::<R>();
        let no_answer = |within: Duration| Error::NoAnswer {
            device: function.bus_address().to_string(),
            call: name,
            within,
        };
        let start = function.now();
        let header = loop {
            let word = memory::word(&self.memory, ANSWER).unwrap_or_default().to_le_bytes();
            let header = AnswerHeader::read_from_bytes(&word);
            if let Ok(header) = header
                && header.resp_len.get() != 0
                && header.seq_id.get() == self.sequence
            {
                break header;
            }
            if function.now().saturating_sub(start) > timeout {
                return Err(no_answer(timeout));
            }
            function.pause(PAUSE);
        };
        let len = usize::from(header.resp_len.get());
        let wrong = |wrong, value| Error::Answer {
            device: function.bus_address().to_string(),
            call: name,
            wrong,
            value,
        };
        if !(size_of::<AnswerHeader>() + 1..=PAGE_BYTES).contains(&len) {
            return Err(wrong("a length that is none:", len as u64));
        }
        let start = function.now();
        loop {
            let mut valid = [0];
            memory::read(&self.memory, ANSWER + len - 1, &mut valid);
            if valid[0] == 1 {
                break;
            }
            if function.now().saturating_sub(start) > VALID_TIMEOUT {
                return Err(no_answer(VALID_TIMEOUT));
            }
            function.pause(PAUSE);
        }
        // Pairs with the firmware writing an answer's last byte last.
        sync::fence_after_owner();
        let mut answer = R::Answer::new_zeroed();
        let have = len.min(size_of::<R::Answer>());
        memory::read(&self.memory, ANSWER, &mut answer.as_mut_bytes()[..have]);
        match ErrorCode::from_code(header.error_code.get()) {
            ErrorCode::Success => Ok(answer),
            reason => Err(Error::Firmware {
                device: function.bus_address().to_string(),
                call: name,
                reason: describe(reason),
                code: header.error_code.get().into(),
            }),
        }
    }

    fn address(&self, function: &F, at: usize) -> Result<u64, Error> {
        let address = self.memory.device_address(at);
        address.ok_or_else(|| memory::refused(function, "a device address", Errno::EFAULT))
    }
}

/// A request's C symbol.
fn symbol<R: Request>() -> &'static str {
    use super::abi::firmware::RequestType;
    let named = RequestType::SYMBOLS.iter().find(|(kind, _)| *kind == R::TYPE);
    named.map_or("a request", |(_, symbol)| symbol)
}

/// A reason's C symbol, without what all of them begin with.
fn describe(reason: ErrorCode) -> &'static str {
    let named = ErrorCode::SYMBOLS.iter().find(|(code, _)| *code == reason);
    named.map_or("an unknown code", |(_, symbol)| symbol.trim_start_matches("HWRM_ERR_CODE_"))
}
