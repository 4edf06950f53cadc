use super::*;
use waycairn_analysis_api::{DType, OwnedTensor};

#[test]
fn statistics_leave_out_what_is_not_finite() {
    let values = [1.0, f32::NAN, 3.0, f32::INFINITY, -1.0, f32::NEG_INFINITY, 5.0];
    let row = summarise(&OwnedTensor::from_f32("w", vec![7], &values).unwrap().view());
    let statistics = row.statistics.unwrap();
    assert_eq!((row.elements, row.nan, row.infinite), (7, 1, 2));
    assert_eq!((statistics.mean, statistics.min, statistics.max), (2.0, -1.0, 5.0));
    assert_eq!(statistics.norm, 6.0);
    assert_eq!(statistics.std, 5.0_f64.sqrt());
}

#[test]
fn a_tensor_without_finite_elements_has_no_statistics() {
    for values in [&[][..], &[f32::NAN]] {
        let row = summarise(&OwnedTensor::from_f32("w", vec![values.len()], values).unwrap().view());
        assert!(row.statistics.is_none());
    }
    let unknown = TensorView::with_dtype_name("w", "float8_e4m3", &[1], &[0]).unwrap();
    assert!(summarise(&unknown).statistics.is_none());
    assert_eq!(unknown.dtype(), DType::Other);
}

#[test]
fn the_order_of_tensors_is_kept_over_threads() {
    let items: Vec<usize> = (0..1000).collect();
    assert_eq!(in_parallel(&items, |item| item * 2), items.iter().map(|i| i * 2).collect::<Vec<_>>());
    assert!(in_parallel(&[] as &[usize], |item| *item).is_empty());
}

#[test]
fn a_small_deviation_around_a_large_mean_is_kept() {
    // More than one block, each element 1e6 away from zero and 1 away from the mean.
    let values: Vec<f32> = (0..5001).map(|i| if i % 2 == 0 { 1e6 + 1.0 } else { 1e6 - 1.0 }).collect();
    let tensor = OwnedTensor::from_f32("w", vec![5001], &values).unwrap();
    let statistics = summarise(&tensor.view()).statistics.unwrap();
    assert!((statistics.std - 1.0).abs() < 1e-6, "{}", statistics.std);
    assert!((statistics.mean - 1e6).abs() < 1e-2, "{}", statistics.mean);
    assert_eq!((statistics.min, statistics.max), (1e6 - 1.0, 1e6 + 1.0));

    // The same through the path of other element types.
    let wide: Vec<u8> = values.iter().flat_map(|value| f64::from(*value).to_le_bytes()).collect();
    let tensor = OwnedTensor::new("w", DType::F64, vec![5001], wide).unwrap();
    let other = summarise(&tensor.view()).statistics.unwrap();
    assert_eq!((statistics.mean, statistics.std, statistics.norm), (other.mean, other.std, other.norm));
}
