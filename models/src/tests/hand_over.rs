//! The hand-over of packets between the threads of a search.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use shuttle::thread;

use crate::hand_over::{HandOver, Next, Owner, Turn};

/// Settles and prepares packets, which are numbers of visits, two in a turn: at most `most_at_once` packets are
/// prepared or under way at a time, as in a small tree, and the work is over after `limit` visits.
struct Counter {
    owned: AtomicUsize,
    state: Mutex<State>,
    most_at_once: usize,
    limit: usize,
}

#[derive(Default)]
struct State {
    under_way: usize,
    settled: usize,
}

impl Owner<usize> for Counter {
    fn take_turn(&self, turn: &mut Turn<usize>) {
        assert_eq!(self.owned.fetch_add(1, Ordering::Relaxed), 0, "two owners");
        // Another thread may come in between.
        thread::yield_now();
        let mut state = self.state.lock().unwrap();
        state.under_way -= turn.finished.len();
        state.settled += turn.finished.iter().sum::<usize>();
        turn.is_over = state.settled >= self.limit;
        turn.resting.append(&mut turn.finished);
        let is_over = turn.is_over;
        let may_prepare = |state: &State| !is_over && state.under_way < self.most_at_once;
        while may_prepare(&state) && turn.prepared.len() < 2 && turn.resting.pop().is_some() {
            turn.prepared.push(0);
            state.under_way += 1;
        }
        turn.has_more = may_prepare(&state) && !turn.resting.is_empty();
        drop(state);
        self.owned.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Threads that exchange packets until `limit` packets were worked on, or until one of them ends the work.
#[derive(Clone, Copy)]
struct Case {
    threads: usize,
    packets: usize,
    most_at_once: usize,
    limit: usize,
    ends_early: bool,
}

/// Runs the case under many orders of the threads, which spin before they sleep, or do not.
fn check(case: Case) {
    for may_spin in [false, true] {
        super::check(move || run(case, may_spin));
    }
}

fn run(case: Case, may_spin: bool) {
    let Case {
        threads,
        packets,
        most_at_once,
        limit,
        ends_early,
    } = case;
    let counter = Arc::new(Counter {
        owned: AtomicUsize::new(0),
        state: Mutex::default(),
        most_at_once,
        limit,
    });
    let hand_over = Arc::new(HandOver::new(vec![0; packets], may_spin));
    let worked = Arc::new(AtomicUsize::new(0));
    let work = |number: usize| {
        let (hand_over, counter, worked) = (
            Arc::clone(&hand_over),
            Arc::clone(&counter),
            Arc::clone(&worked),
        );
        thread::spawn(move || {
            let mut held = None;
            loop {
                match hand_over.exchange(held.take(), &*counter, None) {
                    Next::Work(packet) => {
                        thread::yield_now();
                        let before = worked.fetch_add(1, Ordering::Relaxed);
                        held = Some(packet + 1);
                        if ends_early && number == 0 && before > 1 {
                            hand_over.end();
                        }
                    }
                    Next::Wait => {}
                    Next::End => return usize::from(held.is_some()),
                }
            }
        })
    };
    let running: Vec<_> = (0..threads).map(work).collect();
    running.into_iter().for_each(|thread| {
        thread.join().unwrap();
    });
    let Ok(hand_over) = Arc::try_unwrap(hand_over) else {
        panic!("all threads have ended")
    };
    let (finished, others) = hand_over.into_packets();
    assert_eq!(finished.len() + others.len(), packets, "no packet is lost");
    let left = finished.iter().sum::<usize>();
    let settled = counter.state.lock().unwrap().settled;
    assert_eq!(
        settled + left,
        worked.load(Ordering::Relaxed),
        "no work is lost"
    );
    assert!(ends_early || settled >= limit);
}

#[test]
fn all_work_is_done_and_no_packet_is_lost() {
    let case = Case {
        threads: 3,
        packets: 4,
        most_at_once: 4,
        limit: 9,
        ends_early: false,
    };
    check(case);
    check(Case {
        threads: 2,
        packets: 2,
        most_at_once: 2,
        limit: 5,
        ..case
    });
    // More packets than a turn prepares.
    check(Case {
        threads: 2,
        packets: 5,
        most_at_once: 5,
        ..case
    });
}

#[test]
fn threads_without_work_sleep_and_nobody_waits_for_ever() {
    check(Case {
        threads: 3,
        packets: 3,
        most_at_once: 1,
        limit: 5,
        ends_early: false,
    });
}

#[test]
fn the_work_ends_for_all_threads_whatever_they_do() {
    check(Case {
        threads: 3,
        packets: 4,
        most_at_once: 2,
        limit: 1000,
        ends_early: true,
    });
}
