//! The framer against a slow and obvious one, and what it says to lengths that lie; requests in parts.

use core::time::Duration;
use proptest::prelude::*;
use weir_openflow::framing::Framer;
use weir_openflow::model::{ErrorCode, Part, StatsRequest, TableFeatures};
use weir_openflow::multipart::Joiner;

type Joined = Result<Option<StatsRequest>, ErrorCode>;

fn message(xid: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![4, 2, (length >> 8) as u8, length as u8, 0, 0, 0, xid];
    bytes.resize(length, xid);
    bytes
}

/// Feeds the pieces and gives back the messages.
fn cut(framer: &mut Framer, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Some(message) = framer.next(&mut input).unwrap() {
            messages.push(message.to_vec());
        }
        assert!(input.is_empty());
    }
    messages
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn whatever_the_pieces_the_messages_are_the_same(
        lengths in prop::collection::vec(prop_oneof![3 => 8usize..40, 1 => 8usize..65_536], 0..20),
        mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        left in 0usize..8,
    ) {
        let messages: Vec<_> =
            lengths.iter().enumerate().map(|(i, l)| message(i as u8, *l)).collect();
        let mut stream = messages.concat();
        let unfinished = message(99, 20);
        stream.extend(&unfinished[..left]);
        let mut places: Vec<usize> =
            cuts.drain(..).map(|c| c.index(stream.len() + 1)).chain([0, stream.len()]).collect();
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|w| &stream[w[0]..w[1]]).collect();
        let mut framer = Framer::new();
        prop_assert_eq!(cut(&mut framer, &pieces), messages);
        prop_assert_eq!(framer.pending(), left);
    }
}

#[test]
fn whole_messages_are_not_copied() {
    let bytes = [message(1, 16), message(2, 8)].concat();
    let mut input = &bytes[..];
    let mut framer = Framer::new();
    let first = framer.next(&mut input).unwrap().unwrap();
    assert_eq!(first.as_ptr(), bytes.as_ptr());
}

#[test]
fn a_length_below_eight_ends_the_stream() {
    for length in 0..8u8 {
        let bad = [4, 14, 0, length, 0, 0, 0, 7];
        // In one piece, and byte by byte.
        for size in [8, 1] {
            let mut framer = Framer::new();
            let mut error = None;
            for mut piece in bad.chunks(size) {
                error = error.or(framer.next(&mut piece).err());
            }
            let error = error.unwrap();
            assert_eq!(error.header.length, u16::from(length));
            let reply = error.as_decode_error();
            assert_eq!((reply.code, reply.xid), (ErrorCode::BadLen, 7));
            assert_eq!(reply.data, bad);
            let good = message(1, 8);
            assert!(framer.next(&mut &good[..]).is_err(), "and stays at its end");
        }
    }
}

#[test]
fn requests_in_parts_are_joined_and_bounded() {
    let part = |table: u8| {
        StatsRequest::TableFeatures(vec![TableFeatures { table, ..TableFeatures::default() }])
    };
    let mut joiner = Joiner::new();
    assert_eq!(
        join(&mut joiner, 1, Part::Last, StatsRequest::Desc, 16),
        Ok(Some(StatsRequest::Desc))
    );
    assert_eq!(join(&mut joiner, 2, Part::More, part(0), 80), Ok(None));
    // Another request in between.
    assert_eq!(
        join(&mut joiner, 3, Part::Last, StatsRequest::Table, 16),
        Ok(Some(StatsRequest::Table))
    );
    assert_eq!(join(&mut joiner, 2, Part::More, part(1), 80), Ok(None));
    // The last part may be empty.
    let whole = join(&mut joiner, 2, Part::Last, StatsRequest::TableFeatures(vec![]), 16).unwrap();
    let Some(StatsRequest::TableFeatures(tables)) = whole else { panic!("{whole:?}") };
    assert_eq!(tables.iter().map(|t| t.table).collect::<Vec<_>>(), [0, 1]);
    // It is forgotten then.
    assert_eq!(join(&mut joiner, 2, Part::Last, part(5), 80), Ok(Some(part(5))));
    // Parts of different requests under one xid.
    assert_eq!(join(&mut joiner, 4, Part::More, part(0), 80), Ok(None));
    assert_eq!(
        join(&mut joiner, 4, Part::Last, StatsRequest::Desc, 16),
        Err(ErrorCode::BadMultipart)
    );
    assert_eq!(join(&mut joiner, 4, Part::Last, part(0), 16), Ok(Some(part(0))));
    // Too many, and too much.
    for xid in 10..14 {
        assert_eq!(join(&mut joiner, xid, Part::More, part(0), 80), Ok(None));
    }
    let overflow = Err(ErrorCode::MultipartBufferOverflow);
    assert_eq!(join(&mut joiner, 14, Part::More, part(0), 80), overflow);
    let mut grown = (0..100).map(|_| join(&mut joiner, 10, Part::More, part(0), 65_000));
    assert!(grown.any(|r| r == overflow));
}

#[test]
fn requests_that_are_never_finished_are_forgotten() {
    let tables = || StatsRequest::TableFeatures(vec![]);
    let (mut joiner, secs) = (Joiner::new(), Duration::from_secs);
    let mut more = |xid, at| joiner.join(xid, Part::More, tables(), 16, at);
    for xid in 0..4 {
        assert_eq!(more(xid, secs(0)), Ok(None));
    }
    // One goes on.
    assert_eq!(more(3, secs(9)), Ok(None));
    assert_eq!(more(4, secs(9)), Err(ErrorCode::MultipartBufferOverflow));
    for xid in 5..8 {
        assert_eq!(more(xid, secs(10)), Ok(None), "room again");
    }
    assert_eq!(more(8, secs(10)), Err(ErrorCode::MultipartBufferOverflow), "for three");
}

fn join(j: &mut Joiner, xid: u32, more: Part, body: StatsRequest, bytes: usize) -> Joined {
    j.join(xid, more, body, bytes, Duration::ZERO)
}
