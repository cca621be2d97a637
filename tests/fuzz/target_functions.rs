//! What is fuzzed: each function takes any bytes, must not panic, allocate much or hang, and checks what the program
//! makes of them against another reader where there is one.
//!
//! `cargo fuzz` runs them guided by coverage (`fuzz/fuzz_targets`), `cargo test --test fuzz` with random damage and a
//! stable compiler (`tests/fuzz/targets.rs`).

use std::{fs, ops::ControlFlow, path::PathBuf, sync::OnceLock};

use pgn_reader::{RawTag, SanPlus, Visitor};
use prost::Message;
use rten_onnx::onnx;
use scorn::{
    chess::{PackedMove, setup},
    config_file,
    dataset::{record::Record, record_file::RecordFile, searched::SearchedFile},
    lc0::{self, ConvertOptions, Net},
    odds::Profiles,
    pgn::{Game, Reader, write::GameText},
    sparse, train,
    uci::command::{self, Command},
};
use shakmaty::{CastlingMode, Chess, EnPassantMode, Position, fen::Fen};

/// A target: its name, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 8] = [
    ("onnx", onnx),
    ("lc0", lc0),
    ("pgn", pgn),
    ("profiles", profiles),
    ("config", config),
    ("uci", uci),
    ("records", records),
    ("checkpoint", checkpoint),
];

/// The parts of ONNX's format that are compared, as `prost` reads them.
#[derive(Clone, PartialEq, Message)]
struct Model {
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
}

#[derive(Clone, PartialEq, Message)]
struct Graph {
    #[prost(message, repeated, tag = "1")]
    nodes: Vec<Node>,
    #[prost(message, repeated, tag = "5")]
    constants: Vec<Constant>,
    #[prost(message, repeated, tag = "13")]
    descriptions: Vec<Description>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, repeated, tag = "1")]
    inputs: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    outputs: Vec<String>,
    #[prost(string, tag = "4")]
    operator: String,
    #[prost(message, repeated, tag = "5")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(int64, optional, tag = "3")]
    int: Option<i64>,
    #[prost(message, optional, tag = "5")]
    tensor: Option<Constant>,
    #[prost(message, optional, tag = "6")]
    graph: Option<Graph>,
}

#[derive(Clone, PartialEq, Message)]
struct Constant {
    #[prost(int64, repeated, tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, optional, tag = "2")]
    data_type: Option<i32>,
    #[prost(string, optional, tag = "8")]
    name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "9")]
    bytes: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Description {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
}

impl From<&onnx::GraphProto> for Graph {
    fn from(graph: &onnx::GraphProto) -> Graph {
        Graph {
            nodes: graph.node.iter().map(Node::from).collect(),
            constants: graph.initializer.iter().map(Constant::from).collect(),
            descriptions: graph
                .value_info
                .iter()
                .map(|info| Description {
                    name: info.name.clone(),
                })
                .collect(),
        }
    }
}

impl From<&onnx::NodeProto> for Node {
    fn from(node: &onnx::NodeProto) -> Node {
        Node {
            inputs: node.input.clone(),
            outputs: node.output.clone(),
            operator: node.op_type.clone().unwrap_or_default(),
            attributes: node.attribute.iter().map(Attribute::from).collect(),
        }
    }
}

impl From<&onnx::AttributeProto> for Attribute {
    fn from(attribute: &onnx::AttributeProto) -> Attribute {
        Attribute {
            int: attribute.i,
            tensor: attribute.t.as_ref().map(Constant::from),
            graph: attribute.g.as_ref().map(Graph::from),
        }
    }
}

impl From<&onnx::TensorProto> for Constant {
    fn from(tensor: &onnx::TensorProto) -> Constant {
        Constant {
            dims: tensor.dims.clone(),
            data_type: tensor.data_type.map(|data_type| data_type.0),
            name: tensor.name.clone(),
            bytes: tensor.raw_data.as_ref().map(|raw| raw.borrow().clone()),
        }
    }
}

/// ONNX models. `rten` and `prost` read the same graph from what the check of the bytes accepts; a model that is
/// accepted as a network is one again when it is written.
pub fn onnx(bytes: &[u8]) {
    if lc0::onnx_metadata(bytes).is_ok() {
        compare_readers(bytes);
    }
    if let Ok(model) = lc0::read_onnx(bytes) {
        compare_readers(&model.bytes);
        let again = lc0::read_onnx(&model.bytes).unwrap();
        assert_eq!((again.input, again.policy), (model.input, model.policy));
    }
    let _ = sparse::file::model(bytes);
}

/// What one of the two readers refuses, because it is stricter, the other one need not.
fn compare_readers(bytes: &[u8]) {
    let ours = Model::decode(bytes);
    let rtens = onnx::ModelProto::parse_buf(bytes);
    if let (Ok(ours), Ok(rtens)) = (ours, rtens) {
        assert_eq!(ours.graph, rtens.graph.as_ref().map(Graph::from));
    }
}

/// lc0's networks: what is accepted can be described, and what is converted is a network.
pub fn lc0(bytes: &[u8]) {
    let Ok(net) = Net::parse(bytes) else {
        return;
    };
    let _ = net.describe().to_string();
    if let Ok(model) = lc0::to_onnx(&net, &ConvertOptions::default()) {
        onnx(&model.bytes);
        lc0::read_onnx(&model.bytes).unwrap();
    }
}

/// Games as `pgn-reader` has them, without our division into texts; `None` after the first error.
struct Plain;

impl Visitor for Plain {
    type Tags = Chess;
    type Movetext = (Chess, Vec<PackedMove>);
    type Output = Option<Vec<PackedMove>>;

    fn begin_tags(&mut self) -> ControlFlow<Self::Output, Chess> {
        ControlFlow::Continue(Chess::default())
    }

    fn tag(
        &mut self,
        start: &mut Chess,
        name: &[u8],
        value: RawTag<'_>,
    ) -> ControlFlow<Self::Output> {
        if name == b"FEN" {
            let fen = Fen::from_ascii(value.as_bytes()).ok();
            let position = fen.and_then(|fen| fen.into_position(CastlingMode::Chess960).ok());
            match position {
                Some(position) => *start = position,
                None => return ControlFlow::Break(None),
            }
        }
        ControlFlow::Continue(())
    }

    fn begin_movetext(&mut self, start: Chess) -> ControlFlow<Self::Output, Self::Movetext> {
        ControlFlow::Continue((start, Vec::new()))
    }

    fn san(
        &mut self,
        (position, moves): &mut Self::Movetext,
        san: SanPlus,
    ) -> ControlFlow<Self::Output> {
        let Ok(m) = san.san.to_move(position) else {
            return ControlFlow::Break(None);
        };
        moves.push(PackedMove::pack(m));
        position.play_unchecked(m);
        ControlFlow::Continue(())
    }

    fn end_game(&mut self, (_, moves): Self::Movetext) -> Self::Output {
        Some(moves)
    }
}

/// The moves of all games; `None` if something in them is not valid.
fn plain_games(bytes: &[u8]) -> Option<Vec<Vec<PackedMove>>> {
    let mut reader = pgn_reader::Reader::build(bytes)
        .set_supported_tag_line_length(1 << 16)
        .finish();
    let mut games = Vec::new();
    while let Some(game) = reader.read_game(&mut Plain).ok()? {
        games.push(game?);
    }
    Some(games)
}

/// Games: their moves are legal, they can be written and read again, and where `pgn-reader` by itself finds as many
/// valid games, they are the same ones.
pub fn pgn(bytes: &[u8]) {
    let read = || Reader::new(bytes).accept_unfinished();
    let games: Vec<Game> = read().take(200).flatten().collect();
    for game in &games {
        let mut position = game.start.clone();
        let mut moves = Vec::new();
        for &m in &game.moves {
            let unpacked = m.unpack(&position);
            assert!(position.is_legal(unpacked));
            position.play_unchecked(unpacked);
            moves.push((m, "a comment".to_owned()));
        }
        let fen = |position: &Chess| Fen::from_position(position, EnPassantMode::Legal).to_string();
        assert_eq!(fen(&position), fen(&game.end));
        let text = GameText {
            tags: vec![("Event", game.tag("Event").unwrap_or("?").to_owned())],
            start: &game.start,
            moves: &moves,
            nags: &[],
            result: "*",
        };
        let text = text.text();
        let written = plain_games(text.as_bytes());
        assert_eq!(written, Some(vec![game.moves.clone()]), "{text}");
    }
    // Of a damaged tag the other reader takes what looks like moves, and may divide the file at another place.
    let quotes = |line: &[u8]| line.iter().filter(|&&byte| byte == b'"').count();
    let is_whole = |line: &[u8]| line.ends_with(b"\"]") && quotes(line) == 2;
    let mut lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let has_damaged_tag = lines.any(|line| line.starts_with(b"[") && !is_whole(line));
    if !has_damaged_tag
        && let Some(plain) = plain_games(bytes)
        && plain.len() == games.len()
        && read().take(200).all(|game| game.is_ok())
    {
        // A damaged tag may divide the file at another place, which makes a game without moves.
        let is_played = |moves: &Vec<PackedMove>| !moves.is_empty();
        let moves = games.into_iter().map(|game| game.moves);
        let moves: Vec<_> = moves.filter(is_played).collect();
        let plain: Vec<_> = plain.into_iter().filter(is_played).collect();
        assert_eq!(moves, plain);
    }
}

/// Profiles (TOML): what is accepted is TOML; errors name a place in the text.
pub fn profiles(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match Profiles::parse(text, "fuzz.toml") {
        Ok(_) => assert!(toml::de::DeTable::parse(text).is_ok()),
        Err(error) => assert!(error.to_string().contains("fuzz.toml")),
    }
}

/// Configuration files, and options set by their entries.
pub fn config(bytes: &[u8]) {
    let path = temporary("config", bytes);
    if let Ok(entries) = config_file::read(&path) {
        let mut options = scorn::options::Options::default();
        for entry in entries {
            let _ = options.set(&entry.name, &entry.value);
        }
    }
}

/// Lines of UCI. The position of a valid line can be written and read again.
pub fn uci(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines().take(100) {
        let Ok(Command::Position { fen, moves }) = command::parse(line) else {
            continue;
        };
        if let Ok(history) = setup::history_from(fen.as_deref(), &moves) {
            let position = history.position();
            let fen = Fen::from_position(position, EnPassantMode::Legal).to_string();
            let again = setup::position_from_fen(&fen).unwrap();
            assert_eq!(
                Fen::from_position(&again, EnPassantMode::Legal).to_string(),
                fen
            );
        }
    }
}

/// Training records: single ones, and files of both kinds.
pub fn records(bytes: &[u8]) {
    if let Some(first) = bytes.first_chunk() {
        let record = Record::from_bytes(first);
        assert_eq!(
            Record::from_bytes(&record.to_bytes()).to_bytes(),
            record.to_bytes()
        );
        if let Ok(position) = record.position() {
            // A position that is read has legal moves or is over.
            let _ = position.legal_moves();
        }
    }
    let path = temporary("records", bytes);
    if let Ok(mut file) = RecordFile::open(&path) {
        (0..100)
            .map_while(|index| file.get(index).ok())
            .for_each(|record| drop(record.position()));
    }
    if let Ok(mut file) = SearchedFile::open(&path) {
        (0..100).for_each(|index| drop(file.get(index)));
        let _ = file.lengths();
    }
}

/// Checkpoints of training: what is read is written again and read as the same.
pub fn checkpoint(bytes: &[u8]) {
    let path = temporary("checkpoint", bytes);
    let _ = train::checkpoint::progress(&path);
    if let Ok(checkpoint) = train::checkpoint::Checkpoint::load(&path) {
        let again = temporary("checkpoint-again", b"");
        checkpoint.save(&again).unwrap();
        let bits = |checkpoint: &train::checkpoint::Checkpoint| -> Vec<u32> {
            checkpoint
                .state
                .weights
                .iter()
                .map(|weight| weight.to_bits())
                .collect()
        };
        let read = train::checkpoint::Checkpoint::load(&again).unwrap();
        assert!(bits(&read) == bits(&checkpoint));
    }
}

/// A file with these bytes; the next one of this name replaces it.
fn temporary(name: &str, bytes: &[u8]) -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let path = FOLDER
        .get_or_init(|| tempfile::tempdir().unwrap())
        .path()
        .join(name);
    fs::write(&path, bytes).unwrap();
    path
}
