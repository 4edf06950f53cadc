//! Bins: where their edges are, and what falls into them.

use super::axis::range;

/// Bins of one axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bins {
    /// Rising.
    pub(crate) edges: Vec<f64>,
    /// How many values of a lattice each bin holds; nothing where bins are of what lies between their edges.
    values: Vec<usize>,
}

impl Bins {
    /// Bins of one width over a range.
    pub(crate) fn even(low: f64, high: f64, count: usize) -> Self {
        // One value has one bin, in whose middle it is.
        let (low, high, count) =
            if low < high { (low, high, count.max(1)) } else { (low - 0.5, low + 0.5, 1) };
        let edges = (0..=count).map(|index| low + (high - low) * (index as f64 / count as f64)).collect();
        Self { edges, values: Vec::new() }
    }

    /// Bins for values, at most `most`. Values of a lattice have a bin each, or as many share each one, and what is left has
    /// the last: else bins would hold now more and now fewer, and show a comb that is none of the data's. Bins of other
    /// values are of one width.
    pub(crate) fn of(values: &[f64], most: usize) -> Option<Self> {
        let (low, high) = range(values.iter().copied())?;
        let most = most.max(1);
        let mut distinct: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        distinct.sort_unstable_by(f64::total_cmp);
        distinct.dedup();
        if distinct.len() < 3 || is_lattice(&distinct) {
            return Some(Self::around(&distinct, most));
        }
        // A power of two of them, where values are few: those of a Sobol sequence fill such bins evenly.
        let each = distinct.len() / 8;
        let count = if each >= most { most } else { power_of_two_below(each) };
        Some(Self::even(low, high, count))
    }

    /// Edges between neighbours of a lattice: a bin is as wide as it holds values.
    fn around(lattice: &[f64], most: usize) -> Self {
        let group = lattice.len().div_ceil(most);
        let step = match lattice {
            [first, .., last] => (last - first) / (lattice.len() - 1) as f64,
            _ => 1.0,
        };
        let first = lattice.first().copied().unwrap_or_default();
        let ends = (0..lattice.len()).step_by(group).chain([lattice.len()]);
        let edges = ends.map(|values| first + step * (values as f64 - 0.5)).collect();
        let values = lattice.chunks(group).map(<[f64]>::len).collect();
        Self { edges, values }
    }

    /// Whether bins hold values of a lattice, and whether some hold more than one.
    pub(crate) fn lattice(&self) -> Option<bool> {
        self.values.first().map(|values| *values > 1)
    }

    pub(crate) fn count(&self) -> usize {
        self.edges.len() - 1
    }

    pub(crate) fn low(&self) -> f64 {
        self.edges[0]
    }

    pub(crate) fn high(&self) -> f64 {
        self.edges[self.count()]
    }

    /// The bin of a value, if it is in one; the last bin has its upper edge too.
    pub(crate) fn index(&self, value: f64) -> Option<usize> {
        if !(value >= self.low() && value <= self.high()) {
            return None;
        }
        // All but the last are of one width; a neighbour, where rounding at an edge was wrong.
        let width = self.edges[1] - self.edges[0];
        let guess = (((value - self.low()) / width) as usize).min(self.count() - 1);
        if value < self.edges[guess] {
            return Some(guess.saturating_sub(1));
        }
        Some(if value >= self.edges[guess + 1] { (guess + 1).min(self.count() - 1) } else { guess })
    }

    /// The weight that falls into each bin.
    pub(crate) fn masses(&self, values: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
        let mut masses = vec![0.0; self.count()];
        for (value, weight) in values {
            if let Some(index) = self.index(value) {
                masses[index] += weight;
            }
        }
        masses
    }

    /// The same by the width of each bin, so that a histogram of all is an estimate of the density.
    pub(crate) fn densities(&self, values: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
        let masses = self.masses(values);
        masses.into_iter().zip(self.edges.windows(2)).map(|(mass, edge)| mass / (edge[1] - edge[0])).collect()
    }

    /// The weight that falls into each bin; of a lattice that of a value, the mean where a bin holds several: a last bin that
    /// holds fewer of them is no lower for that.
    pub(crate) fn heights(&self, values: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
        let mut masses = self.masses(values);
        masses.iter_mut().zip(&self.values).for_each(|(mass, values)| *mass /= *values as f64);
        masses
    }
}

/// Whether values that rise are spaced evenly, as far as an f32 says.
fn is_lattice(rising: &[f64]) -> bool {
    let [first, .., last] = rising else { return true };
    let step = (last - first) / (rising.len() - 1) as f64;
    let slack = (step * 1e-2).max((first.abs() + last.abs()) * 1e-6).min(step * 0.3);
    rising.iter().enumerate().all(|(index, value)| (value - (first + step * index as f64)).abs() <= slack)
}

fn power_of_two_below(count: usize) -> usize {
    1 << count.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_values_fall_into_a_bin() {
        let bins = Bins::even(0.0, 1.0, 4);
        assert_eq!([0.0, 0.24, 0.25, 0.99, 1.0].map(|value| bins.index(value)), [0, 0, 1, 3, 3].map(Some));
        assert_eq!([-0.1, 1.1, f64::NAN].map(|value| bins.index(value)), [None; 3]);
        let values = [0.1, 0.1, 0.6].into_iter().map(|value| (value, 0.5));
        assert_eq!(bins.masses(values.clone()), [1.0, 0.0, 0.5, 0.0]);
        assert_eq!(bins.densities(values), [4.0, 0.0, 2.0, 0.0]);
        // Every edge belongs to the bin that it begins.
        for count in 1..200 {
            let bins = Bins::even(-0.3, 10.1, count);
            let begins: Vec<Option<usize>> = bins.edges.iter().map(|edge| bins.index(*edge)).collect();
            let expected: Vec<Option<usize>> = (0..=count).map(|index| Some(index.min(count - 1))).collect();
            assert_eq!(begins, expected);
        }
    }

    #[test]
    fn a_lattice_has_a_bin_for_each_value_or_for_as_many() {
        let lattice: Vec<f64> = (0..51).map(|index| f64::from(index as f32 * 0.2)).collect();
        let each = || lattice.iter().map(|value| (*value, 1.0));
        let bins = Bins::of(&lattice, 100).unwrap();
        assert_eq!((bins.lattice(), bins.count()), (Some(false), 51));
        assert!(bins.masses(each()).iter().all(|mass| *mass == 1.0));
        let bins = Bins::of(&lattice, 30).unwrap();
        assert_eq!((bins.lattice(), bins.count()), (Some(true), 26));
        let masses = bins.masses(each());
        assert!(masses[..25].iter().all(|mass| *mass == 2.0) && masses[25] == 1.0);
        assert_eq!(Bins::of(&[3.0, 3.0], 10).unwrap().edges, [2.5, 3.5]);
        assert_eq!(Bins::of(&[f64::NAN], 10), None);
    }

    #[test]
    fn a_bin_of_a_lattice_is_as_wide_as_it_holds_values_and_no_lower_where_these_are_few() {
        // 51 values two by two: the last bin held one and was as wide as two, and so half as high.
        for (count, most) in [(51, 30), (51, 50), (7, 3), (7, 6), (5, 1), (10, 3), (9, 9)] {
            let lattice: Vec<f64> = (0..count).map(|index| 0.2 * f64::from(index)).collect();
            let bins = Bins::of(&lattice, most).unwrap();
            assert!(bins.count() <= most);
            let each = || lattice.iter().map(|value| (*value, 1.0));
            let widths = bins.edges.windows(2).map(|edge| (edge[1] - edge[0]) / 0.2);
            for (width, mass) in widths.zip(bins.masses(each())) {
                assert!((width - mass).abs() < 1e-9, "{count} in {most}: {width} wide for {mass}");
            }
            assert!((bins.high() - (lattice[lattice.len() - 1] + 0.1)).abs() < 1e-9, "{count} in {most}");
            assert!(bins.heights(each()).iter().all(|height| *height == 1.0), "{count} in {most}");
        }
        assert_eq!(Bins::even(0.0, 1.0, 2).heights([(0.1, 3.0)].into_iter()), [3.0, 0.0]);
    }

    #[test]
    fn few_values_have_few_bins() {
        // Of the square root: no lattice.
        let values: Vec<f64> = (0..256).map(|index| f64::from(index).sqrt()).collect();
        assert_eq!(Bins::of(&values, 100).unwrap().count(), 32);
        assert_eq!(Bins::of(&values, 30).unwrap().count(), 30);
        assert_eq!(Bins::even(2.0, 2.0, 9).edges, [1.5, 2.5]);
    }
}
