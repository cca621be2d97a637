//! The report: one self-contained HTML page that works offline. The board is chessground's, the graph uPlot's; their
//! files are in `report/`, beside the page's own script and style.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use shakmaty::{Color, EnPassantMode, fen::Fen};

use super::{
    record::{LineRecord, PositionRecord},
    review::{
        GameReview, Judgement, ReviewedMove, TrapMoment, best_objectively, objective_mate,
        objective_wl,
    },
};
use crate::{
    html::page::{Script, document},
    version::VERSION,
};

const BODY: &str = include_str!("report/page.html");
const STYLES: [&str; 5] = [
    include_str!("report/uPlot.min.css"),
    include_str!("report/chessground.base.css"),
    include_str!("report/chessground.brown.css"),
    include_str!("report/chessground.cburnett.css"),
    include_str!("report/page.css"),
];
const GRAPH: &str = include_str!("report/uPlot.iife.min.js");
const CHESSGROUND: &str = include_str!("report/chessground.min.js");
const SCRIPT: &str = include_str!("report/page.js");

/// Maximum number of moves shown per line.
const LINE_MOVES: usize = 8;

/// The page for these games. `source` names the input, `search_settings` describes the analysis.
///
/// # Errors
/// When the page cannot be built.
pub fn page(games: &[GameReview], source: &str, search_settings: &str) -> Result<String> {
    let data = json!({
        "source": source,
        "how": format!("{search_settings}; Scorn {VERSION}"),
        "practical": games.iter().any(has_practical_values),
        "games": games.iter().map(game).collect::<Vec<_>>(),
    });
    let data = serde_json::to_string(&data)?;
    let board = as_script(CHESSGROUND).context("chessground exports no Chessground")?;
    let scripts = [
        Script::Code(GRAPH),
        Script::Code(&board),
        Script::Data("data", &data),
        Script::Code(SCRIPT),
    ];
    let title = format!("{source} – analysed by Scorn");
    Ok(document(&title, &STYLES, BODY, &scripts))
}

/// Turns a module that exports `Chessground` into a script that defines a global variable: a page opened from a file
/// cannot import modules.
fn as_script(module: &str) -> Option<String> {
    let (code, exports) = module.rsplit_once("export{")?;
    let exports = exports.split_once('}')?.0;
    let name = exports
        .split(',')
        .find_map(|export| export.strip_suffix(" as Chessground"))?;
    Some(format!("(()=>{{{code}globalThis.Chessground={name};}})();"))
}

/// Whether there was a search beside the plain one.
fn has_practical_values(review: &GameReview) -> bool {
    let mut records = review.moves.iter().map(|m| &m.record);
    records.any(PositionRecord::has_practical_values)
}

fn game(review: &GameReview) -> Value {
    let game = &review.game;
    let tag = |name| game.tag(name).unwrap_or("");
    json!({
        "white": tag("White"),
        "black": tag("Black"),
        "event": tag("Event"),
        "date": tag("Date"),
        "whiteElo": tag("WhiteElo"),
        "blackElo": tag("BlackElo"),
        "accuracy": review.accuracy.map(|found| found.map(|percent| percent.round())),
        "result": game.result,
        "start": Fen::from_position(&game.start, EnPassantMode::Legal).to_string(),
        "number": game.number,
        "moves": review.moves.iter().map(reviewed_move).collect::<Vec<_>>(),
        "end": review.end.as_ref().zip(review.moves.last()).map(|(end, last)| lines(end, last.turn.other())),
    })
}

/// Keys are short, because there are many moves.
fn reviewed_move(reviewed: &ReviewedMove) -> Value {
    let judgement = reviewed.judgement.map(|judgement| match judgement {
        Judgement::Inaccuracy => 1,
        Judgement::Mistake => 2,
        Judgement::Blunder => 3,
    });
    let trap = reviewed.trap.map(|moment| match moment {
        TrapMoment::Set => "set",
        TrapMoment::Met => "met",
        TrapMoment::Fallen => "fallen",
        TrapMoment::Missed => "missed",
    });
    let mut value = json!({
        "s": reviewed.san,
        "u": reviewed.uci,
        "f": reviewed.fen_after,
        "l": lines(&reviewed.record, reviewed.turn),
    });
    if let Some(judgement) = judgement {
        value["j"] = judgement.into();
        value["b"] = reviewed.better().into();
        let lost = reviewed.lost_chances().unwrap_or(0.0);
        value["x"] = ((500.0 * f64::from(lost)).round() / 10.0).into();
    }
    if let Some(natural) = reviewed.natural() {
        value["n"] = natural.into();
    }
    if let Some(trap) = trap {
        value["t"] = trap.into();
    }
    if let Some(text) = reviewed.trap_text() {
        value["e"] = text.into();
    }
    value
}

/// Lines, the best one first: moves in UCI's notation and in SAN, chances of White and Black against the likely
/// replies and those against best replies (0 if they are not known), White's moves to mate or 0.
fn lines(record: &PositionRecord, turn: Color) -> Vec<Value> {
    // Draws follow from wins and losses.
    let white = |[win, _, loss]: [u32; 3]| turn.fold_wb([win, loss], [loss, win]);
    let line = |line: &LineRecord| {
        let shown = |moves: &[String]| moves[..moves.len().min(LINE_MOVES)].join(" ");
        let chances = |wdl: Option<[u32; 3]>| wdl.map_or(json!(0), |wdl| json!(white(wdl)));
        let has_practical = record.has_practical_values() && (line.nodes > 0 || line.is_certain());
        json!([
            shown(&line.pv),
            shown(&line.san),
            chances(line.wdl.filter(|_| has_practical)),
            chances(record.objective_wdl(line)),
            turn.fold_wb(1, -1) * objective_mate(line).unwrap_or(0),
        ])
    };
    let best = best_objectively(record);
    // The values of a move that no search has visited are not known.
    let is_shown = |line: &LineRecord| {
        let is_played = line.pv.first() == record.played.as_ref();
        is_played || line.wdl.is_some() || line.objective.is_some()
    };
    let is_best = |other: &&LineRecord| best.is_some_and(|best| std::ptr::eq(best, *other));
    let mut others: Vec<&LineRecord> = record
        .lines
        .iter()
        .filter(|other| !is_best(other) && is_shown(other))
        .collect();
    let value = |line: &LineRecord| objective_wl(record, line).unwrap_or(f32::NEG_INFINITY);
    others.sort_by(|a, b| value(b).total_cmp(&value(a)));
    best.into_iter().chain(others).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_defines_the_board() {
        let script = as_script(CHESSGROUND).unwrap();
        assert!(script.contains("globalThis.Chessground=") && !script.contains("export{"));
        assert!(as_script("let a=1;").is_none());
    }

    #[test]
    fn a_page_is_self_contained() {
        let page = page(&[], "a</script>.pgn", "how").unwrap();
        assert_eq!(page.matches("</script>").count(), 4);
        assert!(page.contains("default-src 'none'"));
        for reference in ["src=\"http", "href=\"http", "@import", "url(http"] {
            assert!(!page.contains(reference), "{reference}");
        }
        assert!(page.len() < 250_000);
    }
}
