//! Display of the progress of self-play.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    selfplay::{
        driver::GamesProgress,
        run::RunObserver,
        store::{GameFacts, GameTally, Store},
    },
    terminal::{counted, eprint_line},
};

/// Time between two progress lines without a terminal, so that logs stay short.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

/// The progress display.
pub(super) struct Display {
    pub(super) bar: ProgressBar,
    /// Time of the last progress line, if there is no terminal for the bar.
    last_line: Duration,
    pub(super) progress: Arc<GamesProgress>,
    pub(super) tally: GameTally,
    searches: u64,
    pub(super) nodes: u64,
}

impl Display {
    /// A display for `games` games in all; games that are in the store already are counted.
    pub(super) fn new(games: u64, store: &Store, progress: Arc<GamesProgress>) -> Display {
        let template = "{bar:20} {pos}/{len} games, {msg}, {elapsed} elapsed, {eta} to go";
        let style = ProgressStyle::with_template(template);
        let bar = ProgressBar::new(games);
        let bar = match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        bar.enable_steady_tick(Duration::from_secs(1));
        let mut tally = GameTally::default();
        store.facts().values().for_each(|game| tally.add(game));
        bar.set_position(store.facts().len() as u64);
        bar.reset_eta();
        Display {
            bar,
            last_line: Duration::ZERO,
            progress,
            tally,
            searches: 0,
            nodes: 0,
        }
    }

    pub(super) fn evaluations(&self) -> u64 {
        self.progress.positions.load(Ordering::Relaxed)
    }

    pub(super) fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.bar.elapsed().as_secs_f64().max(1e-3)
    }

    pub(super) fn evaluations_per_second(&self) -> f64 {
        self.per_second(self.evaluations())
    }
}

impl RunObserver for Display {
    fn finished(&mut self, game: &GameFacts) {
        self.tally.add(game);
        self.searches += game.searches as u64;
        self.nodes += game.nodes;
        let tally = &self.tally;
        let ratio = ratio_text(tally);
        let (evaluations, moves) = (
            self.evaluations_per_second(),
            self.per_second(self.searches),
        );
        let text = format!(
            "+{} ={} -{}, (w+l)/d {ratio}, {moves:.1} moves/s, {evaluations:.0} evaluations/s",
            tally.white, tally.draws, tally.black
        );
        self.bar.inc(1);
        let (games, elapsed) = (self.bar.position(), self.bar.elapsed());
        if self.bar.is_hidden() && elapsed - self.last_line >= PROGRESS_INTERVAL {
            self.last_line = elapsed;
            eprint_line(format_args!("{}, {text}", counted(games, "game")));
        }
        self.bar.set_message(text);
    }

    fn note(&mut self, text: &str) {
        if self.bar.is_hidden() {
            eprint_line(text);
        } else {
            self.bar.println(text);
        }
    }
}

pub(super) fn ratio_text(tally: &GameTally) -> String {
    tally
        .decisive_per_draw()
        .map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
}
