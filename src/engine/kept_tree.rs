//! The search tree that is kept between searches, and when it is dropped.

use std::sync::Arc;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use shakmaty::Color;

use super::{loader::LoadNumbers, strength};
use crate::{
    chess::{History, Place},
    options::{Invalidates, Options},
    search::Tree,
};

/// A tree and what it was searched with. Searches share it.
#[derive(Default)]
pub(super) struct KeptTree {
    tree: Arc<Mutex<SearchedTree>>,
    /// `None` if it is to be dropped.
    made_with: Option<MadeWith>,
}

/// A tree, and the networks that have evaluated it.
#[derive(Default)]
pub(super) struct SearchedTree {
    tree: Tree,
    networks: LoadNumbers,
}

impl SearchedTree {
    /// The tree, for a search with the networks of these loads: an empty one if others have evaluated it, even if these
    /// are from files of the same names, which may have changed.
    pub fn for_networks(&mut self, networks: LoadNumbers) -> &mut Tree {
        if self.networks != networks {
            std::mem::take(&mut self.tree).free();
            self.networks = networks;
        }
        &mut self.tree
    }

    /// The tree as it is.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }
}

/// What a tree's evaluations owe to the model of an opponent. A search for the other side needs a new tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Modelled {
    /// The side whose priors are a second network's.
    pub priors: Option<Color>,
    /// The side that the network's values take for the engine's, if they depend on that.
    pub values: Option<Color>,
}

/// What a tree's statistics depend on besides the position.
struct MadeWith {
    options: Options,
    modelled: Modelled,
    /// Where in the game it was searched.
    place: Place,
}

impl KeptTree {
    /// The tree, for a search on another thread.
    pub fn share(&self) -> Arc<Mutex<SearchedTree>> {
        Arc::clone(&self.tree)
    }

    /// The tree; waits while a search holds it.
    pub fn lock(&self) -> MappedMutexGuard<'_, Tree> {
        MutexGuard::map(self.tree.lock(), |searched| &mut searched.tree)
    }

    /// The next search begins with an empty tree.
    pub fn drop_later(&mut self) {
        self.made_with = None;
    }

    /// Replaces the tree by an empty one; a search that holds the old one keeps it.
    pub fn replace(&mut self) {
        *self = KeptTree::default();
    }

    /// Prepares the tree for a search. It is dropped if the options invalidate it. With a strength limit it is also
    /// dropped if the same position is searched again: the engine would become stronger each time. Whether the networks
    /// are still the same is known when they are loaded, see [`SearchedTree::for_networks`]; which parts were searched
    /// with other root moves (`searchmoves`) the tree itself knows.
    pub fn begin(&mut self, options: &Options, game: &History, modelled: Modelled) {
        let new = MadeWith {
            options: options.clone(),
            modelled,
            place: game.place(),
        };
        if !self
            .made_with
            .as_ref()
            .is_some_and(|old| new.can_reuse(old))
        {
            std::mem::take(&mut self.tree.lock().tree).free();
        }
        self.made_with = Some(new);
    }
}

impl MadeWith {
    /// Whether a search with this may reuse the tree of the `old` one.
    fn can_reuse(&self, old: &MadeWith) -> bool {
        self.options.invalidated_since(&old.options) < Invalidates::Tree
            && self.modelled == old.modelled
            && !(strength::is_limited(&self.options) && self.place == old.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_of_the_networks_that_were_loaded_then() {
        let mut searched = SearchedTree::default();
        let numbers = [Some(1), None, Some(2)];
        *searched.for_networks(numbers) = Tree::new(History::default(), None);
        assert!(searched.for_networks(numbers).history().is_some());
        assert!(searched.tree().history().is_some());
        // The main network is the same, the other one is not.
        assert!(
            searched
                .for_networks([Some(1), None, Some(3)])
                .history()
                .is_none()
        );
    }

    #[test]
    fn a_search_for_the_other_side_begins_with_a_new_tree_if_evaluations_depend_on_it() {
        let (options, game) = (Options::default(), History::default());
        let is_kept = |modelled: [Modelled; 2]| {
            let mut kept = KeptTree::default();
            kept.begin(&options, &game, modelled[0]);
            *kept.lock() = Tree::new(game.clone(), None);
            kept.begin(&options, &game, modelled[1]);
            kept.lock().history().is_some()
        };
        let nobody = Modelled::default();
        let [white, black] = [Color::White, Color::Black].map(Some);
        assert!(is_kept([nobody; 2]));
        for side in [white, black] {
            let values = Modelled {
                values: side,
                ..nobody
            };
            let priors = Modelled {
                priors: side,
                ..nobody
            };
            assert!(is_kept([values; 2]) && is_kept([priors; 2]));
            assert!(!is_kept([values, nobody]) && !is_kept([nobody, priors]));
            assert!(!is_kept([values, priors]));
        }
    }
}
