//! Keys on the command line: lists separated by commas, and the key to sort by with its direction.

use crate::error::CliError;
use crate::rows::FIELD;
use crate::table::printable;

/// Splits a list of keys. A key that holds a comma stands in double quotes, with `""` for a quote in it, as in an
/// expression.
pub(crate) fn split(lists: &[String]) -> Result<Vec<String>, CliError> {
    let mut keys = Vec::new();
    for list in lists {
        for piece in pieces(list) {
            let key = unquote(piece.trim(), "list keys as in `--keys train/loss,val/loss`")?;
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    Ok(keys)
}

/// Splits a list of keys to sort by; see [`sort`].
pub(crate) fn sorts(lists: &[String]) -> Result<Vec<(String, bool)>, CliError> {
    lists.iter().flat_map(|list| pieces(list)).map(|piece| sort(piece.trim())).collect()
}

/// Splits `K`, `K:asc` or `K:desc` into the key and whether it descends. A key that holds a colon stands in double
/// quotes; `field:` before a key is no part of it.
fn sort(text: &str) -> Result<(String, bool), CliError> {
    let (prefix, rest) = text.split_at(if text.starts_with(FIELD) { FIELD.len() } else { 0 });
    let (key, descending) = match rest.rsplit_once(':') {
        Some((key, "desc")) => (key, true),
        Some((key, "asc")) => (key, false),
        Some((_, direction)) if !rest.ends_with('"') => {
            return Err(CliError::usage(format!("`{}` is no direction to sort in", printable(direction)))
                .why("behind the last colon of a key stands `asc` or `desc`")
                .next("put a key that holds a colon into double quotes: `--sort '\"a:b\":desc'`"));
        }
        _ => (rest, false),
    };
    let key = unquote(key, "name the key to sort by, as in `--sort val/loss` or `--sort written:desc`")?;
    Ok((format!("{prefix}{key}"), descending))
}

/// The pieces between the commas that stand outside of quotes.
fn pieces(list: &str) -> Vec<&str> {
    let (mut pieces, mut from, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in list.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => {
                pieces.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&list[from..]);
    pieces
}

/// A key without its quotes; `next` is what to do about one that is empty.
fn unquote(key: &str, next: &str) -> Result<String, CliError> {
    let bare = match key.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').map(|inner| inner.replace("\"\"", "\"")),
        None => Some(key.to_owned()),
    };
    match bare {
        Some(key) if !key.is_empty() => Ok(key),
        Some(_) => Err(CliError::usage("a key is empty")
            .why("a field has a name of at least one character")
            .next(next)),
        None => Err(CliError::usage(format!("the quote of the key {key} is not closed"))
            .why("a key that begins with a double quote ends with one")
            .next("quote the whole list for the shell as well: `--keys '\"a,b\",c'`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(list: &str) -> Vec<String> {
        split(&[list.to_owned()]).unwrap()
    }

    #[test]
    fn commas_separate_and_quotes_keep() {
        assert_eq!(keys("train/loss,val/loss"), ["train/loss", "val/loss"]);
        assert_eq!(keys("a, b,a"), ["a", "b"]);
        assert_eq!(keys(r#""a,b",c"#), ["a,b", "c"]);
        assert_eq!(keys(r#""say ""hi""""#), [r#"say "hi""#]);
        for wrong in ["", "a,,b", r#""a"#] {
            assert!(split(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_direction_is_taken_from_the_end() {
        assert_eq!(sort("val/loss").unwrap(), ("val/loss".to_owned(), false));
        assert_eq!(sort("val/loss:desc").unwrap(), ("val/loss".to_owned(), true));
        assert_eq!(sort("\"a:b\"").unwrap(), ("a:b".to_owned(), false));
        assert_eq!(sort("field:seq").unwrap(), ("field:seq".to_owned(), false));
        assert_eq!(sort("field:\"a:b\":desc").unwrap(), ("field:a:b".to_owned(), true));
        for wrong in ["seq:up", "a:b", "field:seq:up", "seq:"] {
            let error = sort(wrong).unwrap_err();
            assert_eq!(error.exit, crate::error::Exit::Usage, "{wrong}");
        }
        for empty in ["", ":desc", "\"\""] {
            let error = sort(empty).unwrap_err();
            assert!(error.next.unwrap().contains("`--sort "), "{empty}");
        }
        assert!(split(&["a,".to_owned()]).unwrap_err().next.unwrap().contains("`--keys "));
        assert_eq!(sort("\"a:desc\":asc").unwrap(), ("a:desc".to_owned(), false));
    }
}
