//! One training position in 48 bytes, and the file that holds many of them.
//!
//! A record file is a 48-byte header followed by records, so a file can be memory-mapped, indexed at random, split and
//! appended to. Everything is little-endian and seen from the side to move (ranks flipped for Black), which is how the
//! network sees it; `networks/training/scorn_training/records.py` reads the same layout.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..32 | board | 64 nibbles, a1 = low nibble of byte 0; 0 empty, 1-6 own P N B R Q K, 7-12 the opponent's |
//! | 32 | state | bits 0-3: may castle, own a side, own h side, opponent's a side, opponent's h side; 4: Black moves; 5: Chess960 |
//! | 33 | ep | file of the pawn that has just made a double step, 255 none |
//! | 34 | rule50 | plies since the last capture or pawn move |
//! | 35 | flags | bit 0: held out of training; bits 4-7: [`Source`] |
//! | 36..38 | move | from, to (6 bits each), promotion (0 none, 1-4 N B R Q); castling is king takes rook; 0 unknown |
//! | 38..40 | score | centipawns for the side to move; ±(32000 - plies) mate; -32768 unknown |
//! | 40 | result | for the side to move: 0 lost, 1 drawn, 2 won; 255 unknown |
//! | 41 | reserved | 0 |
//! | 42..44 | plies left | to the end of the game; 65535 unknown |
//! | 44..48 | game | number of the game within its file |

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use shakmaty::{
    Bitboard, Board, CastlingMode, CastlingSide, Chess, Color, FromSetup, Move, Piece, Position,
    PositionError, Role, Setup, Square,
};

/// Bytes of one record, and of the header.
pub const RECORD_BYTES: usize = 48;
const MAGIC: &[u8; 8] = b"SCORNREC";
const VERSION: u32 = 1;

/// No score is known.
pub const NO_SCORE: i16 = i16::MIN;
/// Scores beyond this are mates: `MATE - plies`.
pub const MATE: i16 = 32000;
/// Number of plies left is unknown.
pub const NO_PLIES: u16 = u16::MAX;
/// The game's result is unknown.
pub const NO_RESULT: u8 = u8::MAX;

/// Where a position comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// A game without engine evaluations.
    Game = 0,
    /// A game with engine evaluations.
    EngineGame = 1,
    /// A Chess960 game.
    Chess960 = 2,
    /// A position of a game, to be labelled by a teacher.
    Real = 3,
    /// A position of a game after a few random moves.
    RandomMoves = 4,
    /// A position of a game with the pieces of a usual odds missing.
    Odds = 5,
    /// A position of a game with pieces of both sides missing.
    Unbalanced = 6,
    /// A handful of pieces on random squares.
    Endgame = 7,
}

impl Source {
    /// Every source, in order of its number.
    pub const ALL: [Source; 8] = [
        Source::Game,
        Source::EngineGame,
        Source::Chess960,
        Source::Real,
        Source::RandomMoves,
        Source::Odds,
        Source::Unbalanced,
        Source::Endgame,
    ];

    /// The name used in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Source::Game => "game",
            Source::EngineGame => "engine game",
            Source::Chess960 => "chess960 game",
            Source::Real => "real",
            Source::RandomMoves => "random moves",
            Source::Odds => "odds",
            Source::Unbalanced => "unbalanced",
            Source::Endgame => "endgame",
        }
    }
}

/// A training position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nibbles of the 64 squares.
    pub board: [u8; 32],
    /// Castling rights, colour, variant.
    pub state: u8,
    /// File of a double step just made, or 255.
    pub ep: u8,
    /// Plies since the last capture or pawn move.
    pub rule50: u8,
    /// Held-out bit and source.
    pub flags: u8,
    /// The move to learn.
    pub best: u16,
    /// Score for the side to move.
    pub score: i16,
    /// Result for the side to move.
    pub result: u8,
    /// Plies to the end of the game.
    pub plies_left: u16,
    /// Number of the game.
    pub game: u32,
}

impl Record {
    /// Bit of `state`: Black is to move.
    pub const BLACK: u8 = 1 << 4;
    /// Bit of `state`: castling by Chess960 rules.
    pub const CHESS960: u8 = 1 << 5;
    /// Bit of `flags`: the position belongs to a held-out game.
    pub const HELD_OUT: u8 = 1;

    /// The record of a position, with nothing known about its value. `black` is the real colour of the side to move.
    pub fn new(pos: &Chess, black: bool, source: Source) -> Record {
        let us = pos.turn();
        let mut board = [0u8; 32];
        for (square, piece) in pos.board().clone() {
            let own = if piece.color == us { 0 } else { 6 };
            let at = usize::from(view(square, us));
            board[at / 2] |= (piece.role as u8 + own) << (4 * (at % 2));
        }
        let mut state = if black { Record::BLACK } else { 0 };
        if pos.castles().mode().is_chess960() {
            state |= Record::CHESS960;
        }
        for (bit, (color, side)) in castling_order(us).into_iter().enumerate() {
            if pos.castles().has(color, side) {
                state |= 1 << bit;
            }
        }
        Record {
            board,
            state,
            ep: pos
                .maybe_ep_square()
                .map_or(u8::MAX, |square| square.file() as u8),
            rule50: u8::try_from(pos.halfmoves()).unwrap_or(u8::MAX),
            flags: (source as u8) << 4,
            best: 0,
            score: NO_SCORE,
            result: NO_RESULT,
            plies_left: NO_PLIES,
            game: 0,
        }
    }

    /// Where the position comes from.
    pub fn source(&self) -> Option<Source> {
        Source::ALL.get(usize::from(self.flags >> 4)).copied()
    }

    /// Does the position belong to a held-out game?
    pub fn held_out(&self) -> bool {
        self.flags & Record::HELD_OUT != 0
    }

    /// The position as the side to move sees it: White to move, whatever the real colour.
    pub fn position(&self) -> Result<Chess> {
        let mode = if self.state & Record::CHESS960 != 0 {
            CastlingMode::Chess960
        } else {
            CastlingMode::Standard
        };
        let mut setup = Setup::empty();
        setup.board = self.pieces()?;
        setup.castling_rights = self.castling_rooks(&setup.board);
        if self.ep < 8 {
            setup.ep_square = Some(Square::new(u32::from(self.ep) + 40));
        }
        setup.halfmoves = u32::from(self.rule50);
        Chess::from_setup(setup, mode)
            .or_else(PositionError::ignore_invalid_ep_square)
            .or_else(PositionError::ignore_impossible_check)
            .or_else(PositionError::ignore_too_much_material)
            .context("a record holds an impossible position")
    }

    fn pieces(&self) -> Result<Board> {
        let mut board = Board::empty();
        for square in Square::ALL {
            let at = usize::from(square);
            let code = self.board[at / 2] >> (4 * (at % 2)) & 15;
            if code == 0 {
                continue;
            }
            ensure!(code <= 12, "a record holds the piece code {code}");
            let (color, role) = if code > 6 {
                (Color::Black, code - 6)
            } else {
                (Color::White, code)
            };
            let role = Role::try_from(u32::from(role)).context("piece code")?;
            board.set_piece_at(square, Piece { color, role });
        }
        Ok(board)
    }

    /// The rooks that may castle: the outermost of the back rank on the named side of the king.
    fn castling_rooks(&self, board: &Board) -> Bitboard {
        let mut rooks = Bitboard::EMPTY;
        for (bit, (color, side)) in castling_order(Color::White).into_iter().enumerate() {
            if self.state & (1 << bit) == 0 {
                continue;
            }
            let back =
                board.by_color(color) & board.rooks() & Bitboard::from_rank(color.backrank());
            let outermost = if side.is_queen_side() {
                back.first()
            } else {
                back.last()
            };
            rooks.extend(outermost);
        }
        rooks
    }

    /// The move as it is stored: from, to and promotion seen by the mover; castling is king takes rook.
    pub fn pack_move(m: Move, us: Color) -> u16 {
        let from = m.from().map_or(0, |square| u16::from(view(square, us)));
        let promotion = match m.promotion() {
            Some(Role::Knight) => 1,
            Some(Role::Bishop) => 2,
            Some(Role::Rook) => 3,
            Some(Role::Queen) => 4,
            _ => 0,
        };
        // shakmaty's `to` of a castling move is the rook's square, as wanted here.
        from | u16::from(view(m.to(), us)) << 6 | promotion << 12
    }

    /// The bytes of the record.
    pub fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..32].copy_from_slice(&self.board);
        bytes[32..36].copy_from_slice(&[self.state, self.ep, self.rule50, self.flags]);
        bytes[36..38].copy_from_slice(&self.best.to_le_bytes());
        bytes[38..40].copy_from_slice(&self.score.to_le_bytes());
        bytes[40] = self.result;
        bytes[42..44].copy_from_slice(&self.plies_left.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.game.to_le_bytes());
        bytes
    }

    /// The record of these bytes.
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Record {
        let mut board = [0; 32];
        board.copy_from_slice(&bytes[..32]);
        Record {
            board,
            state: bytes[32],
            ep: bytes[33],
            rule50: bytes[34],
            flags: bytes[35],
            best: u16::from_le_bytes([bytes[36], bytes[37]]),
            score: i16::from_le_bytes([bytes[38], bytes[39]]),
            result: bytes[40],
            plies_left: u16::from_le_bytes([bytes[42], bytes[43]]),
            game: u32::from_le_bytes([bytes[44], bytes[45], bytes[46], bytes[47]]),
        }
    }
}

/// A square seen from a side.
fn view(square: Square, us: Color) -> u8 {
    let index = u8::from(square);
    if us == Color::Black {
        index ^ 56
    } else {
        index
    }
}

/// The castling rights in the order of the bits of `state`.
fn castling_order(us: Color) -> [(Color, CastlingSide); 4] {
    [
        (us, CastlingSide::QueenSide),
        (us, CastlingSide::KingSide),
        (!us, CastlingSide::QueenSide),
        (!us, CastlingSide::KingSide),
    ]
}

/// Reads record files in order.
#[derive(Debug)]
pub struct RecordReader {
    file: io::BufReader<File>,
    /// Number of records in the file.
    pub count: u64,
}

impl RecordReader {
    /// Opens a file and checks its header.
    pub fn open(path: &Path) -> Result<RecordReader> {
        let mut file =
            File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let count = check_header(&mut file, path)?;
        Ok(RecordReader {
            file: io::BufReader::with_capacity(1 << 20, file),
            count,
        })
    }

    /// Skips records.
    pub fn skip_records(&mut self, records: u64) -> Result<()> {
        self.file
            .seek_relative(i64::try_from(records * RECORD_BYTES as u64)?)?;
        Ok(())
    }
}

impl Iterator for RecordReader {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let mut bytes = [0; RECORD_BYTES];
        self.file.read_exact(&mut bytes).ok()?;
        Some(Record::from_bytes(&bytes))
    }
}

/// Reads a whole file into memory.
pub fn read_all(path: &Path) -> Result<Vec<Record>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    check_header(&mut bytes.as_slice(), path)?;
    Ok(bytes[RECORD_BYTES..]
        .as_chunks()
        .0
        .iter()
        .map(Record::from_bytes)
        .collect())
}

/// Checks the header and returns the number of whole records after it.
fn check_header(reader: &mut impl Read, path: &Path) -> Result<u64> {
    let name = path.display();
    let mut header = [0; RECORD_BYTES];
    reader
        .read_exact(&mut header)
        .with_context(|| format!("{name} is too short for a record file"))?;
    ensure!(&header[..8] == MAGIC, "{name} is not a record file");
    let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    if version != VERSION {
        bail!("{name} has record format {version}, this program reads {VERSION}");
    }
    let bytes = std::fs::metadata(path)?.len();
    Ok((bytes - RECORD_BYTES as u64) / RECORD_BYTES as u64)
}

/// Writes a record file. A new file appears under its name only when it is finished.
#[derive(Debug)]
pub struct RecordWriter {
    file: BufWriter<File>,
    partial: Option<PathBuf>,
    path: PathBuf,
    /// Records written, those of an earlier run included.
    pub count: u64,
}

impl RecordWriter {
    /// Starts a new file.
    pub fn create(path: &Path) -> Result<RecordWriter> {
        let partial = PathBuf::from(format!("{}.partial", path.display()));
        let mut file = File::create(&partial)
            .with_context(|| format!("cannot create {}", partial.display()))?;
        file.write_all(&header())?;
        Ok(RecordWriter {
            file: BufWriter::new(file),
            partial: Some(partial),
            path: path.into(),
            count: 0,
        })
    }

    /// Continues a file that an earlier run left, after its last whole record; or starts it.
    pub fn append(path: &Path) -> Result<RecordWriter> {
        let mut count = 0;
        if path.exists() {
            count = check_header(&mut File::open(path)?, path)?;
        } else {
            std::fs::write(path, header())
                .with_context(|| format!("cannot create {}", path.display()))?;
        }
        let file = OpenOptions::new().append(true).open(path)?;
        file.set_len((count + 1) * RECORD_BYTES as u64)?;
        Ok(RecordWriter {
            file: BufWriter::new(file),
            partial: None,
            path: path.into(),
            count,
        })
    }

    /// Writes one record.
    pub fn write(&mut self, record: &Record) -> Result<()> {
        self.count += 1;
        self.file
            .write_all(&record.to_bytes())
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Hands everything to the operating system.
    pub fn flush(&mut self) -> Result<()> {
        self.file
            .flush()
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Finishes the file.
    pub fn finish(mut self) -> Result<u64> {
        self.flush()?;
        if let Some(partial) = &self.partial {
            std::fs::rename(partial, &self.path)
                .with_context(|| format!("cannot name {}", self.path.display()))?;
        }
        Ok(self.count)
    }
}

fn header() -> [u8; RECORD_BYTES] {
    let mut header = [0; RECORD_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&(RECORD_BYTES as u32).to_le_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use shakmaty::fen::Fen;

    fn position(fen: &str) -> Chess {
        fen.parse::<Fen>()
            .unwrap()
            .into_position(CastlingMode::Standard)
            .unwrap()
    }

    #[test]
    fn a_record_survives_bytes_and_the_board() {
        let pos = position("r2qk2r/ppp2ppp/2n5/3pP3/8/2N5/PPP2PPP/R2QK2R w KQk d6 0 9");
        let mut record = Record::new(&pos, false, Source::Game);
        record.best = 77;
        record.score = -123;
        assert_eq!(Record::from_bytes(&record.to_bytes()), record);
        assert_eq!((record.state, record.ep), (0b1011, 3));
        let again = record.position().unwrap();
        assert_eq!(Record::new(&again, false, Source::Game).board, record.board);
        assert_eq!(again.legal_moves().len(), pos.legal_moves().len());
    }

    #[test]
    fn black_sees_the_board_flipped() {
        let white = position("4k3/1q6/8/8/8/8/PP6/4K2R w K - 0 1");
        let black = position("4k2r/pp6/8/8/8/8/1Q6/4K3 b k - 0 1");
        let (white, black) = (
            Record::new(&white, false, Source::Game),
            Record::new(&black, true, Source::Game),
        );
        assert_eq!(
            (white.board, white.state | Record::BLACK),
            (black.board, black.state)
        );
    }

    #[test]
    fn castling_is_king_takes_rook() {
        let pos = position("4k2r/8/8/8/8/8/8/4K3 b k - 0 1");
        let castle = pos
            .legal_moves()
            .into_iter()
            .find(|m| m.is_castle())
            .unwrap();
        assert_eq!(Record::pack_move(castle, Color::Black), 4 | 7 << 6);
    }

    #[test]
    fn an_interrupted_file_is_continued_after_its_last_whole_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.rec");
        let record = Record::new(&Chess::new(), false, Source::Game);
        let mut writer = RecordWriter::append(&path).unwrap();
        writer.write(&record).unwrap();
        writer.finish().unwrap();
        OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"half a record")
            .unwrap();
        let mut writer = RecordWriter::append(&path).unwrap();
        assert_eq!(writer.count, 1);
        writer.write(&record).unwrap();
        writer.finish().unwrap();
        assert_eq!(read_all(&path).unwrap(), vec![record; 2]);
    }

    #[test]
    fn other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.rec");
        std::fs::write(&path, [7; 96]).unwrap();
        assert!(
            read_all(&path)
                .unwrap_err()
                .to_string()
                .contains("not a record file")
        );
    }
}
