//! The search: a PUCT tree over a network, with search-contempt.
//!
//! One iteration of a worker is: `select` leaves (by `puct`) under the tree's lock, `expand` them without it, have them
//! evaluated together, and `backup` their values. [`search_contempt`] is the opponent model, `bounds` the proofs (with
//! `look_ahead`), `refine` the priors from a network that knows more, [`tree`] the data, `root` and `choice` the choice of
//! the move, `objective` a second look at what was found, [`wdl_contempt`] what values are between unequal players,
//! [`limits`], `stopper` and `open_choice` the reasons to end, [`time`] what a clock allows.
//!
//! [`run`] searches one position with several threads until a limit or a stop signal ends it; [`TreeSearch`] is the seam
//! below it, for drivers that have many trees fill one batch. Neither prints: what there is to say goes to a
//! [`Reporter`]. Time comes from a [`Clock`], randomness from the job's seed, values from an
//! [`Evaluator`](crate::network::Evaluator).

mod backup;
mod bounds;
mod certainty;
mod choice;
mod driver;
mod error;
mod expand;
mod job;
pub mod limits;
mod look_ahead;
mod objective;
mod open_choice;
mod outcome;
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
pub mod time;
pub mod tree;
mod tree_search;
mod visits;
pub mod wdl_contempt;
mod worker;

pub use self::{
    driver::run,
    error::SearchError,
    job::{Clock, Job, StopSignal, SystemClock},
    limits::Limits,
    outcome::{line_after, visits_known},
    params::SearchParams,
    report::{
        MoveStat, Objective, Outcome, Proven, PvLine, REPORT_INTERVAL, Report, Reporter, Score,
        Silent,
    },
    tree::{Full, Tree},
    tree_search::TreeSearch,
};
