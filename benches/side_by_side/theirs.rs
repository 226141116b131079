//! libmlx5's side: `libmlx5.c`, loaded into this process.

use crate::subject::{Column, OPERATIONS, Row, Subject, laps, last_timed};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;

/// `struct side`.
#[repr(C)]
struct Side(c_void);

type Open = unsafe extern "C" fn(c_uint, c_int) -> *mut Side;
type Prepare = unsafe extern "C" fn(*mut Side, c_int, u32, c_int, c_uint, c_uint, u64);
type Post = unsafe extern "C" fn(*mut Side, c_uint);
type Ask = unsafe extern "C" fn(*mut Side) -> c_uint;
type Counted = unsafe extern "C" fn(*mut Side) -> c_int;
type Dump = unsafe extern "C" fn();
type Settle = unsafe extern "C" fn(u64) -> c_int;

/// The functions of `libmlx5.c`, and of the preloaded library.
#[derive(Clone, Copy)]
struct Functions {
    library: *mut c_void,
    open: Open,
    prepare: Prepare,
    post: Post,
    receive: Post,
    post_to_pairs: Post,
    drain: Ask,
    blue_flame: Ask,
    settle: Settle,
}

/// What the last call of the dynamic loader says is wrong.
fn loader_error() -> String {
    // SAFETY: L2: the C library's own text, which is a string or none.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".into();
    }
    // SAFETY: L2: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn symbol(library: *mut c_void, name: &str) -> Result<*mut c_void, String> {
    let name = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: L2: a library that was loaded, or the process's own symbols, and a string.
    let found = unsafe { libc::dlsym(library, name.as_ptr().cast::<c_char>()) };
    if found.is_null() { Err(loader_error()) } else { Ok(found) }
}

macro_rules! function {
    ($library:expr, $name:expr, $type:ty) => {
        // SAFETY: L2: `libmlx5.c` and the preloaded library define a function of this type by this
        // name.
        unsafe { std::mem::transmute::<*mut c_void, $type>(symbol($library, $name)?) }
    };
}

impl Functions {
    fn load(library: &Path) -> Result<Self, String> {
        let path =
            CString::new(library.as_os_str().as_encoded_bytes()).map_err(|it| it.to_string())?;
        // SAFETY: L2: loading it runs nothing of ours.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err(loader_error());
        }
        Ok(Functions {
            library,
            open: function!(library, "side_open", Open),
            prepare: function!(library, "side_prepare", Prepare),
            post: function!(library, "side_post", Post),
            receive: function!(library, "side_receive", Post),
            post_to_pairs: function!(library, "side_post_to_pairs", Post),
            drain: function!(library, "side_drain", Ask),
            blue_flame: function!(library, "side_blue_flame", Ask),
            settle: function!(libc::RTLD_DEFAULT, "doorbell_shim_run_until_idle", Settle),
        })
    }
}

/// Queue pairs of libmlx5, connected to themselves, with one completion queue.
#[derive(Clone, Copy)]
struct Rig {
    functions: Functions,
    side: *mut Side,
    laps: usize,
}

/// What is posted, prepared before it is measured.
#[derive(Clone, Copy)]
struct Requests {
    sends: bool,
    len: u32,
    inline: bool,
    /// One in so many is signaled.
    signaled: u32,
    /// So many in one call.
    chain: u32,
}

const WRITES: Requests = Requests { sends: false, len: 64, inline: false, signaled: 1, chain: 1 };
const SENDS: Requests = Requests { sends: true, ..WRITES };

impl Rig {
    fn open(functions: Functions, pairs: u32, single_threaded: bool, laps: usize) -> Self {
        // SAFETY: L2: it makes what it returns.
        let side = unsafe { (functions.open)(pairs, single_threaded.into()) };
        Rig { functions, side, laps }
    }

    fn counted(&self, name: &str) -> Result<Counted, String> {
        Ok(function!(self.functions.library, name, Counted))
    }

    fn prepare(&self, what: Requests, id: u64) {
        let Requests { sends, len, inline, signaled, chain } = what;
        // SAFETY: L2: the side was opened, and one thread uses it.
        unsafe {
            (self.functions.prepare)(
                self.side,
                sends.into(),
                len,
                inline.into(),
                signaled,
                chain,
                id,
            );
        }
    }

    /// Calls a counted function that has to succeed: its cycles.
    fn time(&self, counted: Counted) -> u64 {
        // SAFETY: L2: the side was opened, and one thread uses it.
        let (ticks, failed) = last_timed(self.laps, || unsafe { counted(self.side) });
        assert_eq!(failed, 0);
        ticks
    }

    /// Posts `count` of the prepared requests, or receives for them, in each lap.
    fn post_laps(&self, post: Post, count: usize) {
        for _ in 0..self.laps {
            self.post(post, count);
        }
    }

    fn post(&self, post: Post, count: usize) {
        // SAFETY: L2: the side was opened, and one thread uses it.
        unsafe { post(self.side, count as c_uint) };
    }

    /// The NIC does what there is to do.
    fn settle(&self) {
        // SAFETY: L2: it takes a number.
        assert_eq!(unsafe { (self.functions.settle)(u64::MAX) }, 1);
    }

    /// Polls whatever there is; answers how much.
    fn drain(&self) -> usize {
        // SAFETY: L2: the side was opened, and one thread uses it.
        unsafe { (self.functions.drain)(self.side) as usize }
    }

    fn posting(
        self,
        row: Row,
        column: Column,
        name: &str,
        what: Requests,
    ) -> Result<Subject, String> {
        let counted = self.counted(name)?;
        Ok(Subject::new(row, column, move |id| {
            self.prepare(what, id);
            let ticks = self.time(counted);
            self.settle();
            assert_eq!(self.drain(), self.laps * OPERATIONS / what.signaled as usize);
            ticks
        }))
    }

    /// Polls what one request to each of `pairs` queue pairs, in turn, completes with.
    fn polling(self, row: Row, column: Column, name: &str, pairs: u32) -> Result<Subject, String> {
        let counted = self.counted(name)?;
        let mut first = 0;
        Ok(Subject::new(row, column, move |id| {
            self.prepare(WRITES, id);
            for _ in 0..self.laps {
                self.post(self.functions.post_to_pairs, first as usize);
                first = (first + OPERATIONS as u32) % pairs;
            }
            self.settle();
            let ticks = self.time(counted);
            assert_eq!(self.drain(), 0);
            ticks
        }))
    }
}

/// What writes callgrind's counts out; nothing where there is no callgrind.
pub fn dump(library: &Path) -> Result<Dump, String> {
    Ok(function!(Functions::load(library)?.library, "side_dump", Dump))
}

/// What libmlx5 does of every row; `libmlx5.c` is built as `library`.
pub fn subjects(
    library: &Path,
    loops: bool,
    single_threaded: bool,
    to: &mut Vec<Subject>,
) -> Result<(), String> {
    let (functions, laps) = (Functions::load(library)?, laps(loops));
    let rig = Rig::open(functions, 1, single_threaded, laps);
    // SAFETY: L2: the side was opened.
    let carried = unsafe { (functions.blue_flame)(rig.side) };
    if carried != 256 {
        return Err(format!("libmlx5's doorbells carry {carried} bytes, which are to be 256"));
    }
    let (verbs, extended) = (Column::Verbs, Column::Extended);
    let inline = |len| Requests { len, inline: true, ..WRITES };
    let chain = |chain| Requests { chain, ..WRITES };
    let unsignaled = Requests { signaled: 16, ..WRITES };
    for (row, what, post, build) in [
        (Row::Post, WRITES, "count_theirs_post", "count_theirs_build"),
        (Row::Post8, chain(8), "count_theirs_post_8", "count_theirs_build_8"),
        (Row::Post32, chain(32), "count_theirs_post_32", "count_theirs_build_32"),
        (Row::Unsignaled, unsignaled, "count_theirs_post", "count_theirs_build"),
        (Row::Inline16, inline(16), "count_theirs_post", "count_theirs_build_inline"),
        (Row::Inline32, inline(32), "count_theirs_post", "count_theirs_build_inline"),
        (Row::Inline64, inline(64), "count_theirs_post", "count_theirs_build_inline"),
        (Row::Inline220, inline(220), "count_theirs_post", "count_theirs_build_inline"),
    ] {
        to.push(rig.posting(row, verbs, post, what)?);
        to.push(rig.posting(row, extended, build, what)?);
    }
    messages(rig, to)?;
    for (row, pairs, poll, cursor) in [
        (Row::Poll, 1, "count_theirs_poll", "count_theirs_cursor"),
        (Row::Poll16, 1, "count_theirs_poll_16", "count_theirs_cursor_16"),
        (Row::Poll64, 64, "count_theirs_poll", "count_theirs_cursor"),
        (Row::Poll4096, 4096, "count_theirs_poll", "count_theirs_cursor"),
    ] {
        let rig = if pairs == 1 { rig } else { Rig::open(functions, pairs, single_threaded, laps) };
        to.push(rig.polling(row, verbs, poll, pairs)?);
        to.push(rig.polling(row, extended, cursor, pairs)?);
    }
    for (column, name) in
        [(verbs, "count_theirs_poll_empty"), (extended, "count_theirs_cursor_empty")]
    {
        let counted = rig.counted(name)?;
        to.push(Subject::new(Row::PollEmpty, column, move |_| rig.time(counted)));
    }
    Ok(())
}

/// Sends and receives, in three parts.
fn messages(rig: Rig, to: &mut Vec<Subject>) -> Result<(), String> {
    let receive = rig.counted("count_theirs_receive")?;
    let Functions { post, receive: post_receives, .. } = rig.functions;
    to.push(Subject::new(Row::Receive, Column::Verbs, move |id| {
        rig.prepare(SENDS, id);
        let ticks = rig.time(receive);
        rig.post_laps(post, OPERATIONS);
        rig.settle();
        assert_eq!(rig.drain(), 2 * rig.laps * OPERATIONS);
        ticks
    }));
    for (column, name) in
        [(Column::Verbs, "count_theirs_post"), (Column::Extended, "count_theirs_build_send")]
    {
        let counted = rig.counted(name)?;
        to.push(Subject::new(Row::Send, column, move |id| {
            rig.prepare(SENDS, id);
            rig.post_laps(post_receives, OPERATIONS);
            let ticks = rig.time(counted);
            rig.settle();
            assert_eq!(rig.drain(), 2 * rig.laps * OPERATIONS);
            ticks
        }));
    }
    for (column, name) in
        [(Column::Verbs, "count_theirs_poll"), (Column::Extended, "count_theirs_cursor")]
    {
        let counted = rig.counted(name)?;
        to.push(Subject::new(Row::PollBoth, column, move |id| {
            rig.prepare(SENDS, id);
            // A message completes twice.
            rig.post_laps(post_receives, OPERATIONS / 2);
            rig.post_laps(post, OPERATIONS / 2);
            rig.settle();
            let ticks = rig.time(counted);
            assert_eq!(rig.drain(), 0);
            ticks
        }));
    }
    Ok(())
}
