//! Scrambled Sobol points.
//!
//! They come from `sobol_burley`: one Sobol sequence of up to 256 dimensions (the numbers of Joe and Kuo) with an Owen
//! scramble by hash. Its seed scrambles every dimension apart and shuffles the order of the points by a nested scramble of
//! the index; all dimensions of a seed share that order, so they are dimensions of one sequence and any first 2^k points are
//! a net. (Dimensions of different seeds would be independent, and no net together: the reason to take one seed, the next
//! number of the array's stream, for all axes.)
//!
//! It gives 2^16 points. Another sequence for what is more would not be the same design with more points, and a second
//! sequence appended to the first covers the box less evenly than its size says, so a larger request is an error that names
//! the setting, raised while a study is planned.

use rand_core::Rng;

use crate::error::GaussianError;

/// The most points of a design.
pub const MAX_SOBOL_POINTS: u64 = 1 << 16;

/// The most axes of a design.
pub const MAX_SOBOL_AXES: usize = sobol_burley::NUM_DIMENSIONS as usize;

/// Points of the unit box.
#[derive(Debug)]
pub(crate) struct Sobol {
    seed: u32,
}

impl Sobol {
    /// Takes the seed of the scramble from a stream: one number.
    pub(crate) fn new(rng: &mut impl Rng) -> Self {
        Self { seed: (rng.next_u64() >> 32) as u32 }
    }

    /// Points \[count, axes\] of \[0, 1): the first `count` of the sequence, which a generator by powers of two would draw
    /// and cut.
    pub(crate) fn points(&self, count: u64, axes: usize) -> Result<Vec<f64>, GaussianError> {
        check(count, axes)?;
        let mut out = Vec::with_capacity(count as usize * axes);
        for index in 0..count as u32 {
            for axis in 0..axes as u32 {
                out.push(f64::from(sobol_burley::sample(index, axis, self.seed)));
            }
        }
        Ok(out)
    }
}

/// Refuses a design that the sequence cannot give.
///
/// # Errors
///
/// [`GaussianError::Value`] with the limit.
pub(crate) fn check(count: u64, axes: usize) -> Result<(), GaussianError> {
    if count > MAX_SOBOL_POINTS {
        let why = format!("would have {count} points, and the sequence gives {MAX_SOBOL_POINTS}");
        return Err(GaussianError::value("sobol", why));
    }
    if axes > MAX_SOBOL_AXES {
        let why = format!("would have {axes} axes, and the sequence gives {MAX_SOBOL_AXES}");
        return Err(GaussianError::value("sobol", why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use waycairn_analysis_api::stream;

    use super::*;

    #[test]
    fn gaussian_case_31_more_points_than_there_are_are_refused() {
        let sobol = Sobol::new(&mut stream(0, "candidate-design", None));
        let mut all = sobol.points(MAX_SOBOL_POINTS, 2).unwrap();
        assert_eq!(all.len(), 2 << 16);
        let refused = sobol.points(MAX_SOBOL_POINTS + 1, 2).unwrap_err().to_string();
        assert!(refused.contains("65537") && refused.contains("65536"), "{refused}");
        assert!(sobol.points(1, MAX_SOBOL_AXES + 1).is_err());
        // None comes twice on an axis (f32 has room for 2^24 and a net of 2^16 fills each cell once).
        let mut cells: Vec<u64> = all.drain(..).step_by(2).map(|x| (x * 65_536.0) as u64).collect();
        cells.sort_unstable();
        assert!(cells.iter().enumerate().all(|(index, cell)| index as u64 == *cell));
    }

    #[test]
    fn the_first_powers_of_two_are_nets() {
        for axes in [1, 2, 3, 6] {
            let points = Sobol::new(&mut stream(3, "truth-design", None)).points(1_024, axes).unwrap();
            assert!(points.iter().all(|x| (0.0..1.0).contains(x)));
            for count in [64, 256, 1_024] {
                for axis in 0..axes {
                    let mut cells: Vec<usize> =
                        (0..count).map(|i| (points[i * axes + axis] * count as f64) as usize).collect();
                    cells.sort_unstable();
                    assert_eq!(
                        cells,
                        (0..count).collect::<Vec<_>>(),
                        "{axes} axes, axis {axis}, {count} points"
                    );
                }
            }
            if axes == 2 {
                // A (0, 2)-sequence: each of 32 x 32 cells holds one of 1,024 points.
                let mut cells: Vec<usize> = points
                    .chunks_exact(2)
                    .map(|point| (point[0] * 32.0) as usize * 32 + (point[1] * 32.0) as usize)
                    .collect();
                cells.sort_unstable();
                assert_eq!(cells, (0..1_024).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn another_stream_is_another_scramble() {
        let of = |seed| Sobol::new(&mut stream(seed, "truth-design", None)).points(8, 1).unwrap();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
