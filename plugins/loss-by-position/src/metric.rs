//! The metric `loss_by_position`.

use serde::Serialize;
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources, sources};

const SOURCES: Sources = sources!["src/metric.rs"];

/// What the curve of losses says in four numbers.
#[derive(Debug, Default)]
pub struct LossByPosition;

/// What is undefined is null.
#[derive(Debug, PartialEq, Serialize)]
struct Answer {
    first: Option<f64>,
    last: Option<f64>,
    mean: Option<f64>,
    ratio: Option<f64>,
}

impl Answer {
    fn of(loss: &[f32]) -> Self {
        let finite = |value: f64| value.is_finite().then_some(value);
        let (first, last) = (loss.first().copied().map(f64::from), loss.last().copied().map(f64::from));
        Self {
            first: first.and_then(finite),
            last: last.and_then(finite),
            mean: finite(loss.iter().map(|value| f64::from(*value)).sum::<f64>() / loss.len() as f64),
            ratio: first.zip(last).and_then(|(first, last)| finite(last / first)),
        }
    }
}

impl Analysis for LossByPosition {
    fn declare() -> Declaration {
        Declaration::new("loss_by_position", env!("CARGO_PKG_VERSION"), "losses at the ends of the context")
            .metric()
            .needs(Needs::default().product("position_losses"))
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let losses = context.product("position_losses")?;
        context.emit_metric(&Answer::of(losses.array::<f32>("loss")?))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_undefined_is_nothing() {
        let all = |first, last, mean, ratio| Answer { first, last, mean, ratio };
        assert_eq!(Answer::of(&[4.0, 2.0]), all(Some(4.0), Some(2.0), Some(3.0), Some(0.5)));
        assert_eq!(Answer::of(&[0.0, 2.0]), all(Some(0.0), Some(2.0), Some(1.0), None));
        assert_eq!(Answer::of(&[f32::NAN, 2.0]), all(None, Some(2.0), None, None));
        assert_eq!(Answer::of(&[]), all(None, None, None, None));
    }
}
