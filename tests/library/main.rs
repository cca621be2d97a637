//! The library's public interface: searches, networks and tablebases; and the structure of its sources.

#[path = "../common/mod.rs"]
mod common;

mod alphazero;
mod architecture;
mod int8;
mod metamorphic;
mod network_errors;
mod network_parity;
mod opponent_network;
mod refine;
mod search;
mod search_contempt;
mod search_extensions;
mod search_parity;
mod search_root;
mod sessions;
mod syzygy;
mod transpositions;
mod tree_search;
mod wdl_contempt;
