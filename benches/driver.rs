//! How a search scales, on hardware that is not at hand: `cargo bench --bench driver [PART]`, where PART is
//! `tree`, `processors`, `device`, `card`, `host`, `selfplay`, `threads` or `stop`; without it all of them. Figures:
//! `docs/lab/driver.md`.
//!
//! * `tree`: what the owner of the tree does, apart from everything else: visits per second that one thread selects and
//!   backs up, with hash values and with the built-in network, whose trees are deeper.
//! * `processors`: nodes per second with 1 to 64 simulated processors, each ten times slower than one that takes 6.5
//!   microseconds a position outside the tree.
//! * `device`: nodes reached in 0.1, 0.3 and 1 s from the start position in a fresh tree, on a simulated GPU with the
//!   batch times of an H100 and of one that is four times slower.
//! * `card`: nodes reached in 20 and 140 ms in middlegames and endgames, on a simulated GPU and the processors of its
//!   host, ten times slower, with the batch times of captured graphs and of lc0. With a file of positions
//!   (`card FILE.fen`) FEN, move and nodes of each, 140 ms with four threads, for `docs/experiments/choice.py compare`.
//! * `host`: what the processor does for a network that a GPU computes: nodes per second with one and two threads, and
//!   processor time a node, with lc0's planes, the cache, and a device that takes no time.
//! * `selfplay`: evaluations per second and positions per batch of self-play on the simulated H100, by 2 to 16 threads.
//! * `threads`: nodes per second and CPU second with the real processors: the built-in network as it plays, and the
//!   hash evaluator in large batches, of which each thread has its own.
//! * `stop`: the time from the request to stop to the move, with 64 threads.

#[path = "common/cpu_time.rs"]
mod cpu_time;

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use cpu_time::cpu_time;
use scorn::{
    chess::{History, setup},
    game::{adjudicate::Rules, openings::Book},
    lc0::InputFormat,
    network::{
        Added, Advice, Batch, EvalPosition, EvaluateError, Evaluator, Info,
        backend::{
            merged::Merged,
            pool::{DeviceSession, Label, NetworkEvaluator, Outputs, PolicyKind, SessionCounts},
            simulated::{
                H100_LARGE, H100_SMALL, H100_TRANSFORMER, SimulatedDevice, SimulatedProcessors,
                times,
            },
        },
        cached::CachedEvaluator,
        hash::HashEvaluator,
        input::{Encoding, InputRows, View},
        load::{NetworkConfig, load_backend},
        opponent::Networks,
    },
    options::Options,
    search::{
        self, Clock, Job, Limits, Outcome, SearchParams, Silent, StopSignal, SystemClock, Tree,
        TreeSearch,
    },
    selfplay::{
        driver::{self, GamesProgress, Workload},
        plan::{Colors, Contestant, Plan, Starts, Terms},
    },
};

fn main() {
    let parts: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let all: [(&str, fn()); 8] = [
        ("tree", tree),
        ("processors", processors),
        ("device", device),
        ("card", card),
        ("host", host),
        ("selfplay", selfplay),
        ("threads", threads),
        ("stop", stop),
    ];
    for (name, run) in all {
        if parts.is_empty() || parts.iter().any(|part| part == name) {
            run();
        }
    }
}

/// A search of a fresh tree from the start position: the nodes, and the seconds of wall and of CPU time.
fn search(
    evaluator: &dyn Evaluator,
    threads: usize,
    minibatch: usize,
    limits: Limits,
) -> (u64, f64, f64) {
    let job = job(History::default(), threads, minibatch, limits);
    let clock = SystemClock::default();
    let (wall, cpu) = (clock.now(), cpu_time());
    let nodes = nodes_of(&job, evaluator, &clock);
    let wall = (clock.now() - wall).as_secs_f64();
    (nodes, wall, (cpu_time() - cpu).as_secs_f64())
}

fn job(history: History, threads: usize, minibatch_size: usize, limits: Limits) -> Job {
    let options = Options {
        threads,
        minibatch_size,
        ..Options::default()
    };
    Job::new(history, limits, options.search())
}

/// Searches a fresh tree, and returns the outcome and its nodes.
fn outcome_of(job: &Job, evaluator: &dyn Evaluator, clock: &dyn Clock) -> (Outcome, u64) {
    let (mut tree, stop) = (Tree::default(), StopSignal::default());
    let outcome = search::run(&mut tree, evaluator, job, &stop, clock, &mut Silent);
    (outcome.expect("the search runs"), tree.root_visits())
}

/// The nodes alone.
fn nodes_of(job: &Job, evaluator: &dyn Evaluator, clock: &dyn Clock) -> u64 {
    outcome_of(job, evaluator, clock).1
}

fn movetime(milliseconds: u64) -> Limits {
    Limits {
        movetime: Some(Duration::from_millis(milliseconds)),
        ..Limits::default()
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Values and priors from a hash of the position, known at once.
const AT_ONCE: SimulatedProcessors = SimulatedProcessors(Duration::ZERO);

/// An evaluator that measures what a search by one thread does with the tree: the time from the end of one expansion to
/// the first position of the next one.
struct TreeTimer<'a> {
    /// Answers at once.
    network: &'a dyn Evaluator,
    /// Whether priors are known with the values, as from a device or a cache. Otherwise they come with a second visit,
    /// as those of the built-in network.
    knows_priors: bool,
    /// When the last expansion ended, in nanoseconds; 0 during an expansion.
    ended: AtomicU64,
    /// Nanoseconds from ends to beginnings.
    total: AtomicU64,
    clock: SystemClock,
}

impl TreeTimer<'_> {
    fn now(&self) -> u64 {
        self.clock.now().as_nanos() as u64 + 1
    }

    fn begin(&self) {
        if self.ended.load(Ordering::Relaxed) > 0 {
            let ended = self.ended.swap(0, Ordering::Relaxed);
            self.total.fetch_add(self.now() - ended, Ordering::Relaxed);
        }
    }
}

impl Evaluator for TreeTimer<'_> {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        self.network.evaluate(batch)
    }

    fn add(&self, position: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        self.begin();
        let added = self.network.add(position, batch);
        match added {
            Added::Computed(value) if self.knows_priors => {
                self.network.priors(position, 1.0);
                Added::Fetched(value)
            }
            _ => added,
        }
    }

    fn priors(&self, position: &mut EvalPosition<'_>, temperature: f32) {
        self.begin();
        self.network.priors(position, temperature);
    }

    fn view(&self) -> &View {
        self.network.view()
    }

    /// A search queries it once, at the end of each expansion.
    fn refiner(&self) -> Option<&dyn Evaluator> {
        self.ended.store(self.now(), Ordering::Relaxed);
        None
    }

    fn info(&self) -> Info {
        self.network.info()
    }
}

/// Seconds that one thread needs for a visit, in the tree and elsewhere, in batches of this size.
fn seconds_per_visit(
    network: &dyn Evaluator,
    nodes: u64,
    minibatch: usize,
    knows_priors: bool,
) -> (f64, f64) {
    let limits = Limits {
        nodes: Some(nodes),
        ..Limits::default()
    };
    let runs = (0..3).map(|_| {
        let timer = TreeTimer {
            network,
            knows_priors,
            ended: AtomicU64::new(0),
            total: AtomicU64::new(0),
            clock: SystemClock::default(),
        };
        let job = job(History::default(), 1, minibatch, limits.clone());
        let params = Arc::new(SearchParams::for_evaluator(&job.options, &timer));
        let mut search = TreeSearch::new(Tree::default(), job, params);
        let (begun, mut batch) = (Instant::now(), Batch::default());
        while !search.is_over() {
            search.gather(&timer, &mut batch).expect("nothing can fail");
            search.apply(&batch);
        }
        let (nodes, wall) = (search.tree().root_visits(), begun.elapsed().as_secs_f64());
        let in_tree = timer.total.into_inner() as f64 / 1e9;
        (in_tree / nodes as f64, (wall - in_tree) / nodes as f64)
    });
    let (tree, elsewhere) = runs.unzip();
    (median(tree), median(elsewhere))
}

fn tree() {
    println!("one thread, values and priors at once, with and without priors, median of 3:");
    println!(
        "{:>9} {:>8} {:>8} {:>9} {:>14} {:>16} {:>14}",
        "network", "nodes", "batch", "priors", "tree ns/visit", "tree visits/s", "other ns/visit"
    );
    let built_in = built_in();
    let networks: [(&str, &dyn Evaluator, u64); 2] = [
        ("hash", &AT_ONCE, 1_000_000),
        ("built-in", &*built_in, 400_000),
    ];
    for (name, network, nodes) in networks {
        for (priors, knows_priors) in [("known", true), ("second", false)] {
            for minibatch in [16, 32, 64] {
                let (tree, elsewhere) = seconds_per_visit(network, nodes, minibatch, knows_priors);
                println!(
                    "{name:>9} {nodes:>8} {minibatch:>8} {priors:>9} {:>14.0} {:>16.0} {:>14.0}",
                    1e9 * tree,
                    1.0 / tree,
                    1e9 * elsewhere
                );
            }
        }
    }
}

/// Processors that are slower than the real ones, so that a few of these can stand for many: they sleep for what they
/// would compute longer, outside of the tree as evaluator, and as clock when the owner of the tree looks at it, once a
/// turn. Only waking a thread takes no longer than on the real ones.
struct SlowProcessors {
    /// Sleeps for each position, outside of the tree.
    evaluator: SimulatedProcessors,
    /// What is slept for each visit by the owner of the tree, in nanoseconds.
    in_tree: i64,
    /// Positions whose visits the owner has not slept for.
    added: AtomicI64,
    /// Nanoseconds that the owner has still to sleep; below zero if it slept too long.
    debt: AtomicI64,
    /// The thread that also looks at the clock between its packets, if there are several.
    reporting: Option<ThreadId>,
    clock: SystemClock,
}

thread_local! {
    /// Whether this thread has worked outside of the tree since it looked at the clock.
    static WAS_OUTSIDE: Cell<bool> = const { Cell::new(false) };
}

impl SlowProcessors {
    /// `threads` threads, which sleep for these seconds for each position outside of the tree and each visit in it.
    fn new(threads: usize, outside: f64, in_tree: f64) -> SlowProcessors {
        SlowProcessors {
            evaluator: SimulatedProcessors(Duration::from_secs_f64(outside)),
            in_tree: (1e9 * in_tree) as i64,
            added: AtomicI64::new(0),
            debt: AtomicI64::new(0),
            reporting: (threads > 1).then(|| thread::current().id()),
            clock: SystemClock::default(),
        }
    }
}

impl Evaluator for SlowProcessors {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        AT_ONCE.evaluate(batch)
    }

    fn add(&self, position: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        WAS_OUTSIDE.set(true);
        self.added.fetch_add(1, Ordering::Relaxed);
        self.evaluator.add(position, batch)
    }

    fn priors(&self, position: &mut EvalPosition<'_>, temperature: f32) {
        AT_ONCE.priors(position, temperature);
    }

    fn info(&self) -> Info {
        AT_ONCE.info()
    }
}

impl Clock for SlowProcessors {
    fn now(&self) -> Duration {
        let is_reporting =
            self.reporting == Some(thread::current().id()) && WAS_OUTSIDE.replace(false);
        if !is_reporting {
            let new = self.in_tree * self.added.swap(0, Ordering::Relaxed);
            let debt = self.debt.fetch_add(new, Ordering::Relaxed) + new;
            // The system wakes a thread some 50 µs late.
            if debt > 300_000 {
                let begun = Instant::now();
                thread::sleep(Duration::from_nanos(debt as u64));
                let slept = begun.elapsed().as_nanos() as i64;
                self.debt.fetch_sub(slept, Ordering::Relaxed);
            }
        }
        self.clock.now()
    }
}

fn processors() {
    const TIMES_SLOWER: f64 = 10.0;
    const POSITION: f64 = 6.5e-6;
    let (of_hash, passes_outside) = seconds_per_visit(&AT_ONCE, 1_000_000, 64, false);
    let of_network = seconds_per_visit(&*built_in(), 400_000, 64, false).0;
    println!(
        "simulated processors, {TIMES_SLOWER} times slower than {:.1} µs a position outside the tree, 10 s, medians:",
        1e6 * POSITION
    );
    for (name, in_tree) in [
        ("hash values", of_hash),
        ("the built-in network", of_network),
    ] {
        println!("in trees of {name}, a visit {:.2} µs", 1e6 * in_tree);
        println!("{:>8} {:>12} {:>8}", "threads", "nodes in 1 s", "times");
        let mut one = 0.0;
        for threads in [1, 2, 4, 8, 16, 64] {
            // The searches have hash values, so some of the time passes anyway.
            let sleeps_outside = (TIMES_SLOWER * POSITION - passes_outside).max(0.0);
            let sleeps_in_tree = TIMES_SLOWER * in_tree - of_hash;
            let runs = (0..3).map(|_| {
                let processors = SlowProcessors::new(threads, sleeps_outside, sleeps_in_tree);
                let job = job(History::default(), threads, 0, movetime(10_000));
                nodes_of(&job, &processors, &processors) as f64
            });
            let nodes = median(runs.collect());
            if threads == 1 {
                one = nodes;
            }
            println!("{threads:>8} {nodes:>12.0} {:>8.2}", nodes / one);
        }
    }
}

fn device() {
    println!(
        "simulated GPU, nodes in 100, 300 and 1000 ms, median of 3, and what its batch times allow in a second:"
    );
    let networks = [
        ("6x64", &H100_SMALL),
        ("20x256", &H100_LARGE),
        ("15x768", &H100_TRANSFORMER),
    ];
    for (name, milliseconds) in networks {
        for (card, factor) in [("H100", 1.0), ("a quarter of it", 4.0)] {
            let Some(curve) = times(milliseconds, factor) else {
                continue;
            };
            let most = curve.speed(curve.largest());
            for (threads, minibatch, late) in [
                (2, 0, 0.0),
                (3, 0, 0.0),
                (6, 0, 0.0),
                (1, 64, 0.0),
                (3, 256, 0.0),
                (3, 0, 1.5),
                (6, 0, 1.5),
            ] {
                let device = SimulatedDevice::new(Arc::new(HashEvaluator), curve.clone(), threads)
                    .shared_with_others(Duration::from_secs_f64(late / 1000.0));
                let evaluator = Merged::new(&device, curve.largest());
                let nodes = [100, 300, 1000].map(|ms| {
                    let run = |_| search(&evaluator, threads, minibatch, movetime(ms)).0 as f64;
                    median((0..3).map(run).collect())
                });
                println!(
                    "{name:>7} {card:<16} threads {threads} batch {minibatch:>3} late {late:.1} ms {:>8.0} {:>8.0} {:>8.0}   {most:>8.0}",
                    nodes[0], nodes[1], nodes[2]
                );
            }
        }
    }
}

/// Middlegames and endgames of TCEC's games.
const POSITIONS: [&str; 8] = [
    "r2q1rk1/1bpn1pb1/pp1p2pp/3Pp3/2P1P1n1/2N2N2/PPQ1BPPP/2BR1RK1 b - - 0 13",
    "4r2k/1p3pp1/p1pPbq1p/8/1P2Bn2/P6P/2Q2PP1/2B1R1K1 b - - 0 25",
    "2r3k1/1p1P1pp1/1P5p/P7/1qn1Q3/6P1/1b3NKP/1R6 b - - 0 45",
    "r2q1rk1/1bpnbppp/pp3n2/3p4/3P4/1PNBPN2/PB3PPP/R2Q1RK1 w - - 0 11",
    "3k4/3n4/1p4p1/3q1pP1/1n1N1P2/1P4Pp/4Q2K/6B1 w - - 5 45",
    "r1q2rk1/1p2bpp1/pBbppn1p/P7/2B1P3/2N5/1PP1QPPP/3R1RK1 w - - 0 15",
    "r1b1k2r/1pp1nppp/p1n5/b2Np3/2P5/BP2PNP1/P4PBP/2KR3R b - - 6 13",
    "r1bqk2r/ppp1bppp/3p1nn1/8/3NPP2/2N5/PPP1B1PP/R1BQK2R w KQkq - 3 9",
];

/// Batch times of an H100 with captured graphs and maia-1900, milliseconds by batch size (`benches/RESULTS.md`).
const CAPTURED: [(usize, f64); 6] = [
    (1, 0.209),
    (8, 0.243),
    (16, 0.305),
    (64, 0.352),
    (256, 0.436),
    (1024, 0.98),
];

/// A card and the processors of its host, slowed so far that two real processors can stand for many. The slow
/// processors have time for the built-in network's answers.
struct SlowCard {
    device: SimulatedDevice,
    host: SlowProcessors,
    network: Arc<dyn Evaluator>,
}

/// Batches whose answers are known already.
struct Answered;

impl Evaluator for Answered {
    fn evaluate(&self, _: &mut Batch) -> Result<(), EvaluateError> {
        Ok(())
    }

    fn info(&self) -> Info {
        Info::default()
    }
}

impl SlowCard {
    /// How many times slower.
    const FACTOR: f64 = 10.0;
    /// Seconds of a position outside the tree, and of a visit in it, on the host of an H100.
    const OUTSIDE: f64 = 4.2e-6;
    const IN_TREE: f64 = 1.0e-6;
    /// Seconds that a position really takes outside the tree, the built-in network's answer included.
    const REALLY: f64 = 20e-6;

    fn new(network: Arc<dyn Evaluator>, batches: &[(usize, f64)], threads: usize) -> SlowCard {
        let times = times(batches, SlowCard::FACTOR).expect("times that grow");
        let sleep = SlowCard::FACTOR * SlowCard::OUTSIDE - SlowCard::REALLY;
        SlowCard {
            device: SimulatedDevice::new(Arc::new(Answered), times, threads),
            host: SlowProcessors::new(threads, sleep, SlowCard::IN_TREE * (SlowCard::FACTOR - 1.0)),
            network,
        }
    }
}

impl Evaluator for SlowCard {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        self.device.evaluate(batch)
    }

    fn add(&self, position: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        self.host.add(position, batch);
        let Added::Computed(value) = self.network.add(position, batch) else {
            unreachable!("the built-in network computes at once")
        };
        self.network.priors(position, 1.0);
        let key = self.view().key(position.line());
        let (moves, priors) = position.policy();
        let index = batch.push(key, moves);
        batch.policy_mut(index).1.copy_from_slice(priors);
        batch.set_value(index, value);
        Added::Queued(index)
    }

    fn view(&self) -> &View {
        self.network.view()
    }

    fn info(&self) -> Info {
        self.device.info()
    }
}

/// A fresh tree of one position, searched by this many threads for this long on the card: the outcome and the nodes.
fn search_on_card(
    (network, batches): (&Arc<dyn Evaluator>, &[(usize, f64)]),
    threads: usize,
    milliseconds: f64,
    fen: &str,
) -> (Outcome, u64) {
    let card = SlowCard::new(network.clone(), batches, threads);
    let evaluator = Merged::new(&card, card.device.info().advice.minibatch);
    let history = setup::history_from(Some(fen), &[]).expect("a position");
    let limits = movetime((SlowCard::FACTOR * milliseconds) as u64);
    let job = job(history, threads, 0, limits);
    outcome_of(&job, &evaluator, &card.host)
}

fn card() {
    let network = built_in();
    if let Some(file) = std::env::args().skip(1).find(|arg| arg.contains('.')) {
        let positions = std::fs::read_to_string(file).expect("a file of positions");
        for fen in positions.lines() {
            let (outcome, nodes) = search_on_card((&network, &CAPTURED), 4, 140.0, fen);
            let position = setup::position_from_fen(fen).expect("a position");
            let m = outcome.best.expect("a move");
            println!("{fen};{};{nodes}", setup::move_text(&position, m, false));
        }
        return;
    }
    println!(
        "an H100 with maia-1900's times and its host, {} times slower; answers of the built-in network: mean nodes of \
         {} positions in 20 and 140 ms",
        SlowCard::FACTOR,
        POSITIONS.len()
    );
    let programs: [(&str, &[(usize, f64)]); 2] = [("captured", &CAPTURED), ("lc0's", &H100_SMALL)];
    for (name, batches) in programs {
        for threads in [1, 2, 3, 4, 6] {
            let nodes = [20.0, 140.0].map(|milliseconds| {
                let search = |fen| search_on_card((&network, batches), threads, milliseconds, fen);
                let nodes = POSITIONS.map(|fen| search(fen).1);
                nodes.iter().sum::<u64>() / nodes.len() as u64
            });
            println!(
                "{name:>8} batch times, threads {threads} {:>8} {:>8}",
                nodes[0], nodes[1]
            );
        }
    }
}

/// Places for the moves of a position.
const SLOTS: usize = 256;

/// Planes of an input in bytes, a bit a square.
const PLANE_BYTES: usize = 112 * 8;

/// A session of a device that takes no time. What goes up and down is written and read as by a captured CUDA graph;
/// values and probabilities are a hash of the pieces and moves.
struct TimelessSession {
    masks: Vec<u8>,
    scalars: Vec<f32>,
    moves: Vec<i16>,
    policy: Vec<f32>,
    wdl: Vec<f32>,
}

impl TimelessSession {
    const LARGEST: usize = 1024;

    fn new() -> TimelessSession {
        TimelessSession {
            masks: vec![0; Self::LARGEST * PLANE_BYTES],
            scalars: vec![0.0; Self::LARGEST],
            moves: vec![0; Self::LARGEST * SLOTS],
            policy: vec![0.0; Self::LARGEST * SLOTS],
            wdl: vec![0.0; Self::LARGEST * 3],
        }
    }

    fn answer(&mut self, row: usize) {
        let mix = |hash: u64, word: u64| {
            (hash ^ word)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29)
        };
        let (pieces, _) = self.masks[row * PLANE_BYTES..][..12 * 8].as_chunks();
        let mut hash = pieces
            .iter()
            .map(|&plane| u64::from_le_bytes(plane))
            .fold(1, mix);
        let moves = self.moves[row * SLOTS..][..SLOTS]
            .iter()
            .take_while(|&&entry| entry >= 0);
        let policy = &mut self.policy[row * SLOTS..][..SLOTS];
        let (mut sum, mut count) = (0.0, 0);
        for (place, &entry) in policy.iter_mut().zip(moves) {
            hash = mix(hash, entry as u64);
            *place = 0.001 + ((hash >> 40) as f32 / (1 << 24) as f32).powi(4);
            sum += *place;
            count += 1;
        }
        policy[..count].iter_mut().for_each(|place| *place /= sum);
        let win = 0.2 + 0.3 * (hash >> 48) as f32 / 65_536.0;
        self.wdl[3 * row..3 * row + 3].copy_from_slice(&[win, 0.3, 0.7 - win]);
    }
}

impl DeviceSession for TimelessSession {
    fn max_batch(&self) -> usize {
        Self::LARGEST
    }

    fn run(&mut self, inputs: InputRows<'_>, outputs: &mut Outputs) -> Result<(), String> {
        inputs.write_packed(&mut self.masks, &mut self.scalars);
        inputs.write_moves(SLOTS, &mut self.moves)?;
        (0..inputs.len()).for_each(|row| self.answer(row));
        outputs.policy_kind = PolicyKind::Probabilities { slots: SLOTS };
        for (from, size, to) in [
            (&self.policy, SLOTS, &mut outputs.policy),
            (&self.wdl, 3, &mut outputs.wdl),
        ] {
            to.clear();
            to.extend_from_slice(&from[..inputs.len() * size]);
        }
        Ok(())
    }
}

/// A network on such a device, with the batch times of an H100 for a small network and lc0's planes.
fn timeless_network() -> Option<Merged<Arc<NetworkEvaluator>>> {
    let label = Label {
        backend: "timeless",
        network: "hash".into(),
        device: "none".into(),
        note: String::new(),
    };
    let advice = Advice {
        threads: 2,
        minibatch: TimelessSession::LARGEST,
        min_batch: 64,
    };
    let encoding = Encoding::Lc0(InputFormat::Classical112);
    let make = || Ok(Box::new(TimelessSession::new()) as Box<dyn DeviceSession>);
    let network = NetworkEvaluator::new(
        label,
        encoding,
        View::KEY_ONLY,
        advice,
        SessionCounts { ready: 2, limit: 2 },
        Box::new(make),
    );
    let mut network = network.ok()?;
    network.set_batch_times(times(&H100_SMALL, 1.0));
    Some(Merged::new(Arc::new(network), TimelessSession::LARGEST))
}

fn host() {
    const NODES: u64 = 1_000_000;
    println!("a device that takes no time, {NODES} nodes from the start position, median of 3:");
    println!("{:>8} {:>12} {:>20}", "threads", "nodes/s", "CPU µs a node");
    for threads in [1, 2] {
        let runs = (0..3).filter_map(|_| {
            let network: Arc<dyn Evaluator> = Arc::new(timeless_network()?);
            let cached = CachedEvaluator::with_cache(network, 2 * NODES as usize);
            let limits = Limits {
                nodes: Some(NODES),
                ..Limits::default()
            };
            let (nodes, wall, cpu) = search(&cached, threads, 0, limits);
            Some((nodes as f64 / wall, 1e6 * cpu / nodes as f64))
        });
        let (speeds, costs): (Vec<f64>, Vec<f64>) = runs.unzip();
        println!(
            "{threads:>8} {:>12.0} {:>20.2}",
            median(speeds),
            median(costs)
        );
    }
}

fn selfplay() {
    println!(
        "self-play on a simulated H100, 6x64, hash evaluator, 100 nodes a move, 600 games at once:"
    );
    println!("{:>8} {:>12} {:>10}", "threads", "positions/s", "batch");
    for threads in [2, 4, 8, 16] {
        let Some(curve) = times(&H100_SMALL, 1.0) else {
            continue;
        };
        let device: Arc<dyn Evaluator> =
            Arc::new(SimulatedDevice::new(Arc::new(HashEvaluator), curve, 2));
        let networks = Networks::alone(device);
        let options = Options {
            temperature: 1.0,
            ..Options::default()
        };
        let player = Contestant::new("x", options, 100, networks);
        let terms = Terms {
            rules: Rules {
                max_plies: Some(16),
                ..Rules::default()
            },
            ..Terms::default()
        };
        let starts = Starts::book(&Book::standard(), None);
        let plan = Plan::new([player.clone(), player], Colors::Both, starts, terms, 1);
        let load = Workload {
            parallel: 600,
            threads,
            batch: 1024,
        };
        let numbers: Vec<u64> = (0..600).collect();
        let progress = GamesProgress::default();
        let clock = SystemClock::default();
        let begun = clock.now();
        driver::play(&plan, &numbers, load, &progress, |_| Ok(())).expect("nothing can fail");
        let seconds = (clock.now() - begun).as_secs_f64();
        let positions = progress.positions.into_inner() as f64;
        let batches = progress.batches.into_inner().max(1) as f64;
        println!(
            "{threads:>8} {:>12.0} {:>10.0}",
            positions / seconds,
            positions / batches
        );
    }
}

/// The built-in network.
fn built_in() -> Arc<dyn Evaluator> {
    let config = NetworkConfig::from(&Options::default());
    load_backend(&config, &|_| {}).expect("the built-in network loads")
}

fn threads() {
    println!(
        "real processors; the built-in network 1.5 s, the hash evaluator 2 M nodes, median of 3:"
    );
    println!(
        "{:>9} {:>8} {:>6} {:>10} {:>12}",
        "network", "threads", "batch", "nodes/s", "nodes/CPU s"
    );
    let nodes = Limits {
        nodes: Some(2_000_000),
        ..Limits::default()
    };
    let network = built_in();
    let rows = [
        ("built-in", &*network, 0, movetime(1500)),
        ("hash", &HashEvaluator, 32, nodes.clone()),
        ("hash", &HashEvaluator, 64, nodes),
    ];
    for (name, evaluator, minibatch, limits) in rows {
        let counts = [1, 2, 4, 8, 16, 64];
        // In turn, so that a change of the machine's speed concerns all.
        let runs = (0..3).map(|_| {
            counts.map(|threads| {
                let (nodes, wall, cpu) = search(evaluator, threads, minibatch, limits.clone());
                [nodes as f64 / wall, nodes as f64 / cpu]
            })
        });
        let runs: Vec<_> = runs.collect();
        for (at, threads) in counts.into_iter().enumerate() {
            let [wall, cpu] = [0, 1].map(|of| median(runs.iter().map(|run| run[at][of]).collect()));
            println!("{name:>9} {threads:>8} {minibatch:>6} {wall:>10.0} {cpu:>12.0}");
        }
    }
}

fn stop() {
    println!("from the request to stop to the move, 64 threads, 16 searches of 0.2 to 1.7 s, ms:");
    println!("{:>9} {:>8} {:>8}", "network", "median", "longest");
    let game = "r1bq1rk1/pp2bppp/2n1pn2/3p4/3P1B2/2NBPN2/PP3PPP/R2Q1RK1 b - - 5 10";
    let game = setup::position_from_fen(game).expect("a position");
    let network = built_in();
    for (name, evaluator) in [("built-in", &*network), ("hash", &HashEvaluator)] {
        let times = (0..16).map(|number| {
            let infinite = Limits {
                infinite: true,
                ..Limits::default()
            };
            let job = job(History::new(game.clone()), 64, 0, infinite);
            let (mut tree, stop) = (Tree::default(), StopSignal::default());
            let clock = SystemClock::default();
            let stopped = thread::scope(|scope| {
                let stopper = scope.spawn(|| {
                    thread::sleep(Duration::from_millis(200 + 100 * number));
                    stop.stop();
                    Instant::now()
                });
                search::run(&mut tree, evaluator, &job, &stop, &clock, &mut Silent)
                    .expect("the search runs");
                let ended = Instant::now();
                ended - stopper.join().expect("it only waits")
            });
            1000.0 * stopped.as_secs_f64()
        });
        let times: Vec<f64> = times.collect();
        let longest = times.iter().copied().fold(0.0, f64::max);
        println!("{name:>9} {:>8.1} {longest:>8.1}", median(times));
    }
}
