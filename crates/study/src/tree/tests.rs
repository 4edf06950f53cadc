#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn parse(text: &str) -> Result<Document, SettingsError> {
    Document::parse(Path::new("settings.toml"), text.to_owned())
}

fn error(text: &str) -> String {
    let error = parse(text).unwrap_err();
    format!("{error}; {}", error.next().unwrap_or_default())
}

const SWEEP: &str = "\
default_profile = \"small\"

[base]
learning_rate = { choice = [0.1, 0.01, 0.001] }
betas = [0.9, 0.99]

[base.model]
width = { choice = [8, 16] }
layers = 2

[profiles.small]
betas = [0.8, 0.9]

[profiles.small.model]
layers = 1

[profiles.fixed]
learning_rate = 0.5
model = { width = 4 }
";

#[test]
fn a_profile_is_laid_over_the_base() {
    let document = parse(SWEEP).unwrap();
    let (tree, profile) = document.resolve(None).unwrap();
    assert_eq!(profile.as_deref(), Some("small"));
    let plain = tree.chosen(&[], 0);
    let expected: Table =
        "learning_rate = 0.1\nbetas = [0.8, 0.9]\nmodel = { width = 8, layers = 1 }".parse().unwrap();
    assert_eq!(plain, Value::Table(expected));
    let (fixed, _) = document.resolve(Some("fixed")).unwrap();
    assert!(fixed.choices().is_empty(), "a value takes the place of a choice");
    let expected: Table =
        "learning_rate = 0.5\nbetas = [0.9, 0.99]\nmodel = { width = 4, layers = 2 }".parse().unwrap();
    assert_eq!(fixed.chosen(&[], 0), Value::Table(expected));
    let error = document.resolve(Some("smal")).unwrap_err();
    assert_eq!(error.to_string(), "`settings.toml` has no profile `smal`");
    assert_eq!(error.next().unwrap(), "its profiles are fixed, small");
    assert_eq!(parse("[base]\n").unwrap().resolve(None).unwrap().1, None);
}

#[test]
fn what_stands_in_a_list_is_found_where_the_list_is() {
    let (tree, _) = parse(SWEEP).unwrap().resolve(Some("fixed")).unwrap();
    let line = |path: &str| tree.find(path).line;
    assert_eq!((line("betas[1]"), line("betas[1].x"), line("model.width")), (5, 5, 19));
    assert_eq!((line("model.depth"), line("alphas[0]")), (line("model"), tree.place().line));
}

#[test]
fn choices_come_in_the_order_of_the_file_with_their_lines() {
    let (tree, _) = parse(SWEEP).unwrap().resolve(None).unwrap();
    let found: Vec<_> = tree
        .choices()
        .iter()
        .map(|choice| (choice.path.join("."), choice.options.len(), choice.place.line))
        .collect();
    assert_eq!(found, [("learning_rate".to_owned(), 3, 4), ("model.width".to_owned(), 2, 8)]);
    let value = |path: &[&str], option| tree.chosen(path, option);
    assert_eq!(value(&["model", "width"], 1)["model"]["width"], Value::Integer(16));
    assert_eq!(value(&["model", "width"], 1)["learning_rate"], Value::Float(0.1));
    assert_eq!(value(&["learning_rate"], 2)["learning_rate"], Value::Float(0.001));
    assert_eq!(tree.find("model.layers").line, 15);
    assert_eq!(tree.find("model.heads").line, 14, "what is not there has the line of its table");
}

#[test]
fn what_is_no_settings_file_is_told_with_its_line() {
    for (text, told) in [
        ("[base]\nx = {", "`settings.toml` is not TOML at line 2, column"),
        ("\n[bas]\nx = 1", "line 2: there is no setting `bas`; did you mean `base`?"),
        ("x = 1\n", "line 1: there is no setting `x`; settings stand in `[base]`"),
        ("default_profile = 3\n", "line 1: `default_profile` cannot be 3"),
        ("base = 3\n", "`base` cannot be 3; `base` takes a table"),
        ("profiles = 3\n", "`profiles` cannot be 3"),
        ("[base]\nx = { choice = [] }", "line 2: `base.x` cannot be"),
        ("[base]\nx = { choice = 3 }", "with one option at least"),
        ("[base]\nx = { choice = [1], y = 2 }", "nothing else in the table"),
        (
            "[base]\n\nx = [{ choice = [1] }]",
            "line 3: `base.x` cannot be a list or an option with a `choice`",
        ),
        ("[base]\nx = { choice = [{ y = { choice = [1] } }] }", "with a `choice` inside"),
    ] {
        assert!(error(text).contains(told), "{text:?}: {}", error(text));
    }
}
