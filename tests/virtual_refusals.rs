//! Each kernel call is refused in turn: the error names the call and the reason, nothing is left
//! behind, and trying again works. On virtual NICs, whose kernel does as it is told.

mod device;

use doorbell::error::{Error, Refused};
use doorbell::mlx5::access::{Local, RemoteWrite};
use doorbell::mlx5::{CompletionQueue, Connection, Nic, Order, PeerRights, QueuePair};
use doorbell::state::Reset;
use doorbell_hal::Errno;
use doorbell_hal::linux::Anonymous;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::uverbs::Uverbs;
use doorbell_model::VirtualConnectx;
use doorbell_model::connectx::Network;
use doorbell_model::kernel::{Control, Objects};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::AsFd;

/// The reason for each refusal: one that no call has of itself.
const REASON: Errno = Errno::ENODATA;

/// What an error calls the kernel call that the model calls `call`.
fn named(call: &str) -> &'static [&'static str] {
    match call {
        "GET_CONTEXT" => &["GET_CONTEXT"],
        "QUERY_DEVICE" => &["QUERY_DEVICE"],
        "QUERY_PORT" => &["QUERY_PORT"],
        "QUERY_GID_TABLE" => &["QUERY_GID_TABLE"],
        "ALLOC_PD" => &["ALLOC_PD"],
        "UAR_OBJ_ALLOC" => &["UAR_OBJ_ALLOC"],
        "mmap" => &["mmap of a register page"],
        "CREATE_COMP_CHANNEL" => &["CREATE_COMP_CHANNEL"],
        "ASYNC_EVENT_ALLOC" => &["ASYNC_EVENT_ALLOC"],
        "event_files" => &["setting the event files up"],
        "allocate" => &["the allocation of memory"],
        "CQ_CREATE" => &["CREATE_CQ"],
        "QP_CREATE" => &["CREATE_QP"],
        "getrandom" => &["getrandom"],
        "REG_MR" => &["REG_MR"],
        "REG_DMABUF_MR" => &["REG_DMABUF_MR"],
        "MODIFY_QP" => &[
            "MODIFY_QP to Init",
            "MODIFY_QP to Rtr",
            "MODIFY_QP to Rts",
            "MODIFY_QP to Error",
            "MODIFY_QP to Reset",
        ],
        "QP_DESTROY" => &["DESTROY_QP"],
        "CQ_DESTROY" => &["DESTROY_CQ"],
        "MR_DESTROY" => &["DEREG_MR"],
        other => panic!("no test expects the call {other}"),
    }
}

/// The error is the refusal of the `nth` of `calls`, and says so.
#[track_caller]
fn says(error: &Error, calls: &[String], nth: u64) {
    let refused = &calls[nth as usize - 1];
    let Error::Refused { device, call, reason } = error else { panic!("{refused}: {error}") };
    assert_eq!(*reason, REASON, "{refused}");
    assert!(named(refused).contains(call), "{refused}: {error}");
    let text = error.to_string();
    assert_eq!(text, format!("{device}: the kernel refused {call}: no data (ENODATA)"));
    assert!(std::error::Error::source(error).is_some());
}

/// Tries `act` again and again, with another kernel call refused each time, until no call is left
/// to refuse. Answers what `act` made at last, and the calls that it took.
///
/// After each refusal the NIC has what it had before. `act` answers a refusal with its error.
#[track_caller]
fn refuse_each<T>(
    control: &Control,
    mut act: impl FnMut() -> Result<T, Error>,
) -> (T, Vec<String>) {
    for nth in 1.. {
        let before = control.objects();
        control.forget_calls();
        control.refuse_call(nth, REASON);
        let result = act();
        let calls = control.calls();
        let waits = control.withdraw_refusal();
        match result {
            Ok(made) => {
                assert!(
                    waits,
                    "call {nth}, {}, was refused, and nobody said so",
                    calls[nth as usize - 1]
                );
                assert_eq!(calls.len() as u64, nth - 1);
                return (made, calls);
            }
            Err(error) => {
                assert!(!waits, "{error}, before anything was refused");
                says(&error, &calls, nth);
                let after = control.objects();
                assert_eq!(
                    after,
                    before,
                    "left behind when {} was refused",
                    calls[nth as usize - 1]
                );
            }
        }
    }
    unreachable!("calls are not endless")
}

/// A NIC whose pages of registers and records are made already: what follows takes no more of them.
struct Warm {
    nic: Nic<VirtualConnectx>,
    control: Control,
    cq: CompletionQueue<VirtualConnectx>,
}

fn warm() -> Warm {
    let file = VirtualConnectx::builder().network(&Network::stepped(1)).open();
    let control = file.control();
    let nic = Nic::open(file).unwrap();
    let mut cq = nic.completion_queue(256).unwrap();
    drop(nic.queue_pair(&cq).sends(4).write_combining().create().unwrap());
    assert_eq!(cq.poll(), None);
    Warm { nic, control, cq }
}

fn queue_pair(warm: &Warm) -> QueuePair<Reset, VirtualConnectx> {
    warm.nic.queue_pair(&warm.cq).sends(4).receives(4).create().unwrap()
}

/// What a refused call gave back, and the error.
fn keep<T>(place: &mut Option<T>, refused: Refused<T>) -> Error {
    *place = Some(refused.object);
    refused.error
}

#[test]
fn opening_a_nic() {
    let first = VirtualConnectx::builder().network(&Network::stepped(1)).open();
    let control = first.control();
    let open = || Nic::open(first.open_again());
    let (nic, calls) = refuse_each(&control, open);
    let expected = [
        "GET_CONTEXT",
        "QUERY_DEVICE",
        "QUERY_PORT",
        "QUERY_GID_TABLE",
        "ALLOC_PD",
        "UAR_OBJ_ALLOC",
        "mmap",
    ];
    assert_eq!(calls, expected);
    nic.close().unwrap();
    assert_eq!(control.objects(), Objects::default());
}

#[test]
fn making_an_event_channel() {
    let Warm { nic, control, .. } = warm();
    let (channel, calls) = refuse_each(&control, || nic.event_channel());
    assert_eq!(calls, ["CREATE_COMP_CHANNEL", "ASYNC_EVENT_ALLOC", "event_files"]);
    drop(channel);
    assert_eq!(control.objects().event_files, 0);
}

#[test]
fn making_a_completion_queue() {
    let Warm { nic, control, .. } = warm();
    let (_, calls) = refuse_each(&control, || nic.completion_queue(16));
    assert_eq!(calls, ["allocate", "CQ_CREATE"]);
    let channel = nic.event_channel().unwrap();
    refuse_each(&control, || nic.completion_queue_with_events(16, &channel));
}

#[test]
fn making_a_queue_pair() {
    let Warm { nic, control, cq } = warm();
    let (qp, calls) = refuse_each(&control, || nic.queue_pair(&cq).sends(4).receives(4).create());
    assert_eq!(calls, ["getrandom", "allocate", "QP_CREATE"]);
    // No refusal took a user index or room of the completion queue.
    assert_eq!(qp.index().get(), 0);
    let too_much = nic.queue_pair(&cq).sends(512).create().err().unwrap();
    assert!(matches!(too_much, Error::Overcommitted { needed: 520, .. }), "{too_much}");
    let build = || nic.queue_pair(&cq).sends(4).receives(4).write_combining().create();
    let (qp, _) = refuse_each(&control, build);
    assert_eq!(qp.index().get(), 1);
}

#[test]
fn making_the_first_of_each_on_a_cold_nic_leaves_at_most_a_page_of_each_kind() {
    // Pages of records and registers belong to the NIC once they are made.
    for nth in 1.. {
        let file = VirtualConnectx::builder().network(&Network::stepped(1)).open();
        let control = file.control();
        let nic = Nic::open(file).unwrap();
        control.forget_calls();
        control.refuse_call(nth, REASON);
        let make = || -> Result<_, Error> {
            let cq = nic.completion_queue(16)?;
            let qp = nic.queue_pair(&cq).sends(4).write_combining().create()?;
            Ok((cq, qp))
        };
        let made = make();
        let waits = control.withdraw_refusal();
        let Err(error) = made else {
            assert!(waits);
            assert!(nth > 7, "the first of each takes more than {nth} calls");
            break;
        };
        says(&error, &control.calls(), nth);
        let left = control.objects();
        assert_eq!((left.completion_queues, left.queue_pairs, left.pinned), (0, 0, 0));
        assert!(left.allocations <= 1 && left.register_pages <= 2);
        assert_eq!(left.register_pages, left.mappings, "a page that is not mapped was given back");
        // And trying again works, with the page that is there.
        let made = make().unwrap();
        drop(made);
        nic.close().unwrap();
        assert_eq!(control.objects(), Objects::default());
    }
}

#[test]
fn registering_memory() {
    let Warm { nic, control, .. } = warm();
    let (_, calls) = refuse_each(&control, || nic.region::<Local>(100, Order::InOrder));
    assert_eq!(calls, ["allocate", "REG_MR"]);
    // Memory that was handed over goes with the refusal.
    let before = control.objects();
    let memory = nic.verbs().allocate(4096).unwrap();
    control.forget_calls();
    control.refuse_call(1, REASON);
    let error = nic.region_of::<RemoteWrite>(memory, 100, Order::Relaxed).unwrap_err();
    says(&error, &control.calls(), 1);
    assert_eq!(control.objects(), before);
    let memory = Anonymous::new(4096).unwrap();
    let (_, calls) = refuse_each(&control, || {
        // SAFETY: M1, M2: `memory` outlives the region, and nothing else reaches it.
        unsafe { nic.region_at::<Local>(memory.as_ptr(), 4096, Order::InOrder) }
    });
    assert_eq!(calls, ["REG_MR"]);
    let pages = memfd_create("exported", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&pages, 4096).unwrap();
    let register = || nic.device_region::<RemoteWrite>(pages.as_fd(), 0, 4096, Order::InOrder);
    let (_, calls) = refuse_each(&control, register);
    assert_eq!(calls, ["REG_DMABUF_MR"]);
}

#[test]
fn connecting() {
    let warm = warm();
    let mut qp = Some(queue_pair(&warm));
    let peer = queue_pair(&warm).endpoint();
    let connection = Connection::default();
    let endpoint = qp.as_ref().unwrap().endpoint();
    let (rts, calls) = refuse_each(&warm.control, || {
        let this = qp.take().unwrap();
        assert_eq!(this.endpoint(), endpoint, "it is as it was");
        let connected = this.connect(PeerRights::NONE, &peer, &connection);
        connected.map_err(|refused| keep(&mut qp, refused))
    });
    assert_eq!(calls, ["MODIFY_QP"; 3]);
    // Down again, refused each time.
    let mut rts = Some(rts);
    let (errored, calls) = refuse_each(&warm.control, || {
        rts.take().unwrap().fail().map_err(|refused| keep(&mut rts, refused))
    });
    assert_eq!(calls, ["MODIFY_QP"]);
    let mut errored = Some(errored);
    let (reset, calls) = refuse_each(&warm.control, || {
        errored.take().unwrap().reset().map_err(|refused| keep(&mut errored, refused))
    });
    assert_eq!(calls, ["getrandom", "MODIFY_QP"]);
    // Step by step.
    let mut reset = Some(reset);
    let (init, _) = refuse_each(&warm.control, || {
        reset.take().unwrap().init(PeerRights::NONE).map_err(|it| keep(&mut reset, it))
    });
    let mut init = Some(init);
    let (rtr, _) = refuse_each(&warm.control, || {
        let this = init.take().unwrap();
        this.ready_to_receive(&peer, &connection).map_err(|it| keep(&mut init, it))
    });
    let mut rtr = Some(rtr);
    refuse_each(&warm.control, || {
        rtr.take().unwrap().ready_to_send(&connection).map_err(|it| keep(&mut rtr, it))
    });
}

#[test]
fn a_refusal_names_the_step_of_connecting() {
    let warm = warm();
    let peer = queue_pair(&warm).endpoint();
    for (nth, step) in [(1, "Init"), (2, "Rtr"), (3, "Rts")] {
        let qp = queue_pair(&warm);
        warm.control.refuse_call(nth, REASON);
        let refused = qp.connect(PeerRights::NONE, &peer, &Connection::default()).err().unwrap();
        let call = format!("MODIFY_QP to {step}");
        assert!(refused.error.to_string().contains(&call), "{}", refused.error);
    }
}

#[test]
fn destroying() {
    let Warm { nic, control, cq } = warm();
    let mut qp = Some(nic.queue_pair(&cq).sends(4).create().unwrap());
    let (_, calls) = refuse_each(&control, || {
        qp.take().unwrap().destroy().map_err(|refused| keep(&mut qp, refused))
    });
    assert_eq!(calls, ["QP_DESTROY"]);
    let mut cq = Some(cq);
    let (_, calls) = refuse_each(&control, || {
        cq.take().unwrap().destroy().map_err(|refused| keep(&mut cq, refused))
    });
    assert_eq!(calls, ["CQ_DESTROY"]);
    let mut region = Some(nic.region::<Local>(64, Order::InOrder).unwrap());
    let (_, calls) = refuse_each(&control, || {
        region.take().unwrap().deregister().map_err(|refused| keep(&mut region, refused))
    });
    assert_eq!(calls, ["MR_DESTROY"]);
    nic.close().unwrap();
    assert_eq!(control.objects(), Objects::default());
}
