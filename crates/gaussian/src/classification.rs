//! How well logits tell two classes apart.

use serde::{Deserialize, Serialize};

use crate::error::GaussianError;
use crate::normal::softplus;
use crate::rank::average_ranks;

/// The three numbers of a binary classifier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Classification {
    /// Mean binary cross-entropy in nats.
    pub bce: f64,
    /// Share of rows on the right side of logit 0; a logit of 0 says class 1.
    pub accuracy: f64,
    /// Probability that a row of class 1 has a larger logit than one of class 0, ties counting half.
    pub auc: f64,
}

impl Classification {
    /// Measures logits against labels 0 and 1.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for other labels, for one class alone, and for logits that are not numbers.
    pub fn new(logits: &[f64], labels: &[f32]) -> Result<Self, GaussianError> {
        GaussianError::length("labels", labels.len(), logits.len())?;
        if let Some(label) = labels.iter().find(|label| **label != 0.0 && **label != 1.0) {
            return Err(GaussianError::value("labels", format!("hold {label}; they are 0 or 1")));
        }
        if logits.iter().any(|logit| logit.is_nan()) {
            return Err(GaussianError::value("logits", "hold a value that is not a number"));
        }
        let rows = logits.len() as f64;
        let positive = labels.iter().filter(|label| **label == 1.0).count() as f64;
        let negative = rows - positive;
        if positive == 0.0 || negative == 0.0 {
            return Err(GaussianError::value("labels", "are of one class; both are needed"));
        }
        let each = || logits.iter().copied().zip(labels.iter().map(|label| *label == 1.0));
        let loss = |(logit, one): (f64, bool)| softplus(if one { -logit } else { logit });
        let right = each().filter(|(logit, one)| (*logit >= 0.0) == *one).count();
        let ranks = average_ranks(logits);
        let sum: f64 =
            ranks.iter().zip(labels).filter(|(_, label)| **label == 1.0).map(|(rank, _)| rank).sum();
        Ok(Self {
            bce: each().map(loss).sum::<f64>() / rows,
            accuracy: right as f64 / rows,
            auc: (sum - positive * (positive + 1.0) / 2.0) / (positive * negative),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaussian_case_11_certain_logits_cost_nothing_and_ties_say_nothing() {
        let right = Classification::new(&[-10_000.0, 10_000.0], &[0.0, 1.0]).unwrap();
        assert_eq!(right, Classification { bce: 0.0, accuracy: 1.0, auc: 1.0 });
        let wrong = Classification::new(&[10_000.0, -10_000.0], &[0.0, 1.0]).unwrap();
        assert_eq!(wrong, Classification { bce: 10_000.0, accuracy: 0.0, auc: 0.0 });
        let ties = Classification::new(&[0.3; 5], &[0.0, 1.0, 1.0, 0.0, 1.0]).unwrap();
        assert_eq!((ties.auc, ties.accuracy), (0.5, 0.6));
    }

    #[test]
    fn numbers_are_those_of_the_definitions() {
        // Pairs (positive, negative): 1 > 0, 1 > -1, 0 = 0, 0 > -1, so 3.5 of 4.
        let found = Classification::new(&[1.0, 0.0, 0.0, -1.0], &[1.0, 1.0, 0.0, 0.0]).unwrap();
        assert_eq!((found.auc, found.accuracy), (0.875, 0.75));
        let bce = (2.0 * (-1_f64).exp().ln_1p() + 2.0 * 2_f64.ln()) / 4.0;
        assert!((found.bce - bce).abs() < 1e-15);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        assert!(Classification::new(&[1.0, 2.0], &[1.0, 1.0]).is_err());
        assert!(Classification::new(&[1.0, 2.0], &[1.0, 0.5]).is_err());
        assert!(Classification::new(&[1.0], &[1.0, 0.0]).is_err());
        assert!(Classification::new(&[f64::NAN, 2.0], &[1.0, 0.0]).is_err());
        assert!(Classification::new(&[], &[]).is_err());
    }
}
