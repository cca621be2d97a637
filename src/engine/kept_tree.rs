//! The search tree that is kept between searches, and when it is dropped.

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

/// A tree and what it was searched with. Searches share it.
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
    /// The root moves that were considered; empty means all.
    root_moves: Vec<PackedMove>,
    /// Where in the game it was searched.
    place: Place,
}

impl KeptTree {
    /// The tree, for a search on another thread.
    pub fn share(&self) -> Arc<Mutex<Tree>> {
        Arc::clone(&self.tree)
    }

    /// The tree; waits while a search holds it.
    pub fn lock(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock()
    }

    /// The next search begins with an empty tree.
    pub fn drop_later(&mut self) {
        self.made_with = None;
    }

    /// Replaces the tree by an empty one; a search that holds the old one keeps it.
    pub fn replace(&mut self) {
        *self = KeptTree::default();
    }

    /// Prepares the tree for a search. It is dropped, on another thread because that takes time, if the options
    /// invalidate it, or if other root moves were excluded, which biases its visits. With a strength limit it is also
    /// dropped if the same position is searched again: the engine would become stronger each time.
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
        if !self
            .made_with
            .as_ref()
            .is_some_and(|old| new.can_reuse(old))
        {
            let old = std::mem::take(&mut *self.tree.lock());
            // Without a thread, it is dropped here.
            let _ = threads::spawn("drop tree", move || drop(old));
        }
        self.made_with = Some(new);
    }
}

impl MadeWith {
    /// Whether a search with this may reuse the tree of the `old` one.
    fn can_reuse(&self, old: &MadeWith) -> bool {
        self.options.invalidated_since(&old.options) < Invalidates::Tree
            && self.opponent == old.opponent
            && self.root_moves == old.root_moves
            && !(strength::is_limited(&self.options) && self.place == old.place)
    }
}
