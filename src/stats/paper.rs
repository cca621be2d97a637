//! Published results of the paper on search-contempt about its self-play: 100 games per point, 1000 nodes per move,
//! read off its figures to about 0.01. Pages show them beside the counted games.

/// Figure 2: (w + l) / d by ScLimit; a million is plain PUCT.
pub const DECISIVE_BY_LIMIT: [(f64, f64); 6] = [
    (1.0, 2.57),
    (5.0, 1.38),
    (10.0, 0.78),
    (20.0, 0.52),
    (32.0, 0.32),
    (1e6, 0.09),
];

/// Figure 3: (w + l) / d of plain PUCT by temperature schedule, the low one first.
pub const DECISIVE_BY_SCHEDULE: [(&str, f64); 2] = [("tau_1", 0.06), ("tau_2", 1.38)];

/// The move numbers of figure 4.
pub const REPEATED_AT: [usize; 12] = [1, 2, 3, 4, 5, 10, 15, 20, 25, 30, 40, 50];

/// Figure 4: the share of repeated games at these moves.
pub const REPEATED: [(&str, [f64; 12]); 5] = [
    (
        "N_scl = 5",
        [
            0.70, 0.42, 0.23, 0.15, 0.15, 0.10, 0.05, 0.03, 0.03, 0.0, 0.0, 0.0,
        ],
    ),
    (
        "N_scl = 32",
        [
            0.68, 0.37, 0.20, 0.15, 0.14, 0.08, 0.06, 0.02, 0.01, 0.0, 0.0, 0.0,
        ],
    ),
    (
        "N_scl = 1e6",
        [
            0.69, 0.41, 0.25, 0.17, 0.16, 0.11, 0.07, 0.04, 0.02, 0.02, 0.01, 0.01,
        ],
    ),
    (
        "PUCT, tau_1",
        [
            0.79, 0.44, 0.27, 0.15, 0.13, 0.08, 0.06, 0.02, 0.01, 0.0, 0.0, 0.0,
        ],
    ),
    (
        "PUCT, tau_2",
        [
            0.57, 0.17, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
        ],
    ),
];
