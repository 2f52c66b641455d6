//! The cache on disk: whatever is in it, answers are what the script says, and what is known is not computed.

use crate::byte_text::Bytes;
use crate::disk_fixture::{BLOCK, Fake, anew, answer, files, scripted, tokens};
use crate::drafts::Guesses;
use crate::fixture::mixing;
use menagerie_engine::{
    DiskCache, DiskCacheOptions, DraftPace, DraftSource, Event, Queue, Request, Scheduler, Session,
};
use menagerie_random::SplitMix64;
use menagerie_testkit::FakeModel;
use std::sync::Arc;

#[test]
fn a_later_process_starts_with_every_whole_block() {
    let folder = tempfile::tempdir().unwrap();
    let prompt = tokens(1, 100);
    let fake = Fake::plain();
    let (cold, cache) = anew(&fake, folder.path(), &prompt);
    assert_eq!((cold.statistics.cached_tokens, cold.statistics.disk_tokens), (0, 0));
    assert_eq!((cache.counts().hits, cache.counts().misses), (0, 1));
    // 100 of the prompt and 4 of the answer, which were fed back.
    assert_eq!(files(folder.path()).len(), 13);
    fake.model.take_seen();
    let (warm, cache) = anew(&fake, folder.path(), &prompt);
    assert_eq!((warm.statistics.cached_tokens, warm.statistics.disk_tokens), (96, 96));
    assert_eq!(fake.model.take_seen()[0].tokens, prompt[96..], "nothing else is computed");
    let counts = cache.counts();
    assert_eq!((counts.hits, counts.misses, counts.read_tokens, counts.written_bytes), (1, 0, 96, 0));
    assert_eq!(counts.read_bytes, 96 * 4);
    // A conversation goes on: the answer is known, too.
    let longer = [&prompt[..], &cold.tokens, &tokens(2, 30)].concat();
    assert_eq!(anew(&fake, folder.path(), &longer).0.statistics.disk_tokens, 104);
    // Another end, and another beginning.
    let mut other = prompt.clone();
    other[50] += 1;
    assert_eq!(anew(&fake, folder.path(), &other).0.statistics.disk_tokens, 48);
    other[0] += 1;
    assert_eq!(anew(&fake, folder.path(), &other).0.statistics.disk_tokens, 0);
    // The last token is always computed.
    assert_eq!(anew(&fake, folder.path(), &prompt[..96]).0.statistics.disk_tokens, 88);
    assert_eq!(anew(&fake, folder.path(), &prompt[..BLOCK]).0.statistics.disk_tokens, 0);
}

#[test]
fn states_that_cannot_go_back_start_at_their_snapshots() {
    for (model, window) in [
        (FakeModel::new(50, mixing).recurrent(), usize::MAX),
        (FakeModel::new(50, mixing).windowed(11), 11),
        (FakeModel::new(50, mixing).windowed(30).recurrent(), 30),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let fake = Fake::new(model);
        let ask = |prompt: &[u32]| {
            let cache = fake.cache(folder.path());
            let outcome = answer(&mut fake.session(Some(cache)), prompt);
            assert_eq!(outcome.tokens, scripted(prompt, 5, window));
            outcome.statistics.disk_tokens
        };
        let prompt = tokens(1, 205);
        assert_eq!(ask(&prompt), 0);
        assert_eq!(ask(&prompt), 200, "the last whole block");
        let mut other = prompt.clone();
        other[190] += 1;
        assert_eq!(ask(&other), 128, "every 16 blocks");
        other[185] += 1;
        assert_eq!(ask(&other), 184, "where prompts were seen to differ");
        assert_eq!(ask(&prompt[..201]), 200);
        let longer = [&prompt[..], &scripted(&prompt, 5, window), &tokens(2, 20)].concat();
        assert_eq!(ask(&longer), 200);
    }
}

/// A step with guesses may go past the position of a snapshot; the same files are written as without guesses.
#[test]
fn the_snapshots_of_an_answer_are_stored_with_drafts_too() {
    let prompt = tokens(1, 20);
    for window in [11, 30] {
        let fake = Fake::new(FakeModel::new(50, mixing).windowed(window));
        let written = |right: Option<Vec<u32>>| {
            let folder = tempfile::tempdir().unwrap();
            let scheduler = fake.scheduler(Some(fake.cache(folder.path())), 512);
            let scheduler = scheduler.with_draft_pace(DraftPace::Always);
            let mut session = Session::new(scheduler, Some(Arc::new(Bytes))).unwrap();
            let source = right.map(|text| Arc::new(Guesses::Right(text)) as Arc<dyn DraftSource>);
            let request = Request::greedy(120).with_draft(source);
            let outcome = session.generate(&prompt, &request, |_| {}).unwrap();
            drop(session);
            let names = files(folder.path()).into_iter().map(|path| path.file_name().unwrap().to_owned());
            (outcome.tokens, names.collect::<Vec<_>>())
        };
        let (answer, names) = written(None);
        assert_eq!(answer, scripted(&prompt, 120, window));
        // Whole blocks of 139 tokens, the end of the prompt, and every 32 tokens.
        assert!(names.len() > 17, "{names:?}");
        assert_eq!(written(Some([&prompt[..], &answer].concat())), (answer, names), "{window}");
    }
}

/// One random run of a queue: 60 requests on prompts that often begin alike, with little memory.
fn queue(fake: &Fake, cache: Option<Arc<DiskCache>>, window: usize, seed: u64) -> Vec<(Vec<u32>, Vec<u32>)> {
    let mut queue = Queue::new(fake.scheduler(cache, 400), None);
    let mut random = SplitMix64::new(seed);
    let mut prompts: Vec<Vec<u32>> = Vec::new();
    let mut answers = Vec::new();
    let (mut ids, mut bits) = (Vec::new(), std::collections::BTreeMap::<_, Vec<u32>>::new());
    while prompts.len() < 60 || !queue.is_idle() {
        if prompts.len() < 60 && random.below(2) == 0 {
            let mut prompt = match prompts.len() {
                0 => Vec::new(),
                count => {
                    let known = &prompts[random.below(count)];
                    known[..random.below(known.len() + 1)].to_vec()
                }
            };
            let more = 1 + random.below(60);
            prompt.extend((0..more).map(|_| random.below(50) as u32));
            prompt.truncate(200);
            let scored = (random.below(5) == 0).then(|| random.below(prompt.len()));
            let request = Request::greedy(1 + random.below(20)).with_logprobs(2).with_prompt_logprobs(scored);
            ids.push((queue.submit(&prompt, &request), prompts.len()));
            prompts.push(prompt);
        }
        let ended = queue.step(|id, event| match event {
            Event::Token { logprob, top, .. } => {
                let all = logprob.into_iter().chain(top.iter().map(|one| one.logprob));
                bits.entry(id).or_default().extend(all.map(f32::to_bits));
            }
            Event::PromptToken { logprob, position, .. } => {
                bits.entry(id).or_default().extend([position as u32, logprob.map_or(0, f32::to_bits)]);
            }
            _ => {}
        });
        for (id, result) in ended {
            let index = ids.iter().find(|(known, _)| *known == id).unwrap().1;
            let outcome = result.unwrap();
            assert_eq!(outcome.tokens, scripted(&prompts[index], outcome.tokens.len(), window));
            answers.push((index, outcome.tokens, bits.remove(&id).unwrap_or_default()));
        }
    }
    answers.sort();
    answers.into_iter().map(|(_, tokens, bits)| (tokens, bits)).collect()
}

#[test]
fn random_requests_have_the_same_bits_with_the_cache_off_cold_and_warm() {
    for (model, window) in [
        (FakeModel::new(50, mixing), usize::MAX),
        (FakeModel::new(50, mixing).recurrent(), usize::MAX),
        (FakeModel::new(50, mixing).windowed(13), 13),
        (FakeModel::new(50, mixing).windowed(40).recurrent(), 40),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let fake = Fake::new(model);
        for seed in [3, 4] {
            let off = queue(&fake, None, window, seed);
            let cold = queue(&fake, Some(fake.cache(folder.path())), window, seed);
            let cache = fake.cache(folder.path());
            let warm = queue(&fake, Some(Arc::clone(&cache)), window, seed);
            assert!(off == cold && off == warm, "seed {seed}, window {window}");
            assert!(cache.counts().hits > 10, "{:?}", cache.counts());
            assert_eq!((cache.counts().damaged, cache.counts().faults), (0, 0));
        }
    }
}

/// Several writers and readers of the same blocks at once, with a folder that is always too small.
#[test]
fn several_caches_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let expected = queue(&Fake::plain(), None, usize::MAX, 9);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let fake = Fake::plain();
                for _ in 0..3 {
                    let options = DiskCacheOptions::default().with_max_bytes(20_000);
                    let cache = fake.cache_with(folder.path(), options);
                    assert_eq!(queue(&fake, Some(Arc::clone(&cache)), usize::MAX, 9), expected);
                    assert_eq!((cache.counts().damaged, cache.take_fault()), (0, None));
                }
            });
        }
    });
}

#[test]
fn what_was_computed_otherwise_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let fake = Fake::plain();
    let prompt = tokens(1, 100);
    let read = |fake: &Fake, request: &Request, plugins: Vec<String>, block: usize| {
        let options = DiskCacheOptions::default().with_block_tokens(block);
        let cache = Arc::new(DiskCache::open(folder, options, fake, plugins).unwrap());
        let outcome = fake.session(Some(cache)).generate(&prompt, request, |_| {}).unwrap();
        assert_eq!(outcome.tokens, scripted(&prompt, 5, usize::MAX));
        outcome.statistics.disk_tokens
    };
    let usual = Request::greedy(5);
    let salted = |salt: &str| usual.clone().with_cache_salt(Arc::from(salt));
    assert_eq!(read(&fake, &usual, Vec::new(), BLOCK), 0);
    assert_eq!(read(&fake, &usual, Vec::new(), BLOCK), 96);
    let other = Fake { weights: "v", ..Fake::plain() };
    for expected in [[0; 5], [96, 96, 96, 96, 90]] {
        let all = [
            read(&other, &usual, Vec::new(), BLOCK),
            read(&fake, &usual, vec!["a/b 1.0 ab12".to_owned()], BLOCK),
            read(&fake, &salted("a"), Vec::new(), BLOCK),
            read(&fake, &salted("b"), Vec::new(), BLOCK),
            read(&fake, &usual, Vec::new(), 10),
        ];
        assert_eq!(all, expected);
    }
    assert_eq!(read(&fake, &salted("a"), Vec::new(), BLOCK), 96);
    assert_eq!(read(&fake, &usual, Vec::new(), BLOCK), 96);
    assert_eq!(read(&other, &usual, Vec::new(), BLOCK), 96);
}

/// The state of one salt is no other's in memory either, in a queue and in a session.
#[test]
fn salts_separate_requests_in_memory() {
    let fake = Fake::plain();
    let (prompt, usual) = (tokens(1, 60), Request::greedy(3));
    let salted = |salt: &str| usual.clone().with_cache_salt(Arc::from(salt));
    let mut queue = Queue::new(fake.scheduler(None, 1000), None);
    let mut session = fake.session(None);
    for (request, cached) in
        [(usual.clone(), 0), (salted("a"), 0), (salted("a"), 59), (salted("b"), 0), (usual.clone(), 59)]
    {
        queue.submit(&prompt, &request);
        let completed = queue.run(|_, _| {});
        assert_eq!(completed[0].1.as_ref().unwrap().statistics.cached_tokens, cached, "{request:?}");
    }
    for (request, kept) in
        [(usual.clone(), false), (usual.clone(), true), (salted("a"), false), (salted("a"), true)]
    {
        let cached = session.generate(&prompt, &request, |_| {}).unwrap().statistics.cached_tokens;
        assert_eq!(cached > 0, kept, "{request:?}");
    }
    // Together in one step: neither waits for the other's prefix.
    let mut queue = Queue::new(fake.scheduler(None, 1000), None);
    queue.submit(&prompt, &salted("a"));
    queue.submit(&prompt, &salted("b"));
    for (_, result) in queue.run(|_, _| {}) {
        assert_eq!(result.unwrap().statistics.cached_tokens, 0);
    }
}

/// Keys that are computed again in the other rope regime are not stored with those of the first.
#[test]
fn rope_regimes_are_separate() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::new(FakeModel::new(50, mixing).with_limit(102));
    let prompt = tokens(1, 100);
    anew(&fake, folder.path(), &prompt);
    let stored = files(folder.path()).len();
    assert_eq!(stored, 12, "the limit is passed in the answer, and nothing is stored from there on");
    let longer = [&prompt[..], &tokens(2, 30)].concat();
    assert_eq!(anew(&fake, folder.path(), &longer).0.statistics.disk_tokens, 0);
    assert_eq!(anew(&fake, folder.path(), &longer).0.statistics.disk_tokens, 128);
    assert_eq!(anew(&fake, folder.path(), &prompt).0.statistics.disk_tokens, 96);
}

#[test]
fn models_whose_prompts_are_computed_whole_are_refused_and_other_models_too() {
    let folder = tempfile::tempdir().unwrap();
    let open = |fake: &Fake, options| DiskCache::open(folder.path(), options, fake, Vec::new());
    let whole = Fake::new(FakeModel::new(50, mixing).taking_whole_prompts());
    let said = open(&whole, DiskCacheOptions::default()).unwrap_err().to_string();
    assert!(said.contains("depend on the whole prompt") && said.contains("--cache"), "{said}");
    let none = DiskCacheOptions::default().with_block_tokens(0);
    assert!(open(&Fake::plain(), none).unwrap_err().to_string().contains("0 tokens"));
    let (one, two) = (Fake::plain(), Fake::plain());
    let scheduler = Scheduler::for_one(Arc::clone(&two.engine), Vec::new()).unwrap();
    let said = scheduler.with_disk_cache(Some(one.cache(folder.path()))).err().unwrap().to_string();
    assert!(said.contains("opened for another model"), "{said}");
}

#[test]
fn the_limits_are_those_of_the_documentation() {
    let DiskCacheOptions { max_bytes, max_age, block_tokens, .. } = DiskCacheOptions::default();
    let days = max_age.map(|age| age.as_secs() / (24 * 3600));
    assert_eq!((max_bytes >> 20, days, block_tokens), (8192, Some(30), 64));
}
