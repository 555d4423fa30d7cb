//! Random messages of 1.3: what is encoded is decoded as the same; replies are cut where they must be.

mod messages;

use messages::{self as m, any_message};
use proptest::prelude::*;
use weir_openflow::codec::{EncodeError, decode, encode};
use weir_openflow::framing::Framer;
use weir_openflow::model::*;

const V: Version = Version::V13;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn encoded_and_decoded_it_is_the_same(xid: u32, body in any_message()) {
        let msg = Msg { xid, body };
        let mut bytes = Vec::new();
        encode(V, &msg, &mut bytes).unwrap();
        prop_assert_eq!(decode(V, &bytes), Ok(msg));
    }

    #[test]
    fn bytes_changed_are_refused_or_mean_something(
        body in any_message(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = Vec::new();
        encode(V, &Msg { xid: 3, body }, &mut bytes).unwrap();
        for (at, byte) in changes {
            // Behind the header: that is judged elsewhere.
            if bytes.len() > 8 {
                let at = 8 + at.index(bytes.len() - 8);
                bytes[at] = byte;
            }
        }
        match decode(V, &bytes) {
            Ok(msg) => {
                // Whatever is taken can be said again, and means the same then.
                let mut again = Vec::new();
                match encode(V, &msg, &mut again) {
                    Ok(()) => prop_assert_eq!(decode(V, &again), Ok(msg)),
                    // Table features with experimenters' ids, which the model does not keep.
                    Err(e) => prop_assert!(matches!(e, EncodeError::NotInVersion { .. }), "{e}"),
                }
            }
            Err(e) => {
                prop_assert_eq!(e.xid, 3);
                prop_assert!(e.data.len() >= bytes.len().min(64) && bytes.starts_with(&e.data));
            }
        }
    }

    #[test]
    fn any_bytes_at_all(mut bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0u8..32) {
        if bytes.len() >= 4 {
            let length = bytes.len() as u16;
            bytes[0] = 4;
            bytes[1] = kind;
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
        }
        if let Err(e) = decode(V, &bytes) {
            prop_assert!(e.data.len() >= bytes.len().min(64) && bytes.starts_with(&e.data));
        }
    }
}

fn replies(msg: &Msg) -> Vec<Msg> {
    let mut bytes = Vec::new();
    encode(V, msg, &mut bytes).unwrap();
    let (mut framer, mut input) = (Framer::new(), &bytes[..]);
    let mut all = Vec::new();
    while let Some(frame) = framer.next(&mut input).unwrap() {
        all.push(decode(V, frame).unwrap());
    }
    all
}

#[test]
fn long_replies_are_cut_between_flows() {
    let flow = |n: u64| m::flow_stats(n);
    let flows: Vec<_> = (0..5000).map(flow).collect();
    let body = StatsReply::Flow(flows.clone());
    let parts = replies(&Msg { xid: 8, body: Message::StatsReply { more: Part::Last, body } });
    assert!(parts.len() > 5);
    let mut joined = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        let Message::StatsReply { more, body: StatsReply::Flow(some) } = &part.body else {
            panic!("{part:?}")
        };
        assert_eq!(part.xid, 8);
        assert_eq!(*more == Part::More, i + 1 < parts.len());
        assert!(!some.is_empty());
        joined.extend(some.clone());
    }
    assert_eq!(joined, flows);
}

#[test]
fn the_last_part_says_more_where_the_caller_has_more() {
    let body = StatsReply::Flow(vec![]);
    let parts = replies(&Msg { xid: 8, body: Message::StatsReply { more: Part::More, body } });
    let [Msg { body: Message::StatsReply { more: Part::More, .. }, .. }] = &parts[..] else {
        panic!("{parts:?}")
    };
}

#[test]
fn what_is_too_long_or_not_of_1_3_is_refused_and_nothing_is_written() {
    let frame = |data: usize| {
        Message::PacketOut(PacketOut {
            buffer_id: NO_BUFFER,
            in_port: Port::CONTROLLER,
            actions: vec![],
            data: vec![0; data],
        })
    };
    let with = |action: Action| {
        Message::PacketOut(PacketOut {
            buffer_id: NO_BUFFER,
            in_port: Port::CONTROLLER,
            actions: vec![action],
            data: vec![],
        })
    };
    let mut out = vec![1, 2, 3];
    let mut say =
        |body| encode(V, &Msg { xid: 1, body }, &mut out).map(|()| out.split_off(3).len());
    assert_eq!(say(frame(65_511)), Ok(65_535));
    assert_eq!(say(frame(65_512)), Err(EncodeError::TooLong { len: 65_536 }));
    for action in [
        Action::SetNwTos(4),
        Action::Enqueue { port: Port(1), queue: 1 },
        Action::SetField(Field::InPort, 1),
        Action::SetField(Field::VlanVid, 5),
        Action::SetField(Field::IpDscp, 64),
        Action::Experimenter { experimenter: 1, data: vec![1] },
    ] {
        assert!(say(with(action.clone())).is_err(), "{action:?}");
    }
    assert_eq!(out, [1, 2, 3]);
}

/// Found by fuzzing: names of other character sets, and such as fill their field, grew when written.
#[test]
fn a_name_that_is_no_utf_8_is_read_once_and_for_all() {
    let mut features = vec![4, 19, 0, 80, 0, 0, 0, 1, 0, 12, 0, 0, 0, 0, 0, 0];
    features.extend([0, 64]);
    features.resize(80, 0);
    for name in [[0xe4; 32], [b'a'; 32]] {
        features[24..56].copy_from_slice(&name);
        let msg = decode(V, &features).unwrap();
        let mut again = Vec::new();
        encode(V, &msg, &mut again).unwrap();
        assert_eq!(again.len(), features.len());
        assert_eq!(decode(V, &again), Ok(msg));
    }
}
