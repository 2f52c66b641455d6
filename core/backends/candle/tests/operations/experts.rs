//! Products of experts against a loop over tokens and their choices.

use crate::blocks::weight;
use crate::{backend, expect, matrix, noise, product, rows};
use gguf_file::GgmlType;
use menagerie_model::{
    Arithmetic, Backend, ExpertPlan, LinearInput, Packing, Product, RouterApply, Routing, WeightShape,
};

const EXPERTS: usize = 6;

/// Choices that leave experts out and give others several rows.
fn routing(tokens: usize, top_k: usize) -> Routing {
    let choice = |t: usize, k: usize| ((t * 5 + k * 2) % (EXPERTS - 1)) as u32;
    let experts = (0..tokens).flat_map(|t| (0..top_k).map(move |k| choice(t, k))).collect();
    Routing { top_k, experts, weights: noise(8, tokens * top_k) }
}

/// Output of every choice, `[T, top_k, out]`, with the bias of the expert.
fn choices(routing: &Routing, w: &[f32], bias: &[f32], x: &[f32], [out, cols]: [usize; 2]) -> Vec<Vec<f64>> {
    let choice = |(i, &expert): (usize, &u32)| {
        let expert = expert as usize;
        let row = &x[i / routing.top_k * cols..][..cols];
        let y = product(&w[expert * out * cols..(expert + 1) * out * cols], row, cols);
        y.iter().zip(&bias[expert * out..]).map(|(y, b)| y + f64::from(*b)).collect()
    };
    routing.experts.iter().enumerate().map(choice).collect()
}

#[test]
fn experts_multiply_their_rows_and_add_up() {
    let (out, cols) = (12, 32);
    let backend = backend();
    let stack = WeightShape { count: EXPERTS, rows: out, cols };
    let (weight, values) = matrix(1, stack);
    let param = backend.matrix(&weight, Arithmetic::Fast).unwrap();
    let bias = noise(2, EXPERTS * out);
    let biases = backend.vector("bias", bias.clone()).unwrap();
    for (tokens, top_k) in [(1, 1), (1, 3), (7, 2), (9, 4)] {
        let routing = routing(tokens, top_k);
        let plan = ExpertPlan::new(&routing, EXPERTS).unwrap();
        let (x, inputs) = rows(3, tokens, cols);
        let wanted = choices(&routing, &values, &bias, &inputs, [out, cols]);
        let mut packed_wanted = vec![0.0; wanted.len() * out];
        for (slot, wanted) in plan.slots().iter().zip(&wanted) {
            packed_wanted[*slot as usize * out..][..out].copy_from_slice(wanted);
        }
        let products =
            [Product { weight: &param, bias: Some(&biases) }, Product { weight: &param, bias: None }];
        let made = backend.expert_products(
            &products,
            &LinearInput::new(&x),
            &plan,
            Packing::Tokens,
            Arithmetic::Fast,
        );
        let made = made.unwrap();
        expect(&made[0], &packed_wanted, out, 1e-5);

        for apply in [RouterApply::ToOutput, RouterApply::ToInput] {
            let mut sum = vec![0.0; tokens * out];
            for (i, wanted) in wanted.iter().enumerate() {
                let factor = if apply == RouterApply::ToOutput { f64::from(routing.weights[i]) } else { 1.0 };
                for (sum, y) in sum[i / top_k * out..][..out].iter_mut().zip(wanted) {
                    *sum += factor * y;
                }
            }
            expect(&backend.combine(&made[0], &plan, apply).unwrap(), &sum, out, 1e-5);
        }

        let packed = backend.pack_weighted(&x, &plan).unwrap();
        let mut wanted = vec![0.0; plan.packed_rows() * cols];
        for (choice, slot) in plan.slots().iter().enumerate() {
            for c in 0..cols {
                let value = f64::from(inputs[choice / top_k * cols + c]) * f64::from(routing.weights[choice]);
                wanted[*slot as usize * cols + c] = value;
            }
        }
        expect(&packed, &wanted, cols, 1e-6);
        let through = backend.expert_products(
            &products[1..],
            &LinearInput::new(&packed),
            &plan,
            Packing::Packed,
            Arithmetic::Fast,
        );
        let twice: Vec<f64> = (0..plan.packed_rows())
            .flat_map(|row| {
                let (expert, _) = plan.groups().iter().find(|(_, range)| range.contains(&row)).unwrap();
                let x: Vec<f32> = wanted[row * cols..][..cols].iter().map(|x| *x as f32).collect();
                product(&values[expert * out * cols..][..out * cols], &x, cols)
            })
            .collect();
        expect(&through.unwrap()[0], &twice, out, 1e-5);
    }
}

#[test]
fn experts_of_blocks_are_each_their_own_bytes() {
    let (out, cols) = (16, 256);
    let backend = backend();
    let stack = WeightShape { count: EXPERTS, rows: out, cols };
    for (block, arithmetic, tolerance) in [
        (GgmlType::Q4_K, Arithmetic::Exact, 1e-5),
        (GgmlType::Q4_K, Arithmetic::Fast, 2e-2),
        (GgmlType::F16, Arithmetic::Fast, 2e-2),
    ] {
        let (weight, values) = weight(4, block, stack);
        let param = backend.matrix(&weight, arithmetic).unwrap();
        let routing = routing(5, 2);
        let plan = ExpertPlan::new(&routing, EXPERTS).unwrap();
        let (x, inputs) = rows(3, 5, cols);
        let made = backend.expert_products(
            &[Product { weight: &param, bias: None }],
            &LinearInput::new(&x),
            &plan,
            Packing::Tokens,
            arithmetic,
        );
        let wanted = choices(&routing, &values, &[0.0; EXPERTS * 16], &inputs, [out, cols]);
        let found = backend.read(&made.unwrap()[0]).unwrap().into_owned();
        let scale = (wanted.iter().flatten().map(|y| y * y).sum::<f64>() / (10 * out) as f64).sqrt();
        for (slot, wanted) in plan.slots().iter().zip(&wanted) {
            for (found, wanted) in found[*slot as usize * out..].iter().zip(wanted) {
                let off = (f64::from(*found) - wanted).abs() / scale;
                assert!(off <= tolerance, "{block} {arithmetic:?}: {off:e} of the RMS");
            }
        }
    }
}

#[test]
fn a_step_without_rows_gives_none() {
    let backend = backend();
    let stack = WeightShape { count: 2, rows: 4, cols: 8 };
    let param = backend.matrix(&matrix(1, stack).0, Arithmetic::Fast).unwrap();
    let plan = ExpertPlan::new(&Routing { top_k: 2, experts: vec![], weights: vec![] }, 2).unwrap();
    let none = backend.upload(Vec::new(), 8).unwrap();
    let product = Product { weight: &param, bias: None };
    let made = backend.expert_products(
        &[product],
        &LinearInput::new(&none),
        &plan,
        Packing::Tokens,
        Arithmetic::Fast,
    );
    assert_eq!(made.unwrap()[0].rows(), 0);
    let too_few = backend.expert_products(
        &[product],
        &LinearInput::new(&none),
        &ExpertPlan::new(&Routing { top_k: 1, experts: vec![1], weights: vec![1.0] }, 2).unwrap(),
        Packing::Tokens,
        Arithmetic::Fast,
    );
    assert!(too_few.is_err());
}
