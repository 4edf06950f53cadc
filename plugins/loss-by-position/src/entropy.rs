//! Cross-entropies of rows of logits, summed by position.

use waycairn_analysis_api::AnalysisError;

/// Sums and weights of the cross-entropy at each position, in nats.
#[derive(Debug)]
pub(crate) struct Sums {
    vocabulary: Option<usize>,
    positions: Vec<(f64, f64)>,
}

impl Sums {
    pub(crate) fn new(context: usize) -> Self {
        Self { vocabulary: None, positions: vec![(0.0, 0.0); context] }
    }

    /// How many tokens the model knows, once it has answered.
    pub(crate) fn vocabulary(&self) -> Option<usize> {
        self.vocabulary
    }

    /// Adds rows: `logits` of shape \[rows, context, vocabulary\], `targets` and `weights` of shape \[rows, context\].
    pub(crate) fn add(
        &mut self,
        logits: &[f32],
        targets: &[i32],
        weights: Option<&[f32]>,
    ) -> Result<(), AnalysisError> {
        let (context, count) = (self.positions.len(), targets.len());
        let vocabulary = logits.len().checked_div(count).unwrap_or_default();
        if vocabulary == 0 || vocabulary * count != logits.len() || !count.is_multiple_of(context) {
            return Err(AnalysisError::new(format!(
                "the model answered {} logits for {count} targets of rows of {context}",
                logits.len()
            )));
        }
        self.vocabulary = Some(vocabulary);
        for (index, (row, target)) in logits.chunks_exact(vocabulary).zip(targets).enumerate() {
            let weight = weights.map_or(1.0, |weights| f64::from(weights[index]));
            if weight == 0.0 {
                continue;
            }
            let logit =
                usize::try_from(*target).ok().and_then(|target| row.get(target)).ok_or_else(|| {
                    AnalysisError::new(format!(
                        "a target is {target}, and tokens are 0 to {}",
                        vocabulary - 1
                    ))
                })?;
            let (sum, total) = &mut self.positions[index % context];
            *sum += weight * (log_sum_exp(row) - f64::from(*logit));
            *total += weight;
        }
        Ok(())
    }

    /// The mean at each position; NaN where nothing was added.
    pub(crate) fn means(&self) -> impl Iterator<Item = f32> {
        self.positions.iter().map(|(sum, total)| (sum / total) as f32)
    }
}

/// The logarithm of the sum of exponentials, without overflow.
fn log_sum_exp(row: &[f32]) -> f64 {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let largest = f64::from(largest);
    largest + row.iter().map(|logit| (f64::from(*logit) - largest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(sums: &Sums) -> Vec<f32> {
        sums.means().collect()
    }

    #[test]
    fn equal_logits_cost_the_logarithm_of_the_vocabulary() {
        let mut sums = Sums::new(2);
        sums.add(&[1000.0; 16], &[0, 3, 1, 2], None).unwrap();
        assert_eq!(sums.vocabulary(), Some(4));
        assert_eq!(means(&sums), [4.0_f32.ln(); 2]);
    }

    #[test]
    fn a_position_is_the_weighted_mean_over_its_rows() {
        let mut sums = Sums::new(1);
        // Probabilities 3/4 and 1/4.
        let logits = [3.0_f32.ln(), 0.0];
        sums.add(&logits, &[0], Some(&[1.0])).unwrap();
        sums.add(&logits, &[1], Some(&[3.0])).unwrap();
        sums.add(&[f32::NAN, 0.0], &[1], Some(&[0.0])).unwrap();
        let expected = (-(0.75_f64.ln()) - 3.0 * 0.25_f64.ln()) / 4.0;
        assert!((f64::from(means(&sums)[0]) - expected).abs() < 1e-6);
        assert!(means(&Sums::new(1))[0].is_nan());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |logits: &[f32], targets: &[i32]| {
            Sums::new(2).add(logits, targets, None).unwrap_err().to_string()
        };
        assert!(refused(&[0.0; 7], &[0, 0]).contains("7 logits for 2 targets"));
        assert!(refused(&[0.0; 6], &[0, 0, 0]).contains("6 logits for 3 targets of rows of 2"));
        assert!(refused(&[], &[]).contains("0 logits"));
        assert!(refused(&[0.0; 4], &[0, 2]).contains("a target is 2, and tokens are 0 to 1"));
        assert!(refused(&[0.0; 4], &[-1, 0]).contains("a target is -1"));
    }
}
