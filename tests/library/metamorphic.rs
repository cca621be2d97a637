//! What must hold of any position and any number of nodes, from one on, whatever the evaluator thinks: rules that
//! relate one search to another or to the rules of chess, over random positions. `SCORN_METAMORPHIC` multiplies how
//! many there are.

use std::sync::Arc;

use crate::common::Setup;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus as Rng, seq::IndexedRandom};
use scorn::{
    chess::{History, PackedMove, moves::legal_moves, setup::position_from_fen},
    network::{Added, Batch, EvalPosition, EvaluateError, Evaluator, hash::HashEvaluator},
    options::{OptionKind, Options},
    search::{Outcome, Score},
};
use shakmaty::{
    Board, CastlingMode, Chess, Color, FromSetup, Piece, Position, Role, Setup as Fields, Square,
};

/// How many random positions or games, where `usual` are enough for every day.
fn amount(usual: usize) -> usize {
    let factor = std::env::var("SCORN_METAMORPHIC").ok();
    usual * factor.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// A legal position with kings and these pieces anywhere, in which the game is not over, unless there is hardly any.
fn scatter(rng: &mut Rng, pieces: &[Piece]) -> Option<Chess> {
    (0..1000).find_map(|_| {
        let mut board = Board::empty();
        for piece in Color::ALL.map(|color| color.king()).iter().chain(pieces) {
            board.set_piece_at(Square::new(rng.random_range(0..64)), *piece);
        }
        let mut fields = Fields::empty();
        fields.board = board;
        fields.turn = *Color::ALL.choose(rng).unwrap();
        // Draws by rule are near in half of the positions.
        if rng.random() {
            fields.halfmoves = rng.random_range(96..100);
        }
        let position = Chess::from_setup(fields, CastlingMode::Standard).ok()?;
        (!position.is_game_over()).then_some(position)
    })
}

/// A position with kings and one to six other pieces.
fn random_position(rng: &mut Rng) -> Chess {
    loop {
        let pieces: Vec<Piece> = (0..rng.random_range(1..=6))
            .map(|_| Piece {
                color: *Color::ALL.choose(rng).unwrap(),
                role: *Role::ALL[..5].choose(rng).unwrap(),
            })
            .collect();
        // A lone bishop or knight cannot mate: that game is over.
        if let Some(position) = scatter(rng, &pieces) {
            return position;
        }
    }
}

/// A game that has come to such a position. In half of the games both sides moved to and fro before.
fn random_game(rng: &mut Rng) -> History {
    let mut game = History::new(random_position(rng));
    if rng.random() {
        let quiet = |game: &History| -> Option<PackedMove> {
            let before = game.position().halfmoves();
            legal_moves(game.position()).find(|&m| {
                let mut after = game.clone();
                after.push(m);
                after.position().halfmoves() > before && !after.position().is_game_over()
            })
        };
        let (one, other) = (quiet(&game), None::<PackedMove>);
        let mut line = vec![one, other];
        if let Some(m) = one {
            game.push(m);
            line[1] = quiet(&game);
            game.truncate(game.len() - 1);
        }
        let to_and_fro = line.into_iter().collect::<Option<Vec<_>>>();
        for m in to_and_fro.iter().flat_map(|line| shuffle(line)) {
            let is_legal = legal_moves(game.position()).any(|legal| legal == m);
            if !is_legal || is_over(&game) {
                break;
            }
            game.push(m);
        }
    }
    if is_over(&game) {
        random_game(rng)
    } else {
        game
    }
}

/// There and back again, twice but for the last move, which would repeat the first position for the third time.
fn shuffle(line: &[PackedMove]) -> Vec<PackedMove> {
    let back = |m: &PackedMove| PackedMove::new(m.to(), m.from(), None);
    let back: Vec<PackedMove> = line.iter().map(back).collect();
    [line, &back, line, &back[..1]].concat()
}

fn has_no_move(game: &History) -> bool {
    game.position().legal_moves().is_empty()
}

fn is_mated(game: &History) -> bool {
    has_no_move(game) && game.position().is_check()
}

/// Whether the rules have ended the game in a draw.
fn is_drawn(game: &History) -> bool {
    let last = game.last();
    let by_rule =
        game.position().is_insufficient_material() || last.rule50() >= 100 || last.repetitions >= 2;
    !is_mated(game) && (by_rule || has_no_move(game))
}

fn is_over(game: &History) -> bool {
    is_mated(game) || is_drawn(game)
}

/// The game after one more move.
fn after(game: &History, m: PackedMove) -> History {
    let mut after = game.clone();
    after.push(m);
    after
}

/// Whether the side to move can force mate in this many moves.
fn can_mate(game: &History, moves: u32) -> bool {
    legal_moves(game.position()).any(|m| {
        let after = after(game, m);
        is_mated(&after) || moves > 1 && !is_drawn(&after) && is_mated_within(&after, moves - 1)
    })
}

/// Whether the side to move, in a game that is not over, cannot avoid mate in this many moves of the other side.
fn is_mated_within(game: &History, moves: u32) -> bool {
    legal_moves(game.position()).all(|m| {
        let after = after(game, m);
        !is_over(&after) && can_mate(&after, moves)
    })
}

/// Checks what an outcome claims by the rules of chess.
fn assert_is_true(game: &History, outcome: &Outcome, case: &str) {
    let best = outcome.best.expect("a move");
    assert!(legal_moves(game.position()).any(|m| m == best), "{case}");
    let line = &outcome.report.lines[0];
    assert_eq!(line.pv[0], best, "{case}");
    let drawing: Vec<PackedMove> = legal_moves(game.position())
        .filter(|&m| is_drawn(&after(game, m)))
        .collect();
    match line.score {
        // Looking further takes too long here.
        Score::Mate(moves @ 1..=2) => {
            assert!(can_mate(game, moves.unsigned_abs()), "{case}: {line:?}");
        }
        Score::Mate(-1) => assert!(is_mated_within(game, 1), "{case}: {line:?}"),
        Score::Mate(moves) => assert!(moves > 0 || drawing.is_empty(), "{case}: {line:?}"),
        _ => {}
    }
    assert!(line.value.wl.abs() <= 1.0 && line.value.m.is_finite());
    if drawing.contains(&best) && line.nodes > 0 {
        assert_eq!(
            (line.value.wl, line.value.d),
            (0.0, 1.0),
            "{case}: {line:?}"
        );
    }
}

/// A position, for messages.
fn fen(game: &History) -> String {
    shakmaty::fen::Fen::from_position(game.position(), shakmaty::EnPassantMode::Legal).to_string()
}

/// Options with which proofs are made in these ways.
fn proving(sticky_endgames: bool, certainty_prop: u8) -> Options {
    Options {
        sticky_endgames,
        certainty_prop: certainty_prop.into(),
        threads: 1,
        minibatch_size: 1,
        ..Options::default()
    }
}

#[test]
fn a_draw_by_rule_is_never_a_loss() {
    // From the issue that asked for this: the first lost by d4d5, the second was reported as mate.
    let mut games: Vec<History> = [
        "8/K3k3/6r1/8/1q1P4/5P2/8/8 w - - 99 100",
        "1n4q1/8/4R3/2q5/q7/6p1/K2k4/8 w - - 99 80",
    ]
    .map(|fen| History::new(position_from_fen(fen).unwrap()))
    .into();
    let mut rng = Rng::seed_from_u64(1);
    games.extend((0..amount(400)).map(|_| random_game(&mut rng)));
    let mut drawn = 0;
    for game in &games {
        let draws = |m: &PackedMove| is_drawn(&after(game, *m));
        let has_draw = legal_moves(game.position()).any(|m| draws(&m));
        let mates = legal_moves(game.position()).any(|m| is_mated(&after(game, m)));
        for (sticky, certainty) in [(true, 0), (false, 0), (true, 1), (true, 2)] {
            for nodes in [1, 2, 3, 4, 6, 9, 30] {
                let outcome = Setup::new(proving(sticky, certainty)).search(game, nodes);
                let case = format!("{}, {sticky}, {certainty}, {nodes} nodes", fen(game));
                assert_is_true(game, &outcome, &case);
                let line = &outcome.report.lines[0];
                if has_draw {
                    assert!(!matches!(line.score, Score::Mate(..0)), "{case}: {line:?}");
                }
                if sticky && mates {
                    assert_eq!(line.score, Score::Mate(1), "{case}");
                }
                // A draw in hand is not given up for what seems to be worse, be it that nobody looked at it.
                let is_draw = draws(&outcome.best.unwrap());
                if sticky && has_draw && nodes == 1 {
                    assert!(is_draw || line.value.wl >= 0.0, "{case}: {line:?}");
                }
                drawn += usize::from(is_draw);
            }
        }
    }
    assert!(drawn > games.len(), "{drawn}");
}

#[test]
fn what_is_reported_is_true_with_and_without_transpositions() {
    let mut rng = Rng::seed_from_u64(2);
    for _ in 0..amount(60) {
        let game = random_game(&mut rng);
        for transpositions in [false, true] {
            for nodes in (1..=12).chain([100]) {
                let setup = Setup::new(Options {
                    transpositions,
                    ..proving(true, 2)
                });
                let outcome = setup.search(&game, nodes);
                let case = format!("{}, {transpositions}, {nodes} nodes", fen(&game));
                assert_is_true(&game, &outcome, &case);
                setup.tree.lock().assert_consistent();
            }
        }
    }
}

/// Judges a position and the same with colours changed alike, and gives no two moves the same prior.
struct Symmetric;

/// The position as its side to move sees it.
fn mirrored_key(position: &Chess) -> u64 {
    let flip = |square: Square| match position.turn() {
        Color::White => square,
        Color::Black => square.flip_vertical(),
    };
    let mut sum = u64::from(position.halfmoves()) << 1;
    for (square, piece) in position.board() {
        let is_own = u64::from(piece.color == position.turn());
        let (place, role) = (u32::from(flip(square)), u64::from(u32::from(piece.role)));
        let bits = u64::from(place) << 4 | role << 1 | is_own;
        sum = sum.wrapping_add(scorn::hashing::mix(bits + 1));
    }
    sum & !1
}

impl Evaluator for Symmetric {
    fn add(&self, position: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        let line = position.line();
        let last = &line[line.len() - 1].position;
        let is_black = u64::from(last.turn().is_black());
        Added::Queued(batch.push(mirrored_key(last) | is_black, position.moves()))
    }

    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        // The hash evaluator's value of the key, without the bit that says who moves.
        let mut values = Batch::default();
        for index in 0..batch.len() {
            values.push(batch.key(index) & !1, &[]);
        }
        HashEvaluator.evaluate(&mut values)?;
        for index in 0..batch.len() {
            let key = batch.key(index);
            let is_black = key & 1 == 1;
            batch.set_value(index, values.value(index));
            let (moves, policy) = batch.policy_mut(index);
            let hash = |m: &PackedMove| {
                let m = if is_black { flipped(*m) } else { *m };
                scorn::hashing::mix(key & !1 ^ u64::from(m.bits()).wrapping_mul(0x9e37_79b9))
            };
            let mut order: Vec<usize> = (0..moves.len()).collect();
            order.sort_by_key(|&place| hash(&moves[place]));
            let sum: f32 = (1..=moves.len()).map(|rank| rank as f32).sum();
            for (rank, place) in order.into_iter().enumerate() {
                policy[place] = (rank + 1) as f32 / sum;
            }
        }
        Ok(())
    }
}

/// The same move with colours changed.
fn flipped(m: PackedMove) -> PackedMove {
    let (from, to) = (m.from().flip_vertical(), m.to().flip_vertical());
    PackedMove::new(from, to, m.promotion())
}

/// The game from the same position with colours changed, and without its past.
fn mirrored(position: &Chess) -> History {
    let mut fields = Fields::empty();
    for (square, piece) in position.board() {
        let piece = Piece {
            color: piece.color.other(),
            ..piece
        };
        fields.board.set_piece_at(square.flip_vertical(), piece);
    }
    fields.turn = position.turn().other();
    fields.halfmoves = position.halfmoves();
    History::new(Chess::from_setup(fields, CastlingMode::Standard).unwrap())
}

#[test]
fn a_mirrored_position_has_the_mirrored_result() {
    let mut rng = Rng::seed_from_u64(3);
    for _ in 0..amount(60) {
        let game = History::new(random_position(&mut rng));
        let options = Options {
            auto_extend: rng.random(),
            transpositions: rng.random(),
            ..proving(rng.random(), rng.random_range(0..=2))
        };
        for nodes in (1..=12).chain([50, 300]) {
            let search = |game: &History| {
                let mut setup = Setup::new(options.clone());
                setup.evaluator = Arc::new(Symmetric);
                setup.search(game, nodes)
            };
            let (one, other) = (search(&game), search(&mirrored(game.position())));
            let case = format!("{}, {nodes} nodes", fen(&game));
            assert_eq!(one.best, other.best.map(flipped), "{case}");
            let (one, other) = (&one.report.lines[0], &other.report.lines[0]);
            // Of several moves that end the game the line shows the first that is generated, which has no mirror image.
            assert_eq!(one.pv.len(), other.pv.len(), "{case}");
            assert_eq!((one.score, one.value), (other.score, other.value), "{case}");
            assert_eq!(one.nodes, other.nodes, "{case}");
        }
    }
}

/// Options that a search does not concern, or that make it slow on purpose.
const LEFT_ALONE: [&str; 3] = ["NodesPerSecondLimit", "Threads", "MinibatchSize"];

/// A value of this kind: the ends of its range are as likely as all that is between.
fn random_value(rng: &mut Rng, kind: OptionKind) -> Option<String> {
    Some(match kind {
        OptionKind::Check => rng.random::<bool>().to_string(),
        OptionKind::Combo(words) => (*words.choose(rng)?).to_owned(),
        OptionKind::Spin { min, max } => match rng.random_range(0..4) {
            0 => min.to_string(),
            1 => max.to_string(),
            _ => rng.random_range(min..=max.min(min.max(0) + 20)).to_string(),
        },
        OptionKind::Float { min, max } => match rng.random_range(0..4) {
            0 => min.to_string(),
            1 => max.to_string(),
            _ => rng.random_range(min.max(-5.0)..=max.min(5.0)).to_string(),
        },
        OptionKind::Text => return None,
    })
}

/// A combination of options, and what was set.
fn random_options(rng: &mut Rng) -> (Options, String) {
    let mut options = Options {
        threads: rng.random_range(1..=3),
        minibatch_size: *[0, 1, 2, 7, 64].choose(rng).unwrap(),
        ..Options::default()
    };
    let mut set = format!("Threads {}, {}", options.threads, options.minibatch_size);
    let share = *[0.02, 0.1, 0.5].choose(rng).unwrap();
    for row in options.rows() {
        if LEFT_ALONE.contains(&row.name) || !rng.random_bool(share) {
            continue;
        }
        if let Some(value) = random_value(rng, row.kind) {
            options.set(row.name, &value).unwrap();
            set += &format!(", {} {value}", row.name);
        }
    }
    (options, set)
}

/// Plays against itself with one tree, from node counts of one on. Builds with debug assertions check the tree whenever
/// it is re-rooted.
fn play(rng: &mut Rng, setup: &Setup, game: &mut History, case: &str) {
    for _ in 0..10 {
        if is_over(game) {
            return;
        }
        let nodes = *[1, 2, 3, 5, 10, 40, 150].choose(rng).unwrap();
        let outcome = setup.search(game, nodes);
        let best = outcome.best.unwrap_or_else(|| panic!("{case}"));
        assert!(legal_moves(game.position()).any(|m| m == best), "{case}");
        for line in &outcome.report.lines {
            assert!(line.value.wl.abs() <= 1.0, "{case}: {line:?}");
            assert!(line.value.d.is_finite() && line.value.m.is_finite());
        }
        setup.tree.lock().assert_consistent();
        game.push(best);
    }
}

#[test]
fn no_combination_of_options_ends_a_search_or_makes_an_illegal_move() {
    let mut rng = Rng::seed_from_u64(4);
    for number in 0..amount(150) {
        let (options, set) = random_options(&mut rng);
        let mut game = match number % 3 {
            0 => History::default(),
            _ => random_game(&mut rng),
        };
        let case = format!("{}: {set}", fen(&game));
        play(&mut rng, &Setup::new(options), &mut game, &case);
    }
}

#[test]
fn queen_endings_with_single_replies_keep_their_trees_whole() {
    let mut rng = Rng::seed_from_u64(5);
    let queens = [
        Color::White.queen(),
        Color::White.queen(),
        Color::Black.queen(),
    ];
    for number in 0..amount(40) {
        let pieces = &queens[usize::from(number % 2 == 0)..];
        let mut game = History::new(scatter(&mut rng, pieces).unwrap());
        let options = Options {
            auto_extend: true,
            two_fold_draws: true,
            transpositions: rng.random(),
            ..proving(rng.random(), rng.random_range(0..=2))
        };
        let setup = Setup::new(options);
        let case = fen(&game);
        for _ in 0..12 {
            if is_over(&game) {
                break;
            }
            let nodes = rng.random_range(50..1500);
            let best = setup.search(&game, nodes).best;
            setup.tree.lock().assert_consistent();
            game.push(best.unwrap_or_else(|| panic!("{case}")));
        }
    }
}
