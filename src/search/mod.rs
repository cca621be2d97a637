//! The search: a PUCT tree over a network, with search-contempt.
//!
//! One iteration of a worker: `select` leaves (by `puct`) under the tree's lock, `expand` them without it, evaluate
//! them together, and `backup` their values. [`search_contempt`] is the opponent model, `bounds` and `look_ahead`
//! prove results, `refine` replaces priors by those of a stronger network, [`tree`] holds the data, `root` and
//! `choice` choose the move, `alternatives` those that are nearly as good, `objective` computes values against best
//! replies, [`wdl_contempt`] rescales values for unequal players, and [`limits`], `stopper` and `open_choice` decide
//! when to stop.
//!
//! [`run`] searches one position with several threads until a limit or a stop signal ends it. [`TreeSearch`] is the
//! layer below, for drivers in which many trees fill one batch. Neither prints: progress goes to a [`Reporter`]. Time
//! comes from a [`Clock`], randomness from the job's seed, values from an [`Evaluator`](crate::network::Evaluator).

mod alternatives;
mod backup;
mod batch_plan;
mod bounds;
mod butterfly;
mod certainty;
mod choice;
mod driver;
mod error;
mod expand;
#[cfg(test)]
mod faults;
mod first_visits;
mod job;
mod leaf_priors;
mod leaf_values;
pub mod limits;
mod look_ahead;
mod objective;
mod open_choice;
mod params;
mod progress;
mod puct;
mod refine;
mod report;
mod root;
mod root_moves;
pub mod search_contempt;
mod select;
mod state;
mod stopper;
pub mod tree;
mod tree_search;
mod view;
mod visits;
pub mod wdl_contempt;
mod worker;

pub use self::{
    driver::run,
    error::SearchError,
    job::{Clock, Job, StopSignal, SystemClock},
    limits::Limits,
    params::SearchParams,
    report::{
        MoveStat, Objective, Outcome, Proven, PvLine, REPORT_INTERVAL, Report, Reporter, Score,
        Silent,
    },
    tree::{Tree, TreeFull},
    tree_search::TreeSearch,
    view::{known_visits, line_after},
};
