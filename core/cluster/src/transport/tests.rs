//! Two members on the loopback address: what arrives, and what a broken or ended neighbor looks like.

use super::{ClusterTransport, PipelineSeat, SeatPlace};
use crate::keys::PipelineKeys;
use crate::node::ClusterNode;
use crate::options::ClusterOptions;
use menagerie_stages::{
    FRAME_HEADER_BYTES, FrameContent, FrameHeader, FrameKind, PipelineTransport, StageFrame, TransportFault,
    TransportKind,
};
use std::time::{Duration, Instant};
use zenoh::Wait;
use zenoh::qos::CongestionControl;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// A stage and the head of a pipeline of one stage, with their keys.
fn members(cluster: &str) -> ([ClusterNode; 2], [ClusterTransport; 2], PipelineKeys) {
    let options = ClusterOptions::new(cluster);
    let stage = ClusterNode::join(&options).unwrap();
    let head = ClusterNode::join(&options.with_connect(stage.endpoints().to_vec())).unwrap();
    let keys = head.keys().pipeline(["model", "main", "1"]);
    let place = |member| SeatPlace { keys: keys.clone(), member, members: 2 };
    let of_head = PipelineSeat::take(&head, place(1)).unwrap();
    let of_stage = PipelineSeat::take(&stage, place(0)).unwrap();
    assert!(of_stage.wait_for_head(soon()));
    let transports = [of_stage, of_head].map(|seat| seat.links().unwrap());
    ([stage, head], transports, keys)
}

fn frame(floats: usize) -> StageFrame {
    let content = FrameContent { body: vec![7; 100], rows: vec![0.5; floats] };
    StageFrame::new(&FrameHeader::of(FrameKind::Step), content, TransportKind::Serialized).unwrap()
}

#[test]
fn frames_pass_in_order_both_ways_and_the_end_comes_after_them() {
    let (_nodes, [mut stage, mut head], _) = members("transport-order");
    let gone = stage.gone();
    for floats in [0, 1, 300_000, 4096] {
        head.send(frame(floats), soon()).unwrap();
    }
    for floats in [0, 1, 300_000, 4096] {
        assert_eq!(stage.receive(soon()).unwrap(), Some(frame(floats)), "{floats}");
    }
    assert_eq!(stage.receive(Instant::now()).unwrap(), None);
    stage.send_back(frame(0)).unwrap();
    assert_eq!(head.receive_back(soon()).unwrap(), Some(frame(0)));
    head.send(frame(2), soon()).unwrap();
    drop(head);
    assert_eq!(stage.receive(soon()).unwrap(), Some(frame(2)));
    assert_eq!(stage.receive(soon()), Err(TransportFault::Closed));
    assert_eq!(stage.receive_back(soon()), Err(TransportFault::Closed));
    assert!(stage.send(frame(0), soon()).is_err());
    let asked = Instant::now();
    while !gone.load(std::sync::atomic::Ordering::Relaxed) {
        assert!(asked.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_member_that_is_told_to_end_says_why() {
    let (_nodes, [mut stage, mut head], _) = members("transport-drain");
    head.send(frame(1), soon()).unwrap();
    stage.receive(soon()).unwrap();
    stage.send(frame(1), soon()).unwrap();
    head.receive(soon()).unwrap();
    stage.ender().close("it was drained");
    let reason = TransportFault::System("it was drained".to_owned());
    assert_eq!(stage.receive(soon()), Err(reason.clone()));
    assert_eq!(stage.send(frame(1), soon()), Err(reason.clone()));
    drop(stage);
    assert_eq!(head.receive(soon()), Err(reason));
}

/// A node that leaves without a word: its token ends.
#[test]
fn a_node_that_is_gone_is_noticed() {
    let ([first, _], [stage, mut head], _) = members("transport-gone");
    first.session().close().wait().unwrap();
    assert_eq!(head.receive(soon()), Err(TransportFault::Closed));
    assert!(matches!(head.send(frame(1), soon()), Err(TransportFault::Closed)));
    drop(stage);
}

#[test]
fn messages_that_are_not_frames_are_faults_and_too_many_end_the_link() {
    let (nodes, [mut stage, _head], keys) = members("transport-foreign");
    let session = nodes[1].session();
    let head = frame(3).head;
    let put = |attachment: Option<&[u8]>, payload: &[u8]| {
        // By default zenoh drops what it has no room for.
        let sent = session.put(keys.forward(0), payload).congestion_control(CongestionControl::Block);
        sent.attachment(attachment).wait().unwrap();
    };
    let mut other = head;
    other[0] = b'X';
    let short = &head[..FRAME_HEADER_BYTES - 1];
    for (attachment, payload, word) in [
        (None, &[1, 2, 3][..], "without the header"),
        (Some(short), &[], "another size"),
        (Some(&other[..]), &[], "wrong magic"),
        (Some(&head[..]), &[0; 5], "announces 112 bytes, found 5"),
    ] {
        put(attachment, payload);
        let fault = stage.receive(soon()).unwrap_err();
        let said = fault.to_string();
        assert!(matches!(fault, TransportFault::Broken(_)) && said.contains(word), "{said}");
    }
    for _ in 0..200 {
        put(Some(&head), &frame(3).payload);
    }
    let asked = Instant::now();
    let ended = loop {
        assert!(asked.elapsed() < Duration::from_secs(20));
        if stage.send_back(frame(0)).is_err() {
            break stage.send_back(frame(0)).unwrap_err().to_string();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(ended.contains("more frames arrived than credits allow"), "{ended}");
}
