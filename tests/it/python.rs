//! What Python reads of our files. A test here needs packages of Python, and says on standard error that it is skipped
//! where they are missing: the interpreter is `WAYCAIRN_BENCH_PYTHON`, else `python3`.

use std::{io::Write, path::Path, process::Command};

use serde_json::Value;
use waycairn_tests::Run;

use crate::trained;

/// Runs a program in a folder and returns the JSON that it printed; `None` where Python or a package is missing.
fn python(test: &str, packages: &[&str], program: &str, folder: &Path) -> Option<Value> {
    let interpreter = std::env::var("WAYCAIRN_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let python =
        |program: &str| Command::new(&interpreter).args(["-c", program]).current_dir(folder).output();
    let imports = format!("import {}", packages.join(", "));
    let missing = match python(&imports) {
        Err(error) => Some(error.to_string()),
        Ok(output) if !output.status.success() => Some(Run::from(output).err),
        Ok(_) => None,
    };
    if let Some(why) = missing {
        let why = why.trim_end().lines().last().unwrap_or_default();
        // Not by a macro, whose output a test that succeeds keeps for itself.
        let line = format!("SKIPPED {test}: `{interpreter}` cannot `{imports}`: {why}\n");
        std::io::stderr().write_all(line.as_bytes()).expect("standard error");
        return None;
    }
    let run = Run::from(python(program).expect("Python starts"));
    assert_eq!(run.status, Some(0), "{program}\n{run}");
    Some(run.json())
}

#[test]
fn python_opens_the_weights_of_a_checkpoint_and_an_export() {
    let root = trained();
    let blob = root.json(&["show", "shakespeare:19"])["blob"].as_str().map(std::path::PathBuf::from);
    let stored = blob.expect("a blob").join("checkpoint/model.safetensors");
    let exported = root.folder().join("python.safetensors");
    let words = ["export", "shakespeare:19", "--format", "nanogpt", "-o", &exported.display().to_string()];
    assert_eq!(root.run(&words).status, Some(0));
    for (file, tied) in [(stored, 0), (exported, 1)] {
        let program = format!(
            "import json\nfrom safetensors.numpy import load_file\nfile = load_file({:?})\n\
             print(json.dumps({{name: [list(t.shape), str(t.dtype), float(t.astype('f8').sum())] for name, t in \
             file.items()}}))",
            file.display().to_string()
        );
        let test = "python_opens_the_weights_of_a_checkpoint_and_an_export";
        let Some(read) = python(test, &["numpy", "safetensors"], &program, root.folder()) else { return };
        let bytes = std::fs::read(&file).expect("the weights");
        let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("tensors");
        assert_eq!(read.as_object().map(serde_json::Map::len), Some(tensors.len()));
        assert_eq!(tensors.len(), 2 + 2 * 6 + 1 + tied);
        for (name, view) in tensors.iter() {
            assert_eq!(read[name][0], serde_json::json!(view.shape()), "{name}");
            assert_eq!(read[name][1], "float32", "{name}");
            let values = view.data().chunks_exact(4).map(|bytes| bytes.try_into().expect("four bytes"));
            let sum: f64 = values.map(|bytes| f64::from(f32::from_le_bytes(bytes))).sum();
            let theirs = read[name][2].as_f64().expect("a sum");
            assert!(
                (sum - theirs).abs() < 1e-9 * (1.0 + view.data().len() as f64),
                "{name}: {sum}, {theirs}"
            );
        }
    }
}
