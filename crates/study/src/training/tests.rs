#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use waycairn_train::{Gpt, experiments};

use super::*;

fn resolve(text: &str) -> Result<Training, SettingsError> {
    let document = Document::parse(Path::new("settings.toml"), text.to_owned())?;
    Training::resolve(&experiments![Gpt], document, None)
}

fn error(text: &str) -> String {
    let error = resolve(text).unwrap_err();
    format!("{error}; {}", error.next().unwrap_or_default())
}

#[test]
fn one_factor_at_a_time_and_never_a_product() {
    let text = "\
[base]
experiment = \"gpt\"
learning_rate = { choice = [0.1, 0.01, 0.001] }
cohort = { replicas = 4 }
[base.model]
width = { choice = [8, 16, 32] }
heads = 2
";
    let training = resolve(text).unwrap();
    let names: Vec<&str> = training.configurations().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        names,
        ["baseline", "learning_rate-0.01", "learning_rate-0.001", "model_width-16", "model_width-32"]
    );
    let jobs: Vec<Job> = training.jobs(&experiments![Gpt]).unwrap().into_iter().map(|(job, _)| job).collect();
    assert_eq!(jobs.len(), 20);
    assert_eq!(jobs[0].name, "gpt.baseline.r0");
    assert_eq!(jobs[19].name, "gpt.model_width-32.r3");
    let seeds: Vec<u64> = jobs[..4].iter().map(|job| job.settings.integer("seed").unwrap()).collect();
    assert_eq!(seeds, [1337, 1338, 1339, 1340]);
    assert_eq!(jobs[4].settings.number("learning_rate").unwrap(), 0.01);
    assert_eq!(jobs[4].settings.integer("model.width").unwrap(), 8);
    let folder = jobs[4].folder.to_str().unwrap();
    assert!(folder.starts_with("runs/learning_rate-0.01-") && folder.contains("/r0-"), "{folder}");
    let folders: std::collections::BTreeSet<_> = jobs.iter().map(|job| &job.folder).collect();
    assert_eq!(folders.len(), 20);
}

#[test]
fn what_means_the_same_is_run_once() {
    let training =
        resolve("[base]\nlearning_rate = { choice = [1, 1.0, 0.5, 0.5] }\nwarmup = { choice = [20, 5] }\n")
            .unwrap();
    let names: Vec<String> = training.configurations().iter().map(Configuration::label).collect();
    assert_eq!(names, ["baseline", "learning_rate=0.5", "warmup=5"]);
}

#[test]
fn the_digest_is_of_what_decides_results() {
    let digest = |text: &str| -> Vec<Digest> {
        let jobs = resolve(text).unwrap().jobs(&experiments![Gpt]).unwrap();
        jobs.into_iter().map(|(job, _)| job.digest).collect()
    };
    let base = digest("[base]\nsteps = 3\n");
    assert_eq!(base, digest("# a comment\n[base]\noutput = \"elsewhere\"\nsteps = 3\n"));
    assert_eq!(base, digest("[base]\nsteps = 3\nruntime = { device = \"cpu\", cpu_threads = 1 }\n"));
    assert_ne!(base, digest("[base]\nsteps = 4\n"));
    assert_ne!(base, digest("[base]\nsteps = 3\ncohort = { replicas = 2 }\n"));
    assert_ne!(base, digest("[base]\nsteps = { choice = [3, 4] }\n"));
    // Data counts by its content, wherever it lies.
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content.repeat(40)).unwrap();
        digest(&format!("[base]\ndata = {{ source = '{}', context = 8 }}\n", path.display()))
    };
    assert_eq!(of("one.txt", "a cairn beside the way. "), of("other.txt", "a cairn beside the way. "));
    assert_ne!(of("one.txt", "a cairn beside the way. "), of("one.txt", "a cairn beside the bay. "));
}

#[test]
fn long_values_have_names_of_their_own() {
    let change = |value: serde_json::Value| variant(&Change { path: "a.b".to_owned(), value });
    assert_eq!(change(serde_json::json!(0.01)), "a_b-0.01");
    assert_eq!(change(serde_json::json!("../x y")), "a_b-.._x_y");
    assert_eq!(change(serde_json::json!([1, 2])), "a_b-1_2");
    let (one, other) = (change(serde_json::json!("x".repeat(99))), change(serde_json::json!("y".repeat(99))));
    assert_ne!(one, other);
    assert_eq!(one.len(), "a_b-".len() + 8);
    assert_eq!(change(serde_json::json!({})).len(), "a_b-".len() + 8);
}

#[test]
fn settings_that_cannot_be_used_are_told_with_their_line() {
    for (text, told) in [
        (
            "[base]\nsteps = 1\nlearning_rat = 0.1\n",
            "line 3: there is no setting `learning_rat`; did you mean `learning_rate`?",
        ),
        ("[base]\nexperment = \"gpt\"\n", "did you mean `experiment`?"),
        ("[base]\nsteps = -1\n", "line 2: `steps` cannot be -1; `steps` takes a whole number from 1"),
        ("[base]\n[base.model]\nwidth = \"wide\"\n", "line 3: `model.width` cannot be"),
        ("[base]\nsteps = { choice = [1, \"x\"] }\n", "line 2: `steps` cannot be"),
        ("[base]\nexperiment = \"nri\"\n", "line 2: `experiment` cannot be \"nri\"; `experiment` takes gpt"),
        ("[base]\nruntime = { device = { choice = [\"cpu\", \"cuda\"] } }\n", "use separate launches"),
        ("[base]\noutput = { choice = [\"a\", \"b\"] }\n", "use separate launches"),
        ("[base]\ncohort = { replicas = { choice = [1, 2] } }\n", "repeated in every configuration"),
        ("[base]\ncohort = { replicas = 0 }\n", "`cohort.replicas` cannot be 0"),
        ("[base]\ncohort = { priors = [\"uniform\"] }\n", "there is no setting `cohort.priors`"),
        ("[base]\nruntime = { parallel = \"rows\" }\n", "`runtime.parallel` cannot be \"rows\""),
        ("[base]\nruntime = { threads = 1 }\n", "there is no setting `runtime.threads`"),
        ("[base]\nreplicas = 3\n", "did you mean `cohort.replicas`?"),
        ("[base]\nlearning_rate = { choices = [0.1, 0.2] }\n", "did you mean `learning_rate.choice`?"),
        ("[base]\nsteps = [1, 2]\n", "are written `{ choice = [..] }`"),
        ("[base]\noutput = 3\n", "`output` cannot be 3"),
        ("[base]\npreset = \"huge\"\n", "the baseline is refused"),
    ] {
        assert!(error(text).contains(told), "{text:?}: {}", error(text));
    }
}

/// Settings of the experiment `nre`.
fn nre(text: &str) -> Result<Training, SettingsError> {
    let text = format!("[base]\nexperiment = \"nre\"\n{text}");
    let document = Document::parse(Path::new("settings.toml"), text)?;
    Training::resolve(&experiments![Gpt].with_rows(waycairn_train::Nre), document, None)
}

#[test]
fn members_of_a_cohort_are_its_priors_times_its_replicas() {
    let known = experiments![Gpt].with_rows(waycairn_train::Nre);
    let jobs = |text: &str| -> Vec<Job> {
        nre(text).unwrap().jobs(&known).unwrap().into_iter().map(|(job, _)| job).collect()
    };
    let default = jobs("");
    let names: Vec<&str> = default.iter().map(|job| job.member.as_str()).collect();
    assert_eq!(names, ["uniform-r0", "normal-r0", "exponential-r0", "grid-r0"]);
    assert_eq!(default[1].name, "nre.baseline.normal-r0");
    assert_eq!(default[1].settings.text("prior").unwrap(), "normal");
    assert!(default[1].folder.to_str().unwrap().contains("/normal-r0-"));

    let own = "[base.cohort]\npriors = [\"narrow\", \"uniform\"]\nreplicas = 2\n[base.priors.narrow]\nfamily = \"normal\"\n";
    let members: Vec<(String, u64, String)> = jobs(own)
        .into_iter()
        .map(|job| {
            let settings = &job.settings;
            (job.member, settings.integer("seed").unwrap(), settings.text("prior").unwrap().to_owned())
        })
        .collect();
    let expected = [("narrow-r0", 0), ("narrow-r1", 1), ("uniform-r0", 0), ("uniform-r1", 1)];
    for ((member, seed, prior), (name, expected)) in members.iter().zip(expected) {
        assert_eq!((member.as_str(), *seed), (name, expected));
        assert_eq!(member.split_once('-').unwrap().0, prior);
    }
    // What decides a model is the same whoever else is in the cohort.
    let decides = |text: &str| {
        let jobs = nre(text).unwrap().jobs(&known).unwrap();
        let found = jobs.into_iter().find(|(job, _)| job.member == "normal-r0");
        found.map(|(_, description)| (description.decides, description.data)).unwrap()
    };
    assert_eq!(decides("[base.cohort]\npriors = [\"normal\"]\n"), decides(""));
}

#[test]
fn one_factor_of_a_section_at_a_time() {
    let known = experiments![Gpt].with_rows(waycairn_train::Nre);
    let training = nre(
        "cohort = { priors = [\"uniform\"] }\ntraining = { learning_rate = { choice = [0.001, 0.01] } }\n[base.problem]\ndimension = { choice = [1, 2, 3] }\n",
    )
    .unwrap();
    let names: Vec<&str> = training.configurations().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        names,
        ["baseline", "training_learning_rate-0.01", "problem_dimension-2", "problem_dimension-3"]
    );
    let labels: Vec<String> = training.configurations().iter().map(Configuration::label).collect();
    assert_eq!(labels[2], "problem.dimension=2");
    let jobs = training.jobs(&known).unwrap();
    assert_eq!(jobs[3].0.settings.section("problem").unwrap()["dimension"], 3);
    assert_eq!(jobs[3].1.estimate.rows, Some(350_000));
    assert_eq!(jobs[3].1.estimate.steps, 2_735);
}

#[test]
fn a_cohort_that_cannot_be_is_told_with_its_line() {
    let told = |text: &str| {
        let error = nre(text).unwrap_err();
        format!("{error}; {}", error.next().unwrap_or_default())
    };
    for (text, expected) in [
        ("cohort = { priors = [] }\n", "line 3: `cohort.priors` cannot be []"),
        ("cohort = { priors = [\"uniform\", \"uniform\"] }\n", "at least one and each once"),
        ("cohort = { priors = [\"../x\"] }\n", "of letters, digits, `_` and `-`"),
        ("cohort = { priors = [\"nrmal\"] }\n", "line 3: `cohort.priors` cannot be \"nrmal\""),
        // It was told without a line, as it is no prior of the first member.
        ("cohort = { priors = [\"normal\", \"nrmal\"] }\n", "line 3: `cohort.priors` cannot be \"nrmal\""),
        ("zzzzzzzz = 2\n", "`waycairn train --show-settings --experiment nre`"),
        (
            "cohort = { priors = { choice = [[\"uniform\"], [\"normal\"]] } }\n",
            "repeated in every configuration",
        ),
        ("priors = [\"uniform\"]\n", "`priors` cannot be"),
        ("prior = \"normal\"\n", "line 3: `prior` cannot be \"normal\""),
        ("cohort = { replicas = 1000000000 }\n", "a whole number of 1 to 10000"),
        ("[base.problem]\ndimenson = 2\n", "line 4: `problem.dimenson` cannot be 2"),
        ("[base.problem]\ndimension = { choice = [1, 0] }\n", "`problem.dimension` cannot be 0"),
        ("[base.data]\ntrain_size = 3\n", "an even whole number of at least 2"),
        ("learning_rate = 0.1\n", "did you mean `training.learning_rate`?"),
    ] {
        assert!(told(text).contains(expected), "{text:?}: {}", told(text));
    }
}
