//! Text from a checkpoint.

use std::path::Path;

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use waycairn_dag::Node;
use waycairn_durable::Digest;
use waycairn_store::ObjectReader;

use crate::any_experiment::Experiments;
use crate::checkpoint::Depth;
use crate::data::{DataError, NotInVocabulary};
use crate::device::Compute;
use crate::error::TrainError;
use crate::experiment::KeyValueCache;
use crate::memory;
use crate::restore::{self, Want};
use crate::settings::Settings;

/// How text is drawn from a model.
#[derive(Clone, Debug)]
pub struct SampleOptions {
    /// The text to go on from; by default a line break, or the first token.
    pub prompt: Option<String>,
    /// Number of tokens to write.
    pub tokens: usize,
    /// Divides the logits: below 1 the likely is favoured; 0 takes the likeliest.
    pub temperature: f64,
    /// Choose among this many of the likeliest.
    pub top_k: Option<usize>,
    /// Seed of the choice.
    pub seed: u64,
    /// The device.
    pub device: String,
}

impl Default for SampleOptions {
    fn default() -> Self {
        Self { prompt: None, tokens: 300, temperature: 1.0, top_k: None, seed: 0, device: "auto".to_owned() }
    }
}

/// Lets the model of a node's checkpoint write text; the answer begins with the prompt.
///
/// Keys and values of earlier tokens are kept, so a token costs one position. When the context is
/// full, the newest half of it is read again from its beginning.
///
/// # Errors
///
/// [`TrainError::NoCheckpoint`], [`TrainError::Checkpoint`], [`TrainError::CannotSample`];
/// [`TrainError::Memory`], [`TrainError::NotFiniteWeights`]; [`TrainError::Data`] for a prompt with a character that the vocabulary does not have.
pub fn sample(
    experiments: &Experiments,
    root: &Path,
    node: &Node,
    options: &SampleOptions,
) -> Result<String, TrainError> {
    if !options.temperature.is_finite() || options.temperature < 0.0 || options.top_k == Some(0) {
        return Err(TrainError::Usage {
            what: "the temperature is negative or not finite, or the choice is among no tokens".to_owned(),
            why: None,
            next: "give a temperature of at least 0 and a `--top-k` of at least 1".to_owned(),
        });
    }
    let compute = Compute::choose(&options.device)?;
    let reader = ObjectReader::open_live(root)?;
    let checkpoint = restore::open(&reader, node, Depth::Weights)?;
    let experiment = experiments.find(Some(&checkpoint.job().experiment))?;
    let origin = format!("`{}`", checkpoint.config_path().display());
    let settings = Settings::defaults(experiment.schema()).with_toml(checkpoint.config(), &origin)?;
    let vocabulary = checkpoint
        .vocabulary()
        .ok_or_else(|| TrainError::CannotSample { experiment: experiment.name().to_owned() })?;
    memory::check(experiment.as_ref(), &settings, vocabulary.len(), memory::Use::Reading)?;
    let mut learner = experiment.learner(&settings, vocabulary.len(), compute.device())?;
    restore::restore(&reader, node, &checkpoint, learner.as_mut(), Want::Weights)?;
    let context = settings.size("data.context")?;

    let prompt = match &options.prompt {
        Some(text) if !text.is_empty() => text.clone(),
        _ if vocabulary.encode("\n").is_ok() => "\n".to_owned(),
        _ => vocabulary.decode(&[0]),
    };
    let encoded = vocabulary.encode(&prompt).map_err(|outside| DataError::OutsideVocabulary {
        origin: "the prompt".to_owned(),
        character: outside.character,
        offset: outside.offset,
        source: NotInVocabulary,
    })?;
    let mut tokens: Vec<u32> = encoded.into_iter().map(u32::from).collect();
    let mut chooser = Chooser::new(options);
    let mut cache = KeyValueCache::default();
    // The first token that the cache does not hold.
    let mut fresh = tokens.len().saturating_sub(context);
    for _ in 0..options.tokens {
        if cache.tokens + (tokens.len() - fresh) > context {
            cache = KeyValueCache::default();
            fresh = tokens.len() - (context / 2).max(1);
        }
        let logits = learner.next_logits(&tokens[fresh..], &mut cache);
        let logits =
            logits.ok_or_else(|| TrainError::CannotSample { experiment: experiment.name().to_owned() })?;
        // A token may be ruled out by an infinite distance, but not preferred by one.
        if logits.iter().any(|logit| logit.is_nan() || *logit == f32::INFINITY) {
            return Err(TrainError::NotFiniteWeights { node: node.clone() });
        }
        fresh = tokens.len();
        tokens.push(chooser.choose(logits));
    }
    Ok(vocabulary.decode(&tokens))
}

/// Draws tokens by their probabilities.
struct Chooser {
    generator: ChaCha12Rng,
    temperature: f64,
    top_k: Option<usize>,
}

impl Chooser {
    fn new(options: &SampleOptions) -> Self {
        let key = Digest::of(format!("waycairn sample 1\n{}", options.seed).as_bytes());
        Self {
            generator: ChaCha12Rng::from_seed(*key.as_bytes()),
            temperature: options.temperature,
            top_k: options.top_k,
        }
    }

    fn choose(&mut self, logits: Vec<f32>) -> u32 {
        let mut ranked: Vec<(u32, f64)> = (0_u32..).zip(logits.into_iter().map(f64::from)).collect();
        // Equal logits keep the order of their tokens, so a choice is the same on every run.
        ranked.sort_by(|left, right| right.1.total_cmp(&left.1));
        let likeliest = ranked.first().copied().unwrap_or((0, 0.0));
        if self.temperature == 0.0 {
            return likeliest.0;
        }
        ranked.truncate(self.top_k.unwrap_or(usize::MAX));
        let weight = |logit: f64| ((logit - likeliest.1) / self.temperature).exp();
        let total: f64 = ranked.iter().map(|(_, logit)| weight(*logit)).sum();
        let uniform = (self.generator.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut left = uniform * total;
        for (token, logit) in &ranked {
            left -= weight(*logit);
            if left < 0.0 {
                return *token;
            }
        }
        likeliest.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(temperature: f64, top_k: Option<usize>) -> SampleOptions {
        SampleOptions { temperature, top_k, seed: 5, ..SampleOptions::default() }
    }

    #[test]
    fn temperature_and_top_k_narrow_the_choice() {
        let logits = || vec![1.0, 3.0, 2.0, -50.0];
        assert_eq!(Chooser::new(&options(0.0, None)).choose(logits()), 1);
        let mut one = Chooser::new(&options(1.0, Some(1)));
        assert!((0..50).all(|_| one.choose(logits()) == 1));
        let mut two = Chooser::new(&options(1.0, Some(2)));
        let drawn: Vec<u32> = (0..200).map(|_| two.choose(logits())).collect();
        assert!(drawn.iter().all(|token| *token == 1 || *token == 2));
        let share = drawn.iter().filter(|token| **token == 1).count();
        assert!((120..170).contains(&share), "about 0.73 of 200: {share}");
        let mut again = Chooser::new(&options(1.0, Some(2)));
        assert_eq!(drawn, (0..200).map(|_| again.choose(logits())).collect::<Vec<_>>());
    }
}
