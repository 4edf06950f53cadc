//! The slot arrays of the fold: one cell for each node of a block, filled column by column.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringArray, StringBuilder,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{Float64Type, Int64Type};

use crate::field::Scalar;
use crate::listing::Types;
use crate::query::bits::{Bits, mask};
use crate::schema::ValueType;

/// What each type is in a cell: truth values as 0 and 1, numbers as their bits, text as its place among the
/// texts of the column.
fn tag(value_type: ValueType) -> u8 {
    value_type as u8
}

/// One column of a folded block: for each slot the winning value, with its own type.
#[derive(Debug)]
pub(crate) struct FoldedColumn {
    len: usize,
    types: Types,
    /// Empty when no slot has a value.
    cells: ScalarBuffer<u64>,
    valid: Bits,
    /// The type of each cell, where the column may hold several.
    tags: Vec<u8>,
    texts: Option<StringArray>,
}

/// A winning value, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'a str),
}

impl Value<'_> {
    pub(crate) fn to_scalar(self) -> Scalar {
        match self {
            Value::Bool(value) => Scalar::Bool(value),
            Value::Int(value) => Scalar::Int(value),
            Value::Float(value) => Scalar::Float(value),
            Value::Text(value) => Scalar::Text(value.to_owned()),
        }
    }
}

impl FoldedColumn {
    pub(crate) fn absent(len: usize, types: Types) -> FoldedColumn {
        FoldedColumn {
            len,
            types,
            cells: ScalarBuffer::default(),
            valid: Bits::default(),
            tags: Vec::new(),
            texts: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether no slot has a value.
    pub(crate) fn is_absent(&self) -> bool {
        self.cells.is_empty()
    }

    /// The one type of all values, if the parts hold only one.
    pub(crate) fn single_type(&self) -> Option<ValueType> {
        self.types.single()
    }

    /// Which slots have a value.
    pub(crate) fn present(&self) -> Bits {
        if self.is_absent() { Bits::new(self.len) } else { self.valid.clone() }
    }

    /// The cells of a column that holds floats only.
    pub(crate) fn floats(&self) -> Option<impl Fn(usize) -> f64> {
        (self.single_type() == Some(ValueType::Float) && !self.is_absent())
            .then_some(|slot: usize| f64::from_bits(self.cells[slot]))
    }

    pub(crate) fn get(&self, slot: usize) -> Option<Value<'_>> {
        if !self.valid.get(slot) {
            return None;
        }
        let cell = self.cells[slot];
        let tag = self.tags.get(slot).copied().or_else(|| self.types.single().map(tag))?;
        Some(match tag {
            BOOL => Value::Bool(cell != 0),
            INT => Value::Int(cell.cast_signed()),
            FLOAT => Value::Float(f64::from_bits(cell)),
            _ => Value::Text(self.texts.as_ref()?.value(usize::try_from(cell).ok()?)),
        })
    }

    /// The array that shows the numbers as `shown`: bool or int64 where all are, else float64. `inexact` hears of
    /// the kept integers that no float equals.
    pub(crate) fn numbers(&self, shown: ValueType, keep: &Bits, mut inexact: impl FnMut(i64)) -> ArrayRef {
        if self.is_absent() {
            return arrow::array::new_null_array(&shown.arrow(), self.len);
        }
        if self.types.single() == Some(shown) {
            return match shown {
                ValueType::Bool => {
                    let values = Bits::from_fn(self.len, |slot| self.cells[slot] != 0).into_buffer();
                    std::sync::Arc::new(BooleanArray::new(values, Some(self.nulls())))
                }
                ValueType::Int => {
                    let values = ScalarBuffer::new(self.cells.inner().clone(), 0, self.len);
                    std::sync::Arc::new(Int64Array::new(values, Some(self.nulls())))
                }
                _ => {
                    let values = ScalarBuffer::new(self.cells.inner().clone(), 0, self.len);
                    std::sync::Arc::new(Float64Array::new(values, Some(self.nulls())))
                }
            };
        }
        let number = |slot: usize| match self.get(slot)? {
            Value::Text(_) => None,
            value => Some(value),
        };
        match shown {
            ValueType::Bool => {
                let values = (0..self.len).map(|slot| match number(slot) {
                    Some(Value::Bool(value)) => Some(value),
                    _ => None,
                });
                std::sync::Arc::new(values.collect::<BooleanArray>())
            }
            ValueType::Int => {
                let values = (0..self.len).map(|slot| match number(slot) {
                    Some(Value::Int(value)) => Some(value),
                    Some(Value::Bool(value)) => Some(i64::from(value)),
                    _ => None,
                });
                std::sync::Arc::new(values.collect::<Int64Array>())
            }
            _ => {
                let values = (0..self.len).map(|slot| match number(slot)? {
                    Value::Bool(value) => Some(f64::from(u8::from(value))),
                    Value::Float(value) => Some(value),
                    Value::Int(value) => {
                        if keep.get(slot) && crate::field::int_as_float(value).is_none() {
                            inexact(value);
                        }
                        #[expect(clippy::cast_precision_loss, reason = "the reader of the answer is told")]
                        Some(value as f64)
                    }
                    Value::Text(_) => None,
                });
                std::sync::Arc::new(values.collect::<Float64Array>())
            }
        }
    }

    /// The array that shows the texts.
    pub(crate) fn texts(&self) -> ArrayRef {
        if self.texts.is_none() {
            return arrow::array::new_null_array(&ValueType::Text.arrow(), self.len);
        }
        let mut builder = StringBuilder::new();
        for slot in 0..self.len {
            match self.get(slot) {
                Some(Value::Text(text)) => builder.append_value(text),
                _ => builder.append_null(),
            }
        }
        std::sync::Arc::new(builder.finish())
    }

    fn nulls(&self) -> NullBuffer {
        NullBuffer::new(self.valid.clone().into_buffer())
    }
}

const BOOL: u8 = ValueType::Bool as u8;
const INT: u8 = ValueType::Int as u8;
const FLOAT: u8 = ValueType::Float as u8;
const TEXT: u8 = ValueType::Text as u8;

/// Fills the cells of one column. What is set stays: the caller offers rows of one node with the best first.
#[derive(Debug)]
pub(crate) struct Filler<'a> {
    len: usize,
    types: Types,
    cells: Vec<u64>,
    valid: Bits,
    tags: Vec<u8>,
    /// The arrays that text cells point into until [`Filler::finish`].
    text_arrays: Vec<&'a StringArray>,
}

impl<'a> Filler<'a> {
    /// Begins a column of `len` slots over parts that hold these types.
    pub(crate) fn new(len: usize, types: Types) -> Filler<'a> {
        let tags = if types.single().is_some() { Vec::new() } else { vec![0; len] };
        Filler { len, types, cells: vec![0; len], valid: Bits::new(len), tags, text_arrays: Vec::new() }
    }

    /// Makes an array known; what is filled next comes from it.
    pub(crate) fn source(&mut self, array: &'a ArrayRef) -> Source<'a> {
        if let Some(array) = array.as_primitive_opt::<Float64Type>() {
            Source { values: Values::Float(array.values()), nulls: array.nulls() }
        } else if let Some(array) = array.as_primitive_opt::<Int64Type>() {
            Source { values: Values::Int(array.values()), nulls: array.nulls() }
        } else if let Some(array) = array.as_boolean_opt() {
            Source { values: Values::Bool(array.values()), nulls: array.nulls() }
        } else if let Some(array) = array.as_string_opt::<i32>() {
            self.text_arrays.push(array);
            let index = self.text_arrays.len() as u64 - 1;
            Source { values: Values::Text(index << 32), nulls: array.nulls() }
        } else {
            Source { values: Values::None, nulls: None }
        }
    }

    /// Offers the rows from `row` on to as many slots from `slot` on.
    pub(crate) fn fill_range(&mut self, source: &Source<'a>, row: usize, slot: usize, count: usize) {
        match source.values {
            Values::Float(values) => {
                self.fill_words(FLOAT, source.nulls, row, slot, count, &values[row..row + count], |v| {
                    v.to_bits()
                })
            }
            Values::Int(values) => {
                self.fill_words(
                    INT,
                    source.nulls,
                    row,
                    slot,
                    count,
                    &values[row..row + count],
                    i64::cast_unsigned,
                );
            }
            Values::Bool(_) | Values::Text(_) => {
                for offset in 0..count {
                    self.fill_one(source, row + offset, slot + offset);
                }
            }
            Values::None => {}
        }
    }

    /// Offers one row to one slot.
    #[inline]
    pub(crate) fn fill_one(&mut self, source: &Source<'a>, row: usize, slot: usize) {
        if self.valid.get(slot) || source.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return;
        }
        let (tag, cell) = match source.values {
            Values::Float(values) => (FLOAT, values[row].to_bits()),
            Values::Int(values) => (INT, values[row].cast_unsigned()),
            Values::Bool(values) => (BOOL, u64::from(values.value(row))),
            Values::Text(base) => (TEXT, base | row as u64),
            Values::None => return,
        };
        self.valid.set(slot);
        self.cells[slot] = cell;
        if let Some(place) = self.tags.get_mut(slot) {
            *place = tag;
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the inner loop of the fold, called from one place")]
    #[inline]
    fn fill_words<T: Copy>(
        &mut self,
        tag: u8,
        nulls: Option<&NullBuffer>,
        row: usize,
        slot: usize,
        count: usize,
        values: &[T],
        cell: impl Fn(T) -> u64,
    ) {
        let tagged = !self.tags.is_empty();
        let mut words = nulls
            .map(|nulls| nulls.inner().slice(row, count))
            .map(|bits| bits.bit_chunks().iter_padded().collect::<Vec<u64>>().into_iter());
        let mut start = 0;
        while start < count {
            let width = (count - start).min(64);
            let offered = words.as_mut().map_or(u64::MAX, |words| words.next().unwrap_or(0)) & mask(width);
            let taken = offered & !self.valid.word(slot + start);
            let cells = &mut self.cells[slot + start..slot + start + width];
            let values = &values[start..start + width];
            if taken == mask(width) {
                for (to, from) in cells.iter_mut().zip(values) {
                    *to = cell(*from);
                }
            } else if taken.count_ones() > 16 {
                for (place, (to, from)) in cells.iter_mut().zip(values).enumerate() {
                    let keep = (taken >> place & 1).wrapping_sub(1);
                    *to = (*to & keep) | (cell(*from) & !keep);
                }
            } else {
                let mut rest = taken;
                while rest != 0 {
                    let place = rest.trailing_zeros() as usize;
                    cells[place] = cell(values[place]);
                    rest &= rest - 1;
                }
            }
            if taken != 0 {
                self.valid.or_word(slot + start, taken);
                if tagged {
                    let mut rest = taken;
                    while rest != 0 {
                        self.tags[slot + start + rest.trailing_zeros() as usize] = tag;
                        rest &= rest - 1;
                    }
                }
            }
            start += width;
        }
    }

    pub(crate) fn finish(mut self) -> FoldedColumn {
        let texts = (!self.text_arrays.is_empty()).then(|| self.gather_texts());
        let Filler { len, types, cells, valid, tags, .. } = self;
        FoldedColumn { len, types, cells: cells.into(), valid, tags, texts }
    }

    /// Copies the winning texts together and makes their cells point there.
    fn gather_texts(&mut self) -> StringArray {
        let mut builder = StringBuilder::new();
        let mut count: u64 = 0;
        for slot in self.valid.places() {
            if self.tags.get(slot).is_some_and(|tag| *tag != TEXT) {
                continue;
            }
            let cell = self.cells[slot];
            let array = self.text_arrays[(cell >> 32) as usize];
            builder.append_value(array.value((cell & u64::from(u32::MAX)) as usize));
            self.cells[slot] = count;
            count += 1;
        }
        builder.finish()
    }
}

/// An array that a column is filled from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    values: Values<'a>,
    nulls: Option<&'a NullBuffer>,
}

#[derive(Clone, Copy, Debug)]
enum Values<'a> {
    Float(&'a [f64]),
    Int(&'a [i64]),
    Bool(&'a BooleanBuffer),
    /// The number of the array in the upper half of a cell.
    Text(u64),
    None,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_cell_that_is_set_stays_whatever_the_alignment() {
        let types = Types::default().with(ValueType::Float);
        for (slot, row, count) in [(0, 0, 300), (5, 0, 200), (63, 1, 130), (64, 64, 64), (100, 7, 1)] {
            let first: ArrayRef =
                Arc::new(Float64Array::from_iter((0..400).map(|i| (i % 3 == 0).then_some(f64::from(i)))));
            let second: ArrayRef =
                Arc::new(Float64Array::from_iter((0..400).map(|i| (i % 7 != 0).then_some(-f64::from(i)))));
            let mut filler = Filler::new(400, types);
            let source = filler.source(&first);
            filler.fill_range(&source, row, slot, count);
            let source = filler.source(&second);
            filler.fill_range(&source, row, slot, count);
            let column = filler.finish();
            for place in 0..400 {
                let expected =
                    (place >= slot && place < slot + count).then(|| place - slot + row).and_then(|row| {
                        let value = f64::from(u32::try_from(row).unwrap());
                        if row % 3 == 0 { Some(value) } else { (row % 7 != 0).then_some(-value) }
                    });
                assert_eq!(column.get(place), expected.map(Value::Float), "{slot} {row} {count} {place}");
            }
        }
    }

    #[test]
    fn identity_case_10_a_column_shows_each_winner_with_its_type() {
        let types = [ValueType::Bool, ValueType::Int, ValueType::Float, ValueType::Text];
        let types = types.into_iter().fold(Types::default(), Types::with);
        let arrays: [ArrayRef; 4] = [
            Arc::new(BooleanArray::from(vec![Some(true), None, None, None, None])),
            Arc::new(Int64Array::from(vec![Some(7), Some((1 << 53) + 1), None, None, None])),
            Arc::new(Float64Array::from(vec![None, None, Some(0.5), None, None])),
            Arc::new(StringArray::from(vec![Some("x"), Some("y"), Some("z"), Some("w"), None])),
        ];
        let mut filler = Filler::new(5, types);
        for array in &arrays {
            let source = filler.source(array);
            filler.fill_range(&source, 0, 0, 5);
        }
        let column = filler.finish();
        let values: Vec<_> = (0..5).map(|slot| column.get(slot)).collect();
        let big = (1 << 53) + 1;
        let winners = [Value::Bool(true), Value::Int(big), Value::Float(0.5), Value::Text("w")].map(Some);
        assert_eq!(values, [&winners[..], &[None]].concat());
        let mut inexact = Vec::new();
        let numbers = column.numbers(ValueType::Float, &Bits::ones(5), |value| inexact.push(value));
        let expected =
            Float64Array::from(vec![Some(1.0), Some(9_007_199_254_740_992.0), Some(0.5), None, None]);
        assert_eq!(numbers.as_primitive::<Float64Type>(), &expected);
        assert_eq!(inexact, [big]);
        let texts = column.texts();
        assert_eq!(texts.as_string::<i32>(), &StringArray::from(vec![None, None, None, Some("w"), None]));
    }
}
