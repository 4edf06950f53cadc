//! The recipe: all that can change an artifact, and nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::layout::{check, check_product};
use crate::{CacheError, EntryName, Implementation, Key, to_value};

/// Says what determines an artifact: what selects, what it is built from, and by which code.
///
/// Two recipes that say the same have the same key, however they are written: the order of keys is nothing, and `1`
/// and `1.0` are one number. What cannot change the bytes of the artifact, as a number of threads, stays out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The kind of result; it names a folder.
    pub product: String,
    /// The experiment that the settings are of.
    pub experiment: String,
    /// The settings that the product's selector returned. A builder gets these and no others.
    pub settings: Value,
    /// The artifacts that it is built from: a name, by custom that of the product, and the key.
    pub dependencies: BTreeMap<String, Key>,
    /// The code that builds it.
    pub implementation: Implementation,
    /// Where it is computed, if that decides the numbers: for models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
}

/// Says on what a model is computed, as far as its numbers depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// The type of device, not which of them: `cpu`, `cuda`.
    pub device: String,
    /// The library that computes.
    pub name: String,
    /// How many processes compute together.
    pub world_size: u32,
    /// The number format of the computation: `f32`, `bf16`.
    pub precision: String,
    /// Whether the same computation gives the same bits again.
    pub deterministic: bool,
}

impl Recipe {
    /// Begins a recipe from what a selector returned.
    ///
    /// # Errors
    ///
    /// [`CacheError::Value`] names a NaN, an infinity or a large integer in the settings, by its path.
    pub fn new<S: Serialize + ?Sized>(
        product: &str,
        experiment: &str,
        selected: &S,
        implementation: Implementation,
    ) -> Result<Self, CacheError> {
        let settings = to_value(selected).map_err(|problem| CacheError::Value {
            what: format!("settings of `{product}`"),
            problem: problem.below_key("settings"),
        })?;
        Ok(Self {
            product: product.to_owned(),
            experiment: experiment.to_owned(),
            settings,
            dependencies: BTreeMap::new(),
            implementation,
            backend: None,
        })
    }

    /// Adds an artifact that this one is built from.
    #[must_use]
    pub fn with_dependency(mut self, name: &str, key: Key) -> Self {
        self.dependencies.insert(name.to_owned(), key);
        self
    }

    /// Says where it is computed.
    #[must_use]
    pub fn with_backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Computes the key.
    ///
    /// # Errors
    ///
    /// [`CacheError::Name`] for a product or a dependency that cannot be a folder, [`CacheError::Value`] for settings
    /// without a canonical text.
    pub fn key(&self) -> Result<Key, CacheError> {
        check_product(&self.product)?;
        for name in self.dependencies.keys() {
            check("dependency", name, crate::layout::MAX_PRODUCT_BYTES)?;
        }
        let refused = |problem| CacheError::Value { what: format!("recipe of `{}`", self.product), problem };
        Key::of(self).map_err(refused)
    }

    /// Names the entry that it is of.
    ///
    /// # Errors
    ///
    /// As [`key`](Self::key).
    pub fn entry(&self) -> Result<EntryName, CacheError> {
        EntryName::new(&self.product, &self.key()?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use waycairn_durable::Digest;

    fn sample() -> Recipe {
        let mut implementation = Implementation::new(3);
        implementation.sources.insert("example/src/data.rs".to_owned(), Digest::of(b"fn build() {}\n"));
        implementation.crates.insert("rand_chacha".to_owned(), "0.10.0".to_owned());
        let settings = json!({"samples": 1000, "scale": 0.1, "name": "caf\u{e9}", "seeds": [0, 1]});
        let observations = Key::from_digest(Digest::of(b"observations"));
        let backend = Backend {
            device: "cpu".to_owned(),
            name: "flex".to_owned(),
            world_size: 1,
            precision: "f32".to_owned(),
            deterministic: true,
        };
        Recipe::new("training", "gaussian", &settings, implementation)
            .unwrap()
            .with_dependency("observations", observations)
            .with_backend(backend)
    }

    /// The text is written out, so that another program can be checked against it; the digest is `sha256sum`'s.
    #[test]
    fn cache_1_the_key_of_a_sample_recipe_is_pinned() {
        let text = serde_jcs::to_string(&to_value(&sample()).unwrap()).unwrap();
        let expected = "{\"backend\":{\"deterministic\":true,\"device\":\"cpu\",\"name\":\"flex\",\
            \"precision\":\"f32\",\"world_size\":1},\"dependencies\":{\"observations\":\
            \"bfc5a6b45b6a16128fbf94195a8b6895883b709e9ab0bf0bc5dc5a14fa18cf2f\"},\
            \"experiment\":\"gaussian\",\"implementation\":{\"crates\":{\"rand_chacha\":\"0.10.0\"},\"sources\":\
            {\"example/src/data.rs\":\"f741d70e4fe0d17bad267afbd0c56e60da3ddc6fa5cca8d3e114449cb689ca2a\"},\
            \"version\":3},\"product\":\"training\",\"settings\":{\"name\":\"caf\u{e9}\",\"samples\":1000,\
            \"scale\":0.1,\"seeds\":[0,1]}}";
        assert_eq!(text, expected);
        assert_eq!(
            sample().key().unwrap().to_string(),
            "eeb42ec0abdcd424a5369e9a803fcf093a7c8950880979fed70281794b93e7e7"
        );
    }

    /// `docs/format.md`, "Recipe and key".
    #[test]
    fn cache_1_the_vector_of_the_format() {
        let settings = json!({"samples": 1000, "rate": 0.1});
        let recipe = Recipe::new("training", "e", &settings, Implementation::new(1)).unwrap();
        let key = recipe.key().unwrap().to_string();
        assert_eq!(key, "fe1fc3dee313c29b0388f4fe31daa3e4bf7195ce082c5a1cdda7cf8b814ee1bb");
    }

    #[test]
    fn cache_1_what_says_the_same_has_the_same_key() {
        let mut other = sample();
        other.settings = serde_json::from_str(
            r#"{"seeds": [0.0, 1e0], "name": "caf\u00e9", "scale": 1e-1, "samples": 1000.0}"#,
        )
        .unwrap();
        assert_eq!(other.key().unwrap(), sample().key().unwrap());
        let text = serde_json::to_string_pretty(&sample()).unwrap();
        assert_eq!(serde_json::from_str::<Recipe>(&text).unwrap().key().unwrap(), sample().key().unwrap());
    }

    #[test]
    fn cache_1_every_field_changes_the_key() {
        let changes: [fn(&mut Recipe); 10] = [
            |recipe| recipe.product.push('x'),
            |recipe| recipe.experiment.push('x'),
            |recipe| recipe.settings["scale"] = json!(0.100_000_000_000_000_02),
            |recipe| recipe.settings["new"] = Value::Null,
            |recipe| recipe.dependencies.clear(),
            |recipe| recipe.implementation.version += 1,
            |recipe| recipe.implementation.sources.clear(),
            |recipe| recipe.implementation.crates.clear(),
            |recipe| recipe.backend = None,
            |recipe| recipe.backend.as_mut().unwrap().world_size = 2,
        ];
        let mut keys = std::collections::BTreeSet::from([sample().key().unwrap()]);
        for change in changes {
            let mut recipe = sample();
            change(&mut recipe);
            assert!(keys.insert(recipe.key().unwrap()), "{recipe:?}");
        }
    }

    #[test]
    fn what_has_no_key_is_refused_with_its_path() {
        let error = Recipe::new("training", "e", &[f64::NAN], Implementation::new(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the settings of `training` cannot be written: `settings[0]` is NaN, and only finite numbers can be written"
        );
        let mut recipe = sample();
        recipe.settings["n"] = json!({"m": u64::MAX});
        let error = recipe.key().unwrap_err().to_string();
        assert!(
            error.starts_with("the recipe of `training` cannot be written: `settings.n.m` is the integer"),
            "{error}"
        );
        recipe.product = "../x".to_owned();
        assert!(matches!(recipe.key(), Err(CacheError::Name { .. })));
        let recipe = sample().with_dependency("a/b", Key::from_digest(Digest::of(b"")));
        assert!(matches!(recipe.key(), Err(CacheError::Name { what: "dependency", .. })));
    }
}
