//! Search-contempt as the paper and the design define it, also with batches.

use crate::common::{Setup, position};
use scorn::{
    network::{
        Added, Advice, Batch, EvalPosition, EvaluateError, Evaluator, Info, Value,
        hash::HashEvaluator,
    },
    options::{Options, ScSampling},
    search::search_contempt::ReplyRecord,
};
use shakmaty::Color;

const LIMITS: [i32; 4] = [1, 5, 28, 200];

fn setup(sc_limit: i32, threads: usize, minibatch_size: usize) -> Setup {
    Setup::new(Options {
        sc_limit,
        threads,
        minibatch_size,
        sticky_endgames: false,
        ..Options::default()
    })
}

/// Checks every node of the tree; returns the number of frozen ones.
fn assert_frozen_exactly(setup: &Setup, limit: u32, frozen_side: Color) -> usize {
    let tree = setup.tree.lock();
    tree.assert_consistent();
    let mut frozen = 0;
    tree.for_each(|node, depth| {
        let turn = if depth % 2 == 0 {
            tree.root_turn()
        } else {
            tree.root_turn().other()
        };
        let visits: u32 = tree.children(node).iter().map(|child| child.n).sum();
        let may_freeze = turn == frozen_side && depth > 0;
        match tree.record(node) {
            Some(record) if !record.is_final() => {
                // The last batch's collisions have cancelled visits: PUCT continues here.
                let counted: u32 = record.shares.iter().map(|share| share.count).sum();
                assert!(may_freeze && counted < limit, "{record:?}");
            }
            Some(record) => {
                assert!(may_freeze, "a {turn} node at depth {depth} froze");
                let counted: u32 = record.shares.iter().map(|share| share.count).sum();
                assert_eq!(counted, limit);
                assert!(visits >= limit);
                frozen += 1;
            }
            None if may_freeze => assert!(
                visits < limit,
                "{visits} visits and not frozen at depth {depth}"
            ),
            None => {}
        }
    });
    frozen
}

#[test]
fn nodes_freeze_at_exactly_the_limit_at_every_batch_size() {
    for limit in LIMITS {
        for (threads, minibatch) in [(1, 1), (1, 8), (1, 64), (1, 256), (2, 32), (3, 128)] {
            let setup = setup(limit, threads, minibatch);
            setup.search(&position("startpos"), 20_000);
            let frozen = assert_frozen_exactly(&setup, limit as u32, Color::Black);
            assert!(frozen > 0, "nothing froze at limit {limit}");
        }
    }
}

#[test]
fn a_negative_limit_freezes_the_own_nodes_but_the_root() {
    let setup = setup(-20, 1, 16);
    setup.search(&position("startpos"), 20_000);
    assert!(assert_frozen_exactly(&setup, 20, Color::White) > 0);
}

#[test]
fn only_the_opponent_of_the_contempt_side_freezes_and_none_without_one() {
    let mut setup = setup(20, 1, 16);
    setup.contempt_side = Some(Color::Black);
    setup.search(&position("startpos"), 20_000);
    assert!(assert_frozen_exactly(&setup, 20, Color::White) > 0);
}

#[test]
fn the_default_limit_is_plain_puct_bit_for_bit() {
    let plain = Options {
        threads: 1,
        minibatch_size: 32,
        ..Options::default()
    };
    assert_eq!(plain.sc_limit, 1_000_000_000);
    let run = |options: Options| {
        let setup = Setup::new(options);
        setup.search(&position("startpos"), 20_000);
        setup.visits()
    };
    let reference = run(plain.clone());
    // A limit that is never reached uses the search-contempt code paths and must not change anything.
    assert_eq!(
        run(Options {
            sc_limit: 999_999,
            ..plain.clone()
        }),
        reference
    );
    assert_eq!(
        run(Options {
            sc_limit: -999_999,
            ..plain.clone()
        }),
        reference
    );
    assert_ne!(
        run(Options {
            sc_limit: 30,
            ..plain
        }),
        reference
    );
}

#[test]
fn no_draws_are_plain_puct_and_all_draws_are_search_contempt() {
    let run = |sc_limit, settings: &[(&str, &str)], minibatch| {
        let mut setup = setup(sc_limit, 1, minibatch);
        for (name, value) in settings {
            setup.options.set(name, value).unwrap();
        }
        setup.search(&position("startpos"), 5000);
        setup.visits()
    };
    let (ratio, schedule) = ("HybridSamplingRatio", "HybridRatioSchedule");
    for minibatch in [1, 32] {
        let (plain, pure) = (run(1_000_000_000, &[], minibatch), run(20, &[], minibatch));
        assert_ne!(plain, pure);
        assert_eq!(run(20, &[(ratio, "1")], minibatch), pure);
        assert_eq!(run(20, &[(ratio, "0"), (schedule, "5:1")], minibatch), pure);
    }
    // In batches the frozen nodes' limit of visits in flight is another one.
    assert_eq!(run(20, &[(ratio, "0")], 1), run(1_000_000_000, &[], 1));
    assert_eq!(
        run(20, &[(schedule, "1:0 90000:0")], 1),
        run(1_000_000_000, &[], 1)
    );
}

#[test]
fn the_hybrid_ratio_is_the_share_of_draws_at_every_batch_size() {
    for sampling in [ScSampling::Thompson, ScSampling::Stratified] {
        for (threads, minibatch) in [(1, 1), (1, 64), (3, 32)] {
            let mut setup = setup(28, threads, minibatch);
            setup.options.sc_sampling = sampling;
            setup.options.set("HybridSamplingRatio", "0.7").unwrap();
            setup.search(&position("startpos"), 40_000);
            assert!(assert_frozen_exactly(&setup, 28, Color::Black) > 0);
            let tree = setup.tree.lock();
            let (mut drawn, mut searched) = (0, 0);
            tree.for_each(|node, _| {
                let Some(record) = tree.record(node).filter(|record| record.is_final()) else {
                    return;
                };
                let visits: Vec<u32> = tree.children(node).iter().map(|child| child.n).collect();
                // Children that are not in the record were found by searching.
                let (known, new) = visits.split_at(record.shares.len());
                let more: u32 = record.shares.iter().map(|share| share.searched).sum();
                let all: u32 = known.iter().sum();
                searched += more + new.iter().sum::<u32>();
                drawn += all - record.limit - more;
            });
            let share = f64::from(drawn) / f64::from(drawn + searched);
            assert!(drawn + searched > 5000, "{drawn} + {searched}");
            assert!(
                (share - 0.7).abs() < 0.05,
                "{sampling:?}, {minibatch}: {share}"
            );
        }
    }
}

#[test]
fn changing_side_limit_or_temperature_drops_the_tree_and_stepping_two_plies_keeps_it() {
    let mut game = position("startpos");
    let mut setup = setup(30, 1, 16);
    let outcome = setup.search(&game, 5000);
    game.push(outcome.best.unwrap());
    game.push(outcome.ponder.unwrap());
    let nodes = |setup: &Setup| setup.search(&game, 2).report.nodes;
    assert!(nodes(&setup) > 100);
    setup.search(&game, 5000);
    assert_frozen_exactly(&setup, 30, Color::Black);
    setup.options.sc_limit = 31;
    assert_eq!(nodes(&setup), 2);
    setup.search(&game, 5000);
    setup.options.hybrid_sampling_ratio = 0.8;
    assert_eq!(nodes(&setup), 2);
    setup.contempt_side = Some(Color::Black);
    assert_eq!(nodes(&setup), 2);
}

/// Chi-square of the visits (and deferred draws) of each child of frozen nodes since they froze, against the share
/// that its frozen count gives it at `ScTemperature`: count^(1/T), computed here from the counts.
fn chi_square(setup: &Setup, minimum: u32) -> (f64, f64) {
    let exponent = 1.0 / f64::from(setup.options.sc_temperature);
    let tree = setup.tree.lock();
    let (mut sum, mut freedom) = (0.0, 0.0);
    tree.for_each(|node, _| {
        let Some(record) = tree.record(node) else {
            return;
        };
        let children = tree.children(node);
        let drawn: Vec<f64> = children
            .iter()
            .zip(&record.shares)
            .map(|(child, share)| f64::from(child.n + share.deferred_draws - share.count))
            .collect();
        let all: f64 = drawn.iter().sum();
        if all < f64::from(minimum) {
            return;
        }
        let counts = record.shares.iter().map(|share| f64::from(share.count));
        let weights: Vec<f64> = counts.map(|count| count.powf(exponent)).collect();
        let sum_of_weights: f64 = weights.iter().sum();
        for (weight, drawn) in weights.iter().zip(drawn) {
            let p = weight / sum_of_weights;
            if p * all >= 5.0 {
                sum += (drawn - p * all).powi(2) / (p * all);
                freedom += 1.0;
            }
        }
        freedom -= 1.0;
    });
    (sum, freedom)
}

#[test]
fn replies_are_drawn_by_their_frozen_shares() {
    for (threads, minibatch) in [(1, 1), (1, 64), (1, 256), (2, 64)] {
        for sc_temperature in [1.0, 0.5, 2.0] {
            let deviations_of = |seed| {
                let mut setup = setup(40, threads, minibatch);
                setup.options.sc_temperature = sc_temperature;
                setup.options.seed = seed;
                setup.search(&position("startpos"), 100_000);
                let (sum, freedom) = chi_square(&setup, 200);
                assert!(freedom > 100.0, "too few frozen nodes");
                // The statistic has mean `freedom` and variance 2 * freedom.
                (sum - freedom) / (2.0 * freedom).sqrt()
            };
            // While the system suspends one of several threads, the other draws by provisional counts: the median of
            // three searches.
            let searches = if threads == 1 { 0..1 } else { 0..3 };
            let mut deviations: Vec<f64> = searches.map(deviations_of).collect();
            deviations.sort_by(f64::total_cmp);
            assert!(
                deviations[deviations.len() / 2] < 5.0,
                "{threads} threads, batch {minibatch}, T {sc_temperature}: {deviations:?} sigma"
            );
        }
    }
}

#[test]
fn stratified_sampling_stays_within_two_visits_of_the_shares() {
    let mut setup = setup(40, 1, 1);
    setup.options.sc_sampling = ScSampling::Stratified;
    setup.search(&position("startpos"), 100_000);
    let tree = setup.tree.lock();
    let mut checked = 0;
    tree.for_each(|node, _| {
        let Some(record) = tree.record(node) else {
            return;
        };
        let drawn =
            |slot: usize| f64::from(tree.children(node)[slot].n - record.shares[slot].count);
        let all: f64 = (0..record.shares.len()).map(drawn).sum();
        for (slot, p) in record.probabilities().enumerate() {
            assert!((drawn(slot) - p * all).abs() <= 2.0);
            checked += 1;
        }
    });
    assert!(checked > 1000);
}

#[test]
fn temperature_zero_always_gives_the_most_visited_reply() {
    let mut setup = setup(40, 1, 1);
    setup.options.sc_temperature = 0.0;
    setup.search(&position("startpos"), 50_000);
    let tree = setup.tree.lock();
    let mut checked = 0;
    tree.for_each(|node, _| {
        let Some(record) = tree.record(node) else {
            return;
        };
        let most = record.shares.iter().map(|share| share.count).max().unwrap();
        let with_draws: Vec<_> = tree
            .children(node)
            .iter()
            .zip(&record.shares)
            .filter(|(child, share)| child.n > share.count)
            .map(|(_, share)| share.count)
            .collect();
        assert!(with_draws.len() <= 1 && with_draws.iter().all(|&count| count == most));
        checked += with_draws.len();
    });
    assert!(checked > 100, "{checked}");
}

/// An evaluator for a trap: White may offer its rook on d7 or e1. Taking it looks good for Black to the network for
/// three plies; after that Black is lost.
struct Trap;

impl Evaluator for Trap {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        HashEvaluator.evaluate(batch)?;
        for index in 0..batch.len() {
            // The key carries the test's data: see `add`.
            let code = batch.key(index) as i64;
            batch.set_value(
                index,
                Value {
                    wl: code as f32 / 1000.0,
                    d: 0.0,
                    m: 0.0,
                },
            );
            let (moves, policy) = batch.policy_mut(index);
            policy.fill(1.0 / moves.len() as f32);
        }
        Ok(())
    }

    fn add(&self, leaf: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        use shakmaty::{Position, Square};
        let line = leaf.line();
        let position = &line[line.len() - 1].position;
        let board = position.board();
        let has_rook = |color| !(board.by_color(color) & board.rooks()).is_empty();
        let is_offered = [Square::D7, Square::E1]
            .map(|square| board.piece_at(square))
            .contains(&Some(Color::White.rook()));
        let is_taken = !has_rook(Color::White) && has_rook(Color::Black);
        // The root is the line's first position, the offer its second, the capture its third.
        let white = match (is_offered, is_taken, line.len()) {
            (true, ..) => -50,
            (_, true, ..6) => -250,
            (_, true, _) => 900,
            _ => 0,
        };
        let code = if position.turn().is_white() {
            white
        } else {
            -white
        };
        Added::Queued(batch.push(code as u64, leaf.moves()))
    }

    fn info(&self) -> Info {
        Info {
            description: "trap".into(),
            advice: Advice {
                threads: 1,
                minibatch: 1,
                min_batch: 1,
            },
            ..Info::default()
        }
    }
}

#[test]
fn a_frozen_opponent_keeps_falling_for_a_trap_that_puct_refutes() {
    let trap = position("6k1/4r1p1/7p/8/8/7P/6P1/3R2K1 w - - 0 1");
    let visits_of_trap = |sc_limit: i32| {
        let mut setup = setup(sc_limit, 1, 1);
        setup.evaluator = std::sync::Arc::new(Trap);
        let outcome = setup.search(&trap, 20_000);
        let tree = setup.tree.lock();
        let root = tree.node(tree.root());
        let is_trap = |m: &str| m == "d1d7" || m == "d1e1";
        let visits: u32 = tree
            .children(root)
            .iter()
            .filter(|child| {
                is_trap(&crate::common::uci(
                    &trap,
                    tree.edges(root).at(child.edge).m(),
                ))
            })
            .map(|child| child.n)
            .sum();
        (
            is_trap(&crate::common::uci(&trap, outcome.best.unwrap())),
            f64::from(visits) / f64::from(root.n),
        )
    };
    let (sets_trap, share) = visits_of_trap(28);
    assert!(sets_trap && share > 0.5, "share {share}");
    let (sets_trap, puct_share) = visits_of_trap(1_000_000_000);
    assert!(!sets_trap && puct_share < 0.1, "share {puct_share}");
}

#[test]
fn a_trap_has_a_practical_and_an_objective_value() {
    let trap = position("6k1/4r1p1/7p/8/8/7P/6P1/3R2K1 w - - 0 1");
    let best_line = |sc_limit: i32| {
        let mut setup = setup(sc_limit, 1, 1);
        setup.options.show_objective = true;
        setup.evaluator = std::sync::Arc::new(Trap);
        setup.search(&trap, 20_000).report.lines.remove(0)
    };
    let line = best_line(28);
    let objective = line.objective.unwrap();
    // Black's best reply leaves the rook alone, which is worth -0.05 to White; its expected replies are worth much
    // more.
    assert!(line.value.wl > 0.2, "{line:?}");
    assert!(objective.value.wl < 0.1, "{line:?}");
    assert!((0.1..2.0).contains(&objective.next_loss), "{line:?}");
    // Where nothing is frozen both values are equal, and without search-contempt there is no second value.
    let line = best_line(999_999);
    assert_eq!(line.objective.unwrap().value, line.value);
    assert_eq!(best_line(1_000_000_000).objective, None);
}

#[test]
fn records_store_their_limit_and_side() {
    let setup = setup(12, 1, 4);
    setup.search(&position("startpos"), 5000);
    let tree = setup.tree.lock();
    let mut records: Vec<ReplyRecord> = Vec::new();
    tree.for_each(|node, _| records.extend(tree.record(node).cloned()));
    assert!(!records.is_empty());
    assert!(
        records
            .iter()
            .all(|record| record.limit == 12 && record.side == Color::Black)
    );
}
