//! The statistics of `scorn stats` as text.

use super::FileStats;
use crate::{
    labeling::misjudged::MisjudgedSummary,
    selfplay::controller::Step,
    stats::{
        clusters::{MeanEstimate, SpreadSummary},
        games::Summary,
        paper,
        policy::PolicySummary,
        tactics::{PLIES_AHEAD, TacticsSummary},
    },
    terminal,
};

/// The statistics as text; `None` if nothing was counted.
pub(super) fn text(totals: &FileStats) -> Option<String> {
    let summary = &totals.summary;
    let name = totals.name();
    let searches = summary.policy.as_ref().map(searches_text);
    if summary.games == 0 {
        // Only records.
        return searches.map(|searches| format!("{name}:\n{searches}"));
    }
    let share = |count: u64| 100.0 * count as f64 / summary.games as f64;
    let repeated = paper::REPEATED_AT.map(|k| format!("{k}: {:.2}", summary.repeated[&k]));
    let openings = summary.openings.iter().map(|(moves, diversity)| {
        format!(
            "{moves}: {} ({:.1})",
            diversity.distinct, diversity.effective
        )
    });
    let phases = summary.phases.iter().map(|(phase, count)| {
        let (name, decisive, draws) = (phase.name(), count.decisive, count.draws);
        format!("{name} {decisive} decisive, {draws} drawn")
    });
    let mut lines = vec![
        format!("{name}: {}", terminal::counted(summary.games, "game")),
        format!(
            "  1-0 {} ({:.1} %), drawn {} ({:.1} %), 0-1 {} ({:.1} %), unfinished {}",
            summary.white,
            share(summary.white),
            summary.draws,
            share(summary.draws),
            summary.black,
            share(summary.black),
            summary.unfinished
        ),
        format!("  (w+l)/d {}", ratio_text(summary)),
        format!(
            "  plies: mean {:.1}, median {}, {} to {}",
            summary.mean_plies, summary.median_plies, summary.shortest_plies, summary.longest_plies
        ),
        format!("  repeated at move {}", repeated.join(", ")),
        format!(
            "  distinct openings by number of moves (effective number): {}",
            openings.collect::<Vec<_>>().join(", ")
        ),
        format!("  ended in the {}", phases.collect::<Vec<_>>().join("; ")),
    ];
    lines.extend(summary.tactics.as_ref().map(tactics_text));
    lines.extend(searches);
    lines.extend(totals.misjudged.as_ref().map(misjudged_text));
    lines.extend(path_text(&totals.path));
    Some(lines.join("\n"))
}

fn path_text(path: &[Step]) -> Option<String> {
    let limits: Vec<String> = path.iter().map(|step| step.sc_limit.to_string()).collect();
    let last = path.last()?;
    Some(format!(
        "  ScLimit by batches: {}, next {} with {} nodes",
        limits.join(", "),
        last.next_sc_limit,
        last.next_nodes
    ))
}

fn searches_text(policy: &PolicySummary) -> String {
    let mut lines = vec![format!(
        "  searches: {} positions, policy entropy {:.3}",
        policy.positions, policy.entropy
    )];
    if let (Some(divergence), Some(error)) = (&policy.divergence, &policy.value_error) {
        lines.push(format!(
            "  search against network: divergence of visits from priors {}; W-L difference {}",
            spread_text(divergence),
            spread_text(error)
        ));
    }
    lines.join("\n")
}

fn tactics_text(tactics: &TacticsSummary) -> String {
    let TacticsSummary {
        shots,
        sacrifices,
        promotions,
        mates,
        imbalanced,
        material,
    } = tactics;
    format!(
        "  positions with tactics within {} plies {} (sacrifice {}, promotion {}, mate {}); unequal pieces {}; material \
         difference {} pawns",
        PLIES_AHEAD,
        percent(shots),
        percent(sacrifices),
        percent(promotions),
        percent(mates),
        percent(imbalanced),
        number(material)
    )
}

fn misjudged_text(misjudged: &MisjudgedSummary) -> String {
    format!(
        "  network against long searches, {} positions: W-L difference {}; best move overlooked {}",
        misjudged.value_error.positions,
        spread_text(&misjudged.value_error),
        percent(&misjudged.overlooked)
    )
}

fn spread_text(spread: &SpreadSummary) -> String {
    let shares = spread.at_least.iter().map(|at| {
        let (threshold, share) = (at.threshold, percent(&at.share));
        format!("{threshold} or more: {share}")
    });
    let shares: Vec<String> = shares.collect();
    format!("{} ({})", number(&spread.mean), shares.join(", "))
}

/// A mean with its error.
pub(super) fn number(estimate: &MeanEstimate) -> String {
    let error = estimate.error;
    let error = error.map_or(String::new(), |error| format!(" ±{error:.3}"));
    format!("{:.3}{error}", estimate.mean)
}

/// A share in per cent with its error, with the ends of its interval where the error passes an end of the scale, or
/// with the bound of a share that all games or none have.
pub(super) fn percent(share: &MeanEstimate) -> String {
    let percent = 100.0 * share.mean;
    let unseen = 100.0 * share.unseen_share();
    let is_possible = |error: &f64| share.mean >= *error && share.mean + error <= 1.0;
    match share.error {
        Some(error) if !is_possible(&error) => {
            let [low, high] = [share.mean - error, share.mean + error].map(|it| it.clamp(0.0, 1.0));
            format!("{percent:.2} % ({:.1} to {:.1})", 100.0 * low, 100.0 * high)
        }
        Some(error) => format!("{percent:.2} ±{:.2} %", 100.0 * error),
        None if share.mean == 0.0 => format!("0 % (below {unseen:.2} %)"),
        None if share.mean == 1.0 => format!("100 % (above {:.2} %)", 100.0 - unseen),
        None => format!("{percent:.2} %"),
    }
}

pub(super) fn ratio_text(summary: &Summary) -> String {
    let number = |x: Option<f64>| x.map_or("unbounded".to_owned(), |x| format!("{x:.2}"));
    let (low, high) = summary.decisive_per_draw_interval;
    match summary.decisive_per_draw {
        Some(ratio) => format!("{ratio:.2} ({} to {})", number(low), number(high)),
        None if summary.white + summary.black == 0 => "unknown: no game is finished".to_owned(),
        None => format!("no draws (at least {})", number(low)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_an_error_or_a_bound() {
        for (mean, error, games, expected) in [
            (0.125, Some(0.034), 50, "12.50 ±3.40 %"),
            (0.5, Some(6.35), 2, "50.00 % (0.0 to 100.0)"),
            (0.02, Some(0.025), 30, "2.00 % (0.0 to 4.5)"),
            (0.0, None, 60, "0 % (below 4.87 %)"),
            (1.0, None, 60, "100 % (above 95.13 %)"),
            (0.46, None, 1, "46.00 %"),
        ] {
            let share = MeanEstimate { mean, error, games };
            assert_eq!(percent(&share), expected);
        }
    }
}
