//! Backends that combine others: several devices side by side, and one backend checked against another.
//!
//! `multiplexing` sends each batch to the device with the fewest batches in progress, `roundrobin` to each in turn, and
//! `check` has two backends evaluate everything and fails when they differ. All children evaluate the same network. The
//! groups of `BackendOptions` name them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{
    error::LoadError,
    factory::{
        BackendFactory, BackendInfo, BackendKind, BackendRequest, names_of, unknown_backend,
    },
    merged::merged_on_device,
    options::{BackendOptions, BackendOptionsError, Setting},
};
use crate::network::{Advice, Batch, BatchTimes, EvaluateError, Evaluator, Info, input::View};

/// Description of `multiplexing`.
pub static MULTIPLEXING: BackendInfo = BackendInfo {
    name: "multiplexing",
    lc0_names: &["demux"],
    kind: BackendKind::Combination,
    summary: "several backends at once",
    documentation: "several backends at once; each batch goes to the least busy",
    requirements: "`BackendOptions`",
    install_command: None,
    settings: &[BACKEND],
};

/// Description of `roundrobin`.
pub static ROUNDROBIN: BackendInfo = BackendInfo {
    name: "roundrobin",
    lc0_names: &[],
    summary: "several backends in turn",
    documentation: "several backends in turn",
    ..MULTIPLEXING
};

/// Description of `check`.
pub static CHECK: BackendInfo = BackendInfo {
    name: "check",
    lc0_names: &[],
    summary: "two backends, compared",
    documentation: "two backends; the search stops with an error when they differ",
    settings: &[BACKEND, TOLERANCE],
    ..MULTIPLEXING
};

const BACKEND: Setting = Setting {
    key: "backend",
    meaning: "the backend of the groups that are not named after one",
    default: "the name of the group",
};

const TOLERANCE: Setting = Setting {
    key: "tolerance",
    meaning: "largest accepted difference of a probability or value",
    default: "0.001",
};

/// The default of [`TOLERANCE`].
const DEFAULT_TOLERANCE: f32 = 1e-3;

/// The backends `multiplexing` and `roundrobin`.
pub struct Multiplexing(pub Distribution);

impl BackendFactory for Multiplexing {
    fn info(&self) -> &BackendInfo {
        match self.0 {
            Distribution::LeastBusy => &MULTIPLEXING,
            Distribution::RoundRobin => &ROUNDROBIN,
        }
    }

    fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
        let children = children(request, self.info())?;
        let multiplexer = Multiplexer::new(children, self.0);
        Ok(Arc::new(multiplexer.ok_or(LoadError::GroupsNeeded {
            backend: self.info().name,
            needed: "the backends to combine",
            example: "backend=cuda,(gpu=0),(gpu=1)",
        })?))
    }
}

/// The backend `check`.
pub struct Check;

impl BackendFactory for Check {
    fn info(&self) -> &BackendInfo {
        &CHECK
    }

    fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
        let tolerance = request.options.fraction(TOLERANCE.key)?;
        let tolerance = tolerance.unwrap_or(DEFAULT_TOLERANCE);
        let two_needed = || LoadError::GroupsNeeded {
            backend: CHECK.name,
            needed: "two backends",
            example: "cuda(gpu=0),onnx-cpu(),tolerance=0.01",
        };
        // Loading one of another number may take minutes.
        if request.options.groups().count() != 2 {
            return Err(two_needed());
        }
        let children = <[_; 2]>::try_from(children(request, &CHECK)?);
        let [first, second] = children.map_err(|_| two_needed())?;
        Ok(Arc::new(Checked::new(first, second, tolerance)))
    }
}

/// The evaluators of the groups of `BackendOptions`. The group's name is the backend, or its setting `backend`.
fn children(
    request: &BackendRequest<'_>,
    combination: &BackendInfo,
) -> Result<Vec<Arc<dyn Evaluator>>, LoadError> {
    let own: Vec<&str> = combination
        .settings
        .iter()
        .map(|setting| setting.key)
        .collect();
    let groups = request.options.groups();
    let child = |(name, group): (&str, BackendOptions)| {
        let factory = match combinable(name, request) {
            Ok(factory) => factory,
            Err(_) => combinable(group.text(BACKEND.key).unwrap_or(name), request)?,
        };
        let created = factory.create(&BackendRequest {
            options: &group.without(&own),
            note: String::new(),
            is_automatic: false,
            is_combined: true,
            ..request.clone()
        });
        created.map_err(|error| name_origin(error, request.options, combination.name, &own))
    };
    groups.map(child).collect()
}

/// The error of a member, which says so if it is about a setting that the member inherits.
fn name_origin(
    error: LoadError,
    options: &BackendOptions,
    combination: &str,
    own: &[&str],
) -> LoadError {
    match error {
        LoadError::Options(BackendOptionsError::Unknown {
            backend,
            key,
            known,
        }) if options.text(&key).is_some() => LoadError::Options(BackendOptionsError::Inherited {
            combination: combination.to_owned(),
            backend,
            key,
            own: own.join(", "),
            known,
        }),
        error => error,
    }
}

/// The backend that a group names: one of ours, or the nearest to one of lc0's, which is reported. Only devices can be
/// combined.
fn combinable<'a>(
    name: &str,
    request: &BackendRequest<'a>,
) -> Result<&'a dyn BackendFactory, LoadError> {
    let all = request.backends.iter().copied();
    let combinable = all.filter(|factory| factory.info().is_combinable());
    if let Some(factory) = combinable
        .clone()
        .find(|factory| factory.info().is_named(name))
    {
        return Ok(factory);
    }
    let is_nearest = |factory: &&dyn BackendFactory| factory.info().is_named_by_lc0(name);
    if let Some(factory) = combinable.clone().find(is_nearest) {
        (request.report_progress)(&factory.info().replaces_lc0(name));
        return Ok(factory);
    }
    let mut infos = request.backends.iter().map(|factory| factory.info());
    match infos.find(|info| info.is_named(name) || info.is_named_by_lc0(name)) {
        Some(info) => Err(LoadError::NotCombinable {
            name: info.name,
            combinable: names_of(combinable),
        }),
        None => Err(unknown_backend(name, combinable)),
    }
}

/// How batches are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// To the device with the fewest batches in progress.
    LeastBusy,
    /// To each in turn.
    RoundRobin,
}

/// Several evaluators of the same network used as one.
pub struct Multiplexer {
    children: Vec<Child>,
    distribution: Distribution,
    next: AtomicUsize,
}

struct Child {
    evaluator: Arc<dyn Evaluator>,
    busy: AtomicUsize,
}

impl Multiplexer {
    /// Combines evaluators of the same network; `None` if there are none. Batches that wait for the same device are
    /// evaluated as one, as on a device alone.
    pub fn new(
        evaluators: Vec<Arc<dyn Evaluator>>,
        distribution: Distribution,
    ) -> Option<Multiplexer> {
        let children: Vec<Child> = evaluators
            .into_iter()
            .map(|evaluator| Child {
                evaluator: merged_on_device(evaluator),
                busy: AtomicUsize::new(0),
            })
            .collect();
        (!children.is_empty()).then_some(Multiplexer {
            children,
            distribution,
            next: AtomicUsize::new(0),
        })
    }

    fn first(&self) -> &dyn Evaluator {
        &*self.children[0].evaluator
    }

    fn choose(&self) -> &Child {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.children.len();
        let in_turn = &self.children[turn];
        match self.distribution {
            Distribution::RoundRobin => in_turn,
            // Beginning with the next in turn, so that idle devices share the work.
            Distribution::LeastBusy => (0..self.children.len())
                .map(|offset| &self.children[(turn + offset) % self.children.len()])
                .min_by_key(|child| child.busy.load(Ordering::Relaxed))
                .unwrap_or(in_turn),
        }
    }
}

impl Evaluator for Multiplexer {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        let child = self.choose();
        child.busy.fetch_add(1, Ordering::Relaxed);
        let run = AssertUnwindSafe(|| child.evaluator.evaluate(batch));
        let result = catch_unwind(run);
        child.busy.fetch_sub(1, Ordering::Relaxed);
        result.unwrap_or_else(|panic| Err(EvaluateError::of_panic(&*panic)))
    }

    fn view(&self) -> &View {
        self.first().view()
    }

    fn info(&self) -> Info {
        let children = self.children.iter().map(|child| child.evaluator.info());
        let children: Vec<Info> = children.collect();
        let descriptions: Vec<&str> = children.iter().map(|info| &*info.description).collect();
        let none = Advice {
            threads: 0,
            minibatch: 1,
            min_batch: 1,
        };
        let sum = |sum: Advice, one: Advice| Advice {
            threads: sum.threads + one.threads,
            minibatch: sum.minibatch.max(one.minibatch),
            min_batch: sum.min_batch.max(one.min_batch),
        };
        let most = children.iter().map(|info| info.max_threads);
        let most: Option<Vec<usize>> = most.collect();
        let max_threads = most.and_then(|most| most.into_iter().max());
        let mut advice = children.iter().map(|info| info.advice).fold(none, sum);
        advice.threads = advice.threads.min(max_threads.unwrap_or(usize::MAX));
        let name = match self.distribution {
            Distribution::LeastBusy => MULTIPLEXING.name,
            Distribution::RoundRobin => ROUNDROBIN.name,
        };
        Info {
            description: format!("{name}: {}", descriptions.join(" + ")),
            advice,
            max_concurrent_batches: children
                .iter()
                .map(|info| info.max_concurrent_batches)
                .sum(),
            batch_times: slowest(&children),
            max_threads,
            // Batches do not say whose side is searched for.
            reads_mover: false,
            ..Info::default()
        }
    }

    fn run_on_worker_thread(&self, work: &mut (dyn FnMut() + Send)) {
        self.first().run_on_worker_thread(work);
    }

    fn warm_up(&self, may_continue: &dyn Fn() -> bool) -> Result<(), EvaluateError> {
        let mut children = self.children.iter();
        children.try_for_each(|child| child.evaluator.warm_up(may_continue))
    }
}

/// The times of the device that evaluates fewest positions a second in its largest batches; `None` if those of any
/// device are not known.
fn slowest(devices: &[Info]) -> Option<Arc<BatchTimes>> {
    let times = devices.iter().map(|device| device.batch_times.clone());
    let times: Vec<Arc<BatchTimes>> = times.collect::<Option<_>>()?;
    let speed = |times: &Arc<BatchTimes>| times.speed(times.largest());
    times
        .into_iter()
        .min_by(|one, other| speed(one).total_cmp(&speed(other)))
}

/// One evaluator checked against another.
pub struct Checked {
    evaluator: Arc<dyn Evaluator>,
    reference: Arc<dyn Evaluator>,
    tolerance: f32,
}

impl Checked {
    /// The evaluations are those of `evaluator`; a probability or value that differs from the reference's by more than
    /// `tolerance` is an error.
    pub fn new(
        evaluator: Arc<dyn Evaluator>,
        reference: Arc<dyn Evaluator>,
        tolerance: f32,
    ) -> Checked {
        Checked {
            evaluator,
            reference,
            tolerance,
        }
    }

    fn compare(&self, ours: &Batch, theirs: &Batch) -> Result<(), EvaluateError> {
        for index in 0..ours.len() {
            let (a, b) = (ours.value(index), theirs.value(index));
            let values = [("W-L", a.wl, b.wl), ("draw probability", a.d, b.d)];
            let moves_left = ("moves left / 100", a.m / 100.0, b.m / 100.0);
            let differing = values
                .into_iter()
                .chain([moves_left])
                .map(|(name, a, b)| (name.to_owned(), a, b));
            let moves = ours
                .moves(index)
                .iter()
                .zip(ours.policy(index))
                .zip(theirs.policy(index));
            let policy = moves.map(|((m, a), b)| (format!("{}{}", m.from(), m.to()), *a, *b));
            let worst = differing
                .chain(policy)
                .max_by(|(_, a, b), (_, c, d)| (a - b).abs().total_cmp(&(c - d).abs()));
            if let Some((what, a, b)) = worst
                && ((a - b).is_nan() || (a - b).abs() > self.tolerance)
            {
                return Err(EvaluateError::Backend {
                    backend: CHECK.name,
                    batch: ours.len(),
                    message: format!(
                        "position {index} (key {:016x}): {what} is {a} and {b}, which differ by more than {}; first: {}; second: {}",
                        ours.key(index),
                        self.tolerance,
                        self.evaluator.info().description,
                        self.reference.info().description
                    ),
                });
            }
        }
        Ok(())
    }
}

impl Evaluator for Checked {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        let mut copy = batch.clone_inputs();
        self.evaluator.evaluate(batch)?;
        self.reference.evaluate(&mut copy)?;
        self.compare(batch, &copy)
    }

    fn view(&self) -> &View {
        self.evaluator.view()
    }

    fn info(&self) -> Info {
        let (ours, theirs) = (self.evaluator.info(), self.reference.info());
        Info {
            description: format!(
                "check within {}: {} against {}",
                self.tolerance, ours.description, theirs.description
            ),
            // Both evaluate batches, to be compared, which do not say whose side is searched for.
            computes_at_once: false,
            reads_mover: false,
            ..ours
        }
    }

    fn run_on_worker_thread(&self, work: &mut (dyn FnMut() + Send)) {
        self.evaluator.run_on_worker_thread(work);
    }

    fn warm_up(&self, may_continue: &dyn Fn() -> bool) -> Result<(), EvaluateError> {
        self.evaluator.warm_up(may_continue)?;
        self.reference.warm_up(may_continue)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Barrier, atomic::AtomicBool},
        time::Duration,
    };

    use super::*;
    use crate::{
        chess::{History, moves::legal_moves},
        network::{
            Value,
            backend::{BACKENDS, factory::with_request},
            hash::HashEvaluator,
        },
    };

    /// Counts batches, and may shift values.
    #[derive(Default)]
    struct Counting {
        batches: AtomicUsize,
        shifted: AtomicBool,
    }

    impl Evaluator for Counting {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            self.batches.fetch_add(1, Ordering::Relaxed);
            HashEvaluator.evaluate(batch)?;
            if self.shifted.load(Ordering::Relaxed) {
                let value = batch.value(0);
                batch.set_value(
                    0,
                    Value {
                        wl: value.wl + 0.1,
                        ..value
                    },
                );
            }
            Ok(())
        }
        fn info(&self) -> Info {
            Info {
                description: "counting".into(),
                ..HashEvaluator.info()
            }
        }
    }

    fn batch() -> Batch {
        let moves: Vec<_> = legal_moves(History::default().position()).collect();
        let mut batch = Batch::default();
        batch.push(7, &moves);
        batch
    }

    /// A device that computes one batch at a time. The first one waits for those of six other threads.
    struct Device {
        batches: AtomicUsize,
        at_once: AtomicUsize,
        most_at_once: AtomicUsize,
        came: Barrier,
    }

    impl Evaluator for Device {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            let at_once = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
            self.most_at_once.fetch_max(at_once, Ordering::Relaxed);
            if self.batches.fetch_add(1, Ordering::Relaxed) == 0 {
                self.came.wait();
                std::thread::sleep(Duration::from_millis(200));
            }
            self.at_once.fetch_sub(1, Ordering::Relaxed);
            HashEvaluator.evaluate(batch)
        }
        fn info(&self) -> Info {
            let times = BatchTimes::new(vec![(64, Duration::from_millis(1))]);
            Info {
                max_concurrent_batches: Some(1),
                batch_times: times.map(Arc::new),
                ..HashEvaluator.info()
            }
        }
    }

    #[test]
    fn batches_wait_for_a_device_as_if_it_were_alone() {
        let device = Arc::new(Device {
            batches: AtomicUsize::new(0),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
            came: Barrier::new(7),
        });
        let multiplexer = Multiplexer::new(vec![device.clone()], Distribution::LeastBusy).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| multiplexer.evaluate(&mut batch()).unwrap());
            while device.batches.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            for _ in 0..6 {
                scope.spawn(|| {
                    device.came.wait();
                    multiplexer.evaluate(&mut batch()).unwrap();
                });
            }
        });
        assert_eq!(device.most_at_once.load(Ordering::Relaxed), 1);
        // The six came while the first was evaluated.
        assert!(device.batches.load(Ordering::Relaxed) < 7);
    }

    #[test]
    fn batches_are_shared_out() {
        for distribution in [Distribution::LeastBusy, Distribution::RoundRobin] {
            let children: Vec<Arc<Counting>> = (0..3).map(|_| Arc::default()).collect();
            let evaluators = children
                .iter()
                .map(|child| child.clone() as Arc<dyn Evaluator>);
            let multiplexer = Multiplexer::new(evaluators.collect(), distribution).unwrap();
            for _ in 0..6 {
                multiplexer.evaluate(&mut batch()).unwrap();
            }
            for child in &children {
                assert_eq!(child.batches.load(Ordering::Relaxed), 2);
            }
            assert_eq!(multiplexer.info().advice.threads, 3);
        }
        assert!(Multiplexer::new(Vec::new(), Distribution::LeastBusy).is_none());
    }

    /// A device that needs this time for 64 positions, if it is known, and computes two batches at once.
    struct Timed(Option<u64>);

    impl Evaluator for Timed {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            HashEvaluator.evaluate(batch)
        }
        fn info(&self) -> Info {
            let times = |micros| BatchTimes::new(vec![(64, Duration::from_micros(micros))]);
            Info {
                max_concurrent_batches: self.0.map(|_| 2),
                batch_times: self.0.and_then(times).map(Arc::new),
                ..HashEvaluator.info()
            }
        }
    }

    #[test]
    fn several_devices_have_the_batches_of_the_slowest() {
        let info = |micros: &[Option<u64>]| {
            let device = |&micros: &Option<u64>| Arc::new(Timed(micros)) as Arc<dyn Evaluator>;
            let devices = micros.iter().map(device).collect();
            let multiplexer = Multiplexer::new(devices, Distribution::LeastBusy);
            multiplexer.unwrap().info()
        };
        let of_64 = |info: &Info| info.batch_times.as_ref().map(|times| times.of(64));
        let three = info(&[Some(260), Some(900), Some(300)]);
        assert_eq!(of_64(&three), Some(Duration::from_micros(900)));
        assert_eq!(three.max_concurrent_batches, Some(6));
        let unknown = info(&[Some(260), None]);
        assert_eq!(
            (of_64(&unknown), unknown.max_concurrent_batches),
            (None, None)
        );
    }

    #[test]
    fn several_backends_of_one_processor_have_no_more_threads_than_one() {
        struct Processor;

        impl Evaluator for Processor {
            fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
                HashEvaluator.evaluate(batch)
            }

            fn info(&self) -> Info {
                Info {
                    advice: Advice {
                        threads: 2,
                        ..HashEvaluator.info().advice
                    },
                    max_threads: Some(2),
                    reads_mover: true,
                    ..HashEvaluator.info()
                }
            }
        }

        let devices = (0..3).map(|_| Arc::new(Processor) as Arc<dyn Evaluator>);
        let multiplexer = Multiplexer::new(devices.collect(), Distribution::LeastBusy);
        let info = multiplexer.unwrap().info();
        assert_eq!((info.advice.threads, info.max_threads), (2, Some(2)));
        assert!(!info.reads_mover);
    }

    /// Why these `BackendOptions` give no backend.
    fn error(factory: &dyn BackendFactory, options: &str) -> String {
        let options = BackendOptions::parse(options).unwrap();
        let (made, _) = with_request("<built in>", &options, |request| {
            factory.create(&BackendRequest {
                backends: BACKENDS,
                ..request
            })
        });
        made.err().unwrap().to_string()
    }

    #[test]
    fn what_is_no_device_is_not_combined() {
        for name in ["multiplexing", "demux", "Check", "hash"] {
            let error = error(
                &Multiplexing(Distribution::RoundRobin),
                &format!("{name}()"),
            );
            assert!(error.contains("cannot be combined"), "{error}");
            assert!(
                error.contains("auto, sparse, ") && !error.contains("hash,"),
                "{error}"
            );
        }
        let unknown = error(&Check, "nosuch(),rten()");
        assert!(unknown.starts_with("no backend 'nosuch'"), "{unknown}");
    }

    #[test]
    fn a_check_needs_two_backends() {
        for options in ["", "rten()", "rten(),rten(),rten()"] {
            let error = error(&Check, options);
            assert!(
                error.starts_with("backend check needs two backends"),
                "{error}"
            );
        }
        let error = error(&Multiplexing(Distribution::LeastBusy), "");
        assert!(error.contains("multiplexing needs the backends"), "{error}");
    }

    #[test]
    fn an_unknown_setting_that_a_member_inherits_is_not_only_its_own() {
        let inherited = error(&Check, "mode=check,rten(),rten()");
        assert_eq!(
            inherited,
            "BackendOptions: neither check nor rten, which inherits it, has a setting 'mode'; the settings of check \
             are: backend, tolerance; those of rten: threads"
        );
        let own = error(&Check, "rten(mode=check),rten()");
        assert!(own.contains("rten has no setting 'mode'"), "{own}");
    }

    #[test]
    fn differences_are_reported() {
        let odd = Arc::new(Counting::default());
        let checked = Checked::new(Arc::new(HashEvaluator), odd.clone(), 0.01);
        checked.evaluate(&mut batch()).unwrap();
        odd.shifted.store(true, Ordering::Relaxed);
        let error = checked.evaluate(&mut batch()).unwrap_err().to_string();
        assert!(
            error.contains("W-L") && error.contains("counting"),
            "{error}"
        );
    }
}
