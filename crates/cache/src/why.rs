//! Why a recipe misses: what it differs in from the nearest entry.

use std::collections::BTreeSet;

use rayon::prelude::*;
use serde::Serialize;
use serde_json::Value;

use crate::cache::{Cache, Lookup};
use crate::layout::MANIFEST;
use crate::listing::Listed;
use crate::manifest::Manifest;
use crate::value::{push_index, push_key};
use crate::{CacheError, EntryName, Key, MissReason, Recipe, to_value};

/// Recipes are compared with at most this many entries, the youngest.
const COMPARED: usize = 1000;

/// Says why a recipe misses.
#[derive(Debug, Clone, PartialEq)]
pub struct Why {
    /// The key of the recipe.
    pub key: Key,
    /// Why it misses; nothing when it is a hit.
    pub reason: Option<MissReason>,
    /// The entry of the product whose recipe differs in the fewest fields, for a miss.
    pub nearest: Option<Nearest>,
    /// With how many entries it was compared: the youngest 1,000 at most.
    pub compared: usize,
    /// How many the product has.
    pub entries: usize,
}

/// Is the entry whose recipe is nearest to another one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Nearest {
    /// The entry.
    pub entry: EntryName,
    /// When it was built.
    pub created: String,
    /// Where its recipe differs, sorted by path.
    pub changes: Vec<Change>,
}

/// Is one field that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The field, as a dotted path: `settings.samples`, `implementation.sources."example/src/data.rs"`.
    pub path: String,
    /// What it is in the entry; nothing where the entry does not have it.
    pub old: Option<Value>,
    /// What it is in the recipe; nothing where the recipe does not have it.
    pub new: Option<Value>,
}

impl Cache {
    /// Says which fields of a recipe differ from the nearest entry of its product.
    ///
    /// # Errors
    ///
    /// As [`Cache::get`], but for a damaged entry: that is its answer to `get`. [`CacheError::Io`] when the root
    /// cannot be listed.
    pub fn why(&self, recipe: &Recipe) -> Result<Why, CacheError> {
        let key = recipe.key()?;
        let mut why = Why { key, reason: None, nearest: None, compared: 0, entries: 0 };
        match self.get(recipe)? {
            Lookup::Hit(_) => return Ok(why),
            Lookup::Miss(reason) => why.reason = Some(reason),
        }
        let listing = self.listing()?;
        let mut entries: Vec<&Listed> =
            listing.listed.iter().filter(|listed| listed.entry().is_some()).collect();
        entries.retain(|listed| *listed.product == *recipe.product);
        entries.sort_by_key(|listed| std::cmp::Reverse(listed.modified));
        why.entries = entries.len();
        entries.truncate(COMPARED);
        let refused =
            |problem| CacheError::Value { what: format!("recipe of `{}`", recipe.product), problem };
        let new = to_value(recipe).map_err(refused)?;
        let compared: Vec<Nearest> = entries
            .into_par_iter()
            .filter_map(|listed| {
                let entry = listed.entry()?;
                // What cannot be read is the business of `verify`.
                let manifest = Manifest::read(&entry.path(self.root()).join(MANIFEST), entry).ok()?;
                let changes = changes(&to_value(&manifest.recipe).ok()?, &new);
                Some(Nearest { entry: entry.clone(), created: manifest.created, changes })
            })
            .collect();
        why.compared = compared.len();
        why.nearest = compared
            .into_iter()
            .min_by(|a, b| a.changes.len().cmp(&b.changes.len()).then_with(|| b.created.cmp(&a.created)));
        Ok(why)
    }
}

fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(Some(old), Some(new), String::new(), &mut changes);
    changes
}

fn compare(old: Option<&Value>, new: Option<&Value>, path: String, changes: &mut Vec<Change>) {
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            for key in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
                compare(old.get(key), new.get(key), push_key(&path, key), changes);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                compare(old.get(index), new.get(index), push_index(&path, index), changes);
            }
        }
        (old, new) if same(old, new) => {}
        (old, new) => changes.push(Change { path, old: old.cloned(), new: new.cloned() }),
    }
}

/// Equal as the key sees it: `1` and `1.0` are one number.
fn same(old: Option<&Value>, new: Option<&Value>) -> bool {
    match (old, new) {
        (Some(Value::Number(old)), Some(Value::Number(new))) => old.as_f64() == new.as_f64(),
        (old, new) => old == new,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_named_by_their_path() {
        let old = json!({"a": 1, "b": [1, 2], "c": {"x.y": true, "z": null}, "d": {}});
        let new = json!({"a": 1.0, "b": [1, 3, 4], "c": {"x.y": false}, "d": 0});
        let told: Vec<(String, Option<Value>, Option<Value>)> =
            changes(&old, &new).into_iter().map(|change| (change.path, change.old, change.new)).collect();
        let expected = [
            ("b[1]".to_owned(), Some(json!(2)), Some(json!(3))),
            ("b[2]".to_owned(), None, Some(json!(4))),
            ("c.\"x.y\"".to_owned(), Some(json!(true)), Some(json!(false))),
            ("c.z".to_owned(), Some(Value::Null), None),
            ("d".to_owned(), Some(json!({})), Some(json!(0))),
        ];
        assert_eq!(told, expected);
        assert!(changes(&old, &old).is_empty());
    }
}
