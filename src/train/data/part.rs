//! Which of a sparse network's two networks are trained.

use crate::train::targets::Targets;

/// The networks to train. Policy and value of a sparse network are separate networks, so one of them can stay
/// unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum NetworkPart {
    /// Policy and value.
    #[default]
    Both,
    /// The policy alone.
    Policy,
    /// The value alone.
    Value,
}

impl Targets {
    /// The targets of these networks.
    pub(super) fn only(mut self, trained_part: NetworkPart) -> Targets {
        match trained_part {
            NetworkPart::Both => {}
            NetworkPart::Policy => self.value = None,
            NetworkPart::Value => self.policy.clear(),
        }
        self
    }
}
