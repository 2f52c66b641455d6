//! The tiny model in f64, as plain loops over the formulas without caches or optimizations.

use crate::tiny::{EPS, ROPE_BASE, TinyModel};

/// Logits after every token, `[T, V]`.
pub fn logits(model: &TinyModel, tokens: &[u32]) -> Vec<Vec<f32>> {
    let width = model.shape.width;
    let table = model.values("token_embd.weight");
    let mut hidden: Vec<Vec<f64>> = tokens
        .iter()
        .map(|token| table[*token as usize * width..][..width].iter().map(|x| f64::from(*x)).collect())
        .collect();
    for layer in 0..model.shape.layers {
        let name = |role: &str| format!("blk.{layer}.{role}.weight");
        let normed: Vec<_> = hidden.iter().map(|row| norm(row, model.values(&name("attn_norm")))).collect();
        let mixed = attention(model, layer, &normed);
        for (row, mixed) in hidden.iter_mut().zip(mixed) {
            add(row, &mixed);
            let normed = norm(row, model.values(&name("ffn_norm")));
            let gate = product(model.values(&name("ffn_gate")), &normed);
            let up = product(model.values(&name("ffn_up")), &normed);
            let inner: Vec<f64> = gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            add(row, &product(model.values(&name("ffn_down")), &inner));
        }
    }
    let head = |row: &Vec<f64>| {
        let normed = norm(row, model.values("output_norm.weight"));
        product(model.values("output.weight"), &normed).iter().map(|x| *x as f32).collect()
    };
    hidden.iter().map(head).collect()
}

fn attention(model: &TinyModel, layer: usize, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let name = |role: &str| format!("blk.{layer}.{role}.weight");
    let (heads, dim) = (model.shape.heads, model.shape.head_dim);
    let group = heads / model.shape.kv_heads;
    let project = |role: &str, rotated: bool| -> Vec<Vec<f64>> {
        let weight = model.values(&name(role));
        let one = |(position, row): (usize, &Vec<f64>)| {
            let mut out = product(weight, row);
            if rotated {
                out.chunks_mut(dim).for_each(|head| rotate(head, position));
            }
            out
        };
        rows.iter().enumerate().map(one).collect()
    };
    let (queries, keys, values) =
        (project("attn_q", true), project("attn_k", true), project("attn_v", false));
    let mix = |(position, query): (usize, &Vec<f64>)| {
        let mut out = vec![0.0; heads * dim];
        for head in 0..heads {
            let q = &query[head * dim..][..dim];
            let kv = head / group * dim;
            let score = |key: &Vec<f64>| dot(q, &key[kv..kv + dim]) / (dim as f64).sqrt();
            let exponents: Vec<f64> = keys[..=position].iter().map(|key| score(key).exp()).collect();
            let sum: f64 = exponents.iter().sum();
            for (weight, value) in exponents.iter().zip(&values) {
                for (out, value) in out[head * dim..][..dim].iter_mut().zip(&value[kv..kv + dim]) {
                    *out += weight / sum * value;
                }
            }
        }
        product(model.values(&name("attn_output")), &out)
    };
    queries.iter().enumerate().map(mix).collect()
}

fn rotate(head: &mut [f64], position: usize) {
    let half = head.len() / 2;
    for j in 0..half {
        let angle = position as f64 * f64::from(ROPE_BASE).powf(-2.0 * j as f64 / head.len() as f64);
        let (sin, cos) = angle.sin_cos();
        (head[j], head[j + half]) =
            (head[j] * cos - head[j + half] * sin, head[j + half] * cos + head[j] * sin);
    }
}

fn norm(row: &[f64], weight: &[f32]) -> Vec<f64> {
    let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
    let factor = 1.0 / (mean + f64::from(EPS)).sqrt();
    row.iter().zip(weight).map(|(x, w)| x * factor * f64::from(*w)).collect()
}

fn product(weight: &[f32], row: &[f64]) -> Vec<f64> {
    weight.chunks_exact(row.len()).map(|w| w.iter().zip(row).map(|(w, x)| f64::from(*w) * x).sum()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(row: &mut [f64], other: &[f64]) {
    row.iter_mut().zip(other).for_each(|(x, y)| *x += y);
}
