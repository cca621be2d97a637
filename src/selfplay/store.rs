//! The folder of a run. Finished games are stored one by one, and collected into files of many games in the order of
//! their numbers; every file appears complete or not at all.
//!
//! ```text
//! manifest.json             the settings of the run; it is resumed only with the same ones
//! games-00001.pgn           games of one part
//! positions-00001.vis       their training positions (see [`records`](super::records)), if there are any
//! lc0/game_000000042.gz     a game's training chunk in lc0's format
//! balance.jsonl             the path of the controller, if there is one
//! part-00001.json           written last: the part is there; its results and checksums, also one of itself
//! unfinished/000000042.game a game that is over and whose part is not full
//! summary.json              written at the end: counts, and the checksums of all files
//! ```
//!
//! A killed process loses the games that it was playing. They are played again with the same result.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use shakmaty::{Color, KnownOutcome};

use super::played::player_of;
use crate::{
    dataset::searched::Samples,
    files::{differences::differences, output},
    hashing::{hex, sha256, sha256_of_file},
};

/// Maximum number of games of a part.
pub const MAX_GAMES_PER_PART: u32 = 1_000_000;
/// Maximum size of what the file of a part says of one game, in bytes: its statistics, and its chunk's checksum.
const MAX_FACTS_BYTES: u64 = 1 << 10;
/// Maximum size of a manifest, or of what a part says besides of its games, in bytes.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;
/// Maximum size of the file of a part, in bytes.
const MAX_PART_BYTES: u64 = MAX_GAMES_PER_PART as u64 * MAX_FACTS_BYTES + MAX_MANIFEST_BYTES;
/// Maximum size of the file of one game, in bytes.
const MAX_GAME_BYTES: u64 = 1 << 28;
/// The entry of the manifest that names the commit of the program. A run may be continued by another one, which is
/// reported; runs of programs that were not built from a repository have none.
pub const COMMIT: &str = "commit";
/// The file with the controller's path.
pub const BALANCE: &str = "balance.jsonl";
/// The folder of games whose part is not complete.
pub const UNFINISHED: &str = "unfinished";
/// The folder of chunks.
const CHUNKS: &str = "lc0";
/// Length of a checksum in bytes.
const SUM: usize = 32;

/// The statistics of a game.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GameFacts {
    /// Its number within the run, from 0.
    pub number: u64,
    /// `1-0`, `0-1` or `1/2-1/2`.
    pub result: String,
    /// The player with White: 0 or 1.
    pub white: usize,
    /// Plies, including those of the opening.
    pub plies: usize,
    /// Moves that were searched.
    pub searches: usize,
    /// Visits of all searches.
    pub nodes: u64,
    /// Whether a side would have resigned in a game that was played to the end.
    pub would_resign: bool,
    /// Whether that resignation would have been a mistake.
    pub false_resignation: bool,
    /// Training positions.
    pub samples: u64,
    /// Training positions with frozen replies.
    pub frozen_samples: u64,
    /// SHA-256 of its chunk, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<String>,
}

impl GameFacts {
    /// The result.
    pub fn outcome(&self) -> KnownOutcome {
        match self.result.as_str() {
            "1-0" => KnownOutcome::Decisive {
                winner: Color::White,
            },
            "0-1" => KnownOutcome::Decisive {
                winner: Color::Black,
            },
            _ => KnownOutcome::Draw,
        }
    }
}

/// Counts of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GameTally {
    /// Number of games.
    pub games: u64,
    /// Won by White.
    pub white: u64,
    /// Drawn.
    pub draws: u64,
    /// Won by Black.
    pub black: u64,
    /// Won by the first player.
    pub first: u64,
    /// Won by the second player.
    pub second: u64,
    /// Games in which a side would have resigned but was made to play on.
    pub played_on: u64,
    /// Of these, the games that it did not lose.
    pub false_resignations: u64,
}

impl GameTally {
    /// Counts a game.
    pub fn add(&mut self, game: &GameFacts) {
        self.games += 1;
        self.played_on += u64::from(game.would_resign);
        self.false_resignations += u64::from(game.false_resignation);
        match game.outcome() {
            KnownOutcome::Draw => self.draws += 1,
            KnownOutcome::Decisive { winner } => {
                *winner.fold_wb(&mut self.white, &mut self.black) += 1;
                let player = player_of(game.white, winner);
                *(if player == 0 {
                    &mut self.first
                } else {
                    &mut self.second
                }) += 1;
            }
        }
    }

    /// Decisive games per draw, (w+l)/d; `None` without draws.
    pub fn decisive_per_draw(&self) -> Option<f64> {
        let decisive = (self.white + self.black) as f64;
        (self.draws > 0).then(|| decisive / self.draws as f64)
    }
}

/// A stored game: its statistics, and its share of the files of its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredGame {
    /// The statistics.
    pub facts: GameFacts,
    /// The PGN.
    pub pgn: String,
    /// Its training positions.
    pub samples: Samples,
}

#[derive(Serialize, Deserialize)]
struct GameHead {
    facts: GameFacts,
    /// Lengths of the PGN, the positions and the visit entries.
    lengths: [usize; 3],
}

impl StoredGame {
    /// Serialises the game: a line of JSON, PGN, positions and visit entries, and a checksum of all of it.
    fn to_bytes(&self) -> Result<Vec<u8>> {
        let head = GameHead {
            facts: self.facts.clone(),
            lengths: [
                self.pgn.len(),
                self.samples.positions.len(),
                self.samples.entries.len(),
            ],
        };
        let mut bytes = serde_json::to_vec(&head)?;
        bytes.push(b'\n');
        bytes.extend_from_slice(self.pgn.as_bytes());
        bytes.extend_from_slice(&self.samples.positions);
        bytes.extend_from_slice(&self.samples.entries);
        let sum = Sha256::digest(&bytes);
        bytes.extend_from_slice(&sum);
        Ok(bytes)
    }

    /// Reads the file of a game; `None` if it is incomplete (after a power failure, for example), in which case the
    /// game is played again.
    fn from_bytes(bytes: &[u8]) -> Option<StoredGame> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM)?)?;
        if Sha256::digest(body)[..] != *sum {
            return None;
        }
        let line = body.iter().position(|&byte| byte == b'\n')?;
        let head: GameHead = serde_json::from_slice(&body[..line]).ok()?;
        let [pgn, positions, entries] = head.lengths;
        let (pgn, rest) = body.get(line + 1..)?.split_at_checked(pgn)?;
        let (positions, rest) = rest.split_at_checked(positions)?;
        let samples = Samples {
            positions: positions.to_vec(),
            entries: rest.get(..entries)?.to_vec(),
        };
        Some(StoredGame {
            facts: head.facts,
            pgn: String::from_utf8(pgn.to_vec()).ok()?,
            samples,
        })
    }
}

/// The contents of `part-N.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartFile {
    games: Vec<GameFacts>,
    /// SHA-256 of each of its files.
    files: BTreeMap<String, String>,
    /// SHA-256 of this file without this entry. `None` only while it is computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

impl PartFile {
    /// The bytes of the file, with its checksum.
    fn into_bytes(mut self) -> Result<Vec<u8>> {
        self.sha256 = None;
        self.sha256 = Some(sha256(&json(&self)?));
        json(&self)
    }

    /// Reads a part and checks that no byte of it was changed.
    fn parse(text: &[u8]) -> Result<PartFile> {
        let part: PartFile = serde_json::from_slice(text)?;
        let sum = part.sha256.as_ref().context("it has no checksum")?;
        let entry = format!(",\n  \"sha256\": \"{sum}\"\n}}\n");
        let rest = text.strip_suffix(entry.as_bytes());
        let found = rest.map(|rest| sha256(&[rest, b"\n}\n"].concat()));
        ensure!(found.as_ref() == Some(sum), "its checksum does not match");
        Ok(part)
    }
}

/// The files that the lists of parts in a folder name, with their checksums; `None` where it has no part of a run.
///
/// # Errors
/// When a list cannot be read or is damaged.
pub fn listed_files(folder: &Path) -> Result<Option<BTreeMap<String, String>>> {
    let is_part = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name
            .strip_prefix("part-")
            .and_then(|rest| rest.strip_suffix(".json"));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let found = crate::files::of_folder(folder, &[".json"]).unwrap_or_default();
    let mut listed = None;
    for path in found.into_iter().filter(is_part) {
        let read = crate::files::read(&path, MAX_PART_BYTES).map_err(anyhow::Error::from);
        let part = read.and_then(|text| PartFile::parse(&text));
        let part = part.with_context(|| format!("{} is damaged", path.display()))?;
        listed.get_or_insert_with(BTreeMap::new).extend(part.files);
    }
    Ok(listed)
}

/// The contents of `summary.json`. Nothing in it depends on the speed of the run.
#[derive(Serialize)]
struct RunSummary<'a> {
    #[serde(flatten)]
    tally: GameTally,
    decisive_per_draw: Option<f64>,
    plies: u64,
    nodes: u64,
    samples: u64,
    frozen_samples: u64,
    files: &'a BTreeMap<String, String>,
    sha256: &'a str,
}

/// An open folder, locked against other processes.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// The numbers of the run's games, in order.
    numbers: Vec<u64>,
    /// Games per part.
    part_size: usize,
    /// Number of complete parts.
    parts: usize,
    /// Finished games, by number.
    facts: BTreeMap<u64, GameFacts>,
    /// Checksums of the files of complete parts.
    files: BTreeMap<String, String>,
    /// What should be reported about the manifest of a run that is continued.
    report: Option<String>,
    _lock: File,
}

impl Store {
    /// Opens the folder of a run of the games with these numbers, in this order.
    ///
    /// # Errors
    /// When another process has locked it, when it holds a run and `resume` is not set, or when its run has another
    /// manifest; nothing but the lock file is written then.
    pub fn open(
        folder: &Path,
        manifest: &Map<String, Value>,
        numbers: Vec<u64>,
        part_size: usize,
        resume: bool,
    ) -> Result<Store> {
        let name = folder.display();
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {name}"))?;
        let lock = lock(folder)?;
        let path = folder.join("manifest.json");
        let mut report = None;
        match read(&path, MAX_MANIFEST_BYTES)? {
            Some(_) if !resume => bail!("{name} contains a run already: --resume continues it"),
            Some(text) => {
                report = check_manifest(&path, &text, manifest)?;
            }
            None => {
                check_is_empty(folder)?;
                write_json(&path, manifest)?;
            }
        }
        let mut store = Store {
            folder: folder.to_owned(),
            numbers,
            part_size: part_size.max(1),
            parts: 0,
            facts: BTreeMap::new(),
            files: BTreeMap::new(),
            report,
            _lock: lock,
        };
        make_folder(&store.unfinished())?;
        output::remove_partial(folder, "")?;
        output::remove_partial(&store.unfinished(), "")?;
        if store.chunks().is_dir() {
            output::remove_partial(&store.chunks(), "")?;
        }
        store.read_parts()?;
        if let Some(numbers) = store
            .parts
            .checked_sub(1)
            .and_then(|last| store.numbers_of(last))
        {
            // A process that was killed after writing a part may have left some.
            store.remove_games(numbers)?;
        }
        store.read_unfinished()?;
        store.gather()?;
        Ok(store)
    }

    /// What should be reported about a run that is continued: that another program started it.
    pub fn report(&self) -> Option<&str> {
        self.report.as_deref()
    }

    /// The finished games, by number.
    pub fn facts(&self) -> &BTreeMap<u64, GameFacts> {
        &self.facts
    }

    /// Stores a game, with its chunk if it has one; writes a part when it is complete.
    ///
    /// # Errors
    /// When it cannot be written; everything stored before stays.
    pub fn add(&mut self, mut game: StoredGame, chunk: Option<&[u8]>) -> Result<()> {
        if let Some(chunk) = chunk {
            make_folder(&self.chunks())?;
            let name = chunk_name(game.facts.number);
            write_unsynced(&self.folder.join(name), chunk)?;
            game.facts.chunk = Some(sha256(chunk));
        }
        let path = self.game_path(game.facts.number);
        write_unsynced(&path, &game.to_bytes()?)?;
        self.facts.insert(game.facts.number, game.facts);
        self.gather()
    }

    /// Writes another file, whose contents must be the same when the run is repeated.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_file(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        output::write(&self.folder.join(name), bytes, true, &[])?;
        self.files.insert(name.to_owned(), sha256(bytes));
        Ok(())
    }

    /// Finishes the run: writes the summary, and returns the checksum of all files.
    ///
    /// # Errors
    /// When games are missing, or it cannot be written.
    pub fn finish(&mut self) -> Result<String> {
        ensure!(
            self.parts == self.numbers.chunks(self.part_size).len(),
            "games are missing"
        );
        let mut all = Sha256::new();
        for (name, sum) in &self.files {
            all.update(format!("{sum}  {name}\n"));
        }
        let sha256 = hex(&all.finalize());
        let mut tally = GameTally::default();
        self.facts.values().for_each(|game| tally.add(game));
        let sum = |of: fn(&GameFacts) -> u64| self.facts.values().map(of).sum();
        let summary = RunSummary {
            decisive_per_draw: tally.decisive_per_draw(),
            tally,
            plies: sum(|game| game.plies as u64),
            nodes: sum(|game| game.nodes),
            samples: sum(|game| game.samples),
            frozen_samples: sum(|game| game.frozen_samples),
            files: &self.files,
            sha256: &sha256,
        };
        write_json(&self.folder.join("summary.json"), &summary)?;
        // The folder is empty by now.
        let _ = fs::remove_dir(self.unfinished());
        Ok(sha256)
    }

    fn unfinished(&self) -> PathBuf {
        self.folder.join(UNFINISHED)
    }

    fn chunks(&self) -> PathBuf {
        self.folder.join(CHUNKS)
    }

    fn game_path(&self, number: u64) -> PathBuf {
        self.unfinished().join(format!("{number:09}.game"))
    }

    fn part_path(&self, part: usize) -> PathBuf {
        self.folder.join(format!("part-{:05}.json", part + 1))
    }

    /// The games of a part; `None` after the last.
    fn numbers_of(&self, part: usize) -> Option<&[u64]> {
        self.numbers.chunks(self.part_size).nth(part)
    }

    /// Reads the complete parts.
    fn read_parts(&mut self) -> Result<()> {
        while let Some(numbers) = self.numbers_of(self.parts) {
            let path = self.part_path(self.parts);
            let Some(text) = read(&path, MAX_PART_BYTES)? else {
                break;
            };
            let name = path.display();
            let again =
                format!("; delete {name}, and the games from this part on are played again");
            let part = PartFile::parse(&text);
            let part = part.with_context(|| format!("{name} is damaged{again}"))?;
            let found = part.games.iter().map(|game| game.number);
            ensure!(
                found.eq(numbers.iter().copied()),
                "{name} lists games of another part"
            );
            for (file, sum) in &part.files {
                let found = digest(&self.folder.join(file))?;
                let found = found
                    .with_context(|| format!("{file} is missing, which {name} lists{again}"))?;
                ensure!(
                    found == *sum,
                    "{file} was changed or damaged since {name} was written{again}"
                );
            }
            for game in &part.games {
                ensure!(
                    self.has_chunk(game)?,
                    "{} is missing, or was changed or damaged since {name} was written{again}",
                    chunk_name(game.number)
                );
            }
            self.files.extend(part.files);
            let games = part.games.into_iter().map(|game| (game.number, game));
            self.facts.extend(games);
            self.parts += 1;
        }
        Ok(())
    }

    /// Reads the single games of incomplete parts.
    fn read_unfinished(&mut self) -> Result<()> {
        for &number in &self.numbers[(self.parts * self.part_size).min(self.numbers.len())..] {
            if let Some(game) = self.read_game(number)?
                && self.has_chunk(&game.facts)?
            {
                self.facts.insert(number, game.facts);
            }
        }
        Ok(())
    }

    fn read_game(&self, number: u64) -> Result<Option<StoredGame>> {
        let bytes = read(&self.game_path(number), MAX_GAME_BYTES)?;
        let game = bytes.and_then(|bytes| StoredGame::from_bytes(&bytes));
        Ok(game.filter(|game| game.facts.number == number))
    }

    /// Whether the chunk of a game is present and complete.
    fn has_chunk(&self, game: &GameFacts) -> Result<bool> {
        let Some(sum) = &game.chunk else {
            return Ok(true);
        };
        let chunk = read(&self.folder.join(chunk_name(game.number)), MAX_GAME_BYTES)?;
        Ok(chunk.is_some_and(|chunk| sha256(&chunk) == *sum))
    }

    /// Writes the parts whose games are all finished.
    fn gather(&mut self) -> Result<()> {
        while let Some(numbers) = self.numbers_of(self.parts) {
            // A cheap test that usually decides.
            let needed = self.parts * self.part_size + numbers.len();
            let is_there = |number| self.facts.contains_key(number);
            if self.facts.len() < needed || !numbers.iter().all(is_there) {
                break;
            }
            let numbers = numbers.to_vec();
            self.write_part(&numbers)?;
            self.parts += 1;
            self.remove_games(&numbers)?;
        }
        Ok(())
    }

    /// Removes the single files of games that are in a part.
    fn remove_games(&self, numbers: &[u64]) -> Result<()> {
        numbers
            .iter()
            .try_for_each(|&number| output::remove(&self.game_path(number)))
    }

    fn write_part(&mut self, numbers: &[u64]) -> Result<()> {
        let (mut text, mut samples) = (String::new(), Samples::default());
        let (mut facts, mut files) = (Vec::new(), BTreeMap::new());
        for &number in numbers {
            let game = self.read_game(number)?;
            let game = game.with_context(|| {
                format!("{} is damaged or gone", self.game_path(number).display())
            })?;
            text += &game.pgn;
            samples.ensure_room_for(game.samples.entries.len(), "--games-per-file")?;
            samples.append(&game.samples);
            if let Some(sum) = &game.facts.chunk {
                let chunk = self.folder.join(chunk_name(number));
                // The part lists it as written, also after a power failure. Windows wants the right to write for it.
                let opened = File::options().write(true).open(&chunk);
                let synced = opened.and_then(|file| file.sync_all());
                synced.with_context(|| format!("cannot write {}", chunk.display()))?;
                files.insert(chunk_name(number), sum.clone());
            }
            facts.push(game.facts);
        }
        let part = self.parts + 1;
        let mut write = |name: String, bytes: &[u8]| {
            files.insert(name.clone(), sha256(bytes));
            output::write(&self.folder.join(name), bytes, true, &[])
        };
        if !samples.is_empty() {
            write(format!("positions-{part:05}.vis"), &samples.to_file())?;
        }
        write(format!("games-{part:05}.pgn"), text.as_bytes())?;
        self.files.extend(files.clone());
        let part = PartFile {
            games: facts,
            files,
            sha256: None,
        };
        let path = self.part_path(self.parts);
        output::write(&path, &part.into_bytes()?, true, &[])
    }
}

/// The name of a game's chunk.
fn chunk_name(number: u64) -> String {
    format!("{CHUNKS}/game_{number:09}.gz")
}

/// Locks the folder for this process.
fn lock(folder: &Path) -> Result<File> {
    output::open_to_continue(&folder.join(".lock"), &[])
        .with_context(|| format!("cannot lock the folder {}", folder.display()))
}

/// A folder without a manifest must not contain files that a run would write.
fn check_is_empty(folder: &Path) -> Result<()> {
    let name = folder.display();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {name}"))? {
        let entry = entry.with_context(|| format!("cannot read {name}"))?;
        let file = entry.file_name();
        let file = file.to_string_lossy();
        let is_ours = file == ".lock" || output::is_partial(&file);
        ensure!(
            is_ours,
            "{name} is not empty ({file} is in it) and holds no manifest.json: name another folder"
        );
    }
    Ok(())
}

/// Checks that a run may be continued with this manifest. Returns what should be reported about it.
fn check_manifest(
    path: &Path,
    text: &[u8],
    manifest: &Map<String, Value>,
) -> Result<Option<String>> {
    let name = path.display();
    let read = serde_json::from_slice::<Map<String, Value>>;
    let earlier = read(text).with_context(|| format!("{name} is damaged"))?;
    // Numbers are compared in their serialised form.
    let manifest = read(&serde_json::to_vec(manifest)?)?;
    let but_commit = |settings: &Map<String, Value>| {
        let mut settings = settings.clone();
        settings.remove(COMMIT);
        settings
    };
    let different = differences(&but_commit(&earlier), &but_commit(&manifest));
    ensure!(
        different.is_empty(),
        "{name} belongs to another run: use its settings or another folder ({})",
        different.join("; ")
    );
    let commit = |manifest: &Map<String, Value>| manifest.get(COMMIT).cloned();
    Ok(match (commit(&earlier), commit(&manifest)) {
        (Some(earlier), Some(now)) if earlier != now => Some(format!(
            "{name}: the run was started by commit {earlier} of the program, and is continued by {now}"
        )),
        _ => None,
    })
}

fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot make the folder {}", path.display()))
}

/// The bytes of a file; `None` if it does not exist.
fn read(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>> {
    match crate::files::read(path, max_bytes) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// SHA-256 of a file; `None` if it does not exist.
fn digest(path: &Path) -> Result<Option<String>> {
    match sha256_of_file(path) {
        Ok(sum) => Ok(Some(sum)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    output::write(path, &json(value)?, true, &[])
}

fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

/// Writes a file atomically, without waiting for the disk: it contains a checksum that reveals damage by a power
/// failure.
pub(super) fn write_unsynced(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let written = File::create(partial)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(partial, path));
    if written.is_err() {
        // A leftover file at most; the error is reported in any case.
        let _ = fs::remove_file(partial);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn part() -> PartFile {
        let files = [("games-00001.pgn".to_owned(), "00".repeat(32))];
        PartFile {
            games: Vec::new(),
            files: files.into(),
            sha256: None,
        }
    }

    #[test]
    fn every_changed_byte_of_a_part_is_noticed() {
        let bytes = part().into_bytes().unwrap();
        assert_eq!(PartFile::parse(&bytes).unwrap().files, part().files);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(PartFile::parse(&damaged).is_err(), "byte {at}");
            assert!(PartFile::parse(&bytes[..at]).is_err(), "{at} bytes");
        }
        let without = super::json(&part()).unwrap();
        assert!(PartFile::parse(&without).is_err());
    }

    #[test]
    fn the_largest_part_can_be_read() {
        let mut part = part();
        let small = super::json(&part).unwrap().len();
        let sum = "00".repeat(SUM);
        part.games.push(GameFacts {
            number: u64::MAX,
            result: "1/2-1/2".into(),
            white: 1,
            plies: usize::MAX,
            searches: usize::MAX,
            nodes: u64::MAX,
            would_resign: false,
            false_resignation: false,
            samples: u64::MAX,
            frozen_samples: u64::MAX,
            chunk: Some(sum.clone()),
        });
        part.files.insert(chunk_name(u64::MAX), sum);
        let of_game = (super::json(&part).unwrap().len() - small) as u64;
        assert!(of_game <= MAX_FACTS_BYTES, "{of_game}");
        assert!(small as u64 <= MAX_MANIFEST_BYTES);
    }

    #[test]
    fn a_run_of_another_commit_is_continued_and_reported() {
        let manifest = |commit: Option<&str>, seed: u64| {
            let mut manifest = Map::new();
            manifest.insert("seed".into(), json!(seed));
            manifest.extend(commit.map(|commit| (COMMIT.to_owned(), json!(commit))));
            manifest
        };
        let check = |earlier: &Map<String, Value>, now: &Map<String, Value>| {
            let text = serde_json::to_vec(earlier).unwrap();
            check_manifest(Path::new("manifest.json"), &text, now)
        };
        let (old, new) = (manifest(Some("1234"), 1), manifest(Some("5678"), 1));
        let report = check(&old, &new).unwrap().unwrap();
        assert!(
            report.contains("1234") && report.contains("5678"),
            "{report}"
        );
        assert_eq!(check(&old, &old).unwrap(), None);
        assert_eq!(check(&manifest(None, 1), &new).unwrap(), None);
        assert_eq!(check(&old, &manifest(None, 1)).unwrap(), None);
        assert!(check(&old, &manifest(Some("1234"), 2)).is_err());
    }
}
