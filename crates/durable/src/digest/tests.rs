use proptest::prelude::*;

use super::*;
use crate::{Durability, write_file};

#[test]
fn the_vectors_of_the_standard() {
    let vectors: [(&[u8], &str); 2] = [
        (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
    ];
    for (bytes, text) in vectors {
        assert_eq!(Digest::of(bytes).to_string(), text);
    }
    let million = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    assert_eq!(Digest::of(&vec![b'a'; 1_000_000]).to_string(), million);
}

#[test]
fn a_file_has_the_digest_of_its_bytes_at_every_length() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data");
    let bytes: Vec<u8> = (0..3 * BLOCK_BYTES).map(|index| (index * 7 % 251) as u8).collect();
    for length in [0, 1, 4095, 4096, 4097, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, bytes.len()] {
        write_file(&path, &bytes[..length], Durability::Regenerable).unwrap();
        assert_eq!(Digest::of_file(&path).unwrap(), Digest::of(&bytes[..length]), "{length}");
    }
}

#[test]
fn a_file_that_says_no_length_is_read_to_its_end() {
    let path = Path::new("/proc/self/status");
    if path.exists() {
        assert_ne!(Digest::of_file(path).unwrap(), Digest::of(b""));
    }
}

#[test]
fn an_unreadable_file_is_named() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("absent");
    let error = Digest::of_file(&path).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot read `{}`", path.display()));
    assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
    assert!(Digest::of_file(root.path()).is_err());
}

#[test]
fn text_that_is_no_digest_is_refused() {
    let good = Digest::of(b"x").to_string();
    assert_eq!(good.to_uppercase().parse(), Ok(Digest::of(b"x")));
    for text in ["", "abc", &good[1..], &format!("{good}0"), &good.replace('1', "g"), &"\u{e4}".repeat(32)] {
        assert_eq!(text.parse::<Digest>(), Err(DigestError { text: text.to_owned() }));
    }
    let error = "ab\n".parse::<Digest>().unwrap_err();
    assert_eq!(error.to_string(), "`ab\\n` is not a SHA-256 digest: 64 hex digits are needed");
}

#[test]
fn serde_is_the_text() {
    let digest = Digest::of(b"x");
    let text = serde_json::to_string(&digest).unwrap();
    assert_eq!(text, format!("\"{digest}\""));
    assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
    assert!(serde_json::from_str::<Digest>("\"abc\"").is_err());
    assert_eq!(format!("{digest:?}"), format!("Digest({digest})"));
    assert_eq!(Digest::from_bytes(*digest.as_bytes()), digest);
}

#[test]
fn a_writer_counts_what_was_written_and_not_what_was_offered() {
    /// Takes three bytes at a time.
    struct Slow(Vec<u8>);
    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(3);
            self.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut writer = DigestWriter::new(Slow(b"before".to_vec()));
    assert_eq!(writer.write(b"abcdef").unwrap(), 3);
    writer.write_all(b"defgh").unwrap();
    writer.flush().unwrap();
    let (inner, digest, bytes) = writer.finish();
    assert_eq!(inner.0, b"beforeabcdefgh");
    assert_eq!((digest, bytes), (Digest::of(b"abcdefgh"), 8));
}

proptest! {
    #[test]
    fn pieces_do_not_matter(bytes in prop::collection::vec(any::<u8>(), 0..2000), piece in 1..300_usize) {
        let mut hasher = Hasher::new();
        bytes.chunks(piece).for_each(|piece| hasher.update(piece));
        prop_assert_eq!(hasher.finish(), Digest::of(&bytes));
    }

    #[test]
    fn text_round_trips_and_keeps_the_order(one in any::<[u8; 32]>(), other in any::<[u8; 32]>()) {
        let (one, other) = (Digest::from_bytes(one), Digest::from_bytes(other));
        prop_assert_eq!(one.to_string().parse(), Ok(one));
        prop_assert_eq!(one.cmp(&other), one.to_string().cmp(&other.to_string()));
    }
}
