//! The first visits that leave a new position, before any of them is backed up: PUCT in a module of its own, because
//! [`Visits`](super::visits::Visits) need it and PUCT's other rules need the state of the search.

use super::tree::node::Edge;

/// Visits that leave one position, none of whose moves was visited before, one after the other. There all Q are equal,
/// so PUCT takes the move with the largest prior divided by one more than the visits in flight. What `OptimalSelect`
/// adds to every prior at this depth is added here, too.
#[derive(Default)]
pub(super) struct FirstVisits {
    /// The visits in flight to the first moves.
    in_flight: Vec<u16>,
}

impl FirstVisits {
    /// Begins with another position.
    pub fn clear(&mut self) {
        self.in_flight.clear();
    }

    /// The move that the next visit takes, by its place in `moves` (largest prior first); `None` if a visit to it is in
    /// flight already.
    pub fn take(&mut self, moves: &[Edge], prior_bonus: f32) -> Option<usize> {
        let share = |place: usize| {
            let in_flight = self.in_flight.get(place).copied().unwrap_or(0);
            (moves[place].p() + prior_bonus) / (1.0 + f32::from(in_flight))
        };
        let candidates = 0..moves.len().min(self.in_flight.len() + 1);
        let best = candidates
            .rev()
            .max_by(|&a, &b| share(a).total_cmp(&share(b)))?;
        match self.in_flight.get_mut(best) {
            Some(in_flight) => {
                *in_flight = in_flight.saturating_add(1);
                None
            }
            None => {
                self.in_flight.push(1);
                Some(best)
            }
        }
    }
}
