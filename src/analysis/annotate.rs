//! Annotated games: PGN with evaluations, glyphs and comments in the formats of lichess, ChessBase and others.

use shakmaty::Color;

use super::{
    record::PositionRecord,
    review::{GameReview, ReviewedMove, best_objectively, objective_mate, wl},
};
use crate::{
    pgn::write::{GameText, white_eval, white_wdl},
    version::VERSION,
};

/// The PGN of a reviewed game.
pub fn annotated_pgn(review: &GameReview) -> String {
    let game = &review.game;
    let mut tags: Vec<(&str, String)> = Vec::new();
    // The start position is written separately.
    for (name, value) in &game.tags {
        if !["SetUp", "FEN", "Annotator"].contains(&&**name) {
            let value = match &**name {
                // A result at the end of the moves counts before the tag's.
                "Result" => &game.result,
                _ => value,
            };
            tags.push((name, value.clone()));
        }
    }
    if game.tag("Result").is_none() {
        tags.push(("Result", game.result.clone()));
    }
    tags.push(("Annotator", format!("Scorn {VERSION}")));
    let glyph =
        |reviewed: &ReviewedMove| reviewed.judgement.map_or(0, |judgement| judgement.glyph());
    let nags: Vec<u8> = review.moves.iter().map(glyph).collect();
    let moves: Vec<_> = review
        .moves
        .iter()
        .enumerate()
        .map(|(index, reviewed)| {
            let times = game.times.get(index).map_or("", String::as_str);
            let text = comment(reviewed, review.after(index), times);
            (reviewed.played, text)
        })
        .collect();
    let text = GameText {
        tags,
        start: &game.start,
        moves: &moves,
        nags: &nags,
        result: &game.result,
    };
    text.text()
}

/// `[%eval 0.58] [%wdl 402,420,178] [%clk 0:02:59] Blunder. Nf3 was better. It looks natural (38 % by the model of a
/// player rated 1900). It falls into the trap.`
fn comment(reviewed: &ReviewedMove, after: Option<&PositionRecord>, times: &str) -> String {
    let mut parts = Vec::new();
    parts.extend(after.and_then(|after| marks(after, !reviewed.turn)));
    if !times.is_empty() {
        parts.push(times.to_owned());
    }
    if let Some(judgement) = reviewed.judgement {
        let better = reviewed.better();
        let better = better.map_or(String::new(), |san| format!(" {san} was better."));
        parts.push(format!("{}.{better}", judgement.text()));
    }
    parts.extend(reviewed.natural().map(|text| text + "."));
    parts.extend(reviewed.trap_text().map(|text| text + "."));
    parts.join(" ")
}

/// The evaluation of a position for White: `[%eval 0.58] [%wdl 402,420,178]`.
fn marks(record: &PositionRecord, turn: Color) -> Option<String> {
    let line = best_objectively(record)?;
    let wdl = record.objective_wdl(line)?;
    let eval = white_eval(wl(wdl), objective_mate(line), turn);
    Some(format!("[%eval {eval}] [%wdl {}]", white_wdl(wdl, turn)))
}
