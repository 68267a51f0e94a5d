//! What a rule means, in words: from the policy file for its rules and programs, and from its `[explanations]` for the rest.

use crate::gate::Decision;
use crate::gate::policy::{GatePolicy, built_in};
use crate::gate::programs::Stance;
use serde::Serialize;

/// A rule as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    pub rule: String,
    /// What it decides, where that is always the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// When it speaks.
    pub when: String,
    /// Why.
    pub reason: String,
    /// What would make the command allowed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fix: String,
    /// Commands that it is about, and commands that it is not about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub misses: Vec<String>,
}

impl GatePolicy {
    /// Everything that goes by this name. Empty for a name that no verdict carries.
    pub fn explain(&self, name: &str) -> Vec<Explanation> {
        let (examples, explanations) = (self.examples(), built_in().explanations);
        let mut found: Vec<Explanation> = self
            .rules
            .iter()
            .filter(|rule| rule.id == name)
            .map(|rule| rule.explanation())
            .collect();
        found.extend(self.specs().filter_map(|spec| {
            let decision = match spec.stance {
                Stance::Ask => Decision::Ask,
                Stance::Deny => Decision::Deny,
                Stance::Allow | Stance::Inner => return None,
            };
            let is_named = spec.name.replace(' ', "-") == name;
            is_named.then(|| Explanation {
                rule: name.to_owned(),
                decision: Some(decision),
                when: format!("the command is {}", spec.named()),
                reason: spec.reason.clone(),
                fix: spec.fix.clone(),
                matches: examples
                    .iter()
                    .filter(|(program, _, _)| *program == spec.name)
                    .map(|(_, _, command)| command.clone())
                    .collect(),
                misses: Vec::new(),
            })
        }));
        found.extend(explanations.get(name).map(|text| Explanation {
            rule: name.to_owned(),
            decision: None,
            when: text.when.clone(),
            reason: text.reason.clone(),
            fix: text.fix.clone(),
            matches: Vec::new(),
            misses: Vec::new(),
        }));
        found
    }

    /// The names that [`GatePolicy::explain`] knows, in order.
    pub fn rule_names(&self) -> Vec<String> {
        let specs = self
            .specs()
            .filter(|spec| matches!(spec.stance, Stance::Ask | Stance::Deny))
            .map(|spec| spec.name.replace(' ', "-"));
        let mut names: Vec<String> = self.rules.iter().map(|rule| rule.id.clone()).collect();
        names.extend(specs);
        names.extend(built_in().explanations.into_keys());
        names.sort();
        names.dedup();
        names
    }
}
