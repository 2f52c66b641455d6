//! The longest gap between two tokens of a stream while the prompt of another request is read, and the tokens per
//! second of both together, with steps of any time and with bounded ones, in turn.
//!
//! ```sh
//! cargo run --release --package menagerie-measure --example step_time -- model.gguf [TOKENS [MILLISECONDS [ROUNDS]]]
//! ```
#![allow(missing_docs)]

use menagerie_all as _;
use menagerie_engine::{Event, Queue, Request, SchedulerOptions, TextPipeline};
use menagerie_open::{LoadOptions, ModelBuilder};
use std::time::{Duration, Instant};

/// Tokens of the stream before the prompt arrives.
const BEFORE: usize = 16;

/// The measurement of one prompt.
struct Reading {
    /// The gaps between the tokens of the stream while the prompt is read.
    gaps: Vec<Duration>,
    /// Time from the arrival of the prompt to its first token.
    time: Duration,
    /// Tokens of the prompt and of the stream in this time.
    tokens: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(model) = arguments.next() else {
        return Err("usage: step_time MODEL.gguf [TOKENS [MILLISECONDS [ROUNDS]]]".into());
    };
    let mut number = |otherwise: usize| match arguments.next() {
        Some(text) => text.parse().map_err(|_| format!("{text} is not a number")),
        None => Ok(otherwise),
    };
    let (tokens, bound, rounds) = (number(4000)?, number(100)?, number(3)?);
    let context = tokens + 4096;
    let pipeline =
        ModelBuilder::new(model).with_options(&LoadOptions::default().with_context(context)).open_text()?;
    let bounds = [None, Some(Duration::from_millis(bound as u64))];
    let mut queues = Vec::new();
    for time in bounds {
        let options = SchedulerOptions::default()
            .with_sequences(2)
            .with_prefixes(0)
            .with_capacity_tokens(2 * context)
            .with_step_time(time);
        queues.push(pipeline.queue(options)?);
    }
    for round in 0..=rounds {
        for (queue, time) in queues.iter_mut().zip(bounds) {
            let reading = read(&pipeline, queue, tokens, round)?;
            let name = time.map_or("any time".to_owned(), |time| format!("{} ms", time.as_millis()));
            let label = if round == 0 { "warm-up" } else { "round" };
            let mut gaps = reading.gaps;
            gaps.sort_unstable();
            let at = |share: usize| gaps[(gaps.len() - 1) * share / 100].as_secs_f64() * 1e3;
            println!(
                "{label} {round}, steps of {name}: prompt {:.2} s, {:.1} tokens/s together, gaps of the stream: {}, median {:.0} ms, \
                 longest {:.0} ms",
                reading.time.as_secs_f64(),
                reading.tokens as f64 / reading.time.as_secs_f64(),
                gaps.len(),
                at(50),
                at(100)
            );
        }
    }
    Ok(())
}

/// Reads a prompt beside a stream.
fn read(
    pipeline: &TextPipeline,
    queue: &mut Queue,
    tokens: usize,
    salt: usize,
) -> Result<Reading, Box<dyn std::error::Error>> {
    // Ordinary tokens in an order that does not repeat soon: only their number matters for the time.
    let vocabulary = pipeline.vocabulary() as u32;
    let text = |len: usize, salt: usize| -> Vec<u32> {
        let mut state = 12_345 + salt as u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            vocabulary / 4 + (state >> 8) % (vocabulary / 2)
        };
        (0..len).map(|_| next()).collect()
    };
    let stream = queue.submit(text(32, salt), &Request::greedy(4000).with_ignore_eos(true));
    let mut before = 0;
    while before < BEFORE {
        queue.step(|_, event| before += usize::from(matches!(event, Event::Token { .. })));
    }
    let (start, mut newest) = (Instant::now(), Instant::now());
    let long = queue.submit(text(tokens, salt + 1000), &Request::greedy(1));
    let (mut gaps, mut ended) = (Vec::new(), Vec::new());
    while ended.is_empty() {
        ended = queue.step(|id, event| {
            if id == stream && matches!(event, Event::Token { .. }) {
                gaps.push(std::mem::replace(&mut newest, Instant::now()).elapsed());
            }
        });
    }
    let time = start.elapsed();
    for (id, result) in ended {
        let outcome = result?;
        if id != long {
            return Err(format!("the stream ended before the prompt was read: {}", outcome.reason).into());
        }
    }
    let tokens = tokens + gaps.len();
    queue.cancel(stream);
    while !queue.is_idle() {
        queue.step(|_, _| {});
    }
    Ok(Reading { gaps, time, tokens })
}
