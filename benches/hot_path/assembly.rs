//! The machine code of the hot path, compared with what is checked in (`assembly/*.s`).
//!
//! A change of it is not wrong, but is to be seen by who reviews it: `cargo bench --bench hot_path --
//! --bless` writes the files anew. They are compared where they were made: by the version of rustc that
//! `assembly/rustc` names, for x86-64.

use doorbell::bnxt::ring as bnxt;
use doorbell::completion::Completion;
use doorbell::mlx5::ring::Committed;
use doorbell::mlx5::ring::completion::CompletionRing;
use doorbell::mlx5::ring::receive::ReceiveRing;
use doorbell::mlx5::ring::send::SendRing;
use doorbell::wr::{self, Inline, LocalSlice, PostError, Receive, WorkRequest};
use doorbell_hal::linux::MappedRegister;
use doorbell_hal::mmio::{Uncached, WriteCombining};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

type Register = MappedRegister;
type Paced = bnxt::PacedRegister<Register>;

/// A function of its own for each thing that an engine does, so that its code can be found.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            #[inline(never)]
            fn $name($($argument: $type),*) -> $result $body
        )*
        /// Their names, and something that the linker does not throw away.
        const FUNCTIONS: &[(&str, *const ())] = &[$((stringify!($name), $name as *const ())),*];
    };
}

functions! {
    /// A write of one piece.
    fn code_post_write(
        ring: &mut SendRing<Register, Uncached>,
        request: WorkRequest<wr::Write<LocalSlice>, true>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    /// A write of one piece, by a queue pair whose doorbells carry entries.
    fn code_post_write_combining(
        ring: &mut SendRing<Register, WriteCombining>,
        request: WorkRequest<wr::Write<LocalSlice>, true>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    fn code_post_write_of_2(
        ring: &mut SendRing<Register, Uncached>,
        request: WorkRequest<wr::Write<[LocalSlice; 2]>, true>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    fn code_post_write_inline_32(
        ring: &mut SendRing<Register, WriteCombining>,
        request: WorkRequest<wr::Write<Inline<[u8; 32]>>, true>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    fn code_post_read(
        ring: &mut SendRing<Register, Uncached>,
        request: WorkRequest<wr::Read<LocalSlice>, true>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    fn code_post_send(
        ring: &mut SendRing<Register, Uncached>,
        request: WorkRequest<wr::Send<LocalSlice>, true>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    fn code_post_send_unsignaled(
        ring: &mut SendRing<Register, Uncached>,
        request: WorkRequest<wr::Send<LocalSlice>>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    fn code_post_fetch_add(
        ring: &mut SendRing<Register, Uncached>,
        request: WorkRequest<wr::FetchAdd, true>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    fn code_ring(ring: &mut SendRing<Register, Uncached>) -> () {
        ring.ring()
    }

    fn code_ring_combining(ring: &mut SendRing<Register, WriteCombining>) -> () {
        ring.ring()
    }

    fn code_post_receive(
        ring: &mut ReceiveRing,
        receive: Receive<LocalSlice>
    ) -> Result<(), PostError> {
        ring.post(receive)
    }

    fn code_ring_receives(ring: &mut ReceiveRing) -> () {
        ring.ring()
    }

    fn code_poll(
        committed: &Committed<()>,
        ring: &mut CompletionRing<Register>
    ) -> Option<Completion> {
        committed.poll(ring)
    }

    fn code_arm(ring: &mut CompletionRing<Register>) -> () {
        ring.arm(false)
    }

    fn code_bnxt_post_write(
        ring: &mut bnxt::SendRing<Paced>,
        request: WorkRequest<wr::Write<LocalSlice>, true>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    fn code_bnxt_post_write_of_2(
        ring: &mut bnxt::SendRing<Paced>,
        request: WorkRequest<wr::Write<[LocalSlice; 2]>, true>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    fn code_bnxt_post_write_inline_32(
        ring: &mut bnxt::SendRing<Paced>,
        request: WorkRequest<wr::Write<Inline<[u8; 32]>>, true>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    fn code_bnxt_post_read(
        ring: &mut bnxt::SendRing<Paced>,
        request: WorkRequest<wr::Read<LocalSlice>, true>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    fn code_bnxt_post_send_unsignaled(
        ring: &mut bnxt::SendRing<Paced>,
        request: WorkRequest<wr::Send<LocalSlice>>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    fn code_bnxt_post_fetch_add(
        ring: &mut bnxt::SendRing<Paced>,
        request: WorkRequest<wr::FetchAdd, true>
    ) -> Result<(), PostError> {
        ring.post(request)
    }

    fn code_bnxt_ring(ring: &mut bnxt::SendRing<Paced>) -> () {
        ring.ring()
    }

    fn code_bnxt_post_receive(
        ring: &mut bnxt::ReceiveRing<Paced>,
        receive: Receive<LocalSlice>
    ) -> Result<(), PostError> {
        ring.post(receive)
    }

    fn code_bnxt_ring_receives(ring: &mut bnxt::ReceiveRing<Paced>) -> () {
        ring.ring()
    }

    fn code_bnxt_arm(ring: &mut bnxt::CompletionRing<Paced>) -> () {
        ring.arm(false)
    }

    fn code_bnxt_poll(
        committed: &Committed<()>,
        ring: &mut bnxt::CompletionRing<Paced>
    ) -> Option<Completion> {
        committed.poll(ring)
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/hot_path/assembly")
}

/// What came of the comparison.
pub enum Verdict {
    Same,
    /// By another compiler.
    NotCompared(String),
    /// What differs, as a person would look at it.
    Differs(String),
}

/// Compares the machine code with what is checked in; or checks it in.
pub fn compare(bless: bool) -> Result<Verdict, String> {
    let directory = directory();
    let compiler = text(Command::new("rustc").arg("--version"))?;
    let made_by = directory.join("rustc");
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    if bless {
        std::fs::create_dir_all(&directory)
            .map_err(|it| format!("{}: {it}", directory.display()))?;
        write(&made_by, &compiler)?;
    } else {
        let made_by = std::fs::read_to_string(made_by).unwrap_or_default();
        if made_by != compiler {
            let (made_by, compiler) = (made_by.trim(), compiler.trim());
            return Ok(Verdict::NotCompared(format!("made by {made_by}, this is {compiler}")));
        }
    }
    let mut differences = String::new();
    for (name, function) in FUNCTIONS {
        std::hint::black_box(function);
        let code = disassembled(name)?;
        let path = directory.join(format!("{}.s", name.trim_start_matches("code_")));
        if bless {
            write(&path, &code)?;
            continue;
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        if known != code {
            let count = |code: &str| code.lines().filter(|line| line.starts_with(' ')).count();
            differences += &format!(
                "{}: {} instructions, which were {}; now:\n{code}\n",
                path.display(),
                count(&code),
                count(&known)
            );
        }
    }
    Ok(if differences.is_empty() { Verdict::Same } else { Verdict::Differs(differences) })
}

/// What a program prints.
fn text(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}: {said}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The instructions of a function of this program, without what depends on where things lie: jumps lead
/// to numbered labels, calls to names.
fn disassembled(name: &str) -> Result<String, String> {
    let this = std::env::current_exe().map_err(|error| format!("cannot find itself: {error}"))?;
    let listing = text(
        Command::new("objdump")
            .args(["--demangle", "--no-show-raw-insn", "-M", "intel"])
            .arg(format!("--disassemble={name}"))
            .arg(this),
    )?;
    let lines: Vec<(u64, &str)> = listing.lines().filter_map(instruction).collect();
    let inside = |address: u64| lines.iter().any(|&(at, _)| at == address);
    let targets = lines.iter().filter_map(|&(_, code)| target(code)).filter(|&at| inside(at));
    let mut labels: BTreeMap<u64, usize> = targets.map(|at| (at, 0)).collect();
    for (number, label) in labels.values_mut().enumerate() {
        *label = number + 1;
    }
    let mut result = String::new();
    for &(address, code) in &lines {
        if let Some(label) = labels.get(&address) {
            result += &format!("{label}:\n");
        }
        let code = code.split_whitespace().collect::<Vec<_>>().join(" ");
        if is_padding(&code) {
            continue;
        }
        result += &match target(&code) {
            Some(to) => {
                let operation = code.split(' ').next().unwrap_or_default();
                match (labels.get(&to), code.split_once('<')) {
                    (Some(label), _) => format!("    {operation} {label}\n"),
                    (None, Some((_, name))) => format!("    {operation} <{name}\n"),
                    (None, None) => format!("    {operation} elsewhere\n"),
                }
            }
            None => format!("    {}\n", without_place(&code)),
        };
    }
    if result.is_empty() { Err(format!("there is no function {name}")) } else { Ok(result) }
}

/// Address and text of a line that is an instruction.
fn instruction(line: &str) -> Option<(u64, &str)> {
    let (address, code) = line.split_once(":\t")?;
    Some((u64::from_str_radix(address.trim(), 16).ok()?, code))
}

/// Where a jump or a call leads to.
fn target(code: &str) -> Option<u64> {
    let mut words = code.split_whitespace();
    let operation = words.next()?;
    if !operation.starts_with('j') && operation != "call" {
        return None;
    }
    u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()
}

/// Instructions that only align what follows.
fn is_padding(code: &str) -> bool {
    let operation = code.trim_start_matches("cs ").trim_start_matches("data16 ");
    operation.starts_with("nop") || code == "int3" || code == "xchg ax,ax"
}

/// The same without the distance to a constant and its address.
fn without_place(code: &str) -> String {
    let code = code.split('#').next().unwrap_or_default().trim_end();
    match code.split_once("[rip+") {
        Some((before, rest)) => {
            let after = rest.split_once(']').map_or("", |(_, after)| after);
            format!("{before}[rip]{after}")
        }
        None => code.to_owned(),
    }
}
