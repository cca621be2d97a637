//! Fault injection for tests: the hash evaluator, whose nth call fails or panics.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::hash::HashEvaluator;
use crate::network::{Added, Batch, EvalPosition, EvaluateError, Evaluator, Info};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A batch cannot be evaluated.
    Error,
    /// The backend panics while it evaluates a batch.
    Panic,
    /// An evaluator that computes at once panics.
    PanicAtOnce,
}

/// All kinds of them.
pub(crate) const FAULTS: [Fault; 3] = [Fault::Error, Fault::Panic, Fault::PanicAtOnce];

/// The hash evaluator with one fault.
pub(crate) struct Faulty {
    fault: Fault,
    /// The call (from 0) that it happens in.
    at: usize,
    calls: AtomicUsize,
}

impl Faulty {
    /// The call of number `at` (from 0) goes wrong.
    pub fn new(fault: Fault, at: usize) -> Faulty {
        Faulty {
            fault,
            at,
            calls: AtomicUsize::new(0),
        }
    }

    /// Whether the call that fails has come.
    pub fn has_failed(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > self.at
    }

    fn call(&self) -> Result<(), EvaluateError> {
        if self.calls.fetch_add(1, Ordering::Relaxed) != self.at {
            return Ok(());
        }
        assert_eq!(self.fault, Fault::Error, "this call panics in a test");
        Err(EvaluateError::Backend {
            backend: "faulty",
            batch: 1,
            message: "this call fails in a test".into(),
        })
    }
}

impl Evaluator for Faulty {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        self.call()?;
        HashEvaluator.evaluate(batch)
    }

    fn add(&self, position: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        if self.fault != Fault::PanicAtOnce {
            return HashEvaluator.add(position, batch);
        }
        assert!(self.call().is_ok());
        Added::Computed(evaluate_one(position).value(0))
    }

    fn priors(&self, position: &mut EvalPosition<'_>, _: f32) {
        assert!(self.call().is_ok());
        let evaluated = evaluate_one(position);
        position.policy().1.copy_from_slice(evaluated.policy(0));
    }

    fn info(&self) -> Info {
        Info {
            computes_at_once: self.fault == Fault::PanicAtOnce,
            ..Info::default()
        }
    }
}

/// A batch of this position, evaluated.
fn evaluate_one(position: &mut EvalPosition<'_>) -> Batch {
    let mut batch = Batch::default();
    HashEvaluator.add(position, &mut batch);
    assert!(HashEvaluator.evaluate(&mut batch).is_ok());
    batch
}
