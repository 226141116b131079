//! Runs a target on inputs that there are already.

use crate::Target;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs `target` on each of the program's arguments: files, and the files of directories.
pub fn arguments(target: Target) -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if arguments.is_empty() {
        eprintln!("usage: give it files, or directories of files, to replay");
        return ExitCode::from(2);
    }
    for argument in arguments {
        let files = if argument.is_dir() { files(&argument) } else { Ok(vec![argument.clone()]) };
        let replayed = files.and_then(|files| {
            files.iter().try_for_each(|path| {
                std::fs::read(path).map(|bytes| input(target, &bytes, &path.display()))
            })
        });
        if let Err(error) = replayed {
            eprintln!("{}: {error}", argument.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The files of a directory, sorted.
pub fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory)?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}

/// Runs `target` on `bytes`. If it panics, says so with the input's `name` and its bytes.
pub fn input(target: Target, bytes: &[u8], name: &dyn std::fmt::Display) {
    struct Saying<'a>(&'a [u8], &'a dyn std::fmt::Display);
    impl Drop for Saying<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
                eprintln!("the input was {}:\n{hex}", self.1);
            }
        }
    }
    let _saying = Saying(bytes, name);
    target(bytes);
}
