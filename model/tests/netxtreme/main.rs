//! The virtual BCM57608 with doorbell's own driver on it.

mod families;

use doorbell::bnxt::{Connection, Nic, PeerRights, access};
use doorbell::completion::Completion;
use doorbell::wr;
use doorbell_model::VirtualNetxtreme;
use doorbell_model::network::Network;

#[test]
fn a_write_arrives_and_everything_is_given_back() {
    for network in [Network::free(), Network::stepped(1)] {
        let function = VirtualNetxtreme::builder().network(&network).open();
        let watch = function.watch();
        let nic = Nic::open(function).unwrap();
        let source = nic.region::<access::Local>(4096).unwrap();
        let target = nic.region::<access::RemoteWrite>(4096).unwrap();
        let mut completions = nic.completion_queue(256).unwrap();
        let here = nic.queue_pair(&completions).create().unwrap();
        let there = nic.queue_pair(&completions).create().unwrap();
        let (to_here, to_there) = (here.endpoint(), there.endpoint());
        let mut here = here.connect(PeerRights::NONE, &to_there, &Connection::default()).unwrap();
        let there = there.connect(PeerRights::WRITE, &to_here, &Connection::default()).unwrap();
        source.write_at(0, b"hello").unwrap();
        let request = wr::write(source.slice(0..5).unwrap(), target.remote()).unwrap();
        here.sends().post(request.id(7).signaled()).unwrap();
        here.sends().ring();
        let mut sent = None;
        for _ in 0..100_000 {
            network.run_until_idle(100);
            sent = completions.poll();
            if sent.is_some() {
                break;
            }
            std::thread::yield_now();
        }
        assert!(matches!(sent, Some(Completion::Sent(sent)) if sent.id == 7), "{sent:?}");
        let mut bytes = [0; 5];
        target.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"hello");
        drop((here, there, completions, source, target));
        assert_eq!(watch.with(|nic| nic.objects()), [0; 5]);
        nic.close().unwrap();
        assert!(!watch.is_bus_master());
        let counters = watch.counters();
        let wrong = [
            counters.stray_doorbells,
            counters.dropped_doorbells,
            counters.malformed_entries,
            counters.wrong_message_table,
            counters.lost_contexts,
            counters.requests_refused,
            counters.commands_refused,
        ];
        assert_eq!(wrong, [0; 7], "{:?}", watch.take_log());
    }
}
