//! Golden vectors, both ways: each frame means what scapy was told to write, and comes out byte for
//! byte when written anew from what was read. Provenance: `golden/make_vectors.py`.

#[path = "golden/dissect.rs"]
mod dissect;
#[path = "golden/vectors.rs"]
mod vectors;

#[test]
fn frames_mean_what_they_were_made_to_mean() {
    for vector in vectors::all() {
        let (dissection, _) = dissect::frame(&vector.bytes)
            .unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        for (field, value) in &vector.meaning {
            assert_eq!(dissection.facts.get(field), Some(value), "{}: {field}", vector.name);
        }
    }
}

#[test]
fn frames_come_out_as_they_went_in() {
    for vector in vectors::all() {
        let (_, written) = dissect::frame(&vector.bytes).unwrap();
        assert_eq!(dissect::hex(&written), dissect::hex(&vector.bytes), "{}", vector.name);
    }
}

#[test]
fn every_vector_is_there() {
    let vectors = vectors::all();
    assert_eq!(vectors.len(), 50);
    assert!(vectors.iter().all(|vector| !vector.meaning.is_empty() && vector.bytes.len() >= 42));
}

/// A frame cut short anywhere is an error or a shorter frame, never a panic; and the error tells
/// how much is missing.
#[test]
fn truncation_is_reported() {
    for vector in vectors::all() {
        for len in 0..vector.bytes.len() {
            let Err(error) = dissect::frame(&vector.bytes[..len]) else { continue };
            if error.kind == weir_wire::Kind::Truncated {
                assert!(error.need > error.have, "{} cut to {len}: {error}", vector.name);
            }
        }
    }
}
