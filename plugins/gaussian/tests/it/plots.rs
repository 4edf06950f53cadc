//! Every plot over the products of a study, with the settings that it declares and no others.

use std::sync::LazyLock;

use serde_json::{Value, json};
use waycairn_analysis_host::{DType, Kind};

use crate::kit::{Array, Built, Stored, Study, analysis, library};

/// Two means; small figures.
fn study() -> Study {
    Study::smoke(2, &["mean:*"], "normal")
        .set("analysis.plotting.dpi", json!(70))
        .set("analysis.plotting.bins", json!(20))
        .set("analysis.plotting.prior_points", json!(500))
        .set("analysis.plotting.max_inference_cases", json!(4))
}

/// All products of it, and what a trainer says of the model.
static BUILT: LazyLock<Built> = LazyLock::new(|| {
    let mut built = study().build_all();
    let history = json!({
        "train_loss": [0.6, 0.55], "validation": [
            {"bce": 0.61, "accuracy": 0.6, "auc": 0.7}, {"bce": 0.56, "accuracy": 0.7, "auc": 0.75},
        ],
        "rows_per_epoch": 10, "global_batch_size": 2, "world_size": 1, "selected_epoch": 2,
    });
    let json = [("history".to_owned(), history.to_string())].into();
    built.0.insert("model".to_owned(), Stored { json, ..Stored::default() });
    built
});

/// The figures of a plot, which are each a PNG and an SVG.
fn figures(name: &str) -> Vec<String> {
    let declared = analysis(Kind::Plot, name).declaration();
    assert_eq!(declared.needs.products.is_empty(), name == "prior");
    assert!(declared.sources.len() >= 9 && declared.settings == json!({}), "{declared:?}");
    let (outputs, asked) = study().run(Kind::Plot, name, &BUILT).unwrap();
    let mut products: Vec<&String> = declared.needs.products.iter().collect();
    products.sort_unstable();
    assert_eq!(asked.iter().collect::<Vec<_>>(), products, "{name} needs what it uses");
    let mut found = Vec::new();
    for pair in outputs.files.chunks(2) {
        let [(png, png_type, png_bytes), (svg, svg_type, svg_bytes)] = pair else { panic!("{}", pair.len()) };
        assert_eq!((png_type.as_str(), svg_type.as_str()), ("image/png", "image/svg+xml"));
        assert!(png_bytes.starts_with(b"\x89PNG") && svg_bytes.starts_with(b"<svg"), "{png}");
        let figure = png.strip_suffix(".png").unwrap();
        assert_eq!(svg.strip_suffix(".svg").unwrap(), figure);
        found.push(figure.to_owned());
    }
    found
}

#[test]
fn every_plot_draws_its_figures_of_what_it_declares() {
    assert!(library().refused().is_empty(), "{:?}", library().refused());
    assert_eq!(figures("training"), ["loss"]);
    assert_eq!(figures("prior"), ["mean-0", "mean-1"]);
    let inference = [
        "estimates-mean-0",
        "estimates-mean-1",
        "marginal-0-mean-0",
        "marginal-0-mean-1",
        "projection-0-0-1",
        "marginal-48-mean-0",
        "marginal-48-mean-1",
        "projection-48-0-1",
    ];
    assert_eq!(figures("inference"), inference);
    // Of all that are retained, no more than were asked for.
    let none = study().set("analysis.inference.diagnostic_cases", json!(0));
    let (outputs, _) = none.run(Kind::Plot, "inference", &BUILT).unwrap();
    assert_eq!(outputs.files.len(), 4, "the estimates of two parameters");
    assert_eq!(figures("pairwise"), ["median", "worst"]);
    assert_eq!(figures("reweighting"), ["axis-0", "axis-1"]);
    assert_eq!(figures("showcase"), ["axis-0", "axis-1"]);
    assert_eq!(figures("observation_histogram"), ["first-ensemble"]);
    assert_eq!(figures("simulation_based_calibration"), ["ecdf-mean-0", "ecdf-mean-1"]);
    assert_eq!(figures("tarp"), ["coverage"]);
}

#[test]
fn a_plot_declares_the_settings_that_it_reads_and_no_section() {
    let dpi = "analysis.plotting.dpi";
    let bins = "analysis.plotting.bins";
    let of = |name: &str| &analysis(Kind::Plot, name).declaration().needs.study;
    assert_eq!(*of("training"), [dpi]);
    assert_eq!(
        *of("inference"),
        [dpi, bins, "analysis.plotting.max_inference_cases", "analysis.inference.diagnostic_cases"]
    );
    assert_eq!(*of("reweighting"), [dpi, bins]);
    assert_eq!(*of("showcase"), [dpi, "analysis.showcase.bins"]);
    assert_eq!(*of("tarp"), ["analysis.calibration.band_probability", dpi]);
}

#[test]
fn a_product_that_is_not_as_it_should_be_is_an_error_with_its_name() {
    let refused = |name: &str, product: &str, change: &dyn Fn(&mut Stored)| {
        let mut built = BUILT.clone();
        change(built.0.get_mut(product).unwrap());
        study().run(Kind::Plot, name, &built).err().unwrap()
    };
    let error = refused("inference", "inference", &|product| {
        product.metadata.insert("targets".to_owned(), json!(["exact"]));
    });
    assert!(error.contains("add `ratio` to `inference.targets`"), "{error}");
    let error = refused("inference", "inference", &|product| {
        product.arrays.insert("retained_cases".to_owned(), Array::of(DType::I64, &[0_i64, 49]));
    });
    assert!(error.contains("names case 49, of which there is no truth"), "{error}");
    let error = refused("inference", "inference", &|product| {
        product.metadata.insert("levels".to_owned(), json!("many"));
    });
    assert!(error.contains("`levels` is \"many\""), "{error}");
    let error = refused("showcase", "showcase_observations", &|product| {
        product.arrays.insert("source".to_owned(), Array::of(DType::F32, &[0_f32; 4]));
    });
    assert!(error.contains("array `source` has the shape [4], not one of 2 axes"), "{error}");
}

#[test]
fn settings_that_are_not_there_or_no_numbers_are_told_by_a_plot() {
    let of = |study: Study| study.run(Kind::Plot, "training", &BUILT).err().unwrap();
    let error = of(Study { analysis: Value::Null, ..study() });
    assert!(error.contains("`analysis.plotting.dpi` is not among the settings"), "{error}");
    let error = of(study().set("analysis.plotting.dpi", json!(-1)));
    assert!(error.contains("`analysis.plotting.dpi` is -1"), "{error}");
}
