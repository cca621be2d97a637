//! The accuracy of each side of a game in per cent, by the formulas that lichess publishes
//! (<https://lichess.org/page/accuracy>): the evaluation in pawns gives the chances between people, a move's accuracy
//! falls exponentially with the chances that it loses, and a game's is the mean of two means over its moves, one
//! weighted by how volatile the game was there, one harmonic.

use shakmaty::Color;

use crate::chess::wdl;

/// Winning chances (-1 to 1) between people by lichess's curve, for an evaluation of this W-L (-1 to 1). They are much
/// nearer to 0 than W-L, which is of players that err less: 0.18 at one pawn, where W-L is 0.40.
fn chances(wl: f32) -> f32 {
    // lichess takes more than ten pawns, and mates, as ten.
    let pawns = wdl::pawns(wl).clamp(-10.0, 10.0) as f32;
    2.0 / (1.0 + (-0.368_208 * pawns).exp()) - 1.0
}

/// The chances that a move loses (0 to 2) in a position with this W-L, of which it loses `loss`.
pub(super) fn lost_chances(before: f32, loss: f32) -> f32 {
    chances(before) - chances(before - loss)
}

/// What the accuracy of a move depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct JudgedMove {
    pub turn: Color,
    /// The value of the position before it, W-L (-1 to 1) for its side.
    pub before: f32,
    /// What it loses of that; `None` if that is not known.
    pub loss: Option<f32>,
}

/// The accuracy of a move that loses this much of the chances, in per cent of a point; 0 to 100. As on lichess, one
/// more than the curve says, because an analysis is not perfect, either.
fn of_move(loss: f32) -> f32 {
    (103.166_8 * (-0.043_54 * loss.max(0.0)).exp() - 2.166_9).clamp(0.0, 100.0)
}

/// White's chances in per cent of a point, where those of the side that moves follow from this W-L.
fn white_chances(judged: &JudgedMove, wl: f32) -> f32 {
    50.0 + 50.0 * judged.turn.fold_wb(chances(wl), -chances(wl))
}

/// The accuracies of White and Black; `None` without a judged move.
pub(super) fn of(moves: &[JudgedMove]) -> [Option<f32>; 2] {
    // Before each move, and after the last one.
    let mut chances: Vec<f32> = moves
        .iter()
        .map(|judged| white_chances(judged, judged.before))
        .collect();
    if let Some(last) = moves.last() {
        chances.push(white_chances(last, last.before - last.loss.unwrap_or(0.0)));
    }
    let weights = volatility(&chances);
    [Color::White, Color::Black].map(|side| {
        let judged = moves.iter().zip(&weights);
        let judged = judged.filter(|(reviewed, _)| reviewed.turn == side);
        let judged = judged.filter_map(|(reviewed, &weight)| {
            let lost = lost_chances(reviewed.before, reviewed.loss?);
            Some((of_move(50.0 * lost), weight))
        });
        mean_of_means(&judged.collect::<Vec<_>>())
    })
}

/// The weight of each move: the standard deviation of the chances in a window of moves around it, 0.5 to 12.
/// `chances` has one value more than there are moves.
fn volatility(chances: &[f32]) -> Vec<f32> {
    let moves = chances.len().saturating_sub(1);
    let size = (moves / 10).clamp(2, 8).min(chances.len());
    (0..moves)
        .map(|index| {
            // The first windows are all the first one, so that each has the whole size.
            let end = (index + 2).max(size).min(chances.len());
            deviation(&chances[end - size..end]).clamp(0.5, 12.0)
        })
        .collect()
}

fn deviation(values: &[f32]) -> f32 {
    let n = values.len() as f32;
    let mean = values.iter().sum::<f32>() / n;
    let squares: f32 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (squares / n).sqrt()
}

/// The mean of the weighted and the harmonic mean of accuracies and weights.
fn mean_of_means(judged: &[(f32, f32)]) -> Option<f32> {
    if judged.is_empty() {
        return None;
    }
    let weights: f32 = judged.iter().map(|(_, weight)| weight).sum();
    let weighted = judged.iter().map(|(a, weight)| a * weight).sum::<f32>() / weights;
    let inverse: f32 = judged.iter().map(|(a, _)| 1.0 / a.max(1.0)).sum();
    let harmonic = judged.len() as f32 / inverse;
    Some(f32::midpoint(weighted, harmonic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracy_falls_with_the_loss() {
        assert!((of_move(0.0) - 100.0).abs() < 0.01);
        // A loss of 10 % of a point, and one of everything.
        assert!((of_move(10.0) - 64.58).abs() < 0.1, "{}", of_move(10.0));
        assert!(of_move(100.0) < 0.01);
    }

    #[test]
    fn chances_are_those_of_lichess_between_people() {
        // From lichess's formula: evaluations of 0, 1 and -1 pawns, and of a mate.
        for (wl, expected) in [(0.0, 0.0), (0.4022, 0.182), (-0.4022, -0.182), (1.0, 0.951)] {
            assert!(
                (chances(wl) - expected).abs() < 0.002,
                "{wl}: {}",
                chances(wl)
            );
        }
        // From an advantage of one pawn to a disadvantage of one.
        assert!((lost_chances(0.4022, 0.8044) - 0.364).abs() < 0.003);
    }

    #[test]
    fn a_bad_move_counts_more_than_its_share() {
        assert_eq!(mean_of_means(&[]), None);
        let perfect = mean_of_means(&[(100.0, 1.0); 9]).unwrap();
        assert!((perfect - 100.0).abs() < 1e-3);
        let mut moves = vec![(100.0, 0.5); 9];
        moves.push((10.0, 12.0));
        // The arithmetic mean would be 91.
        let found = mean_of_means(&moves).unwrap();
        assert!((found - 43.6).abs() < 1.0, "{found}");
    }

    #[test]
    fn calm_moves_have_the_least_weight() {
        let weights = volatility(&[50.0, 50.0, 50.0, 90.0, 90.0]);
        assert_eq!(weights, [0.5, 0.5, 12.0, 0.5]);
        assert!(volatility(&[]).is_empty());
    }
}
