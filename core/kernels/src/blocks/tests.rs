//! The table of types, and the properties of every format that the kernels rely on.

use super::*;
use menagerie_random::SplitMix64;

#[test]
fn ids_and_names_lead_back() {
    for &block in BlockType::ALL {
        assert_eq!(BlockType::from_ggml_id(block.ggml_id()), Some(block));
        assert_eq!(block.row_bytes(2 * block.block_len()), Some(2 * block.block_bytes()));
    }
    assert_eq!(BlockType::from_ggml_id(4), None);
    assert_eq!(BlockType::Q4_K.name(), "Q4_K");
    assert_eq!(BlockType::Q4_K.row_bytes(255), None);
}

#[test]
fn values_keep_within_the_span_that_kernels_rely_on() {
    fn check<F: Format>(name: &str) {
        let mut random = SplitMix64::new(1);
        for _ in 0..2000 {
            let mut block = vec![0; F::BYTES];
            random.fill(&mut block);
            let (mut q, mut scale, mut min) = ([0i8; SUPER], [0f32; GROUPS], [0f32; GROUPS]);
            F::expand(&block, &mut q, &mut scale, &mut min);
            for &q in &q[..F::LEN] {
                let unsigned = i32::from(q) + F::OFFSET;
                assert!((0..=F::SPAN).contains(&unsigned), "{name}: {q}");
            }
        }
        assert!(if F::MIN { F::OFFSET == 0 } else { F::OFFSET.count_ones() == 1 });
    }
    for &quant in QuantType::ALL {
        with_format!(quant, F => check::<F>(quant.name()));
    }
}

/// A truncated block leaves no zeros in place of values.
#[test]
fn a_cut_block_is_no_block_of_zeros() {
    fn check<F: Format>(name: &str) {
        let refused = std::panic::catch_unwind(|| {
            let (mut q, mut scale, mut min) = ([0i8; SUPER], [0f32; GROUPS], [0f32; GROUPS]);
            F::expand(&vec![1; F::BYTES - 1], &mut q, &mut scale, &mut min);
        });
        assert!(refused.is_err(), "{name}");
    }
    for &quant in QuantType::ALL {
        with_format!(quant, F => check::<F>(quant.name()));
    }
}
