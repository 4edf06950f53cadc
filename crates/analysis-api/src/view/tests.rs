use super::*;

fn values(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let shape = [bytes.len() / dtype.size().unwrap()];
    let view = TensorView::new("t", dtype, &shape, bytes).unwrap();
    let stepped: Vec<f64> = view.iter_f64().unwrap().collect();
    let mut folded = Vec::new();
    view.iter_f64().unwrap().for_each(|value| folded.push(value));
    assert_eq!(format!("{stepped:?}"), format!("{folded:?}"));
    assert_eq!(view.iter_f64().unwrap().len(), stepped.len());
    stepped
}

#[test]
fn every_element_type_widens_to_f64() {
    assert_eq!(values(DType::Bool, &[0, 1]), [0.0, 1.0]);
    assert_eq!(values(DType::U8, &[0, 255]), [0.0, 255.0]);
    assert_eq!(values(DType::I8, &[0xff]), [-1.0]);
    assert_eq!(values(DType::U16, &0xfffe_u16.to_le_bytes()), [65534.0]);
    assert_eq!(values(DType::I16, &(-3_i16).to_le_bytes()), [-3.0]);
    assert_eq!(values(DType::U32, &u32::MAX.to_le_bytes()), [4_294_967_295.0]);
    assert_eq!(values(DType::I32, &(-7_i32).to_le_bytes()), [-7.0]);
    assert_eq!(values(DType::U64, &(1_u64 << 53).to_le_bytes()), [9_007_199_254_740_992.0]);
    assert_eq!(values(DType::I64, &(-9_i64).to_le_bytes()), [-9.0]);
    assert_eq!(values(DType::F32, &1.5_f32.to_le_bytes()), [1.5]);
    assert_eq!(values(DType::F64, &(-0.25_f64).to_le_bytes()), [-0.25]);
    // bfloat16 1.0 is the upper half of 0x3f800000
    assert_eq!(values(DType::BF16, &0x3f80_u16.to_le_bytes()), [1.0]);
}

#[test]
fn half_precision_covers_normals_subnormals_and_specials() {
    for (bits, value) in [
        (0x0000_u16, 0.0_f32),
        (0x3c00, 1.0),
        (0xc000, -2.0),
        (0x7bff, 65504.0),
        (0x0001, 5.960_464_5e-8),
        (0x03ff, 6.097_555e-5),
        (0x0400, 6.103_515_6e-5),
        (0x7c00, f32::INFINITY),
        (0xfc00, f32::NEG_INFINITY),
        (0x3555, 0.333_251_95),
    ] {
        assert_eq!(half_to_f32(bits), value, "{bits:#06x}");
    }
    assert!(half_to_f32(0x7e01).is_nan());
    assert!(half_to_f32(0x8000).is_sign_negative());
}

#[test]
fn a_view_casts_in_place_only_when_type_and_alignment_allow() {
    let floats = [1.0_f32, 2.0, 3.0];
    let mut bytes = [0_u8; 16];
    let offset = bytes.as_ptr().align_offset(4);
    for (index, value) in floats.iter().enumerate() {
        bytes[offset + 4 * index..][..4].copy_from_slice(&value.to_le_bytes());
    }
    let aligned = TensorView::new("w", DType::F32, &[3], &bytes[offset..offset + 12]).unwrap();
    assert_eq!(aligned.as_f32(), Some(&floats[..]));
    assert_eq!(aligned.as_f64(), None);
    assert_eq!(aligned.as_i64(), None);
    let shifted = TensorView::new("w", DType::F32, &[2], &bytes[offset + 1..offset + 9]).unwrap();
    assert_eq!(shifted.as_f32(), None);
    assert_eq!(shifted.iter_f64().unwrap().count(), 2);
}

#[test]
fn a_view_of_too_few_bytes_is_refused() {
    let error = TensorView::new("w", DType::F32, &[2, 3], &[0; 20]).unwrap_err();
    assert_eq!(error.message(), "`w` of shape [2, 3] and type float32 needs 24 bytes, not 20");
    assert!(TensorView::new("w", DType::F32, &[], &[0; 4]).is_ok());
}

#[test]
fn an_unknown_element_type_keeps_its_name_and_cannot_be_read() {
    let view = TensorView::with_dtype_name("w", "float8_e4m3", &[2], &[0, 0]).unwrap();
    assert_eq!(view.dtype(), DType::Other);
    assert_eq!(view.dtype_name(), "float8_e4m3");
    assert!(view.iter_f64().unwrap_err().message().contains("float8_e4m3"));
}

#[test]
fn a_missing_tensor_names_those_there_are() {
    let tensor = OwnedTensor::from_f32("blocks.0.weight", vec![1], &[1.0]).unwrap();
    let tensors = Tensors::new(vec![tensor.view()]);
    assert_eq!(tensors.get("blocks.0.weight").unwrap().elements(), 1);
    let error = tensors.tensor("blocks.1.weight").unwrap_err();
    assert_eq!(error.message(), "no tensor `blocks.1.weight`; there are blocks.0.weight");
    assert!(tensors.get("nothing").is_none());
}
