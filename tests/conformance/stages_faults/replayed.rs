//! Answers whose states are lost with a stage, or on the way to it: they are computed again from their tokens, and nobody sees
//! it in the text.

use crate::mischief::{Mischief, Place};
use crate::renewed::{Fate, Renewed, Renewing};
use crate::split::LONG;
use menagerie::engine::{
    Constraint, ConstraintError, ConstraintState, DraftPace, DraftSource, Event, GenerateError, Outcome,
    PromptLookup, Queue, Request, SamplingOptions, Scheduler, SchedulerOptions, TextPipeline,
};
use menagerie::model::{HookInput, LayerHook, ModelError, Rows};
use menagerie::open::{LoadedModel, stage_fault};
use menagerie::stages::{FaultKind, StageFault, StageName};
use menagerie_conformance::fixtures;
use menagerie_conformance::suite::zoo::model_file;
use menagerie_random::SplitMix64;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A deadline that steps of these models meet on a busy machine, too.
const SOON: Duration = Duration::from_secs(3);

/// Rows of a step.
const CHUNK: usize = 8;

fn llama() -> PathBuf {
    fixtures().join("base/llama/model-f32.gguf")
}

/// After an even number of tokens even ones may come, else odd ones: a token that is taken twice, or not at all, shows.
#[derive(Debug)]
struct Alternating;

struct AlternatingState {
    taken: usize,
    masks: [Vec<u32>; 2],
}

impl Constraint for Alternating {
    fn start(&self) -> Result<Box<dyn ConstraintState>, ConstraintError> {
        let masks = [0x5555_5554, 0xaaaa_aaa8].map(|word| vec![word; 2]);
        Ok(Box::new(AlternatingState { taken: 0, masks }))
    }
}

impl ConstraintState for AlternatingState {
    fn allowed(&mut self) -> Result<Option<&[u32]>, ConstraintError> {
        Ok(Some(&self.masks[self.taken % 2]))
    }

    fn accept(&mut self, _: u32) -> Result<(), ConstraintError> {
        self.taken += 1;
        Ok(())
    }

    fn is_complete(&self) -> bool {
        false
    }
}

/// Requests of every kind: sampled with penalties, constrained, drafted, with the log probabilities of their prompts.
fn requests() -> Vec<Request> {
    let sampled = SamplingOptions::default().with_seed(11);
    let penalized = sampled.clone().with_repeat_penalty(1.3).with_frequency_penalty(0.2);
    vec![
        Request::greedy(9),
        Request::greedy(12).with_sampling(penalized),
        Request::greedy(10)
            .with_sampling(sampled)
            .with_constraint(Arc::new(Alternating) as Arc<dyn Constraint>),
        Request::greedy(14).with_draft(Arc::new(PromptLookup::default()) as Arc<dyn DraftSource>),
        Request::greedy(6).with_prompt_logprobs(0),
    ]
}

/// What came of a request: positions or ids, and the bits of log probabilities.
type Seen = Vec<(Option<usize>, u32, u32)>;

/// The prompt of a request; those of drafts repeat themselves.
fn prompt(index: usize, vocabulary: usize) -> Vec<u32> {
    let length = 5 + 6 * index;
    (0..length).map(|at| ((at % 7 * 31 + index * 13 + 5) % vocabulary.min(60)) as u32).collect()
}

/// A queue whose steps compute guesses whenever there are any.
fn queue(pipeline: &TextPipeline, sequences: usize) -> Queue {
    let room = SchedulerOptions::default()
        .with_sequences(sequences)
        .with_capacity_tokens(400)
        .with_step_tokens(pipeline.engine().chunk);
    let scheduler = Scheduler::new(Arc::clone(pipeline.engine()), pipeline.hooks().clone(), room).unwrap();
    Queue::new(scheduler.with_draft_pace(DraftPace::Always), None)
}

/// Runs requests together; returns what was seen of each, and how it ended.
fn answered(queue: &mut Queue, requests: &[Request]) -> Vec<(Seen, Result<Outcome, GenerateError>)> {
    let vocabulary = queue.scheduler().engine().vocabulary();
    let submitted: Vec<_> = requests
        .iter()
        .enumerate()
        .map(|(index, request)| queue.submit(prompt(index, vocabulary), &request.clone().with_logprobs(1)))
        .collect();
    let mut seen: Vec<Seen> = vec![Vec::new(); requests.len()];
    let ended = queue.run(|request, event| {
        let index = submitted.iter().position(|one| *one == request).unwrap();
        let bits = |logprob: Option<f32>| logprob.map_or(0, f32::to_bits);
        match event {
            Event::Token { id, logprob, .. } => seen[index].push((None, id, bits(logprob))),
            Event::PromptToken { position, id, logprob, .. } => {
                seen[index].push((Some(position), id, bits(logprob)));
            }
            _ => {}
        }
    });
    seen.into_iter().zip(ended.into_iter().map(|(_, result)| result)).collect()
}

/// The answers of an undisturbed run.
fn undisturbed(whole: &TextPipeline) -> Vec<Seen> {
    let all = answered(&mut queue(whole, 5), &requests());
    all.into_iter().map(|(seen, result)| result.map(|_| seen).unwrap()).collect()
}

/// Every answer is that of the undisturbed run.
fn same(what: &str, expected: &[Seen], found: Vec<(Seen, Result<Outcome, GenerateError>)>) {
    for (index, (expected, (seen, result))) in expected.iter().zip(found).enumerate() {
        let outcome = result.unwrap_or_else(|error| panic!("{what}, request {index}: {error}"));
        assert_eq!(&seen, expected, "{what}, request {index}");
        let tokens = seen.iter().filter(|(position, ..)| position.is_none()).map(|(_, id, _)| *id);
        assert!(outcome.tokens.iter().copied().eq(tokens), "{what}, request {index}");
    }
}

/// Mischief of every kind, in prompts and in answers, on every link.
#[test]
fn answers_continue_after_mischief_of_every_kind() {
    let model = Renewed::open(&llama(), Renewing::all(Vec::new()));
    let (expected, whole) = (undisturbed(&model.one(CHUNK)), Arc::clone(&model.whole));
    model.end();
    let kinds = [
        Mischief::Drop,
        Mischief::Double,
        Mischief::Swap,
        Mischief::FlipBit,
        Mischief::OldEpoch,
        Mischief::Slow(5),
        Mischief::Gone,
    ];
    // A frame that the chain itself sends late may be answered in time.
    let is_noticed = |(kind, link): &(Mischief, usize)| !matches!((kind, link), (Mischief::Slow(_), 0));
    std::thread::scope(|scope| {
        for (kind, link) in
            kinds.into_iter().flat_map(|kind| (0..3).map(move |link| (kind, link))).filter(is_noticed)
        {
            let (expected, whole) = (&expected, &whole);
            scope.spawn(move || {
                for frame in [0, 2, 6, 11] {
                    let what = format!("{kind:?} of frame {frame} on link {link}");
                    let how = Renewing { deadline: SOON, ..Renewing::once(kind, Place { link, frame }) };
                    let model = Renewed::of(whole, how);
                    let mut queue = queue(&model.pipeline(CHUNK), 5);
                    same(&what, expected, answered(&mut queue, &requests()));
                    let counts = *queue.scheduler().counts();
                    assert!(counts.restores > 0 && counts.replays > 0, "{what}: {counts:?}");
                    let lost = matches!(kind, Mischief::Gone | Mischief::Slow(_));
                    assert!(
                        model.made() == 1 || lost || matches!(kind, Mischief::Drop | Mischief::Swap),
                        "{what}"
                    );
                    drop(queue);
                    model.end();
                }
            });
        }
    });
}

/// States of every kind: rows, windows, recurrent states, latent rows; with two and three stages.
#[test]
fn states_of_every_kind_are_computed_again() {
    let files = ["jamba", "gemma3", "deepseek2-lite", "mamba2"].map(|name| fixtures().join("zoo").join(name));
    for file in files.iter().map(|folder| model_file(folder)).chain([llama()]) {
        let model = Renewed::open(&file, Renewing::all(Vec::new()));
        let (expected, whole) = (undisturbed(&model.one(CHUNK)), Arc::clone(&model.whole));
        let stages = whole.engine().model.shape().n_layers.min(3);
        model.end();
        for (mischief, frame) in [(Mischief::Gone, 1), (Mischief::Gone, 7), (Mischief::FlipBit, 9)] {
            let place = Place { link: stages - 1, frame };
            let model = Renewed::of(&whole, Renewing { stages, ..Renewing::once(mischief, place) });
            let mut queue = queue(&model.pipeline(CHUNK), 5);
            let what = format!("{}, {mischief:?} of frame {frame}", file.display());
            same(&what, &expected, answered(&mut queue, &requests()));
            assert!(queue.scheduler().counts().replays > 0, "{what}");
            drop(queue);
            model.end();
        }
    }
}

/// With several steps in flight, all of which are lost.
#[test]
fn answers_of_steps_in_flight_continue() {
    let model = Renewed::open(&llama(), Renewing::all(Vec::new()));
    let (expected, whole) = (undisturbed(&model.one(CHUNK)), Arc::clone(&model.whole));
    model.end();
    for kind in [Mischief::Gone, Mischief::FlipBit, Mischief::Double, Mischief::OldEpoch] {
        for (link, frame) in [(1, 1), (1, 9), (2, 4), (2, 12)] {
            let how = Renewing { overlap: 2, ..Renewing::once(kind, Place { link, frame }) };
            let model = Renewed::of(&whole, how);
            let mut queue = queue(&model.pipeline(CHUNK), 5);
            let what = format!("{kind:?} of frame {frame} on link {link}");
            same(&what, &expected, answered(&mut queue, &requests()));
            assert!(queue.scheduler().counts().replays > 0, "{what}");
            drop(queue);
            model.end();
        }
    }
}

/// Stages that are lost again and again, at random, while answers come: nothing is lost or doubled, and nothing is left.
#[test]
fn two_hundred_losses_at_random_change_no_answer() {
    let mut random = SplitMix64::new(7);
    let fate = |random: &mut SplitMix64| {
        let frame = 2 + random.below(9);
        Fate::Of(Mischief::Gone, Place { link: 1, frame })
    };
    let fates = (0..200).map(|_| fate(&mut random)).collect();
    let model = Renewed::open(&llama(), Renewing::all(fates));
    let requests = [Request::greedy(60), Request::greedy(60)];
    let expected: Vec<Seen> = answered(&mut queue(&model.one(256), 2), &requests)
        .into_iter()
        .map(|(seen, result)| result.map(|_| seen).unwrap())
        .collect();
    // A replay is one step, so each pipeline computes a token before it is lost.
    let mut queue = queue(&model.pipeline(256), 2);
    while model.made() <= 200 {
        same("random losses", &expected, answered(&mut queue, &requests));
        queue.scheduler_mut().forget().unwrap();
        assert_eq!(queue.scheduler().state_bytes(), 0, "no page is left");
    }
    assert_eq!(queue.scheduler().counts().restores, 200);
    drop(queue);
    model.end();
}

/// A session continues, too, and so does the request after it.
#[test]
fn a_session_continues() {
    let model = Renewed::open(&llama(), Renewing::once(Mischief::Gone, Place { link: 1, frame: 4 }));
    let run = |pipeline: TextPipeline| {
        let mut session = pipeline.session().unwrap();
        let first = session.generate(prompt(2, 60), &Request::greedy(9), |_| ()).unwrap().tokens;
        let second = session.generate(prompt(3, 60), &Request::greedy(9), |_| ()).unwrap().tokens;
        [first, second]
    };
    assert_eq!(run(model.pipeline(CHUNK)), run(model.one(CHUNK)));
    assert_eq!(model.made(), 2);
    model.end();
}

fn missing() -> Fate {
    let stage = StageName { index: 1, first: 2, end: 3 };
    let detail = "no node has these layers".to_owned();
    Fate::Missing(StageFault { kind: FaultKind::Timeout, stage, request: 0, position: 0, rows: 0, detail })
}

/// A pipeline that is complete only after some attempts.
#[test]
fn a_pipeline_that_is_not_complete_is_asked_for_again() {
    let gone = Fate::Of(Mischief::Gone, Place { link: 1, frame: 6 });
    let model = Renewed::open(&llama(), Renewing::all(vec![gone, missing(), missing()]));
    let expected = undisturbed(&model.one(CHUNK));
    let mut queue = queue(&model.pipeline(CHUNK), 5);
    same("two attempts fail", &expected, answered(&mut queue, &requests()));
    assert_eq!(model.made(), 4);
    drop(queue);
    model.end();
}

/// Where nothing is restored, the running requests end with an error that may be tried again, and later ones are answered.
#[test]
fn what_cannot_be_restored_ends_the_running_requests_only() {
    let gone = Fate::Of(Mischief::Gone, Place { link: 1, frame: 6 });
    let fates = [vec![gone], (0..5).map(|_| missing()).collect()].concat();
    let how = Renewing { restoring: Duration::from_secs(1), ..Renewing::all(fates) };
    let model = Renewed::open(&llama(), how);
    let expected = undisturbed(&model.one(CHUNK));
    let mut queue = queue(&model.pipeline(CHUNK), 3);
    let requests = requests();
    let began = Instant::now();
    let first = answered(&mut queue, &requests[..3]);
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    for (_, result) in first {
        let error = result.unwrap_err();
        let fault = stage_fault(&error).unwrap_or_else(|| panic!("{error}"));
        assert!(fault.is_of_links() && fault.request == 1, "{fault:?}");
        for words in
            ["stage 1 (layer", "is gone", "its pipeline was not restored", "no node has these layers"]
        {
            assert!(error.to_string().contains(words), "`{words}` is not in {error}");
        }
    }
    // Each request tries again, until there is a pipeline.
    let attempts = (0..20).find(|_| {
        // A failure is the answer for others for a moment.
        std::thread::sleep(Duration::from_millis(600));
        let results = answered(&mut queue, &requests[..3]);
        let answered = results.iter().all(|(_, result)| result.is_ok());
        if answered {
            same("later", &expected[..3], results);
        }
        answered
    });
    assert!(attempts.is_some(), "no later request was answered");
    drop(queue);
    model.end();
}

/// A wait for a pipeline ends when all requests are cancelled.
#[test]
fn a_wait_for_a_pipeline_is_cancelled() {
    let gone = Fate::Of(Mischief::Gone, Place { link: 1, frame: 3 });
    let fates = [vec![gone], (0..20).map(|_| missing()).collect()].concat();
    let model = Renewed::open(&llama(), Renewing::all(fates));
    let flag = Arc::new(AtomicBool::new(false));
    let mut queue = queue(&model.pipeline(CHUNK), 2);
    let requests = [30, 40].map(|tokens| Request::greedy(tokens).with_cancel(Arc::clone(&flag)));
    let began = Instant::now();
    let results = std::thread::scope(|scope| {
        scope.spawn(|| {
            while model.made() < 3 {
                std::thread::sleep(Duration::from_millis(5));
            }
            flag.store(true, Ordering::Relaxed);
        });
        answered(&mut queue, &requests)
    });
    assert!(began.elapsed() < LONG / 2, "{:?}", began.elapsed());
    for (_, result) in results {
        assert_eq!(result.unwrap().reason, menagerie::engine::StopReason::Cancelled);
    }
    drop(queue);
    model.end();
}

/// A token that ends the stage which sees it.
const DEADLY: u32 = 90;

struct Deadly;

impl LayerHook for Deadly {
    fn name(&self) -> &str {
        "deadly"
    }

    fn layers(&self) -> Range<usize> {
        2..3
    }

    fn before_layer(&self, shown: &HookInput) -> Result<Option<Rows>, ModelError> {
        match shown.tokens {
            // Without a message on the terminal.
            Some(tokens) if tokens.contains(&DEADLY) => std::panic::resume_unwind(Box::new("deadly")),
            _ => Ok(None),
        }
    }
}

/// A request that ends the stage each time it is computed fails, and the others, which share its steps, are answered.
#[test]
fn a_request_that_ends_its_stage_again_and_again_fails_alone() {
    let model = Renewed::open(&llama(), Renewing::all(Vec::new()));
    let plain = |whole: &LoadedModel<TextPipeline>| TextPipeline::new("whole", (**whole.engine()).clone());
    let allowed = SamplingOptions::greedy().with_logit_bias(vec![(DEADLY, f32::NEG_INFINITY)]);
    let request = Request::greedy(12).with_sampling(allowed);
    let requests = [request.clone(), request.clone(), request.clone()];
    let expected: Vec<Seen> =
        answered(&mut queue(&plain(&model.whole), 4), &requests).into_iter().map(|(seen, _)| seen).collect();
    let mut pipeline = model.pipeline(CHUNK);
    pipeline.add_hook(Arc::new(Deadly));
    let mut queue = queue(&pipeline, 4);
    let deadly = queue.submit(&[3, DEADLY, 4][..], &request);
    let mut results = Vec::new();
    let vocabulary = queue.scheduler().engine().vocabulary();
    let ids: Vec<_> = (0..3).map(|index| queue.submit(prompt(index, vocabulary), &request)).collect();
    results.extend(queue.run(|_, _| ()));
    for (id, result) in results {
        if id == deadly {
            let error = result.unwrap_err();
            assert!(matches!(error, GenerateError::LostRepeatedly { times: 3, .. }), "{error}");
            assert!(error.to_string().contains("stage 1 (layer"), "{error}");
            continue;
        }
        let index = ids.iter().position(|one| *one == id).unwrap();
        let tokens: Vec<u32> = expected[index].iter().map(|(_, id, _)| *id).collect();
        assert_eq!(result.unwrap().tokens, tokens, "request {index}");
    }
    // The stages serve others afterwards.
    let again = answered(&mut queue, &requests);
    assert!(again.into_iter().zip(&expected).all(|((seen, _), expected)| seen == *expected));
    drop(queue);
    drop(pipeline);
    model.end();
}
