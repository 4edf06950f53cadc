//! The header of an `.npy` file, version 1.0: what NumPy writes for a plain array, and nothing else.

use crate::Dtype;

/// What every `.npy` file begins with, and the version.
const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

/// The magic, and the length of the text after it as two bytes.
const PREFIX_BYTES: usize = 10;

/// The data begins at a multiple of this.
const ALIGNMENT: usize = 64;

/// The header of a row-major array, padded to a multiple of 64 bytes.
pub(crate) fn header(dtype: Dtype, shape: &[usize]) -> Vec<u8> {
    let text = text(dtype, shape);
    let length = (PREFIX_BYTES + text.len() + 1).next_multiple_of(ALIGNMENT);
    padded(&text, length)
}

/// The same with a length of its own, at least that of [`header`].
pub(crate) fn header_of_length(dtype: Dtype, shape: &[usize], length: usize) -> Vec<u8> {
    padded(&text(dtype, shape), length)
}

fn text(dtype: Dtype, shape: &[usize]) -> String {
    let extents: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let shape = extents.join(", ");
    format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({shape}{comma}), }}", dtype.descr())
}

fn padded(text: &str, length: usize) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let rest = length.saturating_sub(PREFIX_BYTES);
    bytes.extend_from_slice(&u16::try_from(rest).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(length - 1, b' ');
    bytes.push(b'\n');
    bytes
}

/// Checks that the bytes of a file are an array of this type and shape; returns where its data begins.
pub(crate) fn check(bytes: &[u8], dtype: Dtype, shape: &[usize]) -> Result<usize, String> {
    let (header, offset) = parse(bytes)?;
    if header.fortran_order {
        return Err("it is in Fortran order, and only row-major arrays are read".to_owned());
    }
    if header.descr.starts_with('>') {
        return Err(format!("its type is `{}`, big-endian, and only little-endian is read", header.descr));
    }
    // For one byte there is no order of bytes.
    let single = |descr: &str| descr.strip_prefix(['<', '=']).map(|rest| format!("|{rest}"));
    let descr = if dtype.bytes() == 1 { single(&header.descr) } else { None };
    if descr.as_deref().unwrap_or(&header.descr) != dtype.descr() {
        return Err(format!("its type is `{}`, and `{}` is {dtype}", header.descr, dtype.descr()));
    }
    if header.shape != shape {
        return Err(format!("its shape is {:?} where the manifest says {shape:?}", header.shape));
    }
    let expected = dtype.bytes_of(shape).ok_or("it has more bytes than can be addressed")?;
    let found = (bytes.len() - offset) as u64;
    if found != expected {
        return Err(format!("it has {found} bytes of data where its shape needs {expected}"));
    }
    Ok(offset)
}

struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

fn parse(bytes: &[u8]) -> Result<(Header, usize), String> {
    let rest = bytes.strip_prefix(&MAGIC[..6]).ok_or("it does not begin as an .npy file does")?;
    let (length, begin) = match rest {
        [1, 0, low, high, ..] => (usize::from(u16::from_le_bytes([*low, *high])), PREFIX_BYTES),
        [2 | 3, 0, a, b, c, d, ..] => {
            (usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).unwrap_or(usize::MAX), PREFIX_BYTES + 2)
        }
        _ => return Err("its header is cut off, or of an unknown version".to_owned()),
    };
    let end = begin.checked_add(length).filter(|&end| end <= bytes.len());
    let end = end.ok_or("its header is cut off")?;
    let text = std::str::from_utf8(&bytes[begin..end]).map_err(|_| "its header is not text")?;
    let header = Reader { rest: text }.header().ok_or_else(|| {
        let line: String = text.trim_end().chars().take(80).collect();
        format!("its header is not that of a plain array: `{}`", line.escape_debug())
    })?;
    Ok((header, end))
}

/// Reads the Python dictionary of a header. Nothing else of Python is understood, and that is the point.
struct Reader<'text> {
    rest: &'text str,
}

impl Reader<'_> {
    fn header(mut self) -> Option<Header> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.take("{")?;
        while self.take("}").is_none() {
            let key = self.text()?;
            self.take(":")?;
            match key.as_str() {
                "descr" if descr.is_none() => descr = Some(self.text()?),
                "fortran_order" if fortran_order.is_none() => {
                    fortran_order = Some(self.take("True").is_some());
                    if fortran_order == Some(false) {
                        self.take("False")?;
                    }
                }
                "shape" if shape.is_none() => shape = Some(self.tuple()?),
                _ => return None,
            }
            if self.take(",").is_none() {
                self.take("}")?;
                break;
            }
        }
        let done = self.rest.trim().is_empty();
        done.then_some(Header { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }

    fn take(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(word)?;
        Some(())
    }

    fn text(&mut self) -> Option<String> {
        let rest = self.rest.trim_start();
        let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        let (text, rest) = rest[1..].split_once(quote)?;
        self.rest = rest;
        Some(text.to_owned())
    }

    fn tuple(&mut self) -> Option<Vec<usize>> {
        let mut extents = Vec::new();
        self.take("(")?;
        while self.take(")").is_none() {
            let rest = self.rest.trim_start();
            let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            extents.push(rest[..digits].parse().ok()?);
            // NumPy of the time of Python 2 wrote `3L`.
            self.rest = rest[digits..].trim_start_matches('L');
            if self.take(",").is_none() {
                self.take(")")?;
                break;
            }
        }
        Some(extents)
    }
}

#[cfg(test)]
mod tests {
    use npyz::{DType, NpyFile, WriterBuilder as _};

    use super::*;

    const ALL: [Dtype; 9] = [
        Dtype::F32,
        Dtype::F64,
        Dtype::I32,
        Dtype::I64,
        Dtype::U8,
        Dtype::U32,
        Dtype::U64,
        Dtype::Bool,
        Dtype::Bf16,
    ];

    fn file(dtype: Dtype, shape: &[usize]) -> Vec<u8> {
        let mut bytes = header(dtype, shape);
        let data = usize::try_from(dtype.bytes_of(shape).unwrap()).unwrap();
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    #[test]
    fn headers_are_read_by_another_reader() {
        for dtype in ALL {
            for shape in [&[][..], &[0], &[3], &[2, 3], &[2, 0, 4], &[1, 1, 1, 1, 1, 1, 1, 1]] {
                let bytes = file(dtype, shape);
                assert_eq!(check(&bytes, dtype, shape).unwrap() % 64, 0);
                let npy = NpyFile::new(&bytes[..]).unwrap();
                let expected: Vec<u64> = shape.iter().map(|&extent| extent as u64).collect();
                assert_eq!(npy.shape(), expected);
                assert!(matches!(npy.dtype(), DType::Plain(name) if name.to_string() == dtype.descr()));
                assert_eq!(npy.order(), npyz::Order::C);
            }
        }
        let long = header_of_length(Dtype::F32, &[1, 2], 192);
        assert_eq!((long.len(), long[191]), (192, b'\n'));
    }

    #[test]
    fn files_of_another_writer_are_read() {
        let mut bytes = Vec::new();
        let mut writer =
            npyz::WriteOptions::new().default_dtype().shape(&[2, 3]).writer(&mut bytes).begin_nd().unwrap();
        writer.extend((0..6).map(f64::from)).unwrap();
        writer.finish().unwrap();
        let offset = check(&bytes, Dtype::F64, &[2, 3]).unwrap();
        assert_eq!(bytes.len(), offset + 48);
    }

    fn refused(text: &str, dtype: Dtype, shape: &[usize]) -> String {
        let mut bytes = padded(text, 128);
        bytes.resize(128 + 24, 0);
        check(&bytes, dtype, shape).unwrap_err()
    }

    #[test]
    fn what_is_no_plain_array_is_refused_with_the_reason() {
        let header = |descr: &str, fortran: &str, shape: &str| {
            format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}")
        };
        let f32 = |text: &str| refused(text, Dtype::F32, &[2, 3]);
        assert!(f32(&header("'<f4'", "True", "(2, 3)")).contains("Fortran order"));
        assert!(f32(&header("'>f4'", "False", "(2, 3)")).contains("big-endian"));
        assert!(f32(&header("'<f8'", "False", "(2, 3)")).contains("`<f8`, and `<f4` is f32"));
        assert!(f32(&header("'|O'", "False", "(2, 3)")).contains("`|O`"));
        assert!(f32(&header("'<f4'", "False", "(3, 2)")).contains("[3, 2] where the manifest says [2, 3]"));
        assert!(refused(&header("'<f4'", "False", "(7,)"), Dtype::F32, &[7]).contains("24 bytes of data"));
        let odd = [
            header("[('a', '<f4')]", "False", "(2, 3)"),
            header("'<f4'", "0", "(2, 3)"),
            header("'<f4'", "False", "(-1,)"),
            header("'<f4'", "False", "(99999999999999999999999,)"),
            "{'descr': '<f4', 'shape': (2, 3)}".to_owned(),
            "__import__('os')".to_owned(),
            String::new(),
            "{'descr': '<f4".to_owned(),
        ];
        for text in odd {
            assert!(f32(&text).contains("not that of a plain array"), "{text}");
        }
        assert!(check(b"PK\x03\x04", Dtype::F32, &[]).unwrap_err().contains("does not begin"));
        let whole = file(Dtype::F32, &[2, 3]);
        for length in 0..whole.len() {
            assert!(check(&whole[..length], Dtype::F32, &[2, 3]).is_err(), "{length}");
        }
    }

    #[test]
    fn sizes_that_overflow_are_none() {
        for shape in [&[usize::MAX, 2][..], &[1 << 32, 1 << 32], &[0, usize::MAX, usize::MAX], &[1 << 62, 1]]
        {
            assert_eq!(Dtype::F64.bytes_of(shape), None, "{shape:?}");
        }
        assert_eq!(Dtype::F64.bytes_of(&[]), Some(8));
        assert_eq!(Dtype::Bf16.bytes_of(&[3, 0]), Some(0));
    }

    proptest::proptest! {
        #[test]
        fn no_header_ends_the_process(bytes: Vec<u8>, text in "[{}'a-z(),: 0-9]{0,60}") {
            let mut file = MAGIC.to_vec();
            file.extend_from_slice(&bytes);
            let _ = check(&file, Dtype::F32, &[1]);
            let _ = check(&padded(&text, 128), Dtype::F32, &[1]);
        }
    }
}
