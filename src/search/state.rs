//! A tree with the state of one search: its progress, and the root moves that it may play. With several threads this
//! is the data behind the lock.

use shakmaty::Position;

use super::{
    bounds,
    job::{Job, StopSignal, stream},
    look_ahead,
    progress::Progress,
    root_moves::RootMoves,
    search_contempt::Rule,
    tree::{
        SlotsByEdge, Tree,
        edges::EdgeRange,
        node::{Node, NodeId, Origin},
        reroot::{CopyRule, reroot, reroot_in_analysis},
    },
    visits::RefinementPath,
    wdl_contempt::WdlContempt,
};
use crate::{
    chess::{PackedMove, moves::legal_moves},
    syzygy::TableMove,
};

/// The tree as one search sees it.
#[derive(Default)]
pub(super) struct SearchState {
    pub tree: Tree,
    /// What this search has done so far.
    pub progress: Progress,
    /// The root's moves; empty before the root is expanded.
    pub root_moves: RootMoves,
    /// The tablebase results of the root's moves; empty if the tablebases do not cover them.
    pub table_moves: Vec<TableMove>,
    /// Edges of root moves that an analysis searches, and that are not played: they give away the tablebase result.
    pub given_away: Vec<u8>,
    /// Positions whose priors are to be refined, and that are marked so.
    pub due: Vec<RefinementPath>,
    /// Whether the tree has reached its memory limit: visits continue, but only to positions that are in the tree.
    pub is_at_memory_limit: bool,
    /// Whether more than one winning move is wanted, so that visits to a root move that is a proven win are wasted.
    pub looks_beside_wins: bool,
}

impl SearchState {
    /// Brings the tree to the job's position: re-rooted if the job's game continues the one it was built for, otherwise
    /// new. `stop` ends the copying of a large tree.
    pub fn new(mut tree: Tree, job: &Job, stop: &StopSignal) -> SearchState {
        let rule = Rule::new(&job.options, job.contempt_side);
        let contempt = WdlContempt::new(job);
        if !is_same_contempt(tree.contempt.as_ref(), contempt.as_ref()) {
            std::mem::take(&mut tree).free();
        }
        if job.options.analyse_mode() {
            // The search may use all memory: when it is short, these trees are freed, the oldest first.
            let room = job.limits.tree_bytes.map_or(usize::MAX, |bytes| bytes / 2);
            let copy_rule = CopyRule::in_analysis(&job.limits, stop);
            let (history, root_moves) = (&job.history, &job.root_moves);
            reroot_in_analysis(&mut tree, history, rule, root_moves, room, copy_rule)
        } else {
            let copy_rule = CopyRule::new(&job.limits, stop);
            reroot(&mut tree, &job.history, rule, &job.root_moves, copy_rule)
        };
        tree.contempt = contempt;
        tree.butterfly = (job.options.butterfly_history() > 0.0)
            .then(|| tree.butterfly.take().unwrap_or_default());
        if let Some(butterfly) = &tree.butterfly {
            butterfly.fade();
        }
        let room = job.limits.tree_bytes.map_or(usize::MAX, |bytes| bytes / 4);
        tree.shared_values.limit(room);
        let mut state = SearchState {
            tree,
            progress: Progress::new(&job.limits),
            root_moves: RootMoves::default(),
            table_moves: Vec::new(),
            given_away: Vec::new(),
            due: Vec::new(),
            is_at_memory_limit: false,
            looks_beside_wins: job.wanted_wins() > 1,
        };
        state.choose_root_moves(job);
        state
    }

    /// The tablebase result of a root move (1, 0 or -1 for the mover), with the minimum number of plies to it.
    pub fn table_result(&self, m: PackedMove) -> Option<(i8, u32)> {
        let known = self.table_moves.iter().find(|known| known.m == m)?;
        known
            .result
            .map(|result| (result, known.distance.unsigned_abs()))
    }

    /// The root.
    pub fn root(&self) -> &Node {
        self.tree.node(self.tree.root)
    }

    /// Whether the root has its moves.
    pub fn is_root_expanded(&self) -> bool {
        self.root().n_edges > 0
    }

    /// Whether the moves that may be played have been chosen.
    pub fn has_root_moves(&self) -> bool {
        self.root_moves.len() > 0
    }

    /// Once the root is expanded: chooses the moves to search and adds noise to their priors.
    pub fn choose_root_moves(&mut self, job: &Job) {
        if !self.is_root_expanded() || self.has_root_moves() {
            return;
        }
        let table_moves = job.table_moves();
        let edges = self.tree.edges(self.root());
        let is_legal = |m: &PackedMove| edges.iter().any(|edge| edge.m() == *m);
        // If none of the requested moves is legal, all moves are searched.
        let requested = if job.root_moves.iter().any(is_legal) {
            &job.root_moves[..]
        } else {
            &[]
        };
        let best = job.best_root_moves(requested, &table_moves);
        let allowed = if job.is_analysis() { requested } else { &best };
        let mut rng = job.rng(stream::NOISE);
        let root_moves = RootMoves::new(&self.tree, allowed, &job.options, &mut rng);
        let is_worse = |edge: &u8| !best.is_empty() && !best.contains(&edges.at(*edge).m());
        let chosen = root_moves.allowed().map(|(edge, _)| edge);
        self.given_away = chosen.filter(is_worse).collect();
        self.root_moves = root_moves;
        self.table_moves = table_moves;
        if job.options.certainty_prop() > 0 {
            self.prove_mates_at_root(job);
        }
    }

    /// Replaces the priors of a node by refined ones.
    pub fn refine(&mut self, id: NodeId, edges: EdgeRange) {
        let tree = &mut self.tree;
        if id != tree.root {
            return tree.refine(id, edges);
        }
        let priors = |tree: &Tree| -> Vec<f32> {
            let edges = tree.edges(tree.node(id));
            edges.iter().map(|edge| edge.p()).collect()
        };
        let before = priors(tree);
        tree.refine(id, edges);
        let after = priors(tree);
        let change = |edge: u8| after[usize::from(edge)] - before[usize::from(edge)];
        self.root_moves.add_to_priors(change);
    }

    /// The tree, for the next search. Positions that still wait for refinement are unmarked.
    pub fn into_tree(self) -> Tree {
        let mut tree = self.tree;
        for path in self.due {
            let id = tree.follow(path.iter().map(|step| step.slot));
            tree.node_mut(id).set_refined(false);
        }
        tree
    }

    /// Proves root moves that mate. Look-ahead does not do that: the root itself is not a leaf.
    pub fn prove_mates_at_root(&mut self, job: &Job) {
        let tree = &self.tree;
        let mates: Vec<u8> = self
            .root_moves
            .allowed()
            .map(|(edge, _)| edge)
            .filter(|&edge| {
                let m = tree.edges(tree.node(tree.root)).at(edge).m();
                look_ahead::mates(job.history.position(), m)
            })
            .collect();
        for edge in mates {
            // If there is no room for it, the search ends anyway.
            if !self.prove_root_move(edge, 1, 0.0, Origin::Rules) {
                return;
            }
        }
    }

    /// Sets a certain result of a root move, `m` plies from its end. Returns `false` if there is no room for its
    /// child.
    fn prove_root_move(&mut self, edge: u8, result: i8, m: f32, origin: Origin) -> bool {
        let tree = &mut self.tree;
        let slot = tree.slot_of_edge(tree.node(tree.root), edge);
        let Some(slot) = slot.or_else(|| tree.add_child(tree.root, edge).ok()) else {
            return false;
        };
        let child = tree.child_id(tree.node(tree.root), slot);
        bounds::prove(tree.node_mut(child), result, m, origin);
        let _ = bounds::update(tree, tree.root);
        true
    }

    /// Marks a root move as drawn if the rules draw the game after it, or as lost if the opponent mates after it.
    /// Returns whether something new was proven. Visits may not have reached the reply: with search-contempt an
    /// opponent that is expected to overlook it rarely gets there.
    pub fn prove_end_after(&mut self, edge: u8, job: &Job) -> bool {
        if self.root_child(edge).is_some_and(Node::is_proven) {
            return false;
        }
        let m = self.tree.edges(self.root()).at(edge).m();
        if look_ahead::draws(&job.history, m) {
            return self.prove_root_move(edge, 0, 0.0, Origin::Rules);
        }
        let mut after = job.history.position().clone();
        after.play_unchecked(m.unpack(&after));
        let is_mate = legal_moves(&after).any(|m| look_ahead::mates(&after, m));
        is_mate && self.prove_root_move(edge, -1, 1.0, Origin::Children)
    }

    /// Marks the first unvisited root move after which the rules draw the game as drawn, and returns its edge. Moves
    /// that give away the result of the tablebases are left out.
    pub fn prove_unvisited_draw(&mut self, job: &Job) -> Option<u8> {
        let is_unvisited = |edge: &u8| self.root_child(*edge).is_none_or(|child| child.n == 0);
        let edges = self.tree.edges(self.root());
        let found = self
            .root_moves
            .allowed()
            .map(|(edge, _)| edge)
            .filter(|edge| !self.given_away.contains(edge) && is_unvisited(edge))
            .find(|&edge| look_ahead::draws(&job.history, edges.at(edge).m()))?;
        self.prove_root_move(found, 0, 0.0, Origin::Rules)
            .then_some(found)
    }

    /// The node that an edge of the root leads to, if it was added to the tree.
    pub fn root_child(&self, edge: u8) -> Option<&Node> {
        let slot = self.tree.slot_of_edge(self.root(), edge)?;
        self.tree.children(self.root()).get(usize::from(slot))
    }

    /// The root's children that may be played.
    pub fn allowed_children(&self) -> impl Iterator<Item = &Node> {
        let root = self.root();
        let (slots, children) = (self.tree.slots_by_edge(root), self.tree.children(root));
        self.root_moves
            .allowed()
            .filter_map(move |(edge, _)| Some(&children[usize::from(slots.get(edge)?)]))
    }

    /// The allowed children that may become the best move: without proven losses and those that give away the
    /// tablebase result.
    pub fn contenders(&self) -> impl Iterator<Item = &Node> {
        let is_given_away = |child: &Node| self.given_away.contains(&child.edge);
        self.allowed_children()
            .filter(move |child| !child.is_lost() && !is_given_away(child))
    }

    /// The contender with the most visits.
    pub fn leader(&self) -> Option<&Node> {
        self.contenders().max_by_key(|child| child.n)
    }

    /// Whether more visits change nothing: the root is proven, and no other moves are wanted.
    pub fn is_solved(&self) -> bool {
        self.root().is_proven() && !self.passes_over_wins()
    }

    /// Whether visits pass over root moves that are proven wins: other moves are wanted, too, and some are open.
    pub fn passes_over_wins(&self) -> bool {
        self.looks_beside_wins
            && self.root_moves.allowed().any(|(edge, _)| {
                let child = self.root_child(edge);
                child.is_none_or(|child| !child.is_proven())
            })
    }

    /// Whether a contender with at least so many visits has a better value than `leader`.
    pub fn has_better_value(&self, leader: &Node, visits: u32, draw_score: f32) -> bool {
        let q = leader.q(draw_score);
        let mut known = self.contenders().filter(|child| child.n >= visits);
        known.any(|child| child.q(draw_score) > q)
    }

    /// Prior mass of the root moves that have been visited.
    pub fn visited_root_mass(&self) -> f32 {
        self.visits_at_root(&self.tree.slots_by_edge(self.root())).0
    }

    /// The visited prior mass, and the most visits of a contender that visits do not pass over.
    pub fn visits_at_root(&self, slots: &SlotsByEdge) -> (f32, u32) {
        let children = self.tree.children(self.root());
        let passes_over_wins = self.passes_over_wins();
        let (mut mass, mut most) = (0.0, 0);
        for (edge, p) in self.root_moves.allowed() {
            let Some(slot) = slots.get(edge) else {
                continue;
            };
            let child = &children[usize::from(slot)];
            if child.n > 0 {
                mass += p;
            }
            let is_out = child.is_lost() || self.given_away.contains(&edge);
            if !(is_out || passes_over_wins && child.is_won()) {
                most = child.n.max(most);
            }
        }
        (mass, most)
    }
}

/// Whether two contempts give the same values in a tree.
fn is_same_contempt(one: Option<&WdlContempt>, other: Option<&WdlContempt>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.equals_except_root(other),
        _ => false,
    }
}

#[cfg(test)]
impl SearchState {
    /// A start position whose first moves lead to these nodes (see [`Tree::with_children`]); all moves are allowed.
    pub fn with_children(children: &[Node]) -> SearchState {
        let mut state = SearchState {
            tree: Tree::with_children(children),
            ..SearchState::default()
        };
        state.allow(&[]);
        state
    }

    /// Allows only these of the root's moves, or all.
    pub fn allow(&mut self, edges: &[u8]) {
        use rand::SeedableRng;

        use crate::options::SearchOptions;

        let root = self.tree.edges(self.root());
        let allowed: Vec<PackedMove> = edges.iter().map(|&edge| root.at(edge).m()).collect();
        let mut rng = rand::rngs::Xoshiro256PlusPlus::seed_from_u64(1);
        self.root_moves = RootMoves::new(&self.tree, &allowed, &SearchOptions::default(), &mut rng);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chess::History,
        options::Options,
        search::{Limits, puct::tests::searched, tree::node::Bounds},
    };

    #[test]
    fn a_mate_solves_a_search_unless_other_moves_are_wanted_and_open() {
        let bounded = |bounds| {
            let mut node = Node {
                n: 5,
                ..Node::EMPTY
            };
            node.set_bounds(bounds, Origin::Children);
            node
        };
        let (won, open) = (bounded(Bounds::exact(1)), bounded(Bounds::OPEN));
        for (children, allowed, expected) in [
            ([won, open], &[][..], [true, false]),
            ([won, bounded(Bounds::exact(-1))], &[], [true, true]),
            ([won, open], &[0], [true, true]),
        ] {
            let mut state = SearchState::with_children(&children);
            let root = state.tree.root;
            let _ = bounds::update(&mut state.tree, root);
            state.allow(allowed);
            let is_solved = [false, true].map(|looks_beside_wins| {
                state.looks_beside_wins = looks_beside_wins;
                state.is_solved()
            });
            assert_eq!(is_solved, expected, "{allowed:?}");
        }
    }

    #[test]
    fn butterfly_history_stays_with_the_game_and_fades() {
        let options = Options {
            butterfly_history: 8.0,
            ..Options::default()
        };
        let mut game = History::default();
        let never = StopSignal::default();
        let job = |game: &History| Job::new(game.clone(), Limits::default(), options.search());
        let moves: Vec<PackedMove> = legal_moves(game.position()).collect();
        let turn = game.position().turn();
        let tree = searched(100).0.tree;
        assert!(tree.butterfly.is_none());
        let tree = SearchState::new(tree, &job(&game), &never).tree;
        tree.butterfly.as_ref().unwrap().record(turn, moves[0], 0.5);
        let mean = |tree: &Tree| tree.butterfly.as_ref().unwrap().of(turn, moves[0]);
        let recorded = mean(&tree);
        assert!(recorded > 0.0);
        let tree = SearchState::new(tree, &job(&game), &never).tree;
        assert_eq!(mean(&tree), recorded / 2.0);
        // Another game.
        game.push(moves[1]);
        let reply = legal_moves(game.position()).next().unwrap();
        game.push(reply);
        let tree = SearchState::new(tree, &job(&game), &never).tree;
        assert_eq!(mean(&tree), 0.0);
    }
}
