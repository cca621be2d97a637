//! Nothing is allocated per batch: buffers grow until they are large enough and are reused.
//!
//! All allocations of the process are counted, so everything is measured in one test, one after the other.

mod common;

use std::{alloc::System, sync::Arc, time::Duration};

use parking_lot::Mutex;
use scorn::{
    chess::{
        History, PackedMove,
        moves::{MAX_MOVES, legal_moves},
    },
    lc0::InputFormat,
    network::{
        Added, Advice, Batch, EvalPosition, EvaluateError, Evaluator, Info,
        backend::{
            ort::capture::{
                session::{CapturedSession, ResultShape},
                stream::{Buffers, DeviceStream},
            },
            pool::{Label, NetworkEvaluator, SessionCounts, SessionFactory},
        },
        cached::CachedEvaluator,
        hash::HashEvaluator,
        input::{Encoding, View},
        load::{LoadError, NetworkConfig, load_backend},
        opponent::Networks,
    },
    options::Options,
    search::{self, Clock, Job, Limits, Silent, StopSignal, Tree},
};
use shakmaty::Color;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Counts allocations.
fn allocations(work: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    work();
    let change = region.change();
    change.allocations + change.reallocations
}

/// Positions to evaluate, with their moves.
struct Positions(Vec<(History, Vec<PackedMove>)>);

impl Positions {
    /// The positions of a game with arbitrary moves.
    fn new(count: usize) -> Positions {
        let mut game = History::default();
        let mut positions = Vec::new();
        while positions.len() < count {
            let moves: Vec<_> = legal_moves(game.position()).collect();
            let next = moves[positions.len() * 7 % moves.len()];
            positions.push((game.clone(), moves));
            game.push(next);
        }
        Positions(positions)
    }

    /// Adds this many positions to the batch.
    fn add(&mut self, evaluator: &dyn Evaluator, count: usize, batch: &mut Batch) {
        for (game, moves) in &mut self.0[..count] {
            let mut priors = [0.0; MAX_MOVES];
            evaluator.add(
                &mut EvalPosition::new(game.plies(), moves, &mut priors),
                batch,
            );
        }
    }
}

fn network(backend: &str, backend_options: &str) -> Option<Arc<dyn Evaluator>> {
    let mut config = NetworkConfig::from(&Options::default());
    config.weights = concat!(env!("CARGO_MANIFEST_DIR"), "/networks/scorn-dense.onnx").into();
    config.backend = backend.into();
    config.backend_options = backend_options.into();
    config.threads = 1;
    match load_backend(&config, &|_| {}) {
        Ok(evaluator) => Some(evaluator),
        Err(error @ LoadError::Runtime { .. }) => {
            common::skipped(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Sizes of batches.
const SIZES: [usize; 4] = [1, 7, 16, 32];

/// Allocations for one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counts {
    /// While it is emptied and filled.
    queueing: usize,
    evaluating: usize,
}

const NONE: Counts = Counts {
    queueing: 0,
    evaluating: 0,
};

/// Counts for batches of each size, which were evaluated before.
fn counts(evaluator: &dyn Evaluator) -> Vec<Counts> {
    let mut positions = Positions::new(SIZES[SIZES.len() - 1]);
    let mut batch = Batch::default();
    let mut counted = Vec::with_capacity(SIZES.len());
    for _ in 0..3 {
        counted.clear();
        for size in SIZES {
            let queueing = allocations(|| {
                batch.clear();
                positions.add(evaluator, size, &mut batch);
            });
            let evaluating = allocations(|| evaluator.evaluate(&mut batch).unwrap());
            counted.push(Counts {
                queueing,
                evaluating,
            });
        }
    }
    counted
}

/// A device whose batches do nothing: what is left is the work of the session around it.
struct Idle(Vec<IdleBuffers>);

struct IdleBuffers {
    masks: Vec<u8>,
    entries: Vec<i16>,
    /// Scalars, policy, W/D/L, plies left.
    floats: [Vec<f32>; 4],
    sharpness: [f32; 1],
}

impl DeviceStream for Idle {
    fn buffers(&mut self, place: usize) -> Result<Buffers<'_>, String> {
        let buffers = &mut self.0[place];
        let [scalars, policy, wdl, mlh] = &mut buffers.floats;
        Ok(Buffers {
            masks: &mut buffers.masks,
            scalars,
            entries: &mut buffers.entries,
            sharpness: &mut buffers.sharpness,
            outputs: [policy, wdl, mlh],
        })
    }
    fn queue(&mut self, place: usize) -> Result<(), String> {
        // All outcomes are equally likely.
        for output in self.buffers(place)?.outputs {
            output.fill(1.0 / 3.0);
        }
        Ok(())
    }
    fn begin_capture(&mut self) -> Result<(), String> {
        Ok(())
    }
    fn end_capture(&mut self, _: usize) -> Result<(), String> {
        Ok(())
    }
    fn launch(&mut self, place: usize) -> Result<(), String> {
        // A graph that writes nothing would be refused.
        self.queue(place)
    }
    fn wait(&mut self, _: Duration) -> Result<(), String> {
        Ok(())
    }
}

/// An evaluator whose batches are captured on such a device.
fn captured() -> NetworkEvaluator {
    let encoding = Encoding::Lc0(InputFormat::Classical112);
    let view = View {
        encoding: Some(encoding),
        ..View::KEY_ONLY
    };
    let label = Label {
        backend: "idle",
        network: "none".to_owned(),
        device: String::new(),
        note: String::new(),
    };
    let buffers = |&size: &usize| IdleBuffers {
        masks: vec![0; size * 112 * 8],
        entries: vec![0; size * MAX_MOVES],
        floats: [1, MAX_MOVES, 3, 1].map(|width| vec![0.0; size * width]),
        sharpness: [1.0],
    };
    let shape = ResultShape {
        slots: MAX_MOVES,
        has_wdl: true,
    };
    let factory: SessionFactory = Box::new(move || {
        let make = move || Ok(Idle(SIZES.iter().map(buffers).collect()));
        let session = CapturedSession::capture(&SIZES, shape, None, Arc::default(), make)?;
        Ok(Box::new(session))
    });
    let (advice, sessions) = (Advice::default(), SessionCounts { ready: 1, limit: 1 });
    NetworkEvaluator::new(label, encoding, view, advice, sessions, factory).unwrap()
}

/// Two networks, as in a search for White.
fn two_networks(of: impl Fn() -> Arc<dyn Evaluator>) -> Arc<dyn Evaluator> {
    let mut options = Options::default();
    options.set("OpponentWeights", "some network").unwrap();
    // Enough to keep every processor busy, so that the two networks do not run at once, which takes a thread for each
    // batch.
    options.set("Threads", "128").unwrap();
    let networks = Networks {
        opponent: Some(of()),
        ..Networks::alone(of())
    };
    networks.against(&options, Some(Color::White))
}

fn cached() -> Arc<dyn Evaluator> {
    Arc::new(CachedEvaluator::with_cache(Arc::new(HashEvaluator), 2048))
}

/// Allocations at the beginning of a batch, and how many moves have been evaluated until then.
#[derive(Clone, Copy)]
struct Mark {
    allocations: usize,
    moves: usize,
}

/// Marks each batch of a search, and stops it at the end.
struct Watched {
    inner: Arc<dyn Evaluator>,
    region: Region<'static, System>,
    state: Mutex<(Vec<Mark>, usize)>,
    stop: StopSignal,
}

/// Batches at the beginning, while buffers still grow.
const FIRST_BATCHES: usize = 200;

/// Number of marked batches, including those.
const BATCHES: usize = 700;

impl Evaluator for Watched {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        let mut state = self.state.lock();
        let (marks, moves) = &mut *state;
        if marks.len() < BATCHES {
            let change = self.region.change();
            marks.push(Mark {
                allocations: change.allocations + change.reallocations,
                moves: *moves,
            });
        } else {
            self.stop.stop();
        }
        *moves += (0..batch.len())
            .map(|i| batch.moves(i).len())
            .sum::<usize>();
        self.inner.evaluate(batch)
    }
    fn add(&self, position: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        self.inner.add(position, batch)
    }
    fn info(&self) -> Info {
        self.inner.info()
    }
}

/// A stopped clock: then there are no reports, which allocate.
struct Still;

impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

fn search_marks(inner: Arc<dyn Evaluator>) -> Vec<Mark> {
    let stop = StopSignal::default();
    let watched = Watched {
        inner,
        region: Region::new(ALLOCATOR),
        state: Mutex::new((Vec::with_capacity(BATCHES), 0)),
        stop: stop.clone(),
    };
    let mut options = Options::default();
    options.set("Threads", "1").unwrap();
    options.set("MinibatchSize", "32").unwrap();
    let limits = Limits {
        infinite: true,
        ..Limits::default()
    };
    let job = Job {
        contempt_side: Some(Color::White),
        ..Job::new(History::default(), limits, options.search())
    };
    let mut tree = Tree::default();
    search::run(&mut tree, &watched, &job, &stop, &Still, &mut Silent).unwrap();
    watched.state.into_inner().0
}

/// Edges that the tree allocates at once.
const SEGMENT: usize = 1 << 14;

/// How often the tree's other parts (nodes, lists of free blocks, the list of segments) may grow meanwhile: each time
/// by a large factor.
const GROWTH: usize = 24;

/// Only the tree grows during a search.
fn assert_only_the_tree_grows(inner: Arc<dyn Evaluator>) {
    let marks = search_marks(inner);
    let (first, last) = (marks[FIRST_BATCHES], marks[BATCHES - 1]);
    let grown = last.allocations - first.allocations;
    let segments = (last.moves - first.moves).div_ceil(SEGMENT - 255) + 1;
    assert!(
        grown <= segments + GROWTH,
        "{grown} allocations in {} batches, which fill {segments} segments",
        BATCHES - FIRST_BATCHES
    );
}

#[test]
fn nothing_is_allocated_per_batch() {
    // What ONNX Runtime itself needs comes from its own arena, which it keeps.
    for backend_options in ["", "batch=4/16/64", "batch=4/16/64,graph=fused"] {
        if let Some(evaluator) = network("onnx-cpu", backend_options) {
            assert_eq!(counts(&*evaluator), [NONE; 4], "{backend_options}");
        }
    }
    assert_eq!(counts(&captured()), [NONE; 4]);
    // rten allocates a few times per layer of the network, independent of the batch size. Scorn does not.
    let rten = counts(&*network("rten", "").unwrap());
    assert!(rten.iter().all(|counts| counts.queueing == 0), "{rten:?}");
    let evaluating = rten[1..].iter().map(|counts| counts.evaluating);
    let (least, most) = (evaluating.clone().min(), evaluating.max());
    assert!(most.unwrap() - least.unwrap() <= 10, "{rten:?}");
    assert!(most.unwrap() <= 250, "{rten:?}");

    for evaluator in [
        Arc::new(HashEvaluator),
        cached(),
        two_networks(|| Arc::new(HashEvaluator)),
        two_networks(cached),
    ] {
        assert_eq!(
            counts(&*evaluator),
            [NONE; 4],
            "{}",
            evaluator.info().description
        );
        assert_only_the_tree_grows(evaluator);
    }
}
