//! The products that were declared, each asked for once and kept to the end of the call.

use std::cell::OnceCell;

use waycairn_analysis_api::host::Parts;

use crate::host::{HostError, ProductData};

/// One cell for each declared name: what a view borrows stays where it is until all of it goes.
#[derive(Debug)]
pub(crate) struct Products<'n, 'a> {
    cells: Vec<(&'n str, OnceCell<Result<Kept<'a>, HostError>>)>,
}

#[derive(Debug)]
struct Kept<'a> {
    data: ProductData<'a>,
    metadata: String,
}

impl<'n, 'a> Products<'n, 'a> {
    pub(crate) fn new(names: impl IntoIterator<Item = &'n String>) -> Self {
        Self { cells: names.into_iter().map(|name| (name.as_str(), OnceCell::new())).collect() }
    }

    /// The product of this name; nothing if it is not declared.
    pub(crate) fn get(
        &self,
        name: &str,
        ask: impl FnOnce() -> Result<ProductData<'a>, HostError>,
    ) -> Option<Result<Parts<'_>, HostError>> {
        let (_, cell) = self.cells.iter().find(|(known, _)| *known == name)?;
        let kept = cell.get_or_init(|| {
            let data = ask()?;
            Ok(Kept { metadata: data.metadata.to_string(), data })
        });
        Some(match kept {
            Err(error) => Err(error.clone()),
            Ok(Kept { data, metadata }) => Ok(Parts {
                key: &data.key,
                metadata,
                arrays: data.arrays.clone(),
                documents: data.json.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect(),
            }),
        })
    }
}
