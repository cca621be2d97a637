//! What must hold under every order of the threads. A failure prints the order, which `shuttle::replay` repeats.

mod hand_over;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use shuttle::thread;

use crate::{latest::Latest, write_queue::WriteQueue};

/// Orders that are tried: `SCORN_MODELS`, or a thousand.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let orders = std::env::var("SCORN_MODELS").map_or(1000, |text| text.parse().unwrap());
    let model = Arc::new(model);
    let same = Arc::clone(&model);
    shuttle::check_random(move || same(), orders);
    // Few changes between threads, at the worst moments.
    shuttle::check_pct(move || model(), orders, 3);
}

/// What was done, in order. Threads run one at a time, so no lock of the model is needed, and none of these may be held
/// while a lock of the model is taken.
type Record<T> = Arc<Mutex<Vec<T>>>;

/// The thread that writes the items of the queue, and the record of what it wrote.
fn recorded(queue: &Arc<WriteQueue<u32>>) -> (Record<u32>, thread::JoinHandle<()>) {
    let written = Record::default();
    let (from, to) = (Arc::clone(queue), Arc::clone(&written));
    let writer = thread::spawn(move || {
        from.write(|item| {
            to.lock().unwrap().push(item);
            true
        });
    });
    (written, writer)
}

#[test]
fn what_is_pushed_is_written_once_and_in_order() {
    check(|| {
        let queue = Arc::new(WriteQueue::new());
        let (written, writer) = recorded(&queue);
        let push = |items: [u32; 2]| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                items
                    .into_iter()
                    .for_each(|item| queue.push(item, 9).unwrap())
            })
        };
        let pushers = [push([1, 2]), push([11, 12])];
        pushers
            .into_iter()
            .for_each(|pusher| pusher.join().unwrap());
        assert!(queue.flush(Duration::ZERO));
        let of = |range: std::ops::Range<u32>| {
            let written = written.lock().unwrap();
            written
                .iter()
                .copied()
                .filter(|item| range.contains(item))
                .collect::<Vec<_>>()
        };
        assert_eq!((of(0..10), of(10..20)), (vec![1, 2], vec![11, 12]));
        queue.end();
        writer.join().unwrap();
    });
}

#[test]
fn a_reader_that_is_gone_ends_the_writer_and_blocks_nobody() {
    check(|| {
        let queue = Arc::new(WriteQueue::new());
        let from = Arc::clone(&queue);
        let mut left = 1;
        let writer = thread::spawn(move || {
            from.write(|_: u32| {
                left -= 1;
                left >= 0
            });
        });
        let to = Arc::clone(&queue);
        let pusher = thread::spawn(move || (0..4).filter(|&item| to.push(item, 2).is_ok()).count());
        let waits = Arc::clone(&queue);
        let flusher = thread::spawn(move || waits.flush(Duration::ZERO));
        let pushed = pusher.join().unwrap();
        assert!(flusher.join().unwrap());
        // At least two items were taken, so that the writer meets the end.
        assert!(pushed >= 2);
        writer.join().unwrap();
        assert!(queue.is_closed() && queue.push(5, 9).is_err());
    });
}

#[test]
fn a_full_queue_that_is_replaced_or_closed_stays_usable() {
    check(|| {
        let queue = Arc::new(WriteQueue::new());
        let (written, writer) = recorded(&queue);
        let other = Arc::clone(&queue);
        let replacer = thread::spawn(move || other.replace(7));
        let pushed = (0..3).filter(|&item| queue.push(item, 2).is_ok()).count();
        let dropped = replacer.join().unwrap();
        assert!(queue.flush(Duration::ZERO));
        assert_eq!(written.lock().unwrap().len(), pushed + 1 - dropped);
        assert!(written.lock().unwrap().contains(&7));
        queue.close();
        writer.join().unwrap();
    });
}

/// The numbers of the requests that were done.
type Done = Record<u64>;

/// Submits a request; starts a thread if that is necessary and not refused.
fn submit(requests: &Arc<Latest<u64, bool>>, done: &Done, is_refused: bool) {
    if !requests.lock().submit(|number| number) {
        return;
    }
    if is_refused {
        let cancelled = requests.cancel();
        done.lock().unwrap().extend(cancelled);
        return;
    }
    let (requests, done) = (Arc::clone(requests), Arc::clone(done));
    thread::spawn(move || {
        requests.work(
            |_| (),
            |request, ()| {
                thread::yield_now();
                done.lock().unwrap().extend(request);
            },
        );
    });
}

#[test]
fn the_latest_request_is_always_done_and_none_twice() {
    check(|| {
        let requests = Arc::new(Latest::new(false));
        let done = Done::default();
        let (others, also) = (Arc::clone(&requests), Arc::clone(&done));
        let other = thread::spawn(move || (0..2).for_each(|_| submit(&others, &also, false)));
        (0..2).for_each(|_| submit(&requests, &done, false));
        other.join().unwrap();
        assert!(requests.close(Instant::now()));
        let done = done.lock().unwrap();
        assert_eq!(done.last(), Some(&4));
        // One thread at a time: they are done in order.
        assert!(done.is_sorted_by(|a, b| a < b), "{done:?}");
        assert!(!requests.lock().is_busy());
    });
}

#[test]
fn a_refused_thread_loses_no_later_request() {
    check(|| {
        let requests = Arc::new(Latest::new(false));
        let done = Done::default();
        let (others, also) = (Arc::clone(&requests), Arc::clone(&done));
        let other = thread::spawn(move || submit(&others, &also, true));
        submit(&requests, &done, false);
        other.join().unwrap();
        assert!(requests.close(Instant::now()));
        submit(&requests, &done, false);
        assert!(requests.close(Instant::now()));
        let mut done = done.lock().unwrap().clone();
        done.sort_unstable();
        assert_eq!(done.last(), Some(&3));
        assert!(!requests.lock().is_busy());
    });
}

#[test]
fn work_that_pauses_ends_when_it_is_superseded_or_the_program_ends() {
    check(|| {
        let requests: Arc<Latest<u64, bool>> = Arc::new(Latest::new(true));
        assert!(requests.lock().submit(|number| number));
        let worker = Arc::clone(&requests);
        let worker = thread::spawn(move || {
            let may_go_on = |request: Option<u64>| {
                let request = request.unwrap();
                while worker.may_continue(request, |&is_paused| is_paused) {
                    thread::yield_now();
                }
            };
            worker.work(|_| (), |request, ()| may_go_on(request));
        });
        let search = Arc::clone(&requests);
        let search = thread::spawn(move || {
            for is_paused in [false, true] {
                **search.lock() = is_paused;
                search.notify();
            }
        });
        // The worker takes it up without a new thread.
        assert!(!requests.lock().submit(|number| number));
        requests.notify();
        assert!(requests.close(Instant::now()));
        search.join().unwrap();
        worker.join().unwrap();
    });
}
