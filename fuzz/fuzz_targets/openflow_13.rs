//! OpenFlow 1.3 on any bytes: a stream cut in any pieces, and each of its messages. What is taken is
//! said again and means the same; what is refused carries the right part of itself.
#![no_main]

use weir_openflow::codec::{EncodeError, decode, encode};
use weir_openflow::framing::Framer;
use weir_openflow::model::Version;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&cut, stream)) = data.split_first() else { return };
    let (mut whole, mut pieces) = (Framer::new(), Framer::new());
    let at_once = messages(&mut whole, &[stream]);
    let cut: Vec<&[u8]> = stream.chunks(usize::from(cut) + 1).collect();
    assert_eq!(messages(&mut pieces, &cut), at_once);
    at_once.iter().for_each(|frame| message(frame));
    // Also where no header is true: the bytes as one message's body.
    if let [kind, body @ ..] = stream {
        let body = &body[..body.len().min(0xfff0)];
        let length = (body.len() as u16 + 8).to_be_bytes();
        let head = [4, kind % 32, length[0], length[1], 0, 0, 0, 1];
        message(&[&head, body].concat());
    }
});

fn messages(framer: &mut Framer, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Ok(Some(frame)) = framer.next(&mut input) {
            all.push(frame.to_vec());
        }
    }
    all
}

fn message(frame: &[u8]) {
    match decode(Version::V13, frame) {
        Ok(msg) => {
            let mut again = Vec::new();
            match encode(Version::V13, &msg, &mut again) {
                Ok(()) => assert_eq!(decode(Version::V13, &again).as_ref(), Ok(&msg)),
                // The longest messages may grow by padding; experimenters' ids in table features are not kept.
                Err(EncodeError::TooLong { .. } | EncodeError::NotInVersion { .. }) => {}
                Err(e) => panic!("{e}: {msg:?}"),
            }
        }
        Err(e) => {
            assert!(frame.starts_with(&e.data));
            assert!(e.data.len() >= frame.len().min(64));
        }
    }
}
