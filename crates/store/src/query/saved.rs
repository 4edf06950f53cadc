//! A question as data: kept in a file, sent somewhere, asked again of any root.

use serde::{Deserialize, Serialize};

use crate::query::builder::Query;
use crate::query::expression::{Expr, Term};
use crate::query::request::Request;
use crate::query::sort::{Order, SortKey};
use crate::reader::ObjectReader;

/// A question without a reader. Its condition is kept as the text that [`Expr::parse`] reads.
///
/// ```
/// use waycairn_store::{Expr, ObjectReader, Order, SavedQuery};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let root = tempfile::tempdir()?;
/// let reader = ObjectReader::open(root.path())?;
/// let best = reader.query().name("tiny").has("val/loss").sort("val/loss", Order::Ascending).limit(3).saved();
/// let text = serde_json::to_string(&best)?;
/// assert_eq!(text, r#"{"where":"name = 'tiny' and has \"val/loss\"","sort":[["val/loss","ascending"]],"limit":3}"#);
///
/// let again: SavedQuery = serde_json::from_str(&text)?;
/// assert!(reader.ask_again(&again).select(&["val/loss"])?.value.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedQuery {
    /// What is kept; everything when there is no condition.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    condition: Option<Expr>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sort: Vec<(SortKey, Order)>,
    #[serde(default, skip_serializing_if = "is_false")]
    latest: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    #[serde(default, skip_serializing_if = "is_zero")]
    offset: usize,
    #[serde(default, skip_serializing_if = "is_false")]
    raw: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    strict: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Query {
    /// The question so far, as data.
    #[must_use]
    pub fn saved(&self) -> SavedQuery {
        let Request { terms, sort, latest, limit, offset, raw, strict } = self.request().clone();
        let condition = (!terms.is_empty()).then(|| Expr { term: Term::all(terms) });
        SavedQuery { condition, sort, latest, limit, offset, raw, strict }
    }
}

impl ObjectReader {
    /// Begins a question that was saved.
    #[must_use]
    pub fn ask_again(&self, saved: &SavedQuery) -> Query {
        let SavedQuery { condition, sort, latest, limit, offset, raw, strict } = saved.clone();
        let terms = condition.map_or_else(Vec::new, |condition| condition.term.into_conjuncts());
        Query::of(self.clone(), Request { terms, sort, latest, limit, offset, raw, strict })
    }
}
