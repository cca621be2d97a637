//! The one way to start a search, for all who want one: options, networks and tablebases make a [`Job`], and the job is
//! searched with the evaluator that belongs to it.

use std::sync::{Arc, OnceLock};

use shakmaty::{Color, Position};
use sysinfo::System;

use crate::{
    chess::History,
    network::{
        Evaluator,
        backend::hash::is_hash,
        compose::decorators::{CACHE_ENTRY, cache_entries, caches},
        opponent::{Networks, Role},
    },
    options::{ContemptMode, Options},
    search::{self, Clock, Job, Limits, Outcome, Reporter, SearchError, StopSignal, Tree},
    syzygy::Tables,
};

/// Makes the backend of one of the networks as the options say, without temperature and cache.
pub type Load = Arc<dyn Fn(&Options, Role) -> anyhow::Result<Arc<dyn Evaluator>> + Send + Sync>;

/// Everything that searches of any position have in common.
#[derive(Clone)]
pub struct Player {
    /// The options.
    pub options: Arc<Options>,
    /// What judges positions.
    pub networks: Networks,
    /// Endgame tablebases, if there are any.
    pub tables: Option<Arc<Tables>>,
}

impl Player {
    /// Loads the networks and opens the tablebases that the options name.
    ///
    /// # Errors
    /// When something named cannot be had.
    pub fn load(options: Options, load: &Load) -> anyhow::Result<Player> {
        let networks = Networks::load(&options, |role| load(&options, role))?;
        let tables = match &*options.syzygy_path {
            "" => None,
            path => Some(Arc::new(Tables::open(path)?)),
        };
        Ok(Player {
            options: Arc::new(options),
            networks,
            tables,
        })
    }

    /// A player whose one network is this.
    pub fn with_evaluator(options: Options, evaluator: Arc<dyn Evaluator>) -> Player {
        Player {
            options: Arc::new(options),
            networks: Networks {
                main: evaluator,
                opponent: None,
            },
            tables: None,
        }
    }

    /// The search of the position at the end of `history`, for the side to move there, within `limits` and the memory that
    /// the options allow.
    pub fn job(&self, history: History, limits: Limits) -> Job {
        Job {
            contempt_side: contempt_side(&self.options, history.position().turn()),
            tables: self.tables.clone(),
            ..Job::new(
                history,
                Limits {
                    tree_bytes: limits.tree_bytes.or(tree_bytes(&self.options)),
                    ..limits
                },
                Arc::clone(&self.options),
            )
        }
    }

    /// Searches a job on a tree that was made by a search like this one, or is empty.
    ///
    /// # Errors
    /// When a network fails.
    pub fn search(
        &self,
        tree: &mut Tree,
        job: &Job,
        stop: &StopSignal,
        clock: &dyn Clock,
        reporter: &mut dyn Reporter,
    ) -> Result<Outcome, SearchError> {
        let evaluator = self.networks.against(&self.options, job.contempt_side);
        search::run(tree, &*evaluator, job, stop, clock, reporter)
    }
}

/// The side whose opponent search-contempt models, when the engine plays `playing`.
pub fn contempt_side(options: &Options, playing: Color) -> Option<Color> {
    match options.contempt_mode {
        ContemptMode::Play => Some(playing),
        ContemptMode::WhiteSideAnalysis => Some(Color::White),
        ContemptMode::BlackSideAnalysis => Some(Color::Black),
        ContemptMode::Disable => None,
    }
}

/// The memory that this machine (or this container) has, in bytes, if that can be found out.
fn machine_memory() -> Option<u64> {
    static MEMORY: OnceLock<Option<u64>> = OnceLock::new();
    *MEMORY.get_or_init(|| {
        let mut system = System::new().ok()?;
        system.refresh_memory();
        let container = system.cgroup_limits().map(|limits| limits.total_memory);
        let memory = system.total_memory().min(container.unwrap_or(u64::MAX));
        Some(memory).filter(|&bytes| bytes > 0)
    })
}

/// The memory that the tree may take, in bytes: what RamLimitMb (half of the machine's memory, if it is 0) leaves beside full
/// caches. `None` is no limit, where the machine's memory is not known.
pub fn tree_bytes(options: &Options) -> Option<usize> {
    let limit = match options.ram_limit_mb {
        0 => machine_memory()? / 2,
        megabytes => megabytes << 20,
    };
    let caches = match is_hash(&options.backend) {
        true => 0,
        false => cache_entries(options) as u64 * caches(options) * CACHE_ENTRY,
    };
    let rest = limit.checked_sub(caches)?;
    usize::try_from(rest).ok().filter(|&rest| rest > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_and_cache_share_the_memory() {
        let mut options = Options::default();
        let (usual, machine) = (
            tree_bytes(&options).unwrap(),
            machine_memory().unwrap() as usize,
        );
        assert!(usual > machine / 4 && usual < machine / 2);
        assert_eq!(cache_entries(&options), 2_000_000);
        for (opponent, caches) in [("", 1), ("maia.pb.gz", 2)] {
            options.set("OpponentWeights", opponent).unwrap();
            for megabytes in ["1", "16", "1000", "100000000"] {
                options.set("Hash", megabytes).unwrap();
                let limit = (options.ram_limit_mb << 20) as usize;
                let cache = caches * cache_entries(&options) * CACHE_ENTRY as usize;
                let tree = tree_bytes(&options).unwrap();
                assert!(tree >= limit / 2 && tree + cache <= limit);
                assert!(tree + cache + 1000 > limit || cache_entries(&options) == 2_000_000);
            }
        }
    }

    #[test]
    fn a_backend_without_a_cache_leaves_all_memory_to_the_tree() {
        let mut options = Options::default();
        options.set("Hash", "100").unwrap();
        options.set("Backend", "hash").unwrap();
        assert_eq!(tree_bytes(&options), Some(100 << 20));
    }
}
