//! Formats the engine's events as UCI lines.

use super::{info::Style, output::Output};
use crate::{
    chess::{PackedMove, setup},
    engine::{Answer, Listener, Subject},
    search::{MoveStat, Report},
};

impl Output {
    fn lines(&self, lines: Vec<String>) {
        for line in lines {
            self.line(&line);
        }
    }
}

fn style(subject: &Subject) -> Style<'_> {
    Style {
        position: &subject.position,
        options: &subject.options,
    }
}

impl Listener for Output {
    fn note(&self, text: &str) {
        Output::note(self, text);
    }

    fn ready(&self) {
        self.line("readyok");
    }

    fn report(&self, subject: &Subject, report: &Report) {
        let style = style(subject);
        self.lines(style.objectives(report));
        self.lines(style.report(report));
    }

    fn move_stats(&self, subject: &Subject, stats: &[MoveStat]) {
        let options = &subject.options;
        if options.verbose_move_stats || options.log_live_stats {
            self.lines(style(subject).move_stats(stats));
        }
    }

    fn answer(&self, subject: &Subject, answer: Answer) {
        self.line(&style(subject).best_move(answer.best, answer.ponder));
    }

    fn perft_move(&self, subject: &Subject, m: PackedMove, count: u64) {
        let name = setup::move_text(&subject.position, m, subject.options.chess960);
        self.line(&format!("{name}: {count}"));
    }

    fn perft_total(&self, count: u64) {
        self.line(&format!("Nodes searched: {count}"));
    }

    fn is_gone(&self) -> bool {
        self.is_closed()
    }
}
