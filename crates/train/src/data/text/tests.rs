#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "test files need no durability")]

use super::*;

fn file(bytes: &[u8]) -> (tempfile::TempDir, Source) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    std::fs::write(&path, bytes).unwrap();
    (folder, Source::File(path))
}

fn read_all(data: &TextData) -> Vec<i32> {
    let mut tokens = Vec::new();
    data.read(Split::Train, 0, data.split_len(Split::Train) as usize, &mut tokens);
    data.read(Split::Validation, 0, data.split_len(Split::Validation) as usize, &mut tokens);
    tokens
}

#[test]
fn an_ascii_text_is_split_and_numbered() {
    let (_folder, source) = file(b"abcabcabca");
    let data = TextData::open(&source, Reading::OwnCharacters, 0.9).unwrap();
    assert_eq!((data.split_len(Split::Train), data.split_len(Split::Validation)), (9, 1));
    assert_eq!(read_all(&data), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]);
    assert!(matches!(data.tokens, Tokens::Table(_)));
}

#[test]
fn a_text_of_wide_characters_counts_characters() {
    let (_folder, source) = file("\u{e9}a\u{e9}b".as_bytes());
    let data = TextData::open(&source, Reading::OwnCharacters, 0.5).unwrap();
    assert_eq!(data.len(), 4);
    assert_eq!(read_all(&data), [2, 0, 2, 1]);
    let bytes = TextData::open(&source, Reading::Bytes, 0.5).unwrap();
    assert_eq!(bytes.len(), 6);
}

#[test]
fn bad_texts_are_named_with_their_place() {
    let missing = Source::File("/nonexistent/text.txt".into());
    let error = TextData::open(&missing, Reading::Bytes, 0.9).unwrap_err();
    assert_eq!(error.to_string(), "cannot open the text `/nonexistent/text.txt`");

    let (folder, source) = file(b"");
    let error = TextData::open(&source, Reading::OwnCharacters, 0.9).unwrap_err();
    assert!(matches!(error, DataError::Empty { .. }));
    let error = TextData::open(&Source::File(folder.path().to_owned()), Reading::Bytes, 0.9).unwrap_err();
    assert!(matches!(error, DataError::NotAFile { .. }));

    let (_folder, source) = file(b"abc\xffdef");
    let error = TextData::open(&source, Reading::OwnCharacters, 0.9).unwrap_err();
    assert!(error.to_string().ends_with("is not UTF-8 at byte 3"), "{error}");
    assert!(error.next().unwrap().contains("data.tokenizer=byte"));
    assert_eq!(TextData::open(&source, Reading::Bytes, 0.9).unwrap().len(), 7);

    let (_folder, source) = file(b"abcz");
    let vocabulary = Vocabulary::of_text("abc").unwrap();
    let error = TextData::open(&source, Reading::Given(vocabulary), 0.9).unwrap_err();
    assert!(error.to_string().contains("holds the character 'z' at byte 3"), "{error}");

    let (_folder, source) = file(b"abcdefghij");
    let data = TextData::open(&source, Reading::OwnCharacters, 0.9).unwrap();
    data.check_split(Split::Train, 8).unwrap();
    let error = data.check_split(Split::Validation, 8).unwrap_err();
    assert!(error.to_string().contains("validation part of"), "{error}");
    assert!(error.to_string().contains("has 1 token, and one example needs 9"), "{error}");
}

#[test]
fn a_source_resolves_to_an_absolute_path_or_a_digest() {
    assert_eq!(Source::parse("embedded"), Source::Embedded);
    let resolved = Source::Embedded.resolved();
    assert!(resolved.starts_with("embedded:") && resolved.len() == 9 + 64);
    assert_eq!(Source::parse(&resolved), Source::Embedded);
    assert!(Source::parse("some.txt").resolved().starts_with('/'));
}
