//! The key of a recipe: SHA-256 of its RFC 8785 text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use waycairn_durable::{Digest, DigestError};

use crate::value::{MAX_DEPTH, integer, too_deep};
use crate::{Backend, Recipe, ValueError};

/// Is the digest of a recipe, and with that of everything that determines an artifact.
///
/// Shown, read and serialized as 64 lower-case hex digits; the first 32 name the folder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(Digest);

impl Key {
    /// The key of a recipe.
    pub(crate) fn of(recipe: &Recipe) -> Result<Self, ValueError> {
        Ok(Self(Digest::of(&recipe_text(recipe)?)))
    }

    /// Takes a digest for a key.
    #[must_use]
    pub fn from_digest(digest: Digest) -> Self {
        Self(digest)
    }

    /// Shows the digest.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.0
    }

    /// Shows the first 12 digits, for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.0.short()
    }

    /// The 16 bytes that name the folder.
    pub(crate) fn folder_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0.as_bytes()[..16]);
        bytes
    }
}

/// The RFC 8785 text of a recipe. It is written field by field, in the order of the names, since every hit needs it; a
/// test compares it with what `serde_jcs` makes of the same recipe.
fn recipe_text(recipe: &Recipe) -> Result<Vec<u8>, ValueError> {
    let Recipe { product, experiment, settings, dependencies, implementation, backend } = recipe;
    let mut text = Vec::with_capacity(1024);
    text.push(b'{');
    if let Some(Backend { device, name, world_size, precision, deterministic }) = backend {
        text.extend_from_slice(b"\"backend\":{\"deterministic\":");
        push(&mut text, deterministic)?;
        text.extend_from_slice(b",\"device\":");
        push(&mut text, device.as_str())?;
        text.extend_from_slice(b",\"name\":");
        push(&mut text, name.as_str())?;
        text.extend_from_slice(b",\"precision\":");
        push(&mut text, precision.as_str())?;
        text.extend_from_slice(b",\"world_size\":");
        push(&mut text, world_size)?;
        text.extend_from_slice(b"},");
    }
    text.extend_from_slice(b"\"dependencies\":");
    push_object(&mut text, dependencies.iter(), push)?;
    text.extend_from_slice(b",\"experiment\":");
    push(&mut text, experiment.as_str())?;
    text.extend_from_slice(b",\"implementation\":{\"crates\":");
    push_object(&mut text, implementation.crates.iter(), |text, version| push(text, version.as_str()))?;
    text.extend_from_slice(b",\"sources\":");
    push_object(&mut text, implementation.sources.iter(), push)?;
    text.extend_from_slice(b",\"version\":");
    push(&mut text, &implementation.version)?;
    text.extend_from_slice(b"},\"product\":");
    push(&mut text, product.as_str())?;
    text.extend_from_slice(b",\"settings\":");
    push_value(&mut text, settings, 0).map_err(|error| error.below_key("settings"))?;
    text.push(b'}');
    Ok(text)
}

/// The RFC 8785 text of a value.
pub(crate) fn canonical_text(value: &Value) -> Result<Vec<u8>, ValueError> {
    let mut text = Vec::with_capacity(1024);
    push_value(&mut text, value, 0)?;
    Ok(text)
}

/// Adds a value; refuses what has no canonical text.
fn push_value(text: &mut Vec<u8>, value: &Value, depth: usize) -> Result<(), ValueError> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value {
        Value::Array(values) => {
            text.push(b'[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                push_value(text, value, depth + 1).map_err(|error| error.below_index(index))?;
            }
            text.push(b']');
            Ok(())
        }
        Value::Object(values) => {
            push_object(text, values.iter(), |text, value| push_value(text, value, depth + 1))
        }
        Value::Number(number) if number.is_f64() => serde_jcs::to_writer(&mut *text, number).map_err(no_text),
        Value::Number(number) => {
            let magnitude =
                number.as_u64().or_else(|| Some(number.as_i64()?.unsigned_abs())).unwrap_or(u64::MAX);
            integer(magnitude.into(), number)?;
            push(text, number)
        }
        value => push(text, value),
    }
}

/// Adds an object, its keys in the order of their UTF-16 code units.
fn push_object<'map, V: 'map>(
    text: &mut Vec<u8>,
    entries: impl Iterator<Item = (&'map String, &'map V)>,
    mut push_one: impl FnMut(&mut Vec<u8>, &'map V) -> Result<(), ValueError>,
) -> Result<(), ValueError> {
    let mut entries: Vec<(&String, &V)> = entries.collect();
    entries.sort_by(|(one, _), (other, _)| match one.is_ascii() && other.is_ascii() {
        true => one.cmp(other),
        false => one.encode_utf16().cmp(other.encode_utf16()),
    });
    text.push(b'{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        push(text, key.as_str())?;
        text.push(b':');
        push_one(text, value).map_err(|error| error.below_key(key))?;
    }
    text.push(b'}');
    Ok(())
}

/// Adds what `serde_json` writes as the RFC wants it: texts, whole numbers, truth values, null.
fn push<T: Serialize + ?Sized>(text: &mut Vec<u8>, value: &T) -> Result<(), ValueError> {
    serde_json::to_writer(text, value).map_err(no_text)
}

fn no_text(error: serde_json::Error) -> ValueError {
    ValueError { path: String::new(), problem: format!("has no canonical text: {error}") }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Key({self})")
    }
}

impl FromStr for Key {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests;
