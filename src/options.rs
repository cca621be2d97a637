//! The one table of everything that can be set: UCI options, command-line flags and search parameters.
//!
//! A row gives an option's UCI name (and its other names in GUIs), its command-line flag, and in brackets who
//! reads it, what it changes and what a change invalidates; on the next line its field in [`Options`], type, range and
//! default. The help stands above. The table generates the struct, its defaults, the checked assignment from text, what
//! the search reads ([`SearchOptions`]), the `option` lines of the UCI handshake, the command-line flags and the table
//! in the documentation, so that they cannot differ. rustfmt does not touch it: columns are aligned by hand.

mod choices;
pub mod contempt;
mod kinds;
pub mod layers;
pub mod lc0;
#[macro_use]
mod macros;
mod ratio_schedule;
mod row;
pub mod time_manager;

use shakmaty::Color;

pub use self::{
    choices::{
        ContemptMode, FpuStrategy, FpuStrategyAtRoot, HistoryFill, NetworkEncoding, RootChoice,
        ScSampling, ScoreType,
    },
    kinds::OptionKind,
    ratio_schedule::RatioSchedule,
    row::{Effect, Invalidates, OptionError, OptionRow, Scope},
};
use self::{
    contempt::ContemptList,
    kinds::{OptionValue, expected},
    time_manager::{Legacy, TimeManagerChoice},
};

/// The option that names a file of options. It is no row of the table: what it means is what the file says.
pub const CONFIG_FILE: &str = "ConfigFile";

/// An action that a GUI shows as a button: `setoption name ClearTree`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Button {
    /// Drops the search tree.
    ClearTree,
    /// Drops the search tree and all cached evaluations.
    ClearHash,
}

/// All of them, with their names and help.
pub const BUTTONS: &[(Button, &str, &str)] = &[
    (
        Button::ClearTree,
        "ClearTree",
        "Drop the search tree; the next search starts from an empty tree. Cached evaluations are kept.",
    ),
    (
        Button::ClearHash,
        "Clear Hash",
        "Drop the search tree and all cached evaluations.",
    ),
];

/// `ScLimit` at this value (its default) or above means plain PUCT, and so does 0.
pub const PLAIN_PUCT: u32 = 1_000_000_000;

impl Options {
    /// The rows that `uci` announces: with `ShowHidden` all of them.
    pub fn announced_rows(&self) -> impl Iterator<Item = OptionRow> {
        let rows = self.rows().into_iter();
        rows.filter(|row| self.show_hidden || !row.is_hidden)
    }

    /// The smaller one of a number of nodes and `NodeLimit`, of those that there are.
    pub fn limited(&self, nodes: Option<u64>) -> Option<u64> {
        let own = Some(self.node_limit).filter(|&limit| limit > 0);
        nodes.into_iter().chain(own).min()
    }

    /// Whether there is no search-contempt: no node's replies freeze.
    pub fn is_plain_puct(&self) -> bool {
        let limit = self.sc_limit.unsigned_abs();
        limit == 0 || limit >= PLAIN_PUCT
    }

    /// The value of a draw for a side.
    pub fn draw_score_for(&self, side: Color) -> f32 {
        side.fold_wb(self.draw_score, -self.draw_score)
    }

    /// Switches off what is random in the choice of a move: temperature and noise.
    pub fn disable_randomness(&mut self) {
        self.temperature = 0.0;
        self.temp_endgame = 0.0;
        self.opening_variety = 0.0;
        self.noise_epsilon = 0.0;
    }

    /// These options, but with the table's defaults for rows that `is_default` selects.
    #[must_use]
    pub fn with_defaults_where(&self, is_default: impl Fn(&OptionRow) -> bool) -> Options {
        let (mut options, defaults) = (self.clone(), Options::default());
        for row in self.rows().iter().filter(|row| is_default(row)) {
            options.copy(row.name, &defaults);
        }
        options
    }

    /// What the search of a position reads of these options.
    pub fn search(&self) -> SearchOptions {
        SearchOptions(self.clone())
    }
}

impl SearchOptions {
    /// Whether there is no search-contempt: no node's replies freeze.
    pub fn is_plain_puct(&self) -> bool {
        self.0.is_plain_puct()
    }

    /// The value of a draw for a side.
    pub fn draw_score_for(&self, side: Color) -> f32 {
        self.0.draw_score_for(side)
    }
}

/// The names and values in `Option=value;...`.
pub fn settings(text: &str) -> impl Iterator<Item = Result<(&str, &str), OptionError>> {
    let parts = text
        .split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts.map(|part| match part.split_once('=') {
        Some((name, value)) => Ok((name.trim(), value.trim())),
        None => Err(OptionError::NoValue(part.to_owned())),
    })
}

options! {
    // Speed and memory.
    /// Number of search threads. 0 uses the number that the backend recommends.
    "Threads"                             "threads" 't'                   [search speed]
        threads:                            usize [0, 128]                = 0;
    /// Number of positions in a network batch. 0 uses the size that the backend recommends, with smaller batches
    /// while the search tree is small.
    "MinibatchSize"                       "minibatch-size"                [search play]
        minibatch_size:                     usize [0, 1024]               = 0;
    /// Memory limit for the search tree and the evaluation caches together, in MB. A search that reaches the limit
    /// continues without adding nodes. 0 allows half of the machine's memory.
    "RamLimitMb" also "Hash"              "ramlimit-mb"                   [engine speed, drops Tree]
        ram_limit_mb:                       u64 [0, 100000000]            = 0;
    /// Number of evaluations that the cache of each network stores. 0 disables the cache.
    "NNCacheSize"                         "nncache"                       [network speed]
        nn_cache_size:                      usize [0, 999999999]          = 2000000;
    /// Number of preceding positions that must match, besides the rule-50 counter, for a cached evaluation to be
    /// reused. 7 covers everything that a network sees. Lower values reuse evaluations across orders of moves, with
    /// less accuracy.
    "CacheHistoryLength"                  "cache-history-length"          [network play, hidden]
        cache_history_length:               usize [0, 7]                  = 7;
    /// Maximum search speed in nodes per second. 0 sets no limit.
    "NodesPerSecondLimit"                 "nps-limit"                     [search speed, hidden]
        nps_limit:                          f32 [0.0, 1000000.0]          = 0.0;

    // Network.
    /// Network file: lc0 format (.pb or .pb.gz) or ONNX. `<built in>`, `<built in dense>` and `<built in odds>` (for
    /// games in which the engine gives odds) are networks inside the program, `<autodiscover>` is the newest network
    /// file found. The values of `<built in odds>` depend on ContemptMode.
    "WeightsFile"                         "weights" 'w'                   [network weights, drops Network]
        weights_file:                       String                        = "<built in>";
    /// Backend that evaluates the network: {backends}.
    "Backend"                             "backend" 'b'                   [network play, drops Network]
        backend:                            String                        = "auto";
    /// Settings of the backend, in the form key=value,name(key=value). docs/backends.md lists the keys.
    "BackendOptions"                      "backend-opts" 'o'              [network play, drops Network]
        backend_options:                    String                        = "";
    /// Policy head of a network with several: `vanilla`, `optimistic`, `soft` or `opponent`. Empty selects the
    /// network's main head.
    "PolicyHead"                          "policy-head"                   [network play, drops Network]
        policy_head:                        String                        = "";
    /// Value head of a network with several: `winner`, `q` or `st`. Empty selects the network's main head.
    "ValueHead"                           "value-head"                    [network play, drops Network]
        value_head:                         String                        = "";
    /// Input planes and policy format of an ONNX network: `lc0`, `alphazero` (119 planes, 8x8x73 moves) or `auto`,
    /// which reads them from the network's metadata and assumes lc0's without it.
    "NetworkEncoding"                     "network-encoding"              [network play, drops Network, hidden]
        network_encoding:                   NetworkEncoding               = NetworkEncoding::Auto;
    /// The ONNX Runtime library, or a folder that contains it. Empty searches the usual places.
    "OnnxRuntimePath"                     "onnxruntime-path"              [network speed, drops Network]
        onnx_runtime_path:                  String                        = "";
    /// Softmax temperature of the network's policy. Higher values flatten the priors.
    "PolicyTemperature"                   "policy-softmax-temp"           [network play, drops Tree, recommended]
        policy_temperature:                 f32 [0.1, 10.0]               = 1.359;
    /// Prior added to each move that gives check and whose prior is smaller than this value; the priors are then
    /// normalised. Forced lines often begin with checks that the policy underrates. 0 adds nothing.
    "CheckBonus"                          "check-bonus"                   [network play, drops Tree, recommended, hidden]
        check_bonus:                        f32 [0.0, 1.0]                = 0.0;
    /// How the network's history planes before the first known position are filled: `no` leaves them empty, `fen_only`
    /// repeats the oldest position unless it is the starting position, `always` repeats it even then.
    "HistoryFill"                         "history-fill"                  [network play, drops Network, hidden]
        history_fill:                       HistoryFill                   = HistoryFill::FenOnly;

    /// The network evaluates every position with colours exchanged. Set it when the engine plays Black with a network
    /// that was trained only on White's side. It has no effect on networks without a colour plane.
    "SwapColors"                          "swap-colors"                   [network play, drops Tree, hidden]
        swap_colors:                        bool                          = false;

    // Time and other limits.
    /// The GUI lets the engine think on the opponent's time, so the time manager may spend more of the engine's own
    /// time.
    "Ponder"                              "ponder"                        [engine clock, only uci]
        ponder:                             bool                          = false;
    /// Time reserved per move for delays between engine and GUI, in milliseconds.
    "MoveOverheadMs" also "Move Overhead" "move-overhead"                 [engine clock, only uci]
        move_overhead_ms:                   u64 [0, 100000000]            = 200;
    /// Factor that multiplies the time spent on each move.
    "Slowmover"                           "slowmover"                     [engine clock, only uci]
        slowmover:                          f32 [0.0, 100.0]              = 1.0;
    /// Method that divides the clock among the moves: `legacy`, `smooth`, `simple` or `alphazero`, with optional
    /// parameters as in `legacy(steepness=7,first-move-bonus=0)`. docs/time.md describes them.
    "TimeManager"                         "time-manager"                  [engine clock, only uci]
        time_manager:                       TimeManagerChoice             = TimeManagerChoice::Legacy(Legacy::default());
    /// The engine's clock starts with "go" if the GUI has received "readyok" since "position". Without this option
    /// the clock starts with "position".
    "StrictTiming"                        "strict-uci-timing"             [engine clock, only uci, hidden]
        strict_timing:                      bool                          = false;
    /// Maximum number of nodes of a search, for GUIs that cannot send "go nodes". 0 sets no limit.
    "NodeLimit"                           "node-limit"                    [engine play]
        node_limit:                         u64 [0, 2147483647]           = 0;
    /// Node limits ("go nodes" and NodeLimit) count new nodes only, not those of a reused tree.
    "NodesAsPlayouts"                     "nodes-as-playouts"             [engine play, hidden]
        nodes_as_playouts:                  bool                          = false;
    /// A search with a clock ends when the best move cannot be overtaken in the remaining time divided by this factor,
    /// or when the result is proven. A search without a clock (except `go infinite` and `go mate`) ends when as many
    /// winning moves as MultiPV are proven, or when a draw or a loss is. 0 disables both, except that `go depth` still
    /// ends at a proven result.
    "SmartPruningFactor"                  "smart-pruning-factor"          [search play]
        smart_pruning_factor:               f32 [0.0, 10.0]               = 1.33;
    /// Number of batches before smart pruning may end a search.
    "SmartPruningMinimumBatches"          "smart-pruning-minimum-batches" [search play, hidden]
        smart_pruning_minimum_batches:      u32 [0, 10000]                = 0;
    /// Smart pruning also ends searches with a node limit, as soon as the best move cannot be overtaken with the
    /// remaining nodes.
    "SmartPruningNodes"                   "smart-pruning-nodes"           [search play, hidden]
        smart_pruning_nodes:                bool                          = false;
    /// A search that is neither infinite nor for a mate ends when the information gain per node (Kullback-Leibler
    /// divergence of the root's visit distribution) falls below this value. 0 disables this.
    "MinimumKLDGainPerNode"               "minimum-kldgain-per-node"      [search play, hidden]
        minimum_kldgain_per_node:           f32 [0.0, 1.0]                = 0.0;
    /// Number of nodes between two measurements of the information gain for MinimumKLDGainPerNode.
    "KLDGainAverageInterval"              "kldgain-average-interval"      [search play, hidden]
        kldgain_average_interval:           u64 [1, 10000000]             = 100;

    // Search-contempt.
    /// Search-contempt: number of visits to the replies of an opponent node after which the node's reply distribution
    /// is frozen. The default and 0 are plain PUCT. Negative values freeze the engine's own nodes instead.
    "ScLimit"                             "sc-limit"                      [search play, drops Tree]
        sc_limit:                           i32 [-1000000000, 1000000000] = 1000000000;
    /// Search-contempt: frozen nodes sample replies in proportion to visits^(1/ScTemperature). 0 always selects the
    /// most visited reply.
    "ScTemperature"                       "sc-temperature"                [search play, drops Tree]
        sc_temperature:                     f32 [0.0, 10.0]               = 1.0;
    /// Search-contempt: how frozen nodes sample replies. `thompson` samples independently; `stratified` selects the
    /// reply that lags its share most, which has less variance.
    "ScSampling"                          "sc-sampling"                   [search play, drops Tree]
        sc_sampling:                        ScSampling                    = ScSampling::Thompson;
    /// Search-contempt: share of a frozen node's visits for which a reply is sampled; the others continue the search
    /// for the best one. 1 is pure search-contempt.
    "HybridSamplingRatio"                 "hybrid-sampling-ratio"         [search play, drops Tree, hidden]
        hybrid_sampling_ratio:              f32 [0.0, 1.0]                = 1.0;
    /// Search-contempt: HybridSamplingRatio by the visits of the frozen node, in the form "1000:0.5 8000:0.9". The
    /// ratio is linear between these points, and constant before the first and after the last. Empty applies
    /// HybridSamplingRatio at any number of visits.
    "HybridRatioSchedule"                 "hybrid-ratio-schedule"         [search play, drops Tree, hidden]
        hybrid_ratio_schedule:              RatioSchedule                 = RatioSchedule::default();
    /// The side on whose behalf contempt acts; the other side is the modelled opponent. `play`: the side to move at the
    /// root; `white_side_analysis`: White; `black_side_analysis`: Black; `disable`: no side. For the network `<built in
    /// odds>` this is the side that gives odds, and it was not trained for `disable`.
    "ContemptMode"                        "contempt-mode"                 [search play]
        contempt_mode:                      ContemptMode                  = ContemptMode::Play;
    /// A second network (in the form of WeightsFile) that provides the priors at nodes of the modelled opponent (see
    /// ContemptMode), for example a Maia network of the opponent's rating. Empty uses no second network.
    "OpponentWeights"                     "opponent-weights"              [network weights, drops OtherNetworks]
        opponent_weights:                   String                        = "";
    /// Rating of the modelled opponent if OpponentWeights is empty: a built-in network predicts the moves of people
    /// with this rating. 1100 to 1900 are ratings on lichess, 2600 is a grandmaster (FIDE), those between are
    /// interpolated, and lower or higher ones count as 1100 or 2600. 0 disables this.
    "OpponentRating"                      "opponent-rating"               [network weights, drops OtherNetworks]
        opponent_rating:                    u32 [0, 3500]                 = 0;
    /// Share of the opponent's network in the priors at the opponent's nodes. The main network provides the rest.
    "OpponentPolicyMix"                   "opponent-policy-mix"           [network play, drops Tree]
        opponent_policy_mix:                f32 [0.0, 1.0]                = 1.0;
    /// Softmax temperature of the opponent network's policy. 1 is the temperature of its training.
    "OpponentPolicyTemperature"           "opponent-policy-softmax-temp"  [network play, drops Tree]
        opponent_policy_temperature:        f32 [0.1, 10.0]               = 1.0;

    /// A second, slower and more accurate network (in the form of WeightsFile) that refines the priors of nodes with
    /// many visits. Empty disables refinement.
    "RefineWeights"                       "refine-weights"                [network weights, drops OtherNetworks, recommended]
        refine_weights:                     String                        = "";
    /// Minimum visits before a node's priors are refined by the RefineWeights network.
    "RefineVisits"                        "refine-visits"                 [search play, recommended, hidden]
        refine_visits:                      u32 [2, 1000000000]           = 128;
    /// Softmax temperature of the RefineWeights network's policy.
    "RefinePolicyTemperature"             "refine-policy-softmax-temp"    [network play, drops Tree, recommended, hidden]
        refine_policy_temperature:          f32 [0.1, 10.0]               = 1.5;

    // WDL contempt.
    /// WDL contempt: the engine's assumed advantage over its opponent in Elo, as a list [name=]elo,... in which the
    /// first name contained in UCI_Opponent applies. Empty uses UCI_RatingAdv.
    "Contempt"                            "contempt"                      [search play]
        contempt:                           ContemptList                  = ContemptList::default();
    /// WDL contempt: maximum advantage in Elo that is applied.
    "ContemptMaxValue"                    "contempt-max-value"            [search play, hidden]
        contempt_max_value:                 f32 [0.0, 10000.0]            = 420.0;
    /// WDL contempt: the engine's own Elo, from which the expected draw rate follows. 0 takes the draw rate
    /// from WDLDrawRateTarget instead.
    "WDLCalibrationElo"                   "wdl-calibration-elo"           [search play]
        wdl_calibration_elo:                f32 [0.0, 10000.0]            = 0.0;
    /// WDL contempt: factor that multiplies its effect on win, draw and loss probabilities.
    "WDLContemptAttenuation"              "wdl-contempt-attenuation"      [search play, hidden]
        wdl_contempt_attenuation:           f32 [-10.0, 10.0]             = 1.0;
    /// WDL contempt: maximum sharpness (width of the win and loss distributions) that is assumed of a position.
    "WDLMaxS"                             "wdl-max-s"                     [search play, hidden]
        wdl_max_s:                          f32 [0.0, 10.0]               = 1.4;
    /// Share of WDL contempt that is removed from reported values: 1 reports objective values, 0 the values that the
    /// search uses.
    "WDLEvalObjectivity"                  "wdl-eval-objectivity"          [search play, hidden]
        wdl_eval_objectivity:               f32 [0.0, 1.0]                = 1.0;
    /// WDL contempt: draw rate between equal players to which values are rescaled if WDLCalibrationElo is 0. 0 keeps
    /// the draw rate of the network.
    "WDLDrawRateTarget"                   "wdl-draw-rate-target"          [search play, hidden]
        wdl_draw_rate_target:               f32 [0.0, 0.999]              = 0.0;
    /// WDL contempt: draw rate that the network predicts between equal players.
    "WDLDrawRateReference"                "wdl-draw-rate-reference"       [search play, hidden]
        wdl_draw_rate_reference:            f32 [0.001, 0.999]            = 0.5;
    /// WDL contempt: bias of the opening positions, in units of the logistic model, at which one Elo of contempt
    /// equals one Elo of strength. No effect with WDLCalibrationElo.
    "WDLBookExitBias"                     "wdl-book-exit-bias"            [search play, hidden]
        wdl_book_exit_bias:                 f32 [-2.0, 2.0]               = 0.65;

    // The tree.
    /// Exploration constant of PUCT: c(N) = CPuct + CPuctFactor * ln((N + CPuctBase) / CPuctBase), where N is the
    /// node's number of visits.
    "CPuct"                               "cpuct"                         [search play, recommended]
        cpuct:                              f32 [0.0, 100.0]              = 1.745;
    /// Number of visits at which the growth of c(N) becomes noticeable (see CPuct).
    "CPuctBase"                           "cpuct-base"                    [search play, recommended, hidden]
        cpuct_base:                         f32 [1.0, 1000000000.0]       = 38739.0;
    /// Factor of the growth of c(N) (see CPuct). 0 keeps the constant CPuct.
    "CPuctFactor"                         "cpuct-factor"                  [search play, recommended, hidden]
        cpuct_factor:                       f32 [0.0, 1000.0]             = 3.894;
    /// The root uses CPuctAtRoot, CPuctBaseAtRoot and CPuctFactorAtRoot instead of the values for other nodes.
    "RootHasOwnCpuctParams"               "root-has-own-cpuct-params"     [search play, hidden]
        root_has_own_cpuct_params:          bool                          = false;
    /// CPuct at the root, with RootHasOwnCpuctParams.
    "CPuctAtRoot"                         "cpuct-at-root"                 [search play, hidden]
        cpuct_at_root:                      f32 [0.0, 100.0]              = 1.745;
    /// CPuctBase at the root, with RootHasOwnCpuctParams.
    "CPuctBaseAtRoot"                     "cpuct-base-at-root"            [search play, hidden]
        cpuct_base_at_root:                 f32 [1.0, 1000000000.0]       = 38739.0;
    /// CPuctFactor at the root, with RootHasOwnCpuctParams.
    "CPuctFactorAtRoot"                   "cpuct-factor-at-root"          [search play, hidden]
        cpuct_factor_at_root:               f32 [0.0, 1000.0]             = 3.894;
    /// First-play urgency, the assumed Q of an unvisited move. `reduction`: the parent's Q minus FpuValue times the
    /// square root of the visited moves' total prior; `absolute`: FpuValue itself.
    "FpuStrategy"                         "fpu-strategy"                  [search play, recommended, hidden]
        fpu_strategy:                       FpuStrategy                   = FpuStrategy::Reduction;
    /// The reduction or the absolute value of FpuStrategy.
    "FpuValue"                            "fpu-value"                     [search play, recommended]
        fpu_value:                          f32 [-100.0, 100.0]           = 0.33;
    /// FpuStrategy at the root. `same`: FpuStrategy and FpuValue apply there, too.
    "FpuStrategyAtRoot"                   "fpu-strategy-at-root"          [search play, hidden]
        fpu_strategy_at_root:               FpuStrategyAtRoot             = FpuStrategyAtRoot::Same;
    /// FpuValue at the root, unless FpuStrategyAtRoot is `same`.
    "FpuValueAtRoot"                      "fpu-value-at-root"             [search play, hidden]
        fpu_value_at_root:                  f32 [-100.0, 100.0]           = 1.0;
    /// Folders with Syzygy endgame tablebases, separated by ':' (on Windows ';'). Searches for a mate do not use them.
    "SyzygyPath"                          "syzygy-paths" 's'              [engine tables, drops Tree]
        syzygy_path:                        String                        = "";
    /// With tablebases, the engine plays only the winning moves with the shortest distance to the next capture or
    /// pawn move.
    "SyzygyFastPlay"                      "syzygy-fast-play"              [search play]
        syzygy_fast_play:                   bool                          = false;
    /// Tablebase probing against a fallible opponent (see ContemptMode), so that the opponent is not assumed to know
    /// the tablebases. 0 probes at every node. A number N probes only at nodes where the engine is to move, and uses a
    /// result only if it is a win, or a draw with fewer than N pieces.
    "ContemptModeTB"                      "contempt-mode-tb"              [search play, drops Tree, hidden]
        contempt_mode_tb:                   usize [0, 9]                  = 0;
    /// Butterfly history: raises or lowers the prior of a move by the mean gain in value of moves between the same two
    /// squares elsewhere in the tree. The logit of the prior changes by this number times the mean gain (W - L). 0
    /// turns it off.
    "ButterflyHistory"                    "butterfly-history"             [search play, recommended, hidden]
        butterfly_history:                  f32 [0.0, 100.0]              = 0.0;
    /// A position that repeats once within the search tree counts as a draw.
    "TwoFoldDraws"                        "two-fold-draws"                [search play, drops Tree, hidden]
        two_fold_draws:                     bool                          = true;
    /// Nodes with the same position share their statistics.
    "Transpositions"                      "transpositions"                [search play, drops Tree, hidden]
        transpositions:                     bool                          = false;
    /// Proven wins, draws and losses propagate to the nodes above.
    "StickyEndgames"                      "sticky-endgames"               [search play, drops Tree, hidden]
        sticky_endgames:                    bool                          = true;
    /// Certainty propagation. 1 proves a new node at once if one of its moves mates or all of them draw, and
    /// propagates proofs even without StickyEndgames. 2 also stops visits to moves that are proven lost. 0 disables
    /// this.
    "CertaintyProp"                       "certainty-prop"                [search play, drops Tree, recommended, hidden]
        certainty_prop:                     u32 [0, 2]                    = 0;
    /// A node with one legal move takes the value of the next position, which is evaluated in the same visit.
    "AutoExtend"                          "auto-extend"                   [search play, drops Tree, recommended, hidden]
        auto_extend:                        bool                          = false;
    /// Moving-average Q: a visit with value V changes Q by (V - Q) / (BackpropagateBeta * N^BackpropagateGamma + 1).
    /// If both are 1, Q is the mean of all visits; smaller values weight recent visits more.
    "BackpropagateGamma"                  "backpropagate-gamma"           [search play, drops Tree, hidden]
        backpropagate_gamma:                f32 [0.0, 10.0]               = 1.0;
    /// Factor of the moving-average Q (see BackpropagateGamma).
    "BackpropagateBeta"                   "backpropagate-beta"            [search play, drops Tree, hidden]
        backpropagate_beta:                 f32 [0.0, 10.0]               = 1.0;
    /// Optimal selection. 1 adds 8^-depth to every prior, so that every move near the root is visited. 0 disables
    /// this.
    "OptimalSelect"                       "optimal-select"                [search play, hidden]
        optimal_select:                     u32 [0, 1]                    = 0;
    /// Value of a draw for White, from -1 (a loss) to 1 (a win).
    "DrawScore"                           "draw-score"                    [search play]
        draw_score:                         f32 [-1.0, 1.0]               = 0.0;
    /// Maximum change of a move's value by the predicted length of the game. 0 disables the moves-left effect.
    "MovesLeftMaxEffect"                  "moves-left-max-effect"         [search play, hidden]
        moves_left_max_effect:              f32 [0.0, 1.0]                = 0.0345;
    /// Minimum |Q| of a node at which the moves-left effect applies.
    "MovesLeftThreshold"                  "moves-left-threshold"          [search play, hidden]
        moves_left_threshold:               f32 [0.0, 1.0]                = 0.8;
    /// Moves-left effect per ply of difference between a move's and its parent's predicted game length.
    "MovesLeftSlope"                      "moves-left-slope"              [search play, hidden]
        moves_left_slope:                   f32 [0.0, 1.0]                = 0.0027;
    /// Part of the moves-left effect that does not depend on Q.
    "MovesLeftConstantFactor"             "moves-left-constant-factor"    [search play, hidden]
        moves_left_constant_factor:         f32 [-1.0, 1.0]               = 0.0;
    /// Part of the moves-left effect that grows with |Q|.
    "MovesLeftScaledFactor"               "moves-left-scaled-factor"      [search play, hidden]
        moves_left_scaled_factor:           f32 [-2.0, 2.0]               = 1.6521;
    /// Part of the moves-left effect that grows with the square of Q.
    "MovesLeftQuadraticFactor"            "moves-left-quadratic-factor"   [search play, hidden]
        moves_left_quadratic_factor:        f32 [-1.0, 1.0]               = -0.6521;

    // Batches.
    /// Maximum number of collisions (visits that end at a node already in evaluation) while a batch is gathered.
    "MaxCollisionEvents"                  "max-collision-events"          [search play, hidden]
        max_collision_events:               usize [1, 65536]              = 917;
    /// Maximum number of collision visits while a batch is gathered in a large tree. The three Scaling options reduce
    /// it in smaller trees.
    "MaxCollisionVisits"                  "max-collision-visits"          [search play, hidden]
        max_collision_visits:               u32 [1, 100000000]            = 80000;
    /// Number of root visits up to which a single collision ends the gathering of a batch.
    "MaxCollisionVisitsScalingStart"      "max-collision-visits-scaling-start" [search play, hidden]
        max_collision_visits_scaling_start: u32 [1, 100000]               = 28;
    /// Number of root visits from which MaxCollisionVisits applies in full.
    "MaxCollisionVisitsScalingEnd"        "max-collision-visits-scaling-end" [search play, hidden]
        max_collision_visits_scaling_end:   u32 [0, 100000000]            = 145000;
    /// Exponent of the growth of the collision limit between MaxCollisionVisitsScalingStart and
    /// MaxCollisionVisitsScalingEnd.
    "MaxCollisionVisitsScalingPower"      "max-collision-visits-scaling-power" [search play, hidden]
        max_collision_visits_scaling_power: f32 [0.01, 100.0]             = 1.25;
    /// Terminal nodes and cache hits are backed up while a batch is gathered, without waiting for the batch.
    "OutOfOrderEval"                      "out-of-order-eval"             [search play, hidden]
        out_of_order_eval:                  bool                          = true;
    /// Maximum number of out-of-order evaluations per batch, as a multiple of the batch size, and at most 8192.
    "MaxOutOfOrderEvalsFactor"            "max-out-of-order-evals-factor" [search play, hidden]
        max_out_of_order_evals_factor:      f32 [0.0, 100.0]              = 2.4;

    // Chance.
    /// Seed of all random choices. With one thread, a seed repeats a game exactly from "ucinewgame" on. 0 uses a new
    /// seed for every search.
    "Seed"                                "seed"                          [search play]
        seed:                               u64 [0, 2147483647]           = 0;
    /// Share of Dirichlet noise in the priors at the root.
    "DirichletNoiseEpsilon"               "noise-epsilon"                 [search play, hidden]
        noise_epsilon:                      f32 [0.0, 1.0]                = 0.0;
    /// Concentration of the Dirichlet noise at the root.
    "DirichletNoiseAlpha"                 "noise-alpha"                   [search play, hidden]
        noise_alpha:                        f32 [0.0, 10000000.0]         = 0.3;
    /// The played move is sampled in proportion to visits^(1/Temperature). 0 always plays the best move.
    "Temperature"                         "temperature"                   [search play]
        temperature:                        f32 [0.0, 100.0]              = 0.0;
    /// Number of moves over which Temperature decreases to zero. 0 keeps it constant.
    "TempDecayMoves"                      "tempdecay-moves"               [search play, hidden]
        temp_decay_moves:                   u32 [0, 640]                  = 0;
    /// Number of moves before Temperature begins to decrease.
    "TempDecayDelayMoves"                 "tempdecay-delay-moves"         [search play, hidden]
        temp_decay_delay_moves:             u32 [0, 100]                  = 0;
    /// Move number of the game from which TempEndgame replaces Temperature. 0 disables this.
    "TempCutoffMove"                      "temp-cutoff-move"              [search play, hidden]
        temp_cutoff_move:                   u32 [0, 1000]                 = 0;
    /// Temperature from TempCutoffMove on, and the minimum to which Temperature decreases.
    "TempEndgame"                         "temp-endgame"                  [search play, hidden]
        temp_endgame:                       f32 [0.0, 100.0]              = 0.0;
    /// Maximum difference in winning chances between the best move and a move that Temperature may select, in
    /// percent. 100 allows every move.
    "TempValueCutoff"                     "temp-value-cutoff"             [search play, hidden]
        temp_value_cutoff:                  f32 [0.0, 100.0]              = 100.0;
    /// Number added to the visits of each move before Temperature applies.
    "TempVisitOffset"                     "temp-visit-offset"             [search play, hidden]
        temp_visit_offset:                  f32 [-1000.0, 1000.0]         = 0.0;
    /// Variety of a game's first moves while Temperature is 0: each is sampled with a weight of
    /// e^(-loss/OpeningVariety). A move's loss is how much less it is worth than the best one, in hundredths of W - L
    /// (win probability minus loss probability, -1 to 1); moves with few visits count as worse. Moves that lose more
    /// than three times OpeningVariety are excluded. 0 plays the best move.
    "OpeningVariety"                      "opening-variety"               [search play]
        opening_variety:                    f32 [0.0, 100.0]              = 0.0;
    /// Last move number at which OpeningVariety applies. A game that starts from a FEN has the move numbers of the FEN.
    "OpeningVarietyMoves"                 "opening-variety-moves"         [search play, hidden]
        opening_variety_moves:              u32 [1, 1000]                 = 4;

    // The game.
    /// File of moves that led into lost games, one position a line (EPD with `am`, moves to avoid). The engine adds the
    /// games that it loses, and plays another move in these positions if that costs at most 0.05 of W - L (win
    /// probability minus loss probability, -1 to 1). The value of each move counts less a reserve, 0.4 divided by the
    /// square root of its visits, so another move needs visits, too. Empty stores nothing.
    "LostGamesFile"                       "lost-games-file"               [engine play, only uci, no profile]
        lost_games_file:                    String                        = "";
    /// Description of the opponent, set by the GUI: "TITLE RATING TYPE NAME", as in "GM 2800 human Gary Kasparov" or
    /// "none none computer Shredder". Profiles and Contempt read it.
    "UCI_Opponent"                        "opponent"                      [search play, only uci]
        opponent:                           String                        = "";
    /// The engine's rating advantage over its opponent in Elo. It is the default of Contempt, and profiles may depend
    /// on it.
    "UCI_RatingAdv"                       "rating-advantage"              [search play, only uci]
        rating_advantage:                   f32 [-10000.0, 10000.0]       = 0.0;
    /// The engine plays at the strength of UCI_Elo.
    "UCI_LimitStrength"                   "limit-strength"                [engine play, only uci]
        limit_strength:                     bool                          = false;
    /// Rating at which the engine plays with UCI_LimitStrength, on about the scale of Stockfish's UCI_Elo, or on
    /// lichess's if HumanWeights is set. See docs/strength.md.
    "UCI_Elo"                             "elo"                           [engine play, only uci]
        elo:                                u32 [1200, 2200]              = 1500;
    /// With UCI_LimitStrength up to 1950: network of human moves that plays in place of a limited search, `<built in
    /// human {maia}>` or a file name, in which `{maia}` stands for a rating from 1100 to 1900. UCI_Elo is then a rating
    /// on lichess; on Stockfish's scale the strength stays at about 1250 to 1400. Above 1950, or if empty, the nodes
    /// are limited and randomness is added instead.
    "HumanWeights"                        "human-weights"                 [engine play, only uci]
        human_weights:                      String                        = "";
    /// Profiles that set options by odds, opponent and clock, except those that the user or the configuration file
    /// sets: a file (see docs/profiles.md), `<built in>` or `off`. With UCI_LimitStrength they set nothing that changes
    /// the moves at a given number of nodes.
    "Profiles"                            "profiles"                      [engine play, only uci, no profile, suggests "<built in>" "off"]
        profiles:                           String                        = "<built in>";

    // The move that is played.
    /// Criterion for the played move if nothing is proven and Temperature is 0. `visits`: the most visits; `lcb`: the
    /// largest lower confidence bound of Q; `value_log_visits`: the largest Q + ln(visits).
    "RootChoice"                          "root-choice"                   [search play, recommended, hidden]
        root_choice:                        RootChoice                    = RootChoice::Visits;
    /// Number of standard errors between Q and its lower confidence bound, for RootChoice `lcb`.
    "LcbStdevs"                           "lcb-stdevs"                    [search play, recommended, hidden]
        lcb_stdevs:                         f32 [0.0, 100.0]              = 5.0;
    /// Minimum visits of a move that RootChoice `lcb` may choose, as a share of the visits of the most visited move.
    "LcbMinVisitShare"                    "lcb-min-visit-share"           [search play, recommended, hidden]
        lcb_min_visit_share:                f32 [0.0, 1.0]                = 0.15;

    // What is reported.
    /// Number of best moves for which a principal variation is reported. Above 1, a root move that is a proven win gets
    /// no further visits while other root moves are unproven.
    "MultiPV"                             "multipv"                       [search output]
        multi_pv:                           usize [1, 500]                = 1;
    /// With MultiPV, each line reports its own number of nodes instead of the number of the whole search.
    "PerPVCounters"                       "per-pv-counters"               [report output, only uci]
        per_pv_counters:                    bool                          = false;
    /// Scale of the reported scores. `WDL_mu`, the default: 100 means a winning chance of 50 %. The others are computed
    /// from the expected score; those in centipawns grow faster in won positions.
    "ScoreType"                           "score-type"                    [report output]
        score_type:                         ScoreType                     = ScoreType::WdlMu;
    /// The engine reports win, draw and loss probabilities, in per mille.
    "UCI_ShowWDL"                         "show-wdl"                      [report output, only uci]
        show_wdl:                           bool                          = false;
    /// The engine reports the number of network evaluations per second.
    "UCI_ShowEPS"                         "show-eps"                      [report output, only uci, hidden]
        show_eps:                           bool                          = false;
    /// The engine reports the expected number of moves until the end of the game.
    "UCI_ShowMovesLeft"                   "show-movesleft"                [report output, only uci]
        show_moves_left:                    bool                          = false;
    /// With search-contempt, the engine reports at the end of a search the value of each line against best replies,
    /// too, and by how much its practical value is higher. The report is omitted if it may take more than a quarter of
    /// the time for the move, and without a clock in trees of more than ten million visits.
    "ShowObjective"                       "show-objective"                [search output]
        show_objective:                     bool                          = false;
    /// The engine reports statistics of every move at the end of a search.
    "VerboseMoveStats"                    "verbose-move-stats" 'v'        [report output, only uci]
        verbose_move_stats:                 bool                          = false;
    /// The engine reports the statistics of VerboseMoveStats during the search, too, so that a GUI can display them
    /// live.
    "LogLiveStats"                        "log-live-stats"                [search output, only uci]
        log_live_stats:                     bool                          = false;
    /// The engine loads the network and the tablebases when it starts, not at the GUI's first "isready".
    "Preload"                             "preload"                       [engine speed, only uci, hidden]
        preload:                            bool                          = false;
    /// The engine also announces the options that few people change, so that a GUI lists them; programs that have sent
    /// "uci" before must send it again. Hidden options can always be set, announced or not.
    "ShowHidden"                          "show-hidden"                   [report output, only uci, no profile]
        show_hidden:                        bool                          = false;
    /// File for a log of the communication with the GUI. `<stderr>` writes it to standard error. Empty writes none.
    "LogFile"                             "logfile" 'l'                   [report output, only uci, no profile]
        log_file:                           String                        = "";
    /// The GUI analyses a position: Temperature and noise are 0, profiles and UCI_LimitStrength have no effect, and the
    /// trees of earlier positions are kept (in up to half of the memory), so that stepping back resumes their search.
    /// Root moves that give away the result of the tablebases are searched, too, and not played.
    "UCI_AnalyseMode"                     "analyse-mode"                  [search play, no profile]
        analyse_mode:                       bool                          = false;
    /// Castling moves are written as king takes rook, for Chess960.
    "UCI_Chess960"                        "chess960"                      [engine play, no profile]
        chess960:                           bool                          = false;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_and_flags_are_unique_and_defaults_are_in_range() {
        let mut options = Options::default();
        let (mut names, mut flags) = (HashSet::new(), HashSet::new());
        for row in Options::default().rows() {
            for name in std::iter::once(&row.name).chain(row.aliases) {
                assert!(names.insert(name.to_ascii_lowercase()), "{name}");
                options.set(name, &row.value).unwrap();
            }
            assert!(flags.insert(row.flag), "{}", row.flag);
            assert!(!row.flag.starts_with("no-"), "{}", row.flag);
            assert!(!row.help.is_empty() && !row.help.contains("  "));
        }
        assert_eq!(options, Options::default());
    }

    #[test]
    fn marks_agree_with_each_other() {
        for row in Options::default().rows() {
            let name = row.name;
            assert!(
                row.scope != Scope::Report || row.effect == Effect::Output,
                "{name} is read by reports and changes {:?}",
                row.effect
            );
            let keeps_results = matches!(row.effect, Effect::Output | Effect::Clock);
            assert!(
                !keeps_results || row.invalidates == Invalidates::Nothing,
                "{name} changes {:?} and invalidates {:?}",
                row.effect,
                row.invalidates
            );
            assert!(
                !row.is_recommendable || !row.is_only_uci,
                "a network recommends {name} for all programs"
            );
        }
    }

    #[test]
    fn names_are_case_insensitive_and_bad_values_change_nothing() {
        let mut options = Options::default();
        options.set("move overhead", "50").unwrap();
        options.set("hash", " 256 ").unwrap();
        options.set("sclimit", "-5").unwrap();
        options.set("Contempt", "50").unwrap();
        options.set("Contempt", "<empty>").unwrap();
        options.set("LogFile", "<empty>").unwrap();
        assert_eq!(options.contempt, ContemptList::default());
        assert!(options.log_file.is_empty());
        assert_eq!((options.move_overhead_ms, options.ram_limit_mb), (50, 256));
        assert_eq!(options.sc_limit, -5);
        let before = options.clone();
        for (name, value) in [
            ("Hash", "-1"),
            ("Hash", "many"),
            ("Hash", "99999999999999999999"),
            ("CPuct", "nan"),
            ("CPuct", "101"),
            ("FpuStrategy", "same"),
            ("OutOfOrderEval", "perhaps"),
            ("NoSuchThing", "1"),
        ] {
            let error = options.set(name, value).unwrap_err().to_string();
            assert!(
                error.contains(name) || error.contains("RamLimitMb"),
                "{error}"
            );
        }
        assert_eq!(options, before);
    }

    #[test]
    fn a_change_invalidates_what_its_row_says() {
        let old = Options::default();
        let mut new = old.clone();
        assert_eq!(new.invalidated_since(&old), Invalidates::Nothing);
        new.set("CPuct", "2").unwrap();
        assert_eq!(new.invalidated_since(&old), Invalidates::Nothing);
        new.set("ScLimit", "20").unwrap();
        assert_eq!(new.invalidated_since(&old), Invalidates::Tree);
        new.set("OpponentWeights", "maia-1100.pb.gz").unwrap();
        assert_eq!(new.invalidated_since(&old), Invalidates::OtherNetworks);
        new.set("Backend", "hash").unwrap();
        assert_eq!(new.invalidated_since(&old), Invalidates::Network);
    }

    #[test]
    fn announced_as_guis_expect() {
        let lines: Vec<_> = Options::default()
            .rows()
            .iter()
            .flat_map(OptionRow::uci_lines)
            .collect();
        for line in [
            "option name Hash type spin default 0 min 0 max 100000000",
            "option name Move Overhead type spin default 200 min 0 max 100000000",
            "option name CPuct type string default 1.745",
            "option name LogFile type string default <empty>",
            "option name ScSampling type combo default thompson var thompson var stratified",
        ] {
            assert!(lines.iter().any(|l| l == line), "{line}");
        }
    }
}
