//! What a record file holds, as a table.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use super::record::{NO_RESULT, NO_SCORE, Source, plies_to_mate};
use super::record_file::RecordReader;

/// Counts of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatsLine {
    /// Records.
    pub records: u64,
    /// Those of held-out games.
    pub held_out: u64,
    /// Those with a move.
    pub moves: u64,
    /// Those with more than one.
    pub alternatives: u64,
    /// Those with a score.
    pub scores: u64,
    /// Those whose score is a mate of known length.
    pub mates: u64,
    /// Those whose result is certain.
    pub exact: u64,
    /// Lost, drawn and won for the side to move.
    pub results: [u64; 3],
}

/// Counts the records of the files by source.
///
/// # Errors
/// When a file cannot be read, or a record holds no position.
pub fn count(inputs: &[PathBuf]) -> Result<[StatsLine; Source::ALL.len()]> {
    let mut lines = [StatsLine::default(); Source::ALL.len()];
    for path in inputs {
        for (number, next) in (0_u64..).zip(RecordReader::open(path)?.positions()) {
            let (record, _) = next?;
            let source = record.source().with_context(|| {
                let path = path.display();
                format!("record {number} of {path} has an unknown source of its data")
            })?;
            let line = &mut lines[source as usize];
            line.records += 1;
            line.held_out += u64::from(record.held_out());
            line.moves += u64::from(record.best != 0);
            line.alternatives += u64::from(record.alternatives[0].m != 0);
            line.scores += u64::from(record.score != NO_SCORE);
            line.mates += u64::from(plies_to_mate(record.score).is_some());
            line.exact += u64::from(record.is_exact());
            if record.result != NO_RESULT {
                line.results[usize::from(record.result.min(2))] += 1;
            }
        }
    }
    Ok(lines)
}

/// The counts as a JSON object, by the source's name.
pub fn object(lines: &[StatsLine; Source::ALL.len()]) -> serde_json::Value {
    let known = Source::ALL.into_iter().zip(lines);
    let known = known.filter(|(_, line)| line.records > 0);
    known
        .map(|(source, line)| {
            let mut counts = json!(line);
            let [lost, drawn, won] = line.results;
            counts["results"] = json!({"lost": lost, "drawn": drawn, "won": won});
            (source.name().to_owned(), counts)
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The counts as text.
pub fn table(lines: &[StatsLine; Source::ALL.len()]) -> String {
    let mut text = format!(
        "{:21}{:>11}{:>10}{:>11}{:>13}{:>11}{:>9}{:>9}{:>11}{:>11}{:>11}\n",
        "source",
        "records",
        "held out",
        "moves",
        "alternatives",
        "scores",
        "mates",
        "exact",
        "lost",
        "drawn",
        "won"
    );
    for (source, line) in Source::ALL.into_iter().zip(lines) {
        if line.records > 0 {
            text += &format!(
                "{:21}{:>11}{:>10}{:>11}{:>13}{:>11}{:>9}{:>9}{:>11}{:>11}{:>11}\n",
                source.name(),
                line.records,
                line.held_out,
                line.moves,
                line.alternatives,
                line.scores,
                line.mates,
                line.exact,
                line.results[0],
                line.results[1],
                line.results[2]
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use shakmaty::Chess;

    use super::*;
    use crate::dataset::{
        record::{Record, SURE_WIN, mate_score},
        record_file::{Layout, RecordWriter},
    };

    #[test]
    fn wins_of_unknown_length_are_no_mates() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.rec");
        let mut writer = RecordWriter::create(&path, Layout::Plain).unwrap();
        for score in [
            NO_SCORE,
            500,
            SURE_WIN,
            -SURE_WIN,
            mate_score(3),
            mate_score(-1),
        ] {
            let mut record = Record::new(&Chess::new(), false, Source::EngineGame);
            record.score = score;
            writer.write(&record).unwrap();
        }
        writer.finish().unwrap();
        let line = count(&[path]).unwrap()[Source::EngineGame as usize];
        assert_eq!((line.records, line.scores, line.mates), (6, 5, 2));
    }
}
