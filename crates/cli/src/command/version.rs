//! `waycairn --version`: of the program and of what it reads, loads and computes on.

use waycairn_analysis_host::API_VERSION;
use waycairn_durable::FormatVersion;

use crate::error::CliError;
use crate::output::{Destination, Shape, ShapeFormat};
use crate::value::Value;

/// The version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What this build computes on.
const DEVICES: [&str; 1] = ["cpu"];

pub(crate) fn run(format: ShapeFormat) -> Result<(), CliError> {
    let mut out = Destination::standard_output();
    out.one_line = format == ShapeFormat::Jsonl;
    match format.shape() {
        Shape::Table => out.text(&format!("waycairn {VERSION}\n"))?,
        Shape::Json => out.json(&json())?,
    }
    out.finish()
}

/// The stable shape: the program, the formats of what it records, the plugin interface, the devices.
fn json() -> Value {
    let formats = vec![("root".into(), Value::Text(FormatVersion::CURRENT.to_string()))];
    Value::Object(vec![
        ("version".into(), Value::from(VERSION)),
        ("formats".into(), Value::Object(formats)),
        ("api".into(), Value::Text(API_VERSION.to_string())),
        ("devices".into(), Value::list(DEVICES)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1_the_version() {
        let text = serde_json::to_string(&json()).unwrap();
        let expected = format!(
            r#"{{"version":"{VERSION}","formats":{{"root":"1.0"}},"api":"{API_VERSION}","devices":["cpu"]}}"#
        );
        assert_eq!(text, expected);
    }
}
