//! The tree that is kept from search to search, and when it is of no use any more.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use shakmaty::Color;

use super::strength;
use crate::{
    chess::{History, PackedMove, Place},
    network::opponent,
    options::{Invalidates, Options},
    search::Tree,
    threads,
};

/// A tree, and what it was searched with. Searches share it.
#[derive(Default)]
pub(super) struct KeptTree {
    tree: Arc<Mutex<Tree>>,
    /// `None` if it is to be dropped.
    made_with: Option<MadeWith>,
}

/// What a tree's statistics depend on besides the position.
struct MadeWith {
    options: Options,
    /// The side whose priors are a second network's.
    opponent: Option<Color>,
    /// The root moves that were considered, if not all were.
    root_moves: Vec<PackedMove>,
    /// Where in the game it was searched.
    place: Place,
}

impl KeptTree {
    /// The tree, for a search on another thread.
    pub fn share(&self) -> Arc<Mutex<Tree>> {
        Arc::clone(&self.tree)
    }

    /// The tree. Who searches holds it: this waits.
    pub fn lock(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock()
    }

    /// The next search begins with an empty tree.
    pub fn forget(&mut self) {
        self.made_with = None;
    }

    /// Takes another tree at once; whoever holds this one keeps it.
    pub fn replace(&mut self) {
        *self = KeptTree::default();
    }

    /// Makes it ready for a search. A tree that the options have outdated is dropped, on another thread because that takes
    /// time; so is one in which other moves were left out, for its visits are no fair start. Who is asked again about a
    /// position while its strength is limited begins anew, too: it would be stronger each time.
    pub fn begin(
        &mut self,
        options: &Options,
        game: &History,
        contempt_side: Option<Color>,
        root_moves: &[PackedMove],
    ) {
        let new = MadeWith {
            options: options.clone(),
            opponent: opponent::side(options, contempt_side),
            root_moves: root_moves.to_vec(),
            place: game.place(),
        };
        if !self.made_with.as_ref().is_some_and(|old| new.goes_on(old)) {
            let old = std::mem::take(&mut *self.tree.lock());
            // Where there is no thread, it is dropped here.
            let _ = threads::spawn("drop tree", move || drop(old));
        }
        self.made_with = Some(new);
    }
}

impl MadeWith {
    /// Whether a search with this may go on with the tree of the `old` one.
    fn goes_on(&self, old: &MadeWith) -> bool {
        self.options.invalidated_since(&old.options) < Invalidates::Tree
            && self.opponent == old.opponent
            && self.root_moves == old.root_moves
            && !(strength::is_limited(&self.options) && self.place == old.place)
    }
}
