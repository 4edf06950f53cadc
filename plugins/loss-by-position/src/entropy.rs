//! Cross-entropies of tokens, summed by position.

use waycairn_analysis_api::AnalysisError;

/// Sums and weights of the cross-entropy at each position, in nats.
#[derive(Debug)]
pub(crate) struct Sums {
    positions: Vec<(f64, f64)>,
}

impl Sums {
    pub(crate) fn new(context: usize) -> Self {
        Self { positions: vec![(0.0, 0.0); context] }
    }

    /// Adds rows: `losses` and `weights` of shape \[rows, context\]. What has the weight 0 is left out, whatever its loss is.
    pub(crate) fn add(&mut self, losses: &[f32], weights: Option<&[f32]>) -> Result<(), AnalysisError> {
        let context = self.positions.len();
        if losses.is_empty()
            || !losses.len().is_multiple_of(context)
            || weights.is_some_and(|weights| weights.len() != losses.len())
        {
            return Err(AnalysisError::new(format!(
                "the experiment answered {} losses for rows of {context}",
                losses.len()
            )));
        }
        for (index, loss) in losses.iter().enumerate() {
            let weight = weights.map_or(1.0, |weights| f64::from(weights[index]));
            if weight == 0.0 {
                continue;
            }
            let (sum, total) = &mut self.positions[index % context];
            *sum += weight * f64::from(*loss);
            *total += weight;
        }
        Ok(())
    }

    /// The mean at each position; NaN where nothing was added.
    pub(crate) fn means(&self) -> impl Iterator<Item = f32> {
        self.positions.iter().map(|(sum, total)| (sum / total) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(sums: &Sums) -> Vec<f32> {
        sums.means().collect()
    }

    #[test]
    fn a_position_is_the_weighted_mean_over_its_rows() {
        let mut sums = Sums::new(2);
        sums.add(&[1.0, 2.0, 3.0, 6.0], None).unwrap();
        assert_eq!(means(&sums), [2.0, 4.0]);
        let mut sums = Sums::new(1);
        sums.add(&[1.0], Some(&[1.0])).unwrap();
        sums.add(&[5.0], Some(&[3.0])).unwrap();
        sums.add(&[f32::NAN], Some(&[0.0])).unwrap();
        assert_eq!(means(&sums), [4.0]);
        assert!(means(&Sums::new(1))[0].is_nan());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |losses: &[f32], weights: Option<&[f32]>| {
            Sums::new(2).add(losses, weights).unwrap_err().to_string()
        };
        assert!(refused(&[0.0; 3], None).contains("3 losses for rows of 2"));
        assert!(refused(&[], None).contains("0 losses"));
        assert!(refused(&[0.0; 4], Some(&[1.0; 2])).contains("4 losses"));
    }
}
