//! One call of the model or of a named function of its experiment: the inputs are checked, and the rows go through the
//! model in blocks.

use waycairn_analysis_host::{DType, HostError, OwnedTensor, TensorView};

use crate::error::chain;
use crate::function::{Answer, Axis, Elements, Given, Port, Ports, Signature, Values};
use crate::memory;
use crate::settings::Settings;

/// What the axes of one model are.
pub(crate) struct Extents<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) vocabulary: usize,
    /// The extent of a named axis.
    pub(crate) named: &'a dyn Fn(&str) -> Option<usize>,
}

/// The inputs of one call, checked.
#[derive(Debug)]
pub(crate) struct Call<'s> {
    signature: &'s Signature,
    rows: usize,
    inputs: Vec<Input>,
    /// The shape of each output.
    outputs: Vec<Vec<usize>>,
}

#[derive(Debug)]
struct Input {
    name: &'static str,
    shape: Vec<usize>,
    elements: Owned,
}

#[derive(Debug)]
enum Owned {
    Tokens(Vec<i32>),
    Floats(Vec<f32>),
}

impl<'s> Call<'s> {
    /// Checks names, element types, shapes and token numbers, and that the outputs fit into memory.
    pub(crate) fn new(
        signature: &'s Signature,
        inputs: &[OwnedTensor],
        extents: &Extents<'_>,
    ) -> Result<Self, HostError> {
        let name = signature.name;
        let declared = signature.inputs.iter().map(|port| port.name);
        let given = inputs.iter().map(OwnedTensor::name);
        if !same_names(declared, given.clone()) {
            let given: Vec<&str> = given.collect();
            return Err(HostError::invalid(format!(
                "`{name}` takes {}, and was given {}",
                Ports(&signature.inputs),
                if given.is_empty() { "nothing".to_owned() } else { format!("`{}`", given.join("`, `")) }
            )));
        }
        let mut sizes = Sizes { extents, rows: None, time: None };
        let mut checked = Vec::with_capacity(inputs.len());
        for port in &signature.inputs {
            for input in inputs.iter().filter(|input| input.name() == port.name) {
                let view = input.view();
                let wrong = |what: String| {
                    HostError::invalid(format!("`{}` of `{name}` {what}; it takes {port}", port.name))
                };
                sizes.bind(port, view.shape()).map_err(wrong)?;
                let elements = read(port.values, &view, extents.vocabulary).map_err(wrong)?;
                checked.push(Input { name: port.name, shape: view.shape().to_vec(), elements });
            }
        }
        let outputs: Vec<Vec<usize>> =
            signature.outputs.iter().map(|port| sizes.shape(port)).collect::<Result<_, _>>()?;
        let values = |shape: &Vec<usize>| shape.iter().map(|extent| *extent as f64).product::<f64>();
        memory::check_outputs(name, outputs.iter().map(values).sum())
            .map_err(|error| HostError::unavailable(chain(&error)))?;
        Ok(Self { signature, rows: sizes.rows.unwrap_or_default(), inputs: checked, outputs })
    }

    /// Runs it, `rows` rows at a time: a function of the model alone, since the last bits of a result may depend on it.
    pub(crate) fn run(
        &self,
        rows: usize,
        mut compute: impl FnMut(&[Given<'_>]) -> Option<Vec<Answer>>,
    ) -> Result<Vec<OwnedTensor>, HostError> {
        let mut results: Vec<Vec<f32>> = vec![Vec::new(); self.outputs.len()];
        let mut from = 0;
        while from < self.rows {
            let to = from.saturating_add(rows).min(self.rows);
            let given: Vec<Given<'_>> = self.inputs.iter().map(|input| input.rows(from, to)).collect();
            let answers =
                compute(&given).ok_or_else(|| self.broken("asks for an input that it does not declare"))?;
            if answers.len() != results.len() {
                return Err(self.broken("gives another number of outputs than it declares"));
            }
            for ((answer, result), shape) in answers.iter().zip(&mut results).zip(&self.outputs) {
                if answer.shape.first() != Some(&(to - from)) || answer.shape.get(1..) != shape.get(1..) {
                    return Err(self.broken(&format!("gives an output of shape {:?}", answer.shape)));
                }
                result.extend(answer.values());
            }
            from = to;
        }
        let outputs = self.signature.outputs.iter().zip(&self.outputs).zip(results);
        outputs
            .map(|((port, shape), values)| OwnedTensor::from_f32(port.name, shape.clone(), &values))
            .collect()
    }

    fn broken(&self, what: &str) -> HostError {
        HostError::failed(format!("the experiment's `{}` {what}: {}", self.signature.name, self.signature))
    }
}

impl Input {
    /// Some of the rows.
    fn rows(&self, from: usize, to: usize) -> Given<'_> {
        let row: usize = self.shape.iter().skip(1).product();
        let range = from * row..to * row;
        let mut shape = self.shape.clone();
        if let Some(rows) = shape.first_mut() {
            *rows = to - from;
        }
        let elements = match &self.elements {
            Owned::Tokens(values) => Elements::Tokens(&values[range]),
            Owned::Floats(values) => Elements::Floats(&values[range]),
        };
        Given { name: self.name, shape, elements }
    }
}

/// The extents that the inputs of one call have in common.
struct Sizes<'a> {
    extents: &'a Extents<'a>,
    rows: Option<usize>,
    time: Option<usize>,
}

impl Sizes<'_> {
    /// Checks the shape of an input; the error is what is wrong with it.
    fn bind(&mut self, port: &Port, shape: &[usize]) -> Result<(), String> {
        let has = format!("has the shape {shape:?}");
        if shape.len() != port.axes.len() {
            return Err(has);
        }
        for (axis, extent) in port.axes.iter().zip(shape) {
            let wrong = match axis {
                Axis::Rows => differs(&mut self.rows, *extent, usize::MAX, "rows"),
                Axis::Time => {
                    let longest = self.setting("data.context").map_err(|error| error.to_string())?;
                    differs(&mut self.time, *extent, longest, "tokens a row")
                }
                Axis::Vocabulary | Axis::Setting(_) | Axis::Named(_) => {
                    let expected = self.fixed(axis).map_err(|error| error.to_string())?;
                    (expected != *extent).then(|| format!("{axis} is {expected}"))
                }
            };
            if let Some(wrong) = wrong {
                return Err(format!("{has}, and {wrong}"));
            }
        }
        Ok(())
    }

    fn shape(&self, port: &Port) -> Result<Vec<usize>, HostError> {
        let extent = |axis: &Axis| match axis {
            Axis::Rows => Ok(self.rows.unwrap_or_default()),
            Axis::Time => Ok(self.time.unwrap_or_default()),
            Axis::Vocabulary | Axis::Setting(_) | Axis::Named(_) => self.fixed(axis),
        };
        port.axes.iter().map(extent).collect()
    }

    fn fixed(&self, axis: &Axis) -> Result<usize, HostError> {
        match axis {
            Axis::Setting(path) => self.setting(path),
            Axis::Named(name) => (self.extents.named)(name)
                .ok_or_else(|| HostError::failed(format!("the experiment has no extent `{name}`"))),
            _ => Ok(self.extents.vocabulary),
        }
    }

    fn setting(&self, path: &str) -> Result<usize, HostError> {
        self.extents.settings.size(path).map_err(|error| HostError::failed(error.to_string()))
    }
}

/// What is wrong with an extent of an axis that all inputs share.
fn differs(bound: &mut Option<usize>, extent: usize, longest: usize, what: &str) -> Option<String> {
    if extent == 0 || extent > longest {
        let most = if longest == usize::MAX { "or more".to_owned() } else { format!("to {longest}") };
        return Some(format!("the model takes 1 {most} {what}"));
    }
    let before = *bound.get_or_insert(extent);
    (before != extent).then(|| format!("another input has {before} {what}"))
}

/// Reads the elements of an input; the error is what is wrong with them.
fn read(values: Values, view: &TensorView<'_>, vocabulary: usize) -> Result<Owned, String> {
    let wrong = || format!("is of type {}", view.dtype_name());
    let numbers = view.iter_f64().map_err(|_| wrong())?;
    match values {
        Values::Floats if view.dtype() == DType::F32 => Ok(Owned::Floats(match view.as_f32() {
            Some(floats) => floats.to_vec(),
            // Bytes of a caller may lie anywhere.
            None => numbers.map(|value| value as f32).collect(),
        })),
        Values::Tokens if !view.dtype().is_float() && view.dtype() != DType::Bool => {
            match numbers.clone().find(|value| *value < 0.0 || *value >= vocabulary as f64) {
                Some(value) => Err(format!("holds {value}, and tokens are 0 to {}", vocabulary - 1)),
                None => Ok(Owned::Tokens(numbers.map(|value| value as i32).collect())),
            }
        }
        Values::Floats | Values::Tokens => Err(wrong()),
    }
}

fn same_names<'a>(declared: impl Iterator<Item = &'a str>, given: impl Iterator<Item = &'a str>) -> bool {
    let (mut declared, mut given): (Vec<&str>, Vec<&str>) = (declared.collect(), given.collect());
    declared.sort_unstable();
    given.sort_unstable();
    declared == given
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::function::Function;
    use crate::settings::Schema;
    use crate::{Experiment, Gpt};

    const CELLS: &[Axis] = &[Axis::Rows, Axis::Time];
    const WIDE: &[Axis] = &[Axis::Rows, Axis::Time, Axis::Setting("model.width")];

    fn signature() -> Signature {
        let function = Function::new("mix", "a test", |(), _| None)
            .takes_tokens("tokens", CELLS)
            .takes_floats("hidden", WIDE)
            .gives("sum", CELLS);
        function.signature().clone()
    }

    fn settings() -> Settings {
        let mut settings = Settings::defaults(Schema::new(Gpt.keys()));
        settings.set("model.width", "2").unwrap();
        settings.set("data.context", "3").unwrap();
        settings
    }

    fn tokens(shape: &[usize]) -> OwnedTensor {
        let count: usize = shape.iter().product();
        OwnedTensor::from_i64("tokens", shape.to_vec(), &vec![1; count]).unwrap()
    }

    fn hidden(shape: &[usize]) -> OwnedTensor {
        let values: Vec<f32> = (0..shape.iter().product()).map(|index: usize| index as f32).collect();
        OwnedTensor::from_f32("hidden", shape.to_vec(), &values).unwrap()
    }

    fn refused(inputs: &[OwnedTensor]) -> String {
        let (signature, settings) = (signature(), settings());
        let extents = Extents { settings: &settings, vocabulary: 5, named: &|_| None };
        let error = Call::new(&signature, inputs, &extents).unwrap_err();
        assert_eq!(error.kind(), waycairn_analysis_host::ErrorKind::Invalid);
        error.message().to_owned()
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_is_expected() {
        let (tokens_3, hidden_3) = (tokens(&[4, 3]), hidden(&[4, 3, 2]));
        let takes =
            "`mix` takes tokens: tokens [rows, time], hidden: float32 [rows, time, width], and was given";
        assert_eq!(refused(&[]), format!("{takes} nothing"));
        assert_eq!(refused(std::slice::from_ref(&tokens_3)), format!("{takes} `tokens`"));
        let twice = [tokens_3.clone(), hidden_3.clone(), hidden_3.clone()];
        assert_eq!(refused(&twice), format!("{takes} `tokens`, `hidden`, `hidden`"));

        let of_hidden = |hidden: OwnedTensor| refused(&[tokens_3.clone(), hidden]);
        let expected = "; it takes hidden: float32 [rows, time, width]";
        for (shape, wrong) in [
            (&[4, 3][..], ""),
            (&[4, 3, 7], ", and width is 2"),
            (&[5, 3, 2], ", and another input has 4 rows"),
            (&[4, 2, 2], ", and another input has 3 tokens a row"),
        ] {
            let text = format!("`hidden` of `mix` has the shape {shape:?}{wrong}{expected}");
            assert_eq!(of_hidden(hidden(shape)), text);
        }
        let double = OwnedTensor::new("hidden", DType::F64, vec![4, 3, 2], vec![0; 192]).unwrap();
        assert_eq!(of_hidden(double), format!("`hidden` of `mix` is of type float64{expected}"));

        let of_tokens = |tokens: OwnedTensor| refused(&[tokens, hidden_3.clone()]);
        for (shape, wrong) in [
            (&[0, 3][..], "the model takes 1 or more rows"),
            (&[4, 4], "the model takes 1 to 3 tokens a row"),
            (&[4, 0], "the model takes 1 to 3 tokens a row"),
        ] {
            assert!(of_tokens(tokens(shape)).contains(wrong), "{shape:?}");
        }
        for wrong in [-1, 5] {
            let tokens = OwnedTensor::from_i64("tokens", vec![1, 1], &[wrong]).unwrap();
            assert!(
                of_tokens(tokens).contains(&format!("holds {wrong}, and tokens are 0 to 4; it takes tokens"))
            );
        }
        for dtype in [DType::F32, DType::Bool] {
            let bytes = vec![0; dtype.size().unwrap()];
            let tokens = OwnedTensor::new("tokens", dtype, vec![1, 1], bytes).unwrap();
            assert!(of_tokens(tokens).contains(&format!("is of type {dtype}")));
        }
    }

    #[test]
    fn rows_are_computed_in_blocks_and_put_together() {
        let (signature, settings) = (signature(), settings());
        let extents = Extents { settings: &settings, vocabulary: 5, named: &|_| None };
        let inputs = [hidden(&[5, 3, 2]), tokens(&[5, 3])];
        let call = Call::new(&signature, &inputs, &extents).unwrap();
        let device = burn::tensor::Device::flex();
        for (rows, blocks) in [(2, &[2, 2, 1][..]), (5, &[5]), (usize::MAX, &[5]), (1, &[1; 5])] {
            let mut seen = Vec::new();
            let outputs = call.run(rows, |given| {
                let inputs = crate::function::Inputs::new(&device, given);
                let hidden = inputs.floats::<3>("hidden")?;
                let [rows, time, _] = hidden.dims();
                seen.push(rows);
                assert_eq!(inputs.tokens::<2>("tokens")?.dims(), [rows, time]);
                assert!(inputs.floats::<2>("hidden").is_none() && inputs.floats::<2>("tokens").is_none());
                Some(vec![Answer::new(hidden.sum_dim(2).reshape([rows, time]))])
            });
            let [sum] = &outputs.unwrap()[..] else { panic!("one output") };
            let expected: Vec<f32> = (0..15).map(|cell| (4 * cell + 1) as f32).collect();
            assert_eq!((sum.name(), sum.view().shape()), ("sum", &[5, 3][..]));
            assert_eq!(sum.view().as_f32().unwrap(), expected);
            assert_eq!(seen, blocks);
        }
        let none = call.run(2, |_| Some(Vec::new())).unwrap_err();
        assert!(none.message().contains("another number of outputs than it declares: mix(tokens"), "{none}");
        let tensor = || burn::tensor::Tensor::<2>::zeros([2, 2], &device);
        let wide = call.run(2, |_| Some(vec![Answer::new(tensor())])).unwrap_err();
        assert!(wide.message().contains("gives an output of shape [2, 2]"), "{wide}");
        assert!(call.run(2, |_| None).unwrap_err().message().contains("input that it does not declare"));
    }
}
