//! Which files of its crate a source file imports: so that a test can say what a product forgot to declare.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Attribute, File, Item, ItemMod, UseTree};
use thiserror::Error;

/// A chain of re-exports longer than this is a cycle.
const MAX_REEXPORTS: usize = 32;

/// Is an import of a file that is not declared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Undeclared {
    /// The declared file that imports, as a path in the folder of its crate.
    pub file: String,
    /// The file that it imports and that is not declared.
    pub imports: String,
    /// The path that it names it by: `crate::prior::Uniform`.
    pub by: String,
}

/// Says why the sources of a crate could not be followed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A file could not be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// A file is not Rust.
    #[error("`{}` is not Rust that can be read", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: syn::Error,
    },
    /// A declared file is no module of the crate.
    #[error("`{file}` is declared and is no module of the crate in `{}`; declare the path in its folder", folder.display())]
    NotAModule {
        /// The declared file.
        file: String,
        /// The folder of the crate.
        folder: PathBuf,
    },
}

/// Finds what declared source files of a crate import from files of it that are not declared. For a test of the crate
/// that builds a product:
///
/// ```
/// # use waycairn_cache::{Sources, sources, undeclared};
/// const SOURCES: Sources = sources!["src/npy.rs", "src/array.rs"];
/// let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
/// let forgotten = undeclared(folder, &SOURCES.paths().collect::<Vec<_>>())?;
/// assert!(forgotten.iter().any(|one| one.file == "src/array.rs" && one.imports == "src/builder.rs"));
/// # Ok::<(), waycairn_cache::ImportError>(())
/// ```
///
/// It follows the paths that a file writes, in code and in the arguments of macros: those that begin with `crate`,
/// `super` or `self`, with a module that lies below, or with a name that a `use` of the file brings. A name that a
/// module passes on with `pub use` leads to the file that has it. A declared file also imports the modules that it
/// declares with `mod`, except for the root of the crate, which declares all. Items under `#[cfg(test)]` are left out.
///
/// What is used without being named cannot be seen: methods and trait implementations that another file gives to a
/// type. Declare those files by hand.
///
/// # Errors
///
/// [`ImportError`].
pub fn undeclared(folder: &Path, declared: &[&str]) -> Result<Vec<Undeclared>, ImportError> {
    let modules = Modules::read(folder)?;
    let declared: BTreeSet<&str> = declared.iter().copied().collect();
    for file in &declared {
        if !modules.0.values().any(|module| module.file == *file) {
            return Err(ImportError::NotAModule { file: (*file).to_owned(), folder: folder.to_owned() });
        }
    }
    let mut found = BTreeSet::new();
    for (path, module) in &modules.0 {
        if !declared.contains(module.file.as_str()) {
            continue;
        }
        let mut import = |imports: &str, by: String| {
            if !declared.contains(imports) {
                found.insert(Undeclared { file: module.file.clone(), imports: imports.to_owned(), by });
            }
        };
        if !path.is_empty() {
            for child in &module.children {
                if let Some(below) = modules.0.get(&joined(path, child)) {
                    import(&below.file, format!("mod {child}"));
                }
            }
        }
        for named in &module.paths {
            for file in modules.files_of(path, named, 0) {
                if file != module.file {
                    import(&file, named.join("::"));
                }
            }
        }
    }
    // One line a pair of files.
    let mut lines: Vec<Undeclared> = found.into_iter().collect();
    lines.dedup_by(|a, b| a.file == b.file && a.imports == b.imports);
    Ok(lines)
}

type ModulePath = Vec<String>;

/// The modules of a crate by their paths; the root has the empty one.
struct Modules(BTreeMap<ModulePath, Module>);

#[derive(Debug, Default)]
struct Module {
    /// Where it is written, as a path in the folder of the crate.
    file: String,
    /// The modules that it declares.
    children: BTreeSet<String>,
    /// What `use` brings into it: the name here, and the path.
    uses: BTreeMap<String, Vec<String>>,
    /// The paths that `use` brings everything from.
    globs: Vec<Vec<String>>,
    /// What it defines.
    items: BTreeSet<String>,
    /// All paths that it names.
    paths: BTreeSet<Vec<String>>,
}

impl Modules {
    fn read(folder: &Path) -> Result<Self, ImportError> {
        let mut modules = Self(BTreeMap::new());
        let root = ["src/lib.rs", "src/main.rs"].into_iter().find(|file| folder.join(file).exists());
        modules.read_file(folder, Path::new(root.unwrap_or("src/lib.rs")), Vec::new(), true)?;
        Ok(modules)
    }

    fn read_file(
        &mut self,
        folder: &Path,
        file: &Path,
        at: ModulePath,
        owns: bool,
    ) -> Result<(), ImportError> {
        let path = folder.join(file);
        let text =
            fs::read_to_string(&path).map_err(|source| ImportError::Read { path: path.clone(), source })?;
        let File { items, .. } =
            syn::parse_file(&text).map_err(|source| ImportError::Parse { path: path.clone(), source })?;
        // Where the modules of this file lie: beside a `mod.rs` and a root, else in a folder of its name.
        let beside = file.parent().unwrap_or(Path::new(""));
        let below = if owns { beside.to_owned() } else { file.with_extension("") };
        self.read_items(folder, file, &below, &items, at)
    }

    fn read_items(
        &mut self,
        folder: &Path,
        file: &Path,
        below: &Path,
        items: &[Item],
        at: ModulePath,
    ) -> Result<(), ImportError> {
        let mut module = Module { file: text(file), ..Module::default() };
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            if let Item::Mod(child) = item {
                let name = child.ident.to_string();
                module.children.insert(name.clone());
                self.read_module(folder, file, below, child, joined(&at, &name))?;
                continue;
            }
            if let Item::Use(import) = item {
                module.bring(&import.tree, Vec::new());
            } else {
                module.items.extend(item_names(item));
                collect_paths(item.to_token_stream(), &mut module.paths);
            }
        }
        self.0.insert(at, module);
        Ok(())
    }

    fn read_module(
        &mut self,
        folder: &Path,
        file: &Path,
        below: &Path,
        module: &ItemMod,
        at: ModulePath,
    ) -> Result<(), ImportError> {
        let name = module.ident.to_string();
        let name = name.trim_start_matches("r#");
        if let Some((_, items)) = &module.content {
            return self.read_items(folder, file, &below.join(name), items, at);
        }
        if let Some(given) = path_attribute(&module.attrs) {
            let given = normal(&file.parent().unwrap_or(Path::new("")).join(given));
            return self.read_file(folder, &given, at, true);
        }
        let nested = below.join(name).join("mod.rs");
        if folder.join(&nested).exists() {
            return self.read_file(folder, &nested, at, true);
        }
        self.read_file(folder, &below.join(format!("{name}.rs")), at, false)
    }

    /// The files that a path leads to, as it is written in the module `at`.
    fn files_of(&self, at: &[String], named: &[String], depth: usize) -> BTreeSet<String> {
        self.resolve(at, named, depth)
            .map(|(module, rest)| self.files_in(&module, &rest, depth))
            .unwrap_or_default()
    }

    /// The module that a path begins with, and the names that are left of it.
    fn resolve(&self, at: &[String], named: &[String], depth: usize) -> Option<(ModulePath, Vec<String>)> {
        if depth > MAX_REEXPORTS {
            return None;
        }
        let (first, rest) = named.split_first()?;
        let here = self.0.get(at)?;
        let (mut module, mut rest) = match first.as_str() {
            "crate" => (Vec::new(), rest.to_vec()),
            "self" => (at.to_vec(), rest.to_vec()),
            "super" => (at.split_last()?.1.to_vec(), rest.to_vec()),
            name if here.children.contains(name) => (joined(at, name), rest.to_vec()),
            name => {
                // Brought by a `use`: it leads where that leads.
                let brought = here.uses.get(name).filter(|path| path.as_slice() != [name])?;
                let whole: Vec<String> = brought.iter().chain(rest).cloned().collect();
                return self.resolve(at, &whole, depth + 1);
            }
        };
        while let Some(name) = rest.first() {
            if name == "super" {
                module.pop()?;
            } else if self.0.get(&module)?.children.contains(name) {
                module.push(name.clone());
            } else {
                break;
            }
            rest.remove(0);
        }
        Some((module, rest))
    }

    /// The file of a module, or the file that an item of it comes from.
    fn files_in(&self, module: &[String], rest: &[String], depth: usize) -> BTreeSet<String> {
        let Some(found) = self.0.get(module) else { return BTreeSet::new() };
        let own = || BTreeSet::from([found.file.clone()]);
        let Some(name) = rest.first() else { return own() };
        if found.items.contains(name) {
            return own();
        }
        if let Some(path) = found.uses.get(name) {
            let whole: Vec<String> = path.iter().chain(&rest[1..]).cloned().collect();
            return self.files_of(module, &whole, depth + 1);
        }
        let globs = found.globs.iter().filter(|glob| glob.as_slice() != ["super"]);
        let through: BTreeSet<String> = globs
            .flat_map(|glob| {
                let whole: Vec<String> = glob.iter().chain(rest).cloned().collect();
                self.files_of(module, &whole, depth + 1)
            })
            .collect();
        // What is not found is made by a macro, or by the module itself in a way that is not followed.
        if through.is_empty() { own() } else { through }
    }
}

impl Module {
    fn bring(&mut self, tree: &UseTree, mut prefix: Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.bring(&path.tree, prefix);
            }
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = prefix.last().cloned() {
                    self.uses.insert(last, prefix.clone());
                    self.paths.insert(prefix);
                }
            }
            UseTree::Name(name) => {
                prefix.push(name.ident.to_string());
                self.uses.insert(name.ident.to_string(), prefix.clone());
                self.paths.insert(prefix);
            }
            UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    prefix.push(rename.ident.to_string());
                }
                self.uses.insert(rename.rename.to_string(), prefix.clone());
                self.paths.insert(prefix);
            }
            UseTree::Glob(_) => {
                self.paths.insert(prefix.clone());
                self.globs.push(prefix);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.bring(tree, prefix.clone());
                }
            }
        }
    }
}

/// Every `a::b::c` in some tokens, within groups and arguments of macros as well.
fn collect_paths(tokens: TokenStream, paths: &mut BTreeSet<Vec<String>>) {
    let (mut path, mut colons): (Vec<String>, u8) = (Vec::new(), 0);
    // `crate` alone is a visibility, `self` alone a value.
    let names = |path: &[String]| match path {
        [] => false,
        [one] => !matches!(one.as_str(), "crate" | "super" | "self"),
        _ => true,
    };
    let mut end = |path: &mut Vec<String>| {
        if names(path) {
            paths.insert(std::mem::take(path));
        }
        path.clear();
    };
    let mut groups = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    end(&mut path);
                }
                path.push(ident.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => colons += 1,
            other => {
                end(&mut path);
                colons = 0;
                if let TokenTree::Group(group) = other {
                    groups.push(group.stream());
                }
            }
        }
    }
    end(&mut path);
    for group in groups {
        collect_paths(group, paths);
    }
}

fn item_names(item: &Item) -> Vec<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => return item.ident.iter().map(ToString::to_string).collect(),
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return Vec::new(),
    };
    vec![ident.to_string()]
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Says whether an item is there in tests alone: `#[cfg(test)]` or `#[test]`.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let cfg = attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|argument| argument.is_ident("test"));
        cfg || attribute.path().is_ident("test")
    })
}

/// The file that `#[path = ".."]` gives to a module.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Expr::Lit(literal) = &attribute.meta.require_name_value().ok()?.value else { return None };
    match &literal.lit {
        syn::Lit::Str(text) => Some(text.value()),
        _ => None,
    }
}

fn joined(path: &[String], name: &str) -> ModulePath {
    let mut path = path.to_vec();
    path.push(name.to_owned());
    path
}

/// Without `..` where that can be told from the text.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir if path.file_name().is_some() => {
                path.pop();
            }
            Component::CurDir => {}
            part => path.push(part),
        }
        path
    })
}

/// With `/`, as it is declared.
fn text(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}
