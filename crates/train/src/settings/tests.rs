#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

fn base() -> Settings {
    let keys = vec![
        Key::integer("model.layers", 2).at_least(1),
        Key::number("model.dropout", 0.0).between(0.0, 0.9),
    ];
    Settings::defaults(Schema::new(keys))
}

#[test]
fn a_later_layer_wins_over_an_earlier_one() {
    let preset = Preset { name: "p", values: vec![("steps", 5_u64.into()), ("batch_size", 3_u64.into())] };
    let mut settings = base()
        .with_preset(&preset)
        .unwrap()
        .with_toml("steps = 7\n[model]\nlayers = 4\ndropout = 0\n", "`f.toml`")
        .unwrap();
    settings.set("learning_rate", "3e-3").unwrap();
    settings.set("betas", "[0.8, 0.95]").unwrap();
    settings.set("clip", "off").unwrap();
    assert_eq!(settings.integer("steps").unwrap(), 7);
    assert_eq!(settings.integer("batch_size").unwrap(), 3);
    assert_eq!(settings.integer("model.layers").unwrap(), 4);
    assert_eq!(settings.number("learning_rate").unwrap(), 3e-3);
    assert_eq!(settings.pair("betas").unwrap(), [0.8, 0.95]);
    assert_eq!(settings.optional_number("clip").unwrap(), None);
}

#[test]
fn an_unknown_path_names_its_nearest() {
    let error = base().set("learning_rat", "1").unwrap_err();
    assert_eq!(error.to_string(), "--set: no setting has the path `learning_rat`");
    assert_eq!(
        error.next().unwrap(),
        "did you mean `learning_rate`? `waycairn train --show-settings` lists them"
    );
    let error = base().set("layers", "1").unwrap_err();
    assert!(error.next().unwrap().starts_with("did you mean `model.layers`? "));
    for (short, path) in [("lr", "learning_rate"), ("wd", "weight_decay"), ("bs", "batch_size")] {
        let next = base().set(short, "1").unwrap_err().next().unwrap();
        assert!(next.starts_with(&format!("did you mean `{path}`? ")), "{short}: {next}");
    }
    let error = base().set("quite something else", "1").unwrap_err();
    assert_eq!(error.next().unwrap(), "`waycairn train --show-settings` lists them");
    let error = base().with_toml("[analyses.x]\nevery = 1\n", "`f.toml`").unwrap_err();
    assert!(error.to_string().starts_with("`f.toml`: no setting has the path `analyses.x.every`"));
}

#[test]
fn a_table_is_told_with_its_settings() {
    let of_set = base().set("model", "3").unwrap_err();
    let of_file = base().with_toml("[[model]]\nlayers = 3\n", "`f.toml`").unwrap_err();
    for (error, origin) in [(of_set, "--set"), (of_file, "`f.toml`")] {
        assert_eq!(error.to_string(), format!("{origin}: `model` is a table, not a setting"));
        assert_eq!(error.why().unwrap(), "its settings are model.dropout, model.layers");
        assert!(error.next().unwrap().contains("`--set model.dropout=VALUE`"));
    }
}

#[test]
fn a_file_that_is_no_text_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latin.toml");
    waycairn_durable::write_file(&path, b"# caf\xe9\n", waycairn_durable::Durability::Regenerable).unwrap();
    let error = base().with_file(&path).unwrap_err();
    assert!(error.to_string().ends_with("latin.toml` is not UTF-8 at byte 5"), "{error}");
    assert!(error.next().unwrap().contains("UTF-8"));
}

#[test]
fn a_bad_value_says_what_is_accepted() {
    let cases = [
        ("batch_size", "0", "a whole number from 1 to 2^53 - 1"),
        ("schedule", "linear", "\"constant\" or \"cosine\""),
        ("clip", "-1", "a number above 0"),
        ("clip", "0", "a number above 0"),
        ("betas", "0.9", "two numbers"),
        ("early_stop", "5", "\"off\""),
        ("seed", "9007199254740992", "a whole number"),
        ("learning_rate", "NaN", "a number"),
    ];
    for (path, text, accepted) in cases {
        let error = base().set(path, text).unwrap_err();
        assert!(matches!(&error, SettingsError::BadValue { .. }), "{path}={text}: {error}");
        assert!(error.why().unwrap().contains(accepted), "{:?}", error.why());
    }
}

#[test]
fn the_toml_text_reads_back_to_the_same_digest() {
    let mut settings = base();
    settings.set("learning_rate", "1e-5").unwrap();
    settings.set("data.source", "a \"quoted\" \u{e9}.txt").unwrap();
    settings.set("decay_steps", "off").unwrap();
    let again = base().with_toml(&settings.to_toml(), "again").unwrap();
    assert_eq!(settings.digest().unwrap(), again.digest().unwrap());
    assert!(settings.differences(&again).is_empty());
    assert_ne!(settings.digest().unwrap(), base().digest().unwrap());
}

#[test]
fn the_digest_is_that_of_the_canonical_text() {
    let text = serde_jcs::to_string(&base()).unwrap();
    assert!(text.starts_with("{\"accumulate\":1,\"batch_size\":8,\"betas\":[0.9,0.99],"), "{text}");
    assert!(text.contains("\"model\":{\"dropout\":0,\"layers\":2}"), "{text}");
    assert_eq!(base().digest().unwrap(), Digest::of(text.as_bytes()));
}

#[test]
fn differences_show_both_values() {
    let mut other = base();
    other.set("steps", "9").unwrap();
    let differences = base().differences(&other);
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].path, "steps");
    assert_eq!((differences[0].ours.as_str(), differences[0].theirs.as_str()), ("200", "9"));
}

#[test]
fn a_text_that_is_not_toml_says_where_on_one_line() {
    let error = base().with_toml("steps = 3\nseed == 4\n", "`f.toml`").unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("`f.toml` is not TOML at line 2, column "), "{text}");
    assert!(!text.contains('\n') && std::error::Error::source(&error).is_none(), "{text}");
}

#[test]
fn a_negative_zero_is_zero() {
    let (mut one, mut other) = (base(), base());
    one.set("weight_decay", "0").unwrap();
    other.set("weight_decay", "-0").unwrap();
    assert_eq!(one.digest().unwrap(), other.digest().unwrap());
    assert_eq!(other.get("weight_decay").unwrap().to_string(), one.get("weight_decay").unwrap().to_string());
}

#[cfg(unix)]
#[test]
fn a_settings_file_may_be_a_pipe_and_has_an_end() {
    let error = base().with_file(Path::new("/dev/zero")).unwrap_err();
    assert_eq!(error.to_string(), "the settings file `/dev/zero` has more than 4194304 bytes");
    assert!(error.next().unwrap().contains("--show-settings"));
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let settings = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pipe = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
            std::io::Write::write_all(&mut pipe, b"steps = 7\n").unwrap();
        });
        base().with_file(&pipe).unwrap()
    });
    assert_eq!(settings.integer("steps").unwrap(), 7);
}
