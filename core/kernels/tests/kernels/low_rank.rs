//! Products of low rank, added to rows, against f64; the same bits in any combination.

use menagerie_kernels::*;

fn wave(count: usize, step: usize) -> Vec<f32> {
    (0..count).map(|i| (i * step % 211) as f32 / 100.0 - 1.0).collect()
}

/// A matrix `[rank, width]` of a type, with unaligned bytes, and its numbers.
fn matrix(rank: usize, width: usize, kind: FloatType) -> (Vec<u8>, Vec<f32>) {
    let values = wave(rank * width, 37);
    let mut bytes = vec![0];
    for value in &values {
        match kind {
            FloatType::F32 => bytes.extend(value.to_le_bytes()),
            _ => bytes.extend(half::f16::from_f32(*value).to_le_bytes()),
        }
    }
    let rounded = |value: f32| match kind {
        FloatType::F32 => value,
        _ => half::f16::from_f32(value).to_f32(),
    };
    (bytes, values.into_iter().map(rounded).collect())
}

#[test]
fn odd_widths_and_ranks_match_f64() {
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(2), isa).unwrap();
        for (rank, width, rows, kind) in [
            (1, 1, 1, FloatType::F32),
            (4, 37, 3, FloatType::F16),
            (16, 2048, 1, FloatType::F32),
            (16, 515, 130, FloatType::F32),
            (5, 700, 70, FloatType::F16),
        ] {
            let (bytes, values) = matrix(rank, width, kind);
            let up = Matrix::new(BlockType::Float(kind), rank, width, &bytes[1..]).unwrap();
            let (narrow, before) = (wave(rows * rank, 53), wave(rows * width, 71));
            let mut y = before.clone();
            let terms = vec![LowRankTerm { narrow: &narrow, up, rows: None }];
            add_low_rank(&cpu, &mut [LowRankSum { y: &mut y, width, terms }]).unwrap();
            for (at, (got, before)) in y.iter().zip(&before).enumerate() {
                let (row, column) = (at / width, at % width);
                let product =
                    |k: usize| f64::from(narrow[row * rank + k]) * f64::from(values[k * width + column]);
                let wanted = f64::from(*before) + (0..rank).map(product).sum::<f64>();
                assert!((f64::from(*got) - wanted).abs() < 1e-4, "{isa} {rank} {width} {at}: {got} {wanted}");
            }
        }
    }
}

/// Several terms and rows by number, on any number of threads: the bits of each row added alone.
#[test]
fn a_row_does_not_depend_on_what_is_added_beside_it() {
    let (rank, width, rows) = (16, 1043, 90);
    let (bytes, _) = matrix(rank, width, FloatType::F32);
    let (halves, _) = matrix(rank, width, FloatType::F16);
    let narrow = wave(rows * rank, 53);
    let picked: Vec<u32> = (0..rows as u32).filter(|row| row % 7 < 4).collect();
    let of_picked: Vec<f32> =
        picked.iter().flat_map(|row| narrow[*row as usize * rank..][..rank].to_vec()).collect();
    for isa in Isa::available() {
        let up = Matrix::new(BlockType::Float(FloatType::F32), rank, width, &bytes[1..]).unwrap();
        let second = Matrix::new(BlockType::Float(FloatType::F16), rank, width, &halves[1..]).unwrap();
        let run = |threads: usize| {
            let cpu = Cpu::with_isa(Some(threads), isa).unwrap();
            let (mut y, mut other) = (wave(rows * width, 71), wave(rows * width, 29));
            let terms = vec![
                LowRankTerm { narrow: &narrow, up, rows: None },
                LowRankTerm { narrow: &of_picked, up: second, rows: Some(&picked) },
            ];
            let beside = vec![LowRankTerm { narrow: &narrow, up: second, rows: None }];
            let mut sums =
                [LowRankSum { y: &mut y, width, terms }, LowRankSum { y: &mut other, width, terms: beside }];
            add_low_rank(&cpu, &mut sums).unwrap();
            (y, other)
        };
        let together = run(1);
        assert!(together == run(3), "{isa}");
        let cpu = Cpu::with_isa(Some(1), isa).unwrap();
        let before = wave(rows * width, 71);
        for row in [0, 3, 4, 50, 89] {
            let mut y = before[row * width..(row + 1) * width].to_vec();
            let narrow = &narrow[row * rank..(row + 1) * rank];
            let mut terms = vec![LowRankTerm { narrow, up, rows: None }];
            if row % 7 < 4 {
                terms.push(LowRankTerm { narrow, up: second, rows: None });
            }
            add_low_rank(&cpu, &mut [LowRankSum { y: &mut y, width, terms }]).unwrap();
            assert!(y == together.0[row * width..(row + 1) * width], "{isa} row {row}");
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let cpu = Cpu::with_isa(Some(1), Isa::Portable).unwrap();
    let (bytes, _) = matrix(2, 32, FloatType::F32);
    let up = Matrix::new(BlockType::Float(FloatType::F32), 2, 32, &bytes[1..]).unwrap();
    let call = |narrow: usize, y: usize, width: usize, rows: Option<&[u32]>| {
        let (narrow, mut y) = (vec![0.0; narrow], vec![0.0; y]);
        let terms = vec![LowRankTerm { narrow: &narrow, up, rows }];
        add_low_rank(&cpu, &mut [LowRankSum { y: &mut y, width, terms }])
    };
    assert!(call(6, 96, 32, None).is_ok());
    assert!(call(4, 96, 32, Some(&[0, 2])).is_ok());
    assert!(call(5, 96, 32, None).is_err());
    assert!(call(4, 96, 32, None).is_err());
    assert!(call(4, 96, 32, Some(&[0, 3])).is_err());
    assert!(call(4, 96, 32, Some(&[0])).is_err());
    assert!(call(6, 96, 48, None).is_err());
    let rounded = Matrix::new(BlockType::Q8_0, 2, 32, &bytes[..68]).unwrap();
    let narrow = [0.0; 2];
    let terms = vec![LowRankTerm { narrow: &narrow, up: rounded, rows: None }];
    assert!(add_low_rank(&cpu, &mut [LowRankSum { y: &mut [0.0; 32], width: 32, terms }]).is_err());
}
