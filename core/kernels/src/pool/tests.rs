//! The pool: every task once, panics, nesting, many callers, no thread left, more threads than cores.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use super::Pool;
use crate::error::KernelError;

/// A count, or a small one under Miri, which runs about a thousand times slower (`scripts/miri`).
const fn count(count: usize, under_miri: usize) -> usize {
    if cfg!(miri) { under_miri } else { count }
}

#[test]
fn every_task_runs_exactly_once() {
    for threads in [1, 2, 3, 5] {
        let pool = Pool::new(threads).unwrap();
        for tasks in [0, 1, 2, 7, count(1000, 20)] {
            let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            pool.run(tasks, &|task| {
                counts[task].fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{threads} x {tasks}");
        }
    }
}

#[test]
fn results_are_visible_after_thousands_of_small_regions() {
    let pool = Pool::new(4).unwrap();
    let mut values = vec![0u64; 64];
    let regions = count(5000, 10);
    for _ in 0..regions {
        pool.run_chunks(&mut values, 5, &|_, piece| piece.iter_mut().for_each(|value| *value += 1)).unwrap();
    }
    assert!(values.iter().all(|&value| value == regions as u64));
}

#[test]
fn all_threads_take_part_and_carry_their_names() {
    let pool = Pool::new(3).unwrap();
    assert_eq!(pool.threads(), 3);
    let barrier = Barrier::new(3);
    let names = Mutex::new(HashSet::new());
    pool.run(3, &|_| {
        // Only if three threads are here at once can any of them continue.
        barrier.wait();
        names.lock().unwrap().insert(std::thread::current().name().unwrap_or("caller").to_owned());
    })
    .unwrap();
    let names = names.into_inner().unwrap();
    assert_eq!(names.len(), 3);
    assert!(names.contains("menagerie-1") && names.contains("menagerie-2"), "{names:?}");
}

#[test]
fn a_panic_is_the_error_of_that_call_only() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads).unwrap();
        for round in 0..count(20, 2) {
            let error =
                pool.run(50, &|task| assert!(task != 13, "task {task} of round {round}")).unwrap_err();
            assert_eq!(error, KernelError::JobPanicked(format!("task 13 of round {round}")));
            let done = AtomicUsize::new(0);
            pool.run(50, &|_| {
                done.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
            assert_eq!(done.into_inner(), 50);
        }
    }
}

#[test]
fn a_single_task_that_panics_is_an_error_too() {
    let pool = Pool::new(2).unwrap();
    assert_eq!(pool.run(1, &|_| panic!("alone")), Err(KernelError::JobPanicked("alone".to_owned())));
}

/// The payload of a job's panic, which panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload was dropped");
    }
}

/// Runs a region in which the caller, or else the worker, panics with a bomb while the other is inside too; returns the
/// result of `run`, or `None` if it unwound or does not end.
fn explode(on_caller: bool) -> Option<Result<(), KernelError>> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let pool = Pool::new(2).unwrap();
        let (barrier, caller) = (Barrier::new(2), std::thread::current().id());
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.run(2, &|_| {
                barrier.wait();
                if (std::thread::current().id() == caller) == on_caller {
                    std::panic::panic_any(Bomb);
                }
            })
        }));
        let first = outcome.unwrap_or(Ok(()));
        // Nothing is left over: both threads work on the next region.
        let again = pool.run(2, &|_| {
            barrier.wait();
        });
        let _ = sender.send(again.and(first));
    });
    receiver.recv_timeout(Duration::from_secs(60)).ok()
}

#[test]
fn a_payload_that_panics_when_dropped_ends_nothing_but_its_call() {
    let expected = Err(KernelError::JobPanicked("a panic without a message".to_owned()));
    assert_eq!(explode(true), Some(expected.clone()), "on the caller");
    assert_eq!(explode(false), Some(expected.clone()), "on a worker");
    for threads in [1, 2] {
        let pool = Pool::new(threads).unwrap();
        for tasks in [1, 2] {
            assert_eq!(pool.run(tasks, &|_| std::panic::panic_any(Bomb)), expected);
        }
    }
}

#[test]
fn a_nested_region_runs_inline() {
    let pool = Pool::new(2).unwrap();
    let other = Pool::new(2).unwrap();
    let count = AtomicUsize::new(0);
    pool.run(8, &|_| {
        let thread = std::thread::current().id();
        for inner in [&pool, &other] {
            inner
                .run(8, &|_| {
                    assert_eq!(thread, std::thread::current().id());
                    count.fetch_add(1, Ordering::Relaxed);
                })
                .unwrap();
        }
    })
    .unwrap();
    assert_eq!(count.into_inner(), 128);
}

#[test]
fn a_single_task_may_use_all_threads() {
    let pool = Pool::new(2).unwrap();
    let barrier = Barrier::new(2);
    pool.run(1, &|_| {
        // Inline it would wait forever.
        pool.run(2, &|_| {
            barrier.wait();
        })
        .unwrap();
    })
    .unwrap();
}

#[test]
fn many_callers_share_one_pool() {
    let pool = Arc::new(Pool::new(3).unwrap());
    let total = AtomicUsize::new(0);
    let regions = count(300, 5);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..regions {
                    let mut sums = [0usize; 10];
                    pool.run_chunks(&mut sums, 3, &|index, piece| piece.fill(index + 1)).unwrap();
                    total.fetch_add(sums.iter().sum::<usize>(), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(total.into_inner(), 6 * regions * (3 + 6 + 9 + 4));
}

#[test]
#[cfg_attr(miri, ignore = "it measures time")]
fn a_waiting_caller_gets_its_turn_while_another_never_stops() {
    let pool = Pool::new(2).unwrap();
    let stop = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            while stop.load(Ordering::Relaxed) == 0 {
                pool.run(2, &|_| std::thread::sleep(Duration::from_micros(300))).unwrap();
            }
        });
        std::thread::sleep(Duration::from_millis(5));
        let start = Instant::now();
        for _ in 0..10 {
            pool.run(2, &|_| {}).unwrap();
        }
        let waited = start.elapsed();
        stop.store(1, Ordering::Relaxed);
        busy.join().unwrap();
        assert!(waited < Duration::from_secs(5), "{waited:?}");
    });
}

/// The time that `callers` threads need for `regions` small regions in all, on one pool.
fn regions_by(callers: usize, regions: usize) -> Duration {
    let pool = Pool::new(2).unwrap();
    let mut data = vec![vec![0u32; 4096]; callers];
    let start = Instant::now();
    std::thread::scope(|scope| {
        for values in &mut data {
            let pool = &pool;
            scope.spawn(move || {
                for _ in 0..regions / callers {
                    pool.run_chunks(values, 512, &|_, piece| {
                        piece.iter_mut().for_each(|v| *v = v.wrapping_mul(3) + 1);
                    })
                    .unwrap();
                }
            });
        }
    });
    start.elapsed()
}

/// The same work by two callers: handing the pool over at every region would cost a wake-up each time.
#[test]
#[cfg_attr(miri, ignore = "it measures time")]
fn callers_that_compete_do_not_collapse() {
    const REGIONS: usize = 20_000;
    // The best of three of each: a loaded machine takes time from either.
    let best = |callers| (0..3).map(|_| regions_by(callers, REGIONS)).min().unwrap();
    let (one, two) = (best(1), best(2));
    println!("one caller {one:?}, two callers {two:?}");
    assert!(two < one * 5, "one caller {one:?}, two callers {two:?}");
}

#[test]
fn more_threads_than_cores_and_two_pools_finish() {
    let threads = count(super::usable_threads() * 8, 4);
    let regions = count(200, 3);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let pool = Pool::new(threads).unwrap();
                let count = AtomicUsize::new(0);
                for _ in 0..regions {
                    pool.run(threads, &|_| {
                        count.fetch_add(1, Ordering::Relaxed);
                    })
                    .unwrap();
                }
                assert_eq!(count.into_inner(), regions * threads);
            });
        }
    });
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn dropping_the_pool_ends_its_threads() {
    let ids = Mutex::new(HashSet::new());
    let pool = Pool::new(4).unwrap();
    let barrier = Barrier::new(4);
    pool.run(4, &|_| {
        barrier.wait();
        // SAFETY: a system call without arguments.
        ids.lock().unwrap().insert(unsafe { libc::gettid() });
    })
    .unwrap();
    // SAFETY: as above.
    let me = unsafe { libc::gettid() };
    // Asleep by now; dropping must wake them.
    std::thread::sleep(Duration::from_millis(20));
    drop(pool);
    let ids = ids.into_inner().unwrap();
    assert_eq!(ids.len(), 4);
    for id in ids.into_iter().filter(|&id| id != me) {
        // The entry may outlive the join by a moment.
        let entry = format!("/proc/self/task/{id}");
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::path::Path::new(&entry).exists() {
            assert!(Instant::now() < deadline, "thread {id} is still there");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn numbers_of_threads_that_make_no_sense_are_refused() {
    assert!(matches!(Pool::new(0), Err(KernelError::Threads(_))));
    assert!(matches!(Pool::new(1 << 20), Err(KernelError::Threads(_))));
    assert!(matches!(
        Pool::new(2).unwrap().run_chunks(&mut [0u8; 4], 0, &|_, _| {}),
        Err(KernelError::Shape { .. })
    ));
}
