//! Annotated games: PGN with evaluations, glyphs and comments in the formats of lichess, ChessBase and others.

use shakmaty::Color;

use super::{
    record::{LineRecord, PositionRecord},
    review::{GameReview, ReviewedMove, best_objectively, objective_wdl, wl},
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
    if let Some(line) = after.and_then(best_objectively) {
        let turn = !reviewed.turn;
        parts.push(format!("[%eval {}]", eval(line, turn)));
        parts.push(format!("[%wdl {}]", white_wdl(objective_wdl(line), turn)));
    }
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

/// The evaluation for White, in pawns or moves to mate.
fn eval(line: &LineRecord, turn: Color) -> String {
    let mate = line
        .objective
        .as_ref()
        .map_or(line.mate, |found| found.mate);
    white_eval(wl(objective_wdl(line)), mate, turn)
}
