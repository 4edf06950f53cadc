//! Plugins that somebody else built: in another workspace, against this and against other versions of the interface.
//!
//! The crates are written into the target folder and built by one offline run of cargo in debug mode, with this
//! workspace's lock file, so that nothing is downloaded. They are built again only when they or the interface
//! change. The other versions are copies of the interface's sources with the edit made that a next version would
//! make; an edit that no longer applies fails the test with its text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use tempfile::tempdir;
use waycairn_analysis_host::{API_VERSION, Discovery, Kind, Library, LoadError, ScalarOut, discover, select};

use crate::kit::{FakeHost, Temper};

const PACKAGE: &str = "waycairn-analysis-api";

/// The guide's plugins of a study, in its order.
const GUIDE: [&str; 3] = ["guide_model", "guide_scalars", "guide"];

pub struct Authors {
    built: PathBuf,
}

/// Builds everything once for this process.
pub fn authors() -> &'static Authors {
    static AUTHORS: OnceLock<Authors> = OnceLock::new();
    AUTHORS.get_or_init(build)
}

impl Authors {
    pub fn library(&self, name: &str) -> PathBuf {
        self.built.join(format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX))
    }

    fn program(&self, name: &str) -> PathBuf {
        self.built.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    }
}

fn build() -> Authors {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let api = workspace.join("crates/analysis-api");
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors");

    // An author's workspace: one crate, one dependency.
    put(&root.join("theirs/Cargo.toml"), &plugin_manifest("theirs", &api));
    put(&root.join("theirs/src/lib.rs"), PLUGIN);
    // A library that has nothing to do with this.
    put(&root.join("bare/Cargo.toml"), &manifest("bare", "[lib]\ncrate-type = [\"cdylib\"]\n"));
    put(&root.join("bare/src/lib.rs"), "#[unsafe(no_mangle)]\npub extern \"C\" fn answer() -> u32 { 42 }\n");

    // The first version, as it was.
    let first = root.join("first-api");
    copy_api(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interface-1.0"), &first, "1.0.0");
    put(&root.join("first/Cargo.toml"), &plugin_manifest("first", &first));
    put(&root.join("first/src/lib.rs"), PLUGIN);
    put(&root.join("first-host/Cargo.toml"), &host_manifest("first"));
    put(&root.join("first-host/src/main.rs"), &HOST.replace("{EXTRA}", "None::<u32>"));
    // A plugin that uses what came after it.
    put(&root.join("modern/Cargo.toml"), &plugin_manifest("modern", &api));
    put(&root.join("modern/src/lib.rs"), MODERN);

    // The guide's plugins of a study, as they stand there: each block that is a whole plugin, after that of its beginning.
    let guide = fs::read_to_string(workspace.join("docs/plugins.md")).unwrap();
    let blocks = guide.split("```rust\n").skip(2).map(|block| block.split_once("```").unwrap().0);
    let whole: Vec<&str> = blocks.filter(|block| block.contains("export_analyses!")).collect();
    assert_eq!(whole.len(), GUIDE.len(), "each has a name here");
    for (name, block) in GUIDE.iter().zip(whole) {
        put(&root.join(name).join("Cargo.toml"), &plugin_manifest(name, &api));
        put(&root.join(name).join("src/lib.rs"), block);
    }

    // The version before this one: without the function that takes the number of threads.
    let last = root.join("last-api");
    copy_api(&api, &last, "1.1.0");
    edit(
        &last,
        "src/abi.rs",
        &[
            (
                "    /// Is told how many threads pools of the library's own may have, before anything is built or analysed.\n    \
             pub threads: extern \"C\" fn(usize) -> RResult<(), RawFailure>,\n",
                "",
            ),
            ("        threads: threads::<L>,\n", ""),
            ("extern \"C\" fn threads<L: Export>", "#[allow(dead_code)]\nextern \"C\" fn threads<L: Export>"),
        ],
    );
    edit(
        &last,
        "src/abi/open.rs",
        &[("self.module.threads()", "None::<extern \"C\" fn(usize) -> RResult<(), RawFailure>>")],
    );
    put(&root.join("last/Cargo.toml"), &plugin_manifest("last", &last));
    put(&root.join("last/src/lib.rs"), PLUGIN);

    // The next minor version: a field after the last prefix field, and a method with a default.
    let newer = root.join("newer-api");
    copy_api(&api, &newer, "1.3.0");
    edit(
        &newer,
        "src/abi.rs",
        &[
            (
                "extern \"C\" fn(usize) -> RResult<(), RawFailure>,\n}",
                "extern \"C\" fn(usize) -> RResult<(), RawFailure>,\n    pub extra: extern \"C\" fn() -> u32,\n}",
            ),
            ("threads: threads::<L>,", "threads: threads::<L>, extra,"),
            (
                "    fn cancelled(&self) -> bool {\n        false\n    }\n}",
                "    fn cancelled(&self) -> bool {\n        false\n    }\n    fn later(&self) -> u32 { 7 }\n}",
            ),
            (
                "extern \"C\" fn count<L: Export>",
                "extern \"C\" fn extra() -> u32 { 5 }\n\
             pub(crate) fn later(context: &ContextObject<'_>) -> u32 { context.later() }\n\
             extern \"C\" fn count<L: Export>",
            ),
        ],
    );
    edit(
        &newer,
        "src/abi/bridge.rs",
        &[("    fn parents(&self)", "    fn later(&self) -> u32 { 8 }\n\n    fn parents(&self)")],
    );
    edit(
        &newer,
        "src/abi/open.rs",
        &[(
            "    /// How many analyses it has.",
            "    /// The new function, where the plugin has it.\n    pub fn extra(&self) -> Option<u32> {\n        \
         self.module.extra().map(|extra| extra())\n    }\n\n    /// How many analyses it has.",
        )],
    );
    edit(
        &newer,
        "src/context.rs",
        &[(
            "    /// The addresses of the recorded parents.",
            "    /// The new method.\n    pub fn later(&self) -> u32 {\n        abi::later(&self.raw)\n    }\n\n    \
         /// The addresses of the recorded parents.",
        )],
    );
    put(&root.join("newer/Cargo.toml"), &plugin_manifest("newer", &newer));
    put(&root.join("newer/src/lib.rs"), &PLUGIN.replace("let extra = 0;", "let extra = context.later();"));
    put(&root.join("newer-host/Cargo.toml"), &host_manifest("newer"));
    put(&root.join("newer-host/src/main.rs"), &HOST.replace("{EXTRA}", "plugin.extra()"));

    // A version that changed the type of a field that was there.
    let changed = root.join("changed-api");
    copy_api(&api, &changed, "1.2.1");
    edit(
        &changed,
        "src/abi.rs",
        &[
            ("pub count: extern \"C\" fn() -> usize,", "pub count: extern \"C\" fn() -> u64,"),
            (
                "fn count<L: Export>() -> usize {\n    L::ENTRIES.len()",
                "fn count<L: Export>() -> u64 {\n    L::ENTRIES.len() as u64",
            ),
        ],
    );
    edit(&changed, "src/abi/open.rs", &[("self.module.count()()", "self.module.count()() as usize")]);
    put(&root.join("changed/Cargo.toml"), &plugin_manifest("changed", &changed));
    put(&root.join("changed/src/lib.rs"), PLUGIN);

    // A version that changed a struct deep inside a method of the context.
    let deep = root.join("deep-api");
    copy_api(&api, &deep, "1.2.2");
    edit(
        &deep,
        "src/abi.rs",
        &[(
            "    address: RStr<'a>,\n    seq: u64,\n}",
            "    address: RStr<'a>,\n    seq: u64,\n    more: u64,\n}",
        )],
    );
    edit(&deep, "src/abi/bridge.rs", &[("seq: self.facts.seq,", "seq: self.facts.seq, more: 0,")]);
    put(&root.join("deep/Cargo.toml"), &plugin_manifest("deep", &deep));
    put(&root.join("deep/src/lib.rs"), PLUGIN);

    // The next major version.
    let major = root.join("major-api");
    copy_api(&api, &major, "2.0.0");
    put(&root.join("major/Cargo.toml"), &plugin_manifest("major", &major));
    put(&root.join("major/src/lib.rs"), PLUGIN);

    let members = [
        "theirs",
        "bare",
        "first",
        "first-host",
        "last",
        "modern",
        GUIDE[0],
        GUIDE[1],
        GUIDE[2],
        "newer",
        "newer-host",
        "changed",
        "deep",
        "major",
    ];
    let copies = ["first-api", "last-api", "newer-api", "changed-api", "deep-api", "major-api"];
    put(
        &root.join("Cargo.toml"),
        &format!(
            "[workspace]\nresolver = \"3\"\nmembers = {members:?}\nexclude = {copies:?}\n\n{}\n\
             [profile.dev]\ndebug = false\n",
            inherited(workspace)
        ),
    );
    let lock = root.join("Cargo.lock");
    if !lock.exists() {
        fs::copy(workspace.join("Cargo.lock"), &lock).unwrap();
    }

    let target = root.join("target");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let run = |lock: &str| {
        Command::new(&cargo)
            .args(["build", "--offline", "--workspace", "--quiet"])
            .current_dir(&root)
            .env("CARGO_TARGET_DIR", &target)
            .env_remove("CARGO_BUILD_TARGET")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTFLAGS")
            .env_remove("RUSTC_WORKSPACE_WRAPPER")
            .output()
            .unwrap_or_else(|error| panic!("cannot run cargo with {lock}: {error}"))
    };
    let mut output = run("the lock file of the last time");
    if !output.status.success() {
        // The lock file may be of an older state of this workspace.
        fs::copy(workspace.join("Cargo.lock"), &lock).unwrap();
        output = run("this workspace's lock file");
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Authors { built: target.join("debug") }
}

/// What members of this workspace inherit. What follows the tables belongs to the profiles.
fn inherited(workspace: &Path) -> String {
    let ours = fs::read_to_string(workspace.join("Cargo.toml")).unwrap();
    ours[ours.find("[workspace.package]").unwrap()..ours.find("[profile.release]").unwrap()].to_owned()
}

/// Writes a file unless it is there already: cargo builds again what is younger than its last build.
fn put(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn manifest(name: &str, rest: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n{rest}"
    )
}

/// What `docs/plugins.md` tells an author to write.
fn plugin_manifest(name: &str, api: &Path) -> String {
    let rest = "[lib]\ncrate-type = [\"cdylib\"]\n\n[dependencies]\n";
    manifest(name, &format!("{rest}{PACKAGE} = {{ path = {:?} }}\n", api.display().to_string()))
}

/// What a program of another version's host is built from.
fn host_manifest(version: &str) -> String {
    let dependencies = format!(
        "waycairn-analysis-api = {{ path = \"../{version}-api\" }}\nlibloading = {{ workspace = true }}\n"
    );
    manifest(&format!("{version}-host"), &format!("[dependencies]\n{dependencies}"))
}

fn copy_api(api: &Path, to: &Path, version: &str) {
    let manifest = fs::read_to_string(api.join("Cargo.toml")).unwrap();
    let line = |text: &str| text.lines().find(|line| line.starts_with("version = ")).unwrap().to_owned();
    let manifest = manifest.replacen(&line(&manifest), &format!("version = \"{version}\""), 1);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    put(
        &to.join("Cargo.toml"),
        &format!("[workspace]\nresolver = \"3\"\n\n{}\n{manifest}", inherited(workspace)),
    );
    let mut folders = vec![PathBuf::from("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(api.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(name);
            } else if !edited(to).contains(&name) {
                put(&to.join(&name), &fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    put(&to.join("README.md"), &fs::read_to_string(api.join("README.md")).unwrap());
}

/// Files that [`edit`] writes, so that a copy does not first undo the edit and make cargo build again.
fn edited(api: &Path) -> Vec<PathBuf> {
    let files: &[&str] = match api.file_name().unwrap().to_str().unwrap() {
        "newer-api" => &["src/abi.rs", "src/abi/bridge.rs", "src/abi/open.rs", "src/context.rs"],
        "changed-api" | "last-api" => &["src/abi.rs", "src/abi/open.rs"],
        "deep-api" => &["src/abi.rs", "src/abi/bridge.rs"],
        _ => &[],
    };
    files.iter().map(PathBuf::from).collect()
}

fn edit(copy: &Path, file: &str, edits: &[(&str, &str)]) {
    assert!(edited(copy).contains(&PathBuf::from(file)), "{file} is listed as edited");
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../analysis-api").join(file);
    let mut text = fs::read_to_string(ours).unwrap();
    for (from, to) in edits {
        assert_eq!(text.matches(from).count(), 1, "the edit of {file} no longer applies:\n{from}");
        text = text.replace(from, to);
    }
    put(&copy.join(file), &text);
}

const PLUGIN: &str = r#"
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, export_analyses};

#[derive(Default)]
struct Norm;

impl Analysis for Norm {
    fn declare() -> Declaration {
        Declaration::new("summary", "0.1.0", "somebody else's summary").needs(Needs::default().weights("*"))
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let mut squares = 0.0;
        for tensor in &context.weights()? {
            squares += tensor.iter_f64()?.map(|value| value * value).sum::<f64>();
        }
        let extra = 0;
        context.emit_scalar("norm", squares.sqrt())?;
        context.emit_scalar("extra", extra)?;
        context.emit_scalar("seq", context.node().seq)?;
        Ok(())
    }
}

export_analyses![Norm];
"#;

/// A plugin that uses what interface 1.1 brought, and says what it got.
const MODERN: &str = r#"
use waycairn_analysis_api::serde_json::{Value, json};
use waycairn_analysis_api::{
    Analysis, AnalysisError, BuildContext, Context, ContextError, Declaration, Needs, Product, ProductDeclaration, Study,
    export_analyses,
};

struct Squares;

impl Product for Squares {
    fn declare() -> ProductDeclaration {
        ProductDeclaration::new("squares", 1, "the squares of whole numbers")
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        Ok(study.pick(&["analysis.squares.count"])?)
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        context.metadata("count", context.settings())?;
        Ok(())
    }
}

fn defaults() -> Value {
    json!({"squares": {"count": 10}})
}

#[derive(Default)]
struct Late;

impl Analysis for Late {
    fn declare() -> Declaration {
        Declaration::new("late", "0.1.0", "what came after the first interface")
            .metric()
            .needs(Needs::default().product("scores").function("logits").study("member"))
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let told = |key: &str, error: Option<ContextError>| {
            context.emit_scalar(key, error.map_or("given".to_owned(), |error| format!("{:?} {error}", error.kind())))
        };
        context.progress(1, 2, "halves");
        told("product", context.product("scores").err())?;
        told("call", context.call("logits", &[]).err())?;
        told("metric", context.emit_metric(&1).err())?;
        context.emit_scalar("study", context.study().to_string())?;
        context.emit_scalar("cancelled", context.cancelled())?;
        Ok(())
    }
}

export_analyses! { analyses: [Late], products: [Squares], settings: defaults }
"#;

/// A host of another version: opens each library it is given and runs its first analysis.
const HOST: &str = r#"
use std::ffi::c_void;
use waycairn_analysis_api::host::{Facts, Host, SYMBOL, open};
use waycairn_analysis_api::{ArrowStream, ContextError, LogLevel, OwnedTensor, Scalar, TensorView};

struct Nothing;

impl Host for Nothing {
    fn weights(&self) -> Result<Vec<TensorView<'_>>, ContextError> { Ok(Vec::new()) }
    fn batch(&self) -> Result<Vec<TensorView<'_>>, ContextError> { Ok(Vec::new()) }
    fn forward(&self, _: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, ContextError> { Ok(Vec::new()) }
    fn scalars(&self, _: &str, _: &[&str]) -> Result<ArrowStream, ContextError> {
        Err(ContextError::unavailable("none"))
    }
    fn log(&self, _: LogLevel, _: &str) {}
    fn emit_artifact(&self, _: &str, _: Vec<(String, Scalar)>, _: &[u8]) -> Result<(), ContextError> { Ok(()) }
    fn emit_scalar(&self, key: &str, value: Scalar) -> Result<(), ContextError> {
        println!("{key} {value:?}");
        Ok(())
    }
    fn emit_file(&self, _: &str, _: &str, _: &[u8]) -> Result<(), ContextError> { Ok(()) }
}

fn main() {
    for path in std::env::args().skip(1) {
        let library = Box::leak(Box::new(unsafe { libloading::Library::new(path) }.unwrap()));
        let header = *unsafe { library.get::<*const c_void>(SYMBOL) }.unwrap();
        match unsafe { open(header) } {
            Err(error) => println!("refused {error}"),
            Ok(plugin) => {
                println!("plugin {} extra {:?} count {}", plugin.version(), {EXTRA}, plugin.count());
                let facts = Facts { seq: 3, settings: "{}".into(), experiment_settings: "null".into(), ..Facts::default() };
                plugin.analyze(0, &facts, &Nothing).unwrap();
            }
        }
    }
}
"#;

fn norm(library: &Library) -> Vec<(String, ScalarOut)> {
    let outputs =
        FakeHost::new(Temper::Good).with(|host| library.analyses()[0].run(host, &Value::Null)).unwrap();
    outputs.scalars
}

fn scalars(extra: i64) -> Vec<(String, ScalarOut)> {
    let norm = ScalarOut::Float((30.0_f64 + 25.0 + 0.25).sqrt());
    vec![("norm".into(), norm), ("extra".into(), ScalarOut::Int(extra)), ("seq".into(), ScalarOut::Int(2))]
}

#[test]
fn plugins_case_01_a_plugin_of_another_workspace_is_dropped_into_a_folder() {
    let folder = tempdir().unwrap();
    let built = authors().library("theirs");
    fs::copy(&built, folder.path().join(built.file_name().unwrap())).unwrap();
    let found = discover(&Discovery { default_dirs: vec![folder.path().to_owned()], ..Discovery::default() });
    let theirs = select(&found, "summary").unwrap();
    assert_eq!(theirs.declaration().description, "somebody else's summary");
    let library = found[0].result.as_ref().unwrap();
    assert_eq!(library.api_version(), API_VERSION);
    assert_eq!(norm(library), scalars(0));
}

#[test]
fn plugins_case_02_a_plugin_of_a_newer_interface_works_and_gets_the_defaults_of_its_own() {
    let library = Library::open(&authors().library("newer")).unwrap();
    assert_eq!(library.api_version(), "1.3.0");
    // This host has no `later`: the default body of the plugin's interface answers.
    assert_eq!(norm(&library), scalars(7));
}

#[test]
fn plugins_case_02_a_plugin_of_an_older_interface_works_in_a_newer_host() {
    let authors = authors();
    let output = Command::new(authors.program("newer-host"))
        .args([authors.library("theirs"), authors.library("newer"), authors.library("first")])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let old = |version: &str| {
        format!("plugin {version} extra None count 1\nnorm Float(0.0)\nextra Int(0)\nseq Int(3)\n")
    };
    let new = "plugin 1.3.0 extra Some(5) count 1\nnorm Float(0.0)\nextra Int(8)\nseq Int(3)\n";
    assert_eq!(text, format!("{}{new}{}", old(API_VERSION), old("1.0.0")));
}

#[test]
fn plugins_case_02_a_plugin_of_the_first_interface_works_in_this_host() {
    let library = Library::open(&authors().library("first")).unwrap();
    assert_eq!(library.api_version(), "1.0.0");
    assert_eq!(norm(&library), scalars(0));
    assert!(library.products().is_empty());
    assert_eq!(library.settings(), &json!({}));
    let declared = library.analyses()[0].declaration();
    assert_eq!((declared.kind, declared.sources.len()), (Kind::Analysis, 0));
}

#[test]
fn plugins_case_02_a_plugin_of_the_interface_before_works_and_is_not_told_of_threads() {
    let library = Library::open(&authors().library("last")).unwrap();
    assert_eq!(library.api_version(), "1.1.0");
    assert_eq!(norm(&library), scalars(0));
}

#[test]
fn plugins_case_02_a_host_of_the_first_interface_runs_a_plugin_of_this_one() {
    let authors = authors();
    let output = Command::new(authors.program("first-host"))
        .args([authors.library("theirs"), authors.library("modern")])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let lacks = |asked: &str, what: &str| {
        format!(
            "Text(\"Unavailable `{asked}`: this host is of an interface before 1.1, which has no {what}; use a newer \
             waycairn\")"
        )
    };
    let expected = [
        format!("plugin {API_VERSION} extra None count 1"),
        "norm Float(0.0)".to_owned(),
        "extra Int(0)".to_owned(),
        "seq Int(3)".to_owned(),
        format!("plugin {API_VERSION} extra None count 1"),
        format!("product {}", lacks("scores", "products")),
        format!("call {}", lacks("logits", "functions of an experiment")),
        format!("metric {}", lacks("emit_metric", "metrics")),
        "study Text(\"null\")".to_owned(),
        "cancelled Bool(false)".to_owned(),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_plugin_that_uses_a_study_works_in_this_host_as_far_as_the_node_goes() {
    let library = Library::open(&authors().library("modern")).unwrap();
    assert_eq!(library.settings(), &json!({"squares": {"count": 10}}));
    let selected = library.products()[0].select(&json!({}), library.settings(), "m").unwrap();
    assert_eq!(selected, json!({"analysis": {"squares": {"count": 10}}}));
    let late = &library.analyses()[0];
    assert_eq!(late.declaration().kind, Kind::Metric);
    assert!(late.declaration().needs.only_in_a_study());
    let outputs = FakeHost::new(Temper::Good).with(|host| late.run(host, &Value::Null)).unwrap();
    assert_eq!(outputs.metric, Some(1.into()));
    let text = |key: &str| match &outputs.scalars.iter().find(|(name, _)| name == key).unwrap().1 {
        ScalarOut::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    assert!(
        text("product").starts_with("Unavailable there is no product `scores` here"),
        "{}",
        text("product")
    );
    assert!(text("call").starts_with("Unavailable this experiment has no function `logits`"));
    assert_eq!((text("metric"), text("study")), ("given".to_owned(), "null".to_owned()));
}

#[test]
fn plugins_case_02_a_changed_field_is_refused_and_both_layouts_are_named() {
    let error = Library::open(&authors().library("changed")).unwrap_err();
    let LoadError::Layout { expected, found, .. } = &error else { panic!("{error}") };
    assert!(expected.contains("count") && expected.contains("usize"), "{expected}");
    assert!(found.contains("count") && found.contains("u64"), "{found}");
    assert!(found.ends_with("(interface 1.2.1)"), "{found}");
    let text = error.to_string();
    assert!(text.len() < 1500 && !text.contains('\n'), "{text}");
}

#[test]
fn plugins_case_02_a_changed_struct_inside_the_context_is_refused() {
    let error = Library::open(&authors().library("deep")).unwrap_err();
    let LoadError::Layout { expected, found, .. } = &error else { panic!("{error}") };
    assert!(expected.contains("RawNode") && found.contains("RawNode"), "{expected}\n{found}");
    assert!(found.contains("more") && !expected.contains("more"), "{expected}\n{found}");
}

#[test]
fn abi_2_another_major_version_is_refused_with_both_versions() {
    let error = Library::open(&authors().library("major")).unwrap_err();
    assert!(
        matches!(&error, LoadError::Api { plugin, host, .. } if plugin == "2.0.0" && host == API_VERSION),
        "{error}"
    );
    assert!(error.to_string().contains("was built for interface 2.0.0, this host has 1"), "{error}");
}

#[test]
fn abi_2_versions_load_beside_each_other_in_any_order() {
    let authors = authors();
    for name in ["newer", "first", "theirs", "changed", "last", "newer", "deep", "first"] {
        let loads = Library::open(&authors.library(name)).is_ok();
        assert_eq!(loads, matches!(name, "newer" | "first" | "last" | "theirs"), "{name}");
    }
}
