//! Writes safetensors files whose bytes are a function of the tensors.
//!
//! The safetensors crate writes its metadata out of a hash map, so equal tensors may give
//! different files; here tensors stand in the order of their alignment, then name, and there is no
//! metadata. Any safetensors reader opens them.

use std::io::{self, Write};

use serde::Serialize;

use crate::weights::{NamedTensor, dtype_name};

#[derive(Serialize)]
struct Entry<'a> {
    dtype: &'a str,
    shape: &'a [usize],
    data_offsets: [u64; 2],
}

/// Writes tensors; an unsupported number format is an error of kind `InvalidInput` that names the
/// tensor.
pub(crate) fn write_tensors(tensors: &[NamedTensor], into: &mut impl Write) -> io::Result<()> {
    let mut sorted: Vec<&NamedTensor> = tensors.iter().collect();
    sorted.sort_by(|left, right| {
        let size = |tensor: &NamedTensor| tensor.data.dtype().size();
        size(right).cmp(&size(left)).then_with(|| left.name.cmp(&right.name))
    });
    let mut header = Vec::with_capacity(sorted.len() * 128);
    header.push(b'{');
    let mut offset = 0_u64;
    for (index, tensor) in sorted.iter().enumerate() {
        let dtype = dtype_name(tensor.data.dtype())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, tensor.name.clone()))?;
        let end = offset + tensor.data.as_bytes().len() as u64;
        let entry = Entry { dtype, shape: tensor.data.shape().as_slice(), data_offsets: [offset, end] };
        if index > 0 {
            header.push(b',');
        }
        serde_json::to_writer(&mut header, &tensor.name)?;
        header.push(b':');
        serde_json::to_writer(&mut header, &entry)?;
        offset = end;
    }
    header.push(b'}');
    // The data begins at a multiple of eight bytes, so that a mapping can be used in place.
    header.resize(header.len().next_multiple_of(8), b' ');
    into.write_all(&(header.len() as u64).to_le_bytes())?;
    into.write_all(&header)?;
    for tensor in sorted {
        into.write_all(tensor.data.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::TensorData;
    use safetensors::SafeTensors;

    use super::*;

    #[test]
    fn the_reference_reader_opens_it_and_equal_tensors_give_equal_bytes() {
        let tensors = vec![
            NamedTensor { name: "b".to_owned(), data: TensorData::new(vec![1.0_f32, 2.0, 3.0], [3]) },
            NamedTensor { name: "a\"x".to_owned(), data: TensorData::new(vec![4.0_f64], [1, 1]) },
            NamedTensor { name: "empty".to_owned(), data: TensorData::new(Vec::<f32>::new(), [0, 2]) },
        ];
        let mut bytes = Vec::new();
        write_tensors(&tensors, &mut bytes).unwrap();
        let read = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!(read.tensor("a\"x").unwrap().data(), 4.0_f64.to_le_bytes());
        assert_eq!(read.tensor("b").unwrap().shape(), [3]);
        let mut again = Vec::new();
        let reversed: Vec<NamedTensor> = tensors.into_iter().rev().collect();
        write_tensors(&reversed, &mut again).unwrap();
        assert_eq!(bytes, again);
    }
}
