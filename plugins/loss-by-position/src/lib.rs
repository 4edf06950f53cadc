//! `loss-by-position`: how well a language model predicts at each position of its context.
//!
//! A model that uses its context predicts later tokens better than early ones. The plugin is for studies of `gpt`, and the one
//! to copy a study's plugin from:
//!
//! | what | is |
//! | --- | --- |
//! | product `position_losses` | the array `loss`, f32 \[context\]: mean cross-entropy in nats at each position |
//! | metric `loss_by_position` | `first`, `last`, `mean`, and `ratio`, which is last by first |
//! | plot `loss_by_position_curve` | the array as a curve, SVG |
//! | setting `position.rows` | how many rows of the batch of the run's last node are used; 0 is every row |
//!
//! The metric and the plot take what the product has: a change of either runs no model.

mod entropy;
mod losses;
mod metric;
mod plot;

pub use losses::PositionLosses;
pub use metric::LossByPosition;
pub use plot::LossByPositionCurve;

use waycairn_analysis_api::export_analyses;

export_analyses! {
    analyses: [LossByPosition, LossByPositionCurve],
    products: [PositionLosses],
    settings: losses::defaults,
}
