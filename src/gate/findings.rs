//! What a judgement found: the strictest finding decides. Bounded: of each kind, the first ones are told and the others only count.

use crate::gate::bounds::REASONS_MAX;
use crate::gate::{Decision, Reason};

#[derive(Debug)]
pub struct Findings {
    /// Of everything since the last [`Findings::begin`].
    pub strictest: Decision,
    pub reasons: Vec<(Decision, Reason)>,
    /// *Always this session* may answer all of them.
    pub all_grantable: bool,
}

impl Default for Findings {
    fn default() -> Self {
        Self {
            strictest: Decision::Allow,
            reasons: Vec::new(),
            all_grantable: true,
        }
    }
}

impl Findings {
    pub fn add(
        &mut self,
        decision: Decision,
        rule: &str,
        text: String,
        fix: &str,
        is_grantable: bool,
    ) {
        self.again(decision);
        self.all_grantable &= is_grantable;
        let is_told = |(_, told): &(Decision, Reason)| told.rule == rule && told.text == text;
        if self.reasons.iter().any(is_told) {
            return;
        }
        let like_it = self
            .reasons
            .iter()
            .filter(|(other, _)| *other == decision)
            .count();
        if like_it < REASONS_MAX {
            let reason = Reason {
                rule: rule.to_owned(),
                text,
                fix: fix.to_owned(),
            };
            self.reasons.push((decision, reason));
        }
    }

    /// A finding that has been told before.
    pub fn again(&mut self, decision: Decision) {
        self.strictest = self.strictest.max(decision);
    }

    /// From here on, `strictest` is about a part of the call; what it was before is returned.
    #[must_use]
    pub fn begin(&mut self) -> Decision {
        std::mem::replace(&mut self.strictest, Decision::Allow)
    }

    /// What the part came to; it counts for the whole, too.
    pub fn end(&mut self, outer: Decision) -> Decision {
        let part = self.strictest;
        self.again(outer);
        part
    }

    /// The strictest first.
    pub fn sorted(mut self) -> Self {
        self.reasons
            .sort_by_key(|(decision, _)| std::cmp::Reverse(*decision));
        self
    }
}
