//! DRY against penalties worked out by hand.

use super::*;

fn penalties(dry: &Dry, history: &[u32]) -> Vec<f32> {
    let mut candidates = Candidates::from_logits(&[0.0; 6]);
    dry.clone().apply(&mut candidates, history).unwrap();
    candidates.entries().iter().map(|entry| -entry.logit).collect()
}

fn dry(allowed_length: usize, breakers: Breakers) -> Dry {
    Dry { multiplier: 1.0, base: 2.0, allowed_length, last: None, breakers: Arc::new(breakers) }
}

#[test]
fn a_continued_repetition_costs_by_its_length() {
    // "0 1 2 3 0 1 2": the last three tokens occurred before, followed by 3; 2^(3 - 2) = 2.
    assert_eq!(
        penalties(&dry(2, Breakers::default()), &[0, 1, 2, 3, 0, 1, 2]),
        [0.0, 0.0, 0.0, 2.0, 0.0, 0.0]
    );
}

#[test]
fn short_repetitions_are_free() {
    assert_eq!(penalties(&dry(4, Breakers::default()), &[0, 1, 2, 3, 0, 1, 2]), [0.0; 6]);
}

#[test]
fn the_longest_of_several_counts() {
    // The end "1 2" was followed by 5 once ("1 2 5"), "0 1 2" by 3: lengths 2 and 3.
    let history = [1, 2, 5, 0, 1, 2, 3, 0, 1, 2];
    assert_eq!(penalties(&dry(2, Breakers::default()), &history), [0.0, 0.0, 0.0, 2.0, 0.0, 1.0]);
}

#[test]
fn a_breaker_limits_the_repetition() {
    // 0 is a breaker: only "1 2" counts, 2^(2 - 2) = 1.
    assert_eq!(
        penalties(&dry(2, Breakers::single([0])), &[0, 1, 2, 3, 0, 1, 2]),
        [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    );
    // 1 is a breaker: one token is left, shorter than allowed.
    assert_eq!(penalties(&dry(2, Breakers::single([1])), &[0, 1, 2, 3, 0, 1, 2]), [0.0; 6]);
}

#[test]
fn a_breaker_itself_is_never_penalized() {
    assert_eq!(penalties(&dry(2, Breakers::single([3])), &[3, 0, 1, 2, 3, 0, 1, 2]), [0.0; 6]);
}

#[test]
fn only_the_last_tokens_are_looked_at() {
    let short = Dry { last: Some(4), ..dry(2, Breakers::default()) };
    assert_eq!(penalties(&short, &[0, 1, 2, 3, 0, 1, 2]), [0.0; 6]);
}

#[test]
fn the_penalty_stays_finite() {
    let history = vec![1; 5000];
    let penalty = penalties(&dry(2, Breakers::default()), &history)[1];
    assert!(penalty.is_finite() && penalty > 1e30);
}

#[test]
fn breakers_are_found_inside_and_across_tokens() {
    let pieces: Vec<String> = ["a", "\n", "x\n\n", "end", "of", "e"].map(str::to_owned).into();
    let encode = |text: &str| match text {
        "of" => vec![4],
        other => panic!("unexpected rest {other:?}"),
    };
    let found = Breakers::find(&["\n".to_owned(), "endof".to_owned()], &pieces, &|text| match text {
        "ndof" => vec![9, 4],
        other => encode(other),
    });
    assert!(found.is_single(1) && found.is_single(2) && !found.is_single(0) && !found.is_single(3));
    assert_eq!(found.tails[&3], [vec![4]]);
    assert_eq!(found.tails[&5], [vec![9, 4]]);
    // Reversed history "end of": the breaker begins one token from the end and goes on for one.
    assert_eq!(found.longest_at(&[4, 3], 1), Some(1));
    assert_eq!(found.longest_at(&[0, 3], 1), None);
}

#[test]
fn common_prefixes_are_those_of_a_plain_search() {
    let mut generator = crate::sampling::Generator::new(9);
    for _ in 0..200 {
        let values: Vec<u32> = (0..30).map(|_| generator.below(3)).collect();
        for (k, &found) in common_prefixes(&values).iter().enumerate().skip(1) {
            let plain = values[k..].iter().zip(&values).take_while(|(a, b)| a == b).count();
            assert_eq!(found, plain, "{values:?} at {k}");
        }
    }
}
