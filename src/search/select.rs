//! Selection: visits go from the root to leaves until the batch is full.
//!
//! At each node a visit either draws a reply from frozen counts (search-contempt) or takes the move with the largest
//! Q + U (PUCT). Visits in flight count in U's denominator only. A leaf that another visit has claimed is a
//! collision, which is undone after the batch; a proven node is backed up immediately.
//!
//! [`Descent::select_one`] is the plain algorithm for one visit, repeated ply by ply. In large trees, however, most
//! of a visit's time is memory latency, so the visits of a pass descend together: at a node that several visits reach
//! they choose one after the other, and those that take the same move continue as a group. They end where they would
//! end one by one (a test compares both), but a node is scored once for all of them, and the next group's memory is
//! prefetched while one group is processed: 1.66 times the visits per second of CPU time in a tree of a million nodes
//! with batches of 256.

use std::{hint::black_box, iter, ops::Range};

use rand::rngs::Xoshiro256PlusPlus;

use super::{
    backup,
    params::SearchParams,
    puct::{self, PlyRules, Ranking},
    search_contempt::{ChosenBy, Reply},
    state::SearchState,
    tree::{Tree, TreeFull, node::NodeId},
    visits::{PathStep, Visit, VisitState, Visits},
};

/// Where a visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DescentEnd {
    /// At a position that is not evaluated yet.
    Leaf,
    /// At a position that is evaluated but has no moves yet.
    Unexpanded,
    /// At a leaf that another visit has claimed.
    Collision,
    /// At a node whose value is used as it is: it is proven, or the memory limit forbids going deeper.
    Settled,
}

/// One step of a visit's path, and the node that it leads to.
#[derive(Clone, Copy)]
struct Link {
    /// The previous link of the path, [`START`] for the first.
    previous: u32,
    /// The child's id, valid during the pass.
    id: NodeId,
    step: PathStep,
}

/// The link before the first: the root.
const START: u32 = u32::MAX;

/// The slot that a visit takes, above its last link: one word, so that sorting is fast.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Choice(u64);

impl Choice {
    /// The choice of a visit that cannot continue; it sorts after all others.
    fn stay(head: u32) -> Choice {
        Choice(u64::from(u32::MAX) << 32 | u64::from(head))
    }

    fn go(slot: u8, link: usize) -> Choice {
        Choice(u64::from(slot) << 32 | link as u64)
    }

    fn slot(self) -> Option<u8> {
        u8::try_from(self.0 >> 32).ok()
    }

    fn head(self) -> u32 {
        self.0 as u32
    }
}

/// Maximum number of visits that descend together.
const MAX_DESCENT: usize = 256;

/// The same with search-contempt: collisions found by one descent save the next one useless draws.
const MAX_DESCENT_WITH_DRAWS: usize = 64;

/// The state that decides where visits go.
pub(super) struct Selection<'a> {
    pub state: &'a mut SearchState,
    pub params: &'a SearchParams,
    pub rng: &'a mut Xoshiro256PlusPlus,
}

/// Limits at which a gathered batch is complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchLimits {
    /// Leaves to select.
    pub leaves: usize,
    /// Maximum number of collisions in the batch.
    pub collisions: usize,
    /// Maximum number of visits of the batch that are backed up while it is gathered.
    pub out_of_order: usize,
}

/// The selection rules at the current ply of the visits.
struct SelectionAt<'a, 'b> {
    selection: &'a mut Selection<'b>,
    rules: PlyRules,
}

impl<'a, 'b> SelectionAt<'a, 'b> {
    /// The rules at the root.
    fn first(selection: &'a mut Selection<'b>) -> SelectionAt<'a, 'b> {
        let turn = selection.state.tree.root_turn;
        let params = selection.params;
        SelectionAt {
            rules: PlyRules {
                turn,
                prior_bonus: params.root_prior_bonus,
                avoids_losses: params.looks_ahead(),
            },
            selection,
        }
    }

    /// Moves on to the next ply.
    fn advance(&mut self) {
        let Selection { state, params, .. } = &*self.selection;
        let turn = self.rules.turn.other();
        // A modelled opponent ignores proofs: its counts are those of plain PUCT.
        let is_modelled = state
            .tree
            .rule
            .as_ref()
            .is_some_and(|rule| rule.side == turn);
        self.rules = PlyRules {
            turn,
            prior_bonus: SearchParams::prior_bonus_below(self.rules.prior_bonus),
            avoids_losses: params.avoids_losses() && !is_modelled,
        };
    }

    fn tree(&mut self) -> &mut Tree {
        &mut self.selection.state.tree
    }

    /// The action of search-contempt on a visit at this node.
    fn reply(&mut self, id: NodeId) -> Reply {
        let Selection { state, rng, .. } = &mut *self.selection;
        state.tree.reply(id, self.rules.turn, rng)
    }

    /// The slot that PUCT takes for one visit.
    fn best_move(&mut self, id: NodeId) -> Result<u8, TreeFull> {
        let Selection { state, params, .. } = &mut *self.selection;
        puct::best_move(state, params, id, self.rules)
    }

    /// The slot that PUCT takes for the next one of several visits.
    fn next_move(&mut self, ranking: &mut Ranking, id: NodeId) -> Result<u8, TreeFull> {
        let Selection { state, params, .. } = &mut *self.selection;
        ranking.take(state, params, id, self.rules)
    }
}

/// Visits at one node: neighbours in [`Descent::heads`].
struct Group {
    id: NodeId,
    visits: Range<usize>,
}

/// Descending visits, with the scratch memory that they need.
#[derive(Default)]
pub(super) struct Descent {
    links: Vec<Link>,
    /// The last link of each visit. Visits are in tree order, so neighbours share most of their paths.
    heads: Vec<u32>,
    /// Where each visit ended.
    ends: Vec<DescentEnd>,
    /// The groups of the next ply.
    next: Vec<Group>,
    spare: Vec<Group>,
    ranking: Ranking,
    is_at_memory_limit: bool,
    /// The last links of the paths to positions whose priors are to be refined.
    due: Vec<u32>,
    choices: Vec<Choice>,
    /// One path, from the root.
    path: Vec<NodeId>,
    steps: Vec<PathStep>,
}

impl Descent {
    /// Selects leaves into `visits`, whose paths then need [`Descent::unwind`], until the limits are reached, the
    /// visits that the search may still make are used up, or the tree is full.
    ///
    /// # Errors
    /// When the tree's arenas are full; what was selected before stays valid.
    pub fn select(
        &mut self,
        mut selection: Selection<'_>,
        visits: &mut Visits,
        limits: BatchLimits,
    ) -> Result<(), TreeFull> {
        let state = &mut *selection.state;
        state.tree.records.begin_gathering();
        // Queued leaves will need room as well.
        let leaves = limits.leaves + visits.waiting();
        state.tree.edges.reserve(&mut visits.writer, leaves)?;
        self.links.clear();
        let largest = match state.tree.rule {
            None => MAX_DESCENT,
            Some(_) => MAX_DESCENT_WITH_DRAWS,
        };
        let mut selected = 0;
        loop {
            let state = &*selection.state;
            let together = (limits.leaves - selected)
                .min(largest)
                .min(limits.collisions.saturating_sub(visits.collisions))
                .min(limits.out_of_order.saturating_sub(visits.out_of_order))
                .min(state.progress.visits_left(state.root().n) as usize);
            if together == 0 {
                return Ok(());
            }
            let result = self.descend(&mut selection, together);
            selected += self.conclude(&mut selection, visits);
            result?;
        }
    }

    /// Sends `visits` visits down from the root, marking them in flight, until each has ended.
    fn descend(&mut self, selection: &mut Selection<'_>, visits: usize) -> Result<(), TreeFull> {
        self.heads.clear();
        self.heads.resize(visits, START);
        self.ends.clear();
        self.ends.resize(visits, DescentEnd::Collision);
        self.is_at_memory_limit = selection.state.is_at_memory_limit;
        let params = selection.params;
        let tree = &mut selection.state.tree;
        tree.node_mut(tree.root).in_flight += visits as u32;
        let root = Group {
            id: tree.root,
            visits: 0..visits,
        };
        self.arrive(tree, params, root);
        let mut ply = SelectionAt::first(selection);
        let mut result = Ok(());
        while !self.next.is_empty() {
            let mut level = std::mem::replace(&mut self.next, std::mem::take(&mut self.spare));
            let tree = &*ply.tree();
            let fetched = level.iter().map(|group| tree.prefetch(group.id));
            black_box(fetched.fold(0, |sum, word| sum ^ word));
            for group in level.drain(..) {
                result = result.and(if group.visits.len() == 1 {
                    self.select_one(&mut ply, group)
                } else {
                    self.select_group(&mut ply, group)
                });
            }
            self.spare = level;
            ply.advance();
        }
        result
    }

    /// Ends the visits of a group at the node that they have reached, or schedules them for the next ply.
    fn arrive(&mut self, tree: &Tree, params: &SearchParams, mut group: Group) {
        let node = tree.node(group.id);
        let is_root = group.id == tree.root;
        let is_dead_end = self.is_at_memory_limit && node.n_children == 0 && node.n > 0;
        // A new node that has moves already is passed through (`AutoExtend`).
        if node.n == 0 && node.n_edges == 0 {
            // The first visit claims it: one of these, unless there were visits before.
            if node.in_flight as usize == group.visits.len() {
                self.ends[group.visits.start] = DescentEnd::Leaf;
            }
        } else if (node.is_proven() || is_dead_end) && !is_root {
            self.ends[group.visits].fill(DescentEnd::Settled);
        } else if node.n_edges == 0 {
            // Those that come first go on together once it has moves.
            if node.in_flight as usize == group.visits.len() {
                self.ends[group.visits].fill(DescentEnd::Unexpanded);
            }
        } else {
            if params.needs_refinement(node) {
                self.due.push(self.heads[group.visits.start]);
            }
            // Visits beyond the limit of this node are collisions.
            let max = params.max_in_flight(node.n);
            let excess = node.in_flight.saturating_sub(max) as usize;
            group.visits.end -= excess.min(group.visits.len());
            if !group.visits.is_empty() {
                self.next.push(group);
            }
        }
    }

    /// Advances the only visit at a node by one move. If it is blocked it stays where it is.
    fn select_one(&mut self, ply: &mut SelectionAt<'_, '_>, group: Group) -> Result<(), TreeFull> {
        let (slot, chosen) = match ply.reply(group.id) {
            Reply::Draw(slot) => (slot, ChosenBy::Draw),
            Reply::Search(chosen) => (ply.best_move(group.id)?, chosen),
            Reply::Blocked => return Ok(()),
        };
        let head = &mut self.heads[group.visits.start];
        let link = step_down(ply.tree(), group.id, slot, chosen, *head);
        *head = self.links.len() as u32;
        self.links.push(link);
        let id = link.id;
        let params = ply.selection.params;
        self.arrive(ply.tree(), params, Group { id, ..group });
        Ok(())
    }

    /// Advances each visit of a group by one move, one after the other, and groups those that took the same move.
    /// Blocked visits stay where they are.
    fn select_group(
        &mut self,
        ply: &mut SelectionAt<'_, '_>,
        group: Group,
    ) -> Result<(), TreeFull> {
        let id = group.id;
        self.choices.clear();
        self.ranking.clear();
        let mut result = Ok(());
        for index in group.visits.clone() {
            let head = self.heads[index];
            let choice = match ply.reply(id) {
                Reply::Draw(slot) => {
                    // The ranking does not see this visit.
                    self.ranking.clear();
                    Some((slot, ChosenBy::Draw))
                }
                Reply::Blocked => None,
                Reply::Search(chosen) => match ply.next_move(&mut self.ranking, id) {
                    Ok(slot) => Some((slot, chosen)),
                    Err(full) => {
                        result = Err(full);
                        None
                    }
                },
            };
            self.choices.push(match choice {
                None => Choice::stay(head),
                Some((slot, chosen)) => {
                    let link = step_down(ply.tree(), id, slot, chosen, head);
                    self.links.push(link);
                    Choice::go(slot, self.links.len() - 1)
                }
            });
        }
        let params = ply.selection.params;
        self.split(ply.tree(), params, group);
        result
    }

    /// Groups the visits that chose the same move. Those that stay come last and have ended.
    fn split(&mut self, tree: &Tree, params: &SearchParams, group: Group) {
        let mut choices = std::mem::take(&mut self.choices);
        choices.sort_unstable();
        let mut start = group.visits.start;
        for same in choices.chunk_by(|a, b| a.slot() == b.slot()) {
            let visits = start..start + same.len();
            start = visits.end;
            for (head, choice) in self.heads[visits.clone()].iter_mut().zip(same) {
                *head = choice.head();
            }
            if let Some(slot) = same[0].slot() {
                // Only now are ids valid: adding a child may have moved the others.
                let id = tree.child_id(tree.node(group.id), slot);
                for choice in same {
                    self.links[choice.head() as usize].id = id;
                }
                self.arrive(tree, params, Group { id, visits });
            }
        }
        self.choices = choices;
    }

    /// Adds the finished visits to `visits`, and backs up immediately those that ended at proven nodes. Returns the
    /// number of selected leaves.
    fn conclude(&mut self, selection: &mut Selection<'_>, visits: &mut Visits) -> usize {
        let (state, params) = (&mut *selection.state, selection.params);
        self.note_due(state);
        let mut selected = 0;
        for index in 0..self.heads.len() {
            let head = self.heads[index];
            let visit_state = match self.ends[index] {
                DescentEnd::Leaf => VisitState::Claimed,
                DescentEnd::Unexpanded => VisitState::Unexpanded,
                DescentEnd::Settled if params.options.out_of_order_eval() => {
                    self.trace(state.tree.root, head);
                    backup::revisit(state, params, &self.path, &self.steps);
                    visits.out_of_order += 1;
                    continue;
                }
                DescentEnd::Settled => VisitState::Settled,
                DescentEnd::Collision => {
                    self.note_collision(&mut state.tree, head);
                    visits.collisions += 1;
                    VisitState::Collision
                }
            };
            if !matches!(visit_state, VisitState::Collision) {
                state.progress.claimed += 1;
                selected += 1;
            }
            visits.list.push(Visit {
                head,
                steps: 0..0,
                state: visit_state,
            });
        }
        selected
    }

    /// Writes the steps of the visits that were just selected, from index `first` on. Needs no lock.
    pub fn unwind(&self, visits: &mut Visits, first: usize) {
        for visit in &mut visits.list[first..] {
            // The steps of a visit that went on are longer than what was selected.
            if !visit.has_gone_on() {
                visit.steps = self.write_steps(visit.head, &mut visits.steps);
            }
        }
    }

    /// Queues the marked positions for refinement of their priors.
    fn note_due(&mut self, state: &mut SearchState) {
        for head in std::mem::take(&mut self.due) {
            let link = self.links.get(head as usize);
            let id = link.map_or(state.tree.root, |link| link.id);
            state.tree.node_mut(id).set_refined(true);
            let mut path = Vec::new();
            self.write_steps(head, &mut path);
            state.due.push(path.into_boxed_slice());
        }
    }

    /// Marks the drawn replies on a collision's path as blocked for this gathering.
    fn note_collision(&self, tree: &mut Tree, head: u32) {
        for link in self
            .links_back(head)
            .filter(|link| link.step.chosen == ChosenBy::Draw)
        {
            let parent = self.links.get(link.previous as usize);
            let id = parent.map_or(tree.root, |parent| parent.id);
            tree.note_collision(id, link.step.slot);
        }
    }

    /// A visit's links from the last, `head`, back to the first.
    fn links_back(&self, head: u32) -> impl Iterator<Item = &Link> {
        let link = |at: u32| self.links.get(at as usize);
        iter::successors(link(head), move |last| link(last.previous))
    }

    /// Writes a visit's path from the root into `path` and `steps`.
    fn trace(&mut self, root: NodeId, head: u32) {
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        path.extend(self.links_back(head).map(|link| link.id));
        path.push(root);
        path.reverse();
        self.path = path;
        let mut steps = std::mem::take(&mut self.steps);
        steps.clear();
        self.write_steps(head, &mut steps);
        self.steps = steps;
    }

    /// Appends the steps of the visit whose last link is `head`, first step first.
    fn write_steps(&self, head: u32, steps: &mut Vec<PathStep>) -> Range<usize> {
        let start = steps.len();
        steps.extend(self.links_back(head).map(|link| link.step));
        steps[start..].reverse();
        start..steps.len()
    }
}

/// Marks a visit in flight at a child.
fn step_down(tree: &mut Tree, id: NodeId, slot: u8, chosen: ChosenBy, head: u32) -> Link {
    tree.count_reply(id, slot, chosen);
    let child_id = tree.child_id(tree.node(id), slot);
    let child = tree.node_mut(child_id);
    child.in_flight += 1;
    let (edge, is_claimed) = (child.edge, child.n == 0 && child.in_flight > 1);
    if chosen == ChosenBy::Draw && is_claimed {
        tree.note_collision(id, slot);
    }
    Link {
        previous: head,
        id: child_id,
        step: PathStep {
            slot,
            chosen,
            m: tree.edges(tree.node(id)).at(edge).m(),
        },
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::{
        options::Options,
        search::{
            leaf_priors::LeafPriors,
            leaf_values::LeafValues,
            puct::tests::searched,
            tree::node::{Bounds, Node, Origin},
        },
    };

    /// The result of visits sent down in groups of `together`: the visits in flight of each node, and the number of
    /// visits that ended in each way (in the order of [`DescentEnd`]).
    fn sent(nodes: u64, visits: usize, together: usize) -> (Vec<u32>, [usize; 5]) {
        let (mut state, params) = searched(nodes);
        state.progress = Default::default();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut ends = [0; 5];
        let mut descent = Descent::default();
        for _ in 0..visits / together {
            let mut selection = Selection {
                state: &mut state,
                params: &params,
                rng: &mut rng,
            };
            descent.links.clear();
            descent.descend(&mut selection, together).unwrap();
            for end in &descent.ends {
                ends[*end as usize] += 1;
            }
        }
        let mut in_flight = Vec::new();
        state
            .tree
            .for_each(|node, _| in_flight.push(node.in_flight));
        (in_flight, ends)
    }

    #[test]
    fn grouped_visits_end_where_single_ones_would() {
        for nodes in [2, 40, 3000] {
            let alone = sent(nodes, 256, 1);
            assert_eq!(alone.0[0], 256);
            assert_eq!(alone.1.iter().sum::<usize>(), 256);
            assert!(alone.1[0] > 1, "{:?}", alone.1);
            for together in [2, 32, 256] {
                assert_eq!(
                    sent(nodes, 256, together),
                    alone,
                    "{nodes} nodes, {together}"
                );
            }
        }
    }

    #[test]
    fn a_leaf_is_claimed_once_and_collisions_end_the_selection() {
        let mut state = SearchState {
            tree: Tree::new(Default::default(), None),
            ..SearchState::default()
        };
        let params = SearchParams::new(&Options::default().search(), 8, true);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut visits = Visits::new(
            state.tree.edges.take_writer(),
            LeafValues::default(),
            LeafPriors::default(),
        );
        let selection = Selection {
            state: &mut state,
            params: &params,
            rng: &mut rng,
        };
        let mut descent = Descent::default();
        let limits = BatchLimits {
            leaves: 8,
            collisions: 3,
            out_of_order: params.max_out_of_order(8),
        };
        descent.select(selection, &mut visits, limits).unwrap();
        descent.unwind(&mut visits, 0);
        let is_claimed = |visit: &&Visit| matches!(visit.state, VisitState::Claimed);
        assert_eq!(visits.list.iter().filter(is_claimed).count(), 1);
        assert_eq!((visits.list.len(), visits.collisions), (4, 3));
        assert!(visits.list.iter().all(|visit| visit.steps.is_empty()));
        assert_eq!((state.root().in_flight, state.progress.claimed), (4, 1));
    }

    #[test]
    fn a_visit_takes_the_move_with_the_largest_sum_of_value_and_exploration() {
        let child = |n, wl| Node {
            n,
            wl,
            ..Node::EMPTY
        };
        // (W-L and visits of two moves with priors of 0.1, the move to take); c * sqrt(N) is 1.745 * sqrt(visits).
        let cases = [
            ([(10, 0.5), (10, 0.4)], 0),
            ([(10, 0.4), (10, 0.5)], 1),
            // 0.5 + 0.174 * sqrt(101) / 101 = 0.517 against 0.45 + 0.174 * sqrt(101) / 2 = 1.327.
            ([(100, 0.5), (1, 0.45)], 1),
            // 0.9 + 0.174 * sqrt(30) / 11 = 0.987 against 0.5 + 0.174 * sqrt(30) / 21 = 0.545.
            ([(10, 0.9), (20, 0.5)], 0),
        ];
        for (children, expected) in cases {
            let children = children.map(|(n, wl)| child(n, wl));
            let mut state = SearchState::with_children(&children);
            let params = SearchParams::new(&Options::default().search(), 1, false);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
            let mut descent = Descent::default();
            let mut selection = Selection {
                state: &mut state,
                params: &params,
                rng: &mut rng,
            };
            // The children have no moves of their own, so the visit cannot continue.
            for child in 0..2 {
                let tree = &mut selection.state.tree;
                let id = tree.child_id(tree.node(tree.root), child);
                let proof = Bounds::exact(0);
                tree.node_mut(id).set_bounds(proof, Origin::Rules);
            }
            descent.descend(&mut selection, 1).unwrap();
            let tree = &state.tree;
            let taken = tree.children(state.root());
            let in_flight: Vec<u32> = taken.iter().map(|child| child.in_flight).collect();
            assert_eq!(in_flight[expected], 1, "{children:?}: {in_flight:?}");
            assert!(descent.ends == [DescentEnd::Settled]);
        }
    }
}
