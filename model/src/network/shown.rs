//! The counters of a process's NICs, for other processes of its user.
//!
//! A process that has NICs listens at a socket in a directory of the user's. Whoever connects is told
//! the counters: a line for each, its name and its value, after a line that says whose they are.

use super::{Network, Nic, Shared};
use crate::fabric::WireCounters;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

/// Counters with their names.
pub type NamedCounters = Vec<(String, u64)>;

/// The socket at which a network's counters are shown, until this is dropped or its process ends.
#[derive(Debug)]
pub struct Shown {
    path: PathBuf,
    process: u32,
}

/// The NICs of a process, and what they count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What the process calls them.
    pub name: String,
    /// The process.
    pub process: u32,
    /// Their counters. Of several NICs, each name begins with the NIC's number.
    pub counters: NamedCounters,
}

/// The most bytes that are read of a process's answer, and how long it may take.
const LONGEST: u64 = 1 << 18;
const PATIENCE: Duration = Duration::from_secs(2);

impl Network {
    /// Shows the counters of the network's NICs, and of its `wire`, to other processes of the same
    /// user ([`seen`]). `name` is what they are called.
    pub fn show_counters(&self, name: &str, wire: Option<Arc<WireCounters>>) -> io::Result<Shown> {
        show(&directory()?, name, Arc::downgrade(&self.0), wire)
    }
}

fn show(
    directory: &Path,
    name: &str,
    network: Weak<Shared>,
    wire: Option<Arc<WireCounters>>,
) -> io::Result<Shown> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!("nics-{process}-{number}"));
    // One of a process that is gone.
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    // A name is one line.
    let name = name.replace('\n', " ");
    let thread = std::thread::Builder::new().name("counters".into());
    thread.spawn(move || {
        // Ends with the process, or when the network is gone and somebody asks.
        for stream in listener.incoming() {
            let Some(shared) = network.upgrade() else { return };
            let mut text = format!("{process} {name}\n");
            for (counter, value) in counters_of(&shared, wire.as_deref()) {
                text += &format!("{counter} {value}\n");
            }
            drop(shared);
            if let Ok(mut stream) = stream {
                // Who does not wait for the answer does not want it.
                let _ = stream.set_write_timeout(Some(PATIENCE));
                let _ = stream.write_all(text.as_bytes());
            }
        }
    })?;
    Ok(Shown { path, process })
}

fn counters_of(shared: &Shared, wire: Option<&WireCounters>) -> NamedCounters {
    let world = shared.world.lock().unwrap_or_else(PoisonError::into_inner);
    let several = world.nics.len() > 1;
    let mut all = NamedCounters::new();
    for (number, nic) in (1..).zip(world.nics.values()) {
        let named = match nic {
            Nic::Connectx(nic) => nic.counters().named(),
            Nic::Netxtreme(nic) => nic.counters().named(),
        };
        all.extend(named.into_iter().map(|(name, value)| match several {
            true => (format!("{number}.{name}"), value),
            false => (name.to_owned(), value),
        }));
    }
    let wire = wire.map(|wire| wire.read().named()).unwrap_or_default();
    all.extend(wire.into_iter().map(|(name, value)| (format!("wire.{name}"), value)));
    all
}

impl Drop for Shown {
    fn drop(&mut self) {
        // A forked child has a copy, but not the thread that answers.
        if self.process == std::process::id() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The NICs of this user's processes that show their counters, by process.
pub fn seen() -> io::Result<Vec<Seen>> {
    seen_in(&directory()?)
}

fn seen_in(directory: &Path) -> io::Result<Vec<Seen>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        match ask(&path) {
            Ok(Some(seen)) => all.push(seen),
            // Its process is gone without a word.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(&path);
            }
            // It ends just now, or is none of these.
            Ok(None) | Err(_) => {}
        }
    }
    all.sort_by_key(|seen| seen.process);
    Ok(all)
}

fn ask(path: &Path) -> io::Result<Option<Seen>> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.take(LONGEST).read_to_string(&mut text)?;
    Ok(parse(&text))
}

/// An answer. `None` if it is not one.
fn parse(text: &str) -> Option<Seen> {
    let mut lines = text.lines();
    let (process, name) = lines.next()?.split_once(' ')?;
    let counters = lines.map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    Some(Seen {
        name: name.to_owned(),
        process: process.parse().ok()?,
        counters: counters.collect::<Option<_>>()?,
    })
}

/// Where the sockets are: a directory of this user's alone.
fn directory() -> io::Result<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let directory = match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(runtime) => PathBuf::from(runtime).join("doorbell-nics"),
        None => std::env::temp_dir().join(format!("doorbell-nics-{user}")),
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    if fs::metadata(&directory)?.uid() != user {
        let message = format!("{} belongs to another user", directory.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VirtualConnectx;

    #[test]
    fn what_is_shown_is_seen_until_it_goes() {
        let directory = tempfile::tempdir().unwrap();
        let network = Network::free();
        let _nic = VirtualConnectx::builder().network(&network).open();
        let wire = Arc::new(WireCounters::default());
        let shown =
            show(directory.path(), "a\nname", Arc::downgrade(&network.0), Some(wire)).unwrap();
        // One whose process is gone, and a file of somebody's.
        drop(UnixListener::bind(directory.path().join("nics-1-0")).unwrap());
        fs::write(directory.path().join("else"), "x").unwrap();
        let all = seen_in(directory.path()).unwrap();
        let [seen] = &all[..] else { panic!("one: {all:?}") };
        assert_eq!((&*seen.name, seen.process), ("a name", std::process::id()));
        let names: Vec<_> = seen.counters.iter().map(|(name, _)| &**name).collect();
        assert!(names.contains(&"packets_dropped") && names.contains(&"wire.corrupt"), "{names:?}");
        assert!(!directory.path().join("nics-1-0").exists());
        drop(shown);
        assert_eq!(seen_in(directory.path()).unwrap(), []);
    }

    #[test]
    fn an_answer_that_is_none_is_passed_over() {
        for text in ["", "\n", "x y\n", "12 name\nfew", "12 name\nfew many\n", "-1 name\n"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        let seen = parse("12 a name\nfew 3\n").unwrap();
        assert_eq!(seen.counters, [("few".to_owned(), 3)]);
    }
}
