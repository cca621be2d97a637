//! The real program as a user runs it: its commands, files and errors, and UCI sessions.

#[path = "../common/mod.rs"]
mod common;

mod back_pressure;
mod backends_doc;
mod bot;
mod command_line;
mod dataset;
mod dense_network;
mod files;
mod gpu_script;
mod matches;
mod network_commands;
mod options_command;
mod options_doc;
mod profiles;
mod reports;
mod scripts;
mod selfplay;
mod stats;
mod train;
mod two_processes;
mod uci_protocol;
mod uci_surprises;
