//! The fold: how the records of a node become its values. Pure, without regard to speed.
//!
//! This is the rule itself. The engine that answers queries is another program, a streaming merge over columns;
//! property tests hold it against this one on random input.
//!
//! # The rule
//!
//! Records are grouped by node. For every field, independently of the others, the non-null value of the record
//! with the highest priority wins:
//!
//! 1. the lower process index; a missing one ranks lowest
//! 2. then the higher write; a missing one ranks lowest
//! 3. then the higher writer id, as text; a missing one ranks lowest
//! 4. then the later part by name, then the later row in it
//!
//! So a field of a node is a maximum, and neither the order of arrival nor the borders of parts, duplicates or a
//! compaction can change it. The last rule decides only between records without stamps, which our writer does
//! not make and our compaction does not move.
//!
//! ```
//! use waycairn_dag::Node;
//! use waycairn_store::{PhysicalRecord, Scalar, fold};
//!
//! # fn main() -> Result<(), waycairn_dag::AddressError> {
//! let record = |process, write, fields: &[(&str, f64)]| -> Result<PhysicalRecord, waycairn_dag::AddressError> {
//!     Ok(PhysicalRecord {
//!         node: Node::new("run", "949e88", 7)?,
//!         process: Some(process),
//!         write: Some(write),
//!         writer: Some("w".to_owned()),
//!         part: "part-a.parquet".to_owned(),
//!         row: 0,
//!         fields: fields.iter().map(|(key, value)| ((*key).to_owned(), Scalar::Float(*value))).collect(),
//!     })
//! };
//! let folded = fold([
//!     record(0, 1, &[("train/loss", 2.4)])?,
//!     record(1, 9, &[("train/loss", 9.0), ("eval/accuracy", 0.6)])?,
//!     record(0, 5, &[("train/loss", 2.1)])?,
//! ]);
//! let fields = &folded[&Node::new("run", "949e88", 7)?];
//! assert_eq!(fields["train/loss"], Scalar::Float(2.1));
//! assert_eq!(fields["eval/accuracy"], Scalar::Float(0.6));
//! # Ok(())
//! # }
//! ```

use std::cmp::Ordering;
use std::collections::BTreeMap;

use waycairn_dag::Node;

use crate::field::Scalar;
use crate::stamp::Stamp;

/// One row of a part.
#[derive(Clone, Debug, PartialEq)]
pub struct PhysicalRecord {
    /// The node that it was recorded for.
    pub node: Node,
    /// Index of the process that wrote it.
    pub process: Option<i64>,
    /// Its place in the order of its writer.
    pub write: Option<i64>,
    /// The store object that wrote it.
    pub writer: Option<String>,
    /// The file name of the part.
    pub part: String,
    /// Its place in the part.
    pub row: u64,
    /// What was recorded; null is as good as absent.
    pub fields: Vec<(String, Scalar)>,
}

impl PhysicalRecord {
    /// Orders two records of one node by priority; the greater one wins a field that both have.
    #[must_use]
    pub fn priority(&self, other: &PhysicalRecord) -> Ordering {
        let stamp =
            |record: &PhysicalRecord, writer| Stamp { process: record.process, write: record.write, writer };
        stamp(self, self.writer.as_deref())
            .priority(&stamp(other, other.writer.as_deref()))
            .then_with(|| (&self.part, self.row).cmp(&(&other.part, other.row)))
    }
}

/// Folds records: for every node that has one, the winning value of each of its fields.
#[must_use]
pub fn fold(records: impl IntoIterator<Item = PhysicalRecord>) -> BTreeMap<Node, BTreeMap<String, Scalar>> {
    let mut groups: BTreeMap<Node, Vec<PhysicalRecord>> = BTreeMap::new();
    for record in records {
        groups.entry(record.node.clone().with_parent(None)).or_default().push(record);
    }
    let folded = groups.into_iter().map(|(node, mut group)| {
        group.sort_by(PhysicalRecord::priority);
        let fields = group.into_iter().flat_map(|record| record.fields);
        // What stands later wins, and null never does.
        (node, fields.filter(|(_, value)| !value.is_null()).collect())
    });
    folded.collect()
}
