//! The one way to start a search, for all programs: options, networks and tablebases make a [`Job`], and the job is
//! searched with the evaluator that belongs to it.

use std::sync::Arc;

use shakmaty::{Color, Position};

use crate::{
    chess::History,
    memory,
    network::{
        Evaluator,
        opponent::{Networks, Role},
    },
    options::{ContemptMode, Options},
    search::{
        self, Clock, Job, Limits, Outcome, Reporter, SearchError, Silent, StopSignal, SystemClock,
        Tree,
    },
    syzygy::Tables,
};

/// Creates the backend of one of the networks that the options name, without temperature and cache.
pub type Load = Arc<dyn Fn(&Options, Role) -> anyhow::Result<Arc<dyn Evaluator>> + Send + Sync>;

/// What searches of all positions have in common.
#[derive(Clone)]
pub struct Player {
    /// The options.
    pub options: Arc<Options>,
    /// The networks that evaluate positions.
    pub networks: Networks,
    /// Endgame tablebases, if there are any.
    pub tables: Option<Arc<Tables>>,
}

impl Player {
    /// Loads the networks and opens the tablebases that the options name.
    ///
    /// # Errors
    /// When a network cannot be loaded or the tablebases cannot be opened.
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
            networks: Networks::alone(evaluator),
            tables: None,
        }
    }

    /// The search of the position at the end of `history`, for the side to move there, within `limits` and the memory
    /// that the options allow.
    pub fn job(&self, history: History, limits: Limits) -> Job {
        Job {
            contempt_side: contempt_side(&self.options, history.position().turn()),
            tables: self.tables.clone(),
            ..Job::new(
                history,
                Limits {
                    tree_bytes: limits.tree_bytes.or(self.tree_bytes()),
                    ..limits
                },
                self.options.search(),
            )
        }
    }

    /// Memory limit of the tree in bytes: what full caches leave of the limit for both (see [`memory::limit`]), but at
    /// least a quarter of that.
    pub fn tree_bytes(&self) -> Option<usize> {
        let limit = memory::limit(&self.options)?;
        let rest = limit.saturating_sub(self.networks.cache_bytes());
        Some(usize::try_from(rest.max(limit / 4)).unwrap_or(usize::MAX))
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

    /// Searches a job until one of its limits ends it, on an empty tree and without reports. For a game, or to watch
    /// or stop the search, there is [`Player::search`].
    ///
    /// # Errors
    /// When a network fails.
    pub fn search_once(&self, job: &Job) -> Result<(Outcome, Tree), SearchError> {
        let mut tree = Tree::default();
        let (stop, clock) = (StopSignal::default(), SystemClock::default());
        let outcome = self.search(&mut tree, job, &stop, &clock, &mut Silent)?;
        Ok((outcome, tree))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{
        Batch, EvaluateError, Info,
        backend::hash::HashEvaluator,
        evaluator::CacheUsage,
        load::{NetworkConfig, load_backend},
    };

    /// A player with evaluators of this kind behind what the options put in front of them.
    fn player(settings: &[(&str, &str)], evaluator: &Arc<dyn Evaluator>) -> Player {
        let mut options = Options::default();
        for (name, value) in settings {
            options.set(name, value).unwrap();
        }
        let load = |_| Ok::<_, anyhow::Error>(Arc::clone(evaluator));
        Player {
            networks: Networks::load(&options, load).unwrap(),
            options: Arc::new(options),
            tables: None,
        }
    }

    fn batched() -> Arc<dyn Evaluator> {
        Arc::new(HashEvaluator)
    }

    #[test]
    fn tree_and_cache_share_the_memory() {
        let usual = player(&[], &batched()).tree_bytes().unwrap();
        let machine = memory::of_machine().unwrap() as usize;
        assert!(usual > machine / 4 && usual < machine / 2);
        let caches = |opponent: &str, megabytes: &str| {
            let settings = [("OpponentWeights", opponent), ("Hash", megabytes)];
            let player = player(&settings, &batched());
            let (tree, caches) = (player.tree_bytes().unwrap(), player.networks.cache_bytes());
            let limit = (player.options.ram_limit_mb << 20) as usize;
            assert!(tree >= limit / 3 && tree + caches as usize == limit);
            caches
        };
        // A cache of 2 000 000 positions takes 200 MB, if it may.
        for (megabytes, one) in [("16", 8 << 20), ("1000", 200_000_000)] {
            let near = |bytes: u64, expected: u64| bytes.abs_diff(expected) < 20_000;
            assert!(near(caches("", megabytes), one));
            let two = if megabytes == "16" { one } else { 2 * one };
            assert!(near(caches("maia.pb.gz", megabytes), two));
        }
    }

    #[test]
    fn a_backend_without_a_cache_leaves_all_memory_to_the_tree() {
        let all = Some(100 << 20);
        let hash = player(&[("Hash", "100"), ("Backend", "hash")], &batched());
        assert_eq!(hash.tree_bytes(), all);
        let usual = Options::default();
        let sparse = load_backend(&NetworkConfig::from(&usual), &|_| {}).unwrap();
        assert_eq!(player(&[("Hash", "100")], &sparse).tree_bytes(), all);
        // It does not follow from the name of the backend: the opponent's network may be another one.
        let mut mixed = player(&[("Hash", "100")], &sparse);
        let other = [("Hash", "100"), ("OpponentWeights", "maia.pb.gz")];
        mixed.networks.opponent = player(&other, &batched()).networks.opponent;
        let tree = mixed.tree_bytes().unwrap();
        assert!(tree < 80 << 20 && tree > 70 << 20, "{tree}");
    }

    /// Would take more memory for its cache than any machine has.
    struct Hoarder;

    impl Evaluator for Hoarder {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            HashEvaluator.evaluate(batch)
        }
        fn info(&self) -> Info {
            Info {
                cache: CacheUsage {
                    bytes: 1 << 60,
                    ..CacheUsage::default()
                },
                ..Info::default()
            }
        }
    }

    #[test]
    fn the_tree_has_a_limit_however_large_the_caches_may_get() {
        let hoarder: Arc<dyn Evaluator> = Arc::new(Hoarder);
        for megabytes in ["0", "100"] {
            let mut options = Options::default();
            options.set("RamLimitMb", megabytes).unwrap();
            let player = Player::with_evaluator(options, Arc::clone(&hoarder));
            assert!(player.tree_bytes().is_some(), "{megabytes} MB");
        }
        let usual = player(&[("NNCacheSize", "999999999")], &batched());
        let memory = memory::of_machine().unwrap();
        let all = usual.networks.cache_bytes() + usual.tree_bytes().unwrap() as u64;
        assert!(all <= memory / 2, "{all} of {memory}");
    }
}
