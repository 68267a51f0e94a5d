//! The task plan: numbered steps with a status each. Pure; the plan tools change it through events.

use serde::{Deserialize, Serialize};

/// Steps in order; the model counts them from 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub text: String,
    pub status: StepStatus,
}

// Where a step stands. No doc comment: it would be sent to the model with every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    Pending,
    InProgress,
    Done,
    Skipped,
}

impl Plan {
    /// A fresh plan, all steps pending.
    pub fn new(steps: Vec<String>) -> Self {
        Self {
            steps: steps
                .into_iter()
                .map(|text| Step {
                    text,
                    status: StepStatus::Pending,
                })
                .collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Steps that need no more work.
    pub fn done(&self) -> usize {
        self.steps
            .iter()
            .filter(|s| matches!(s.status, StepStatus::Done | StepStatus::Skipped))
            .count()
    }

    /// The step that is being worked on, else the first that waits; 1-based.
    pub fn current(&self) -> Option<(usize, &Step)> {
        let open = |status| self.steps.iter().position(move |s| s.status == status);
        let at = open(StepStatus::InProgress).or_else(|| open(StepStatus::Pending))?;
        Some((at + 1, &self.steps[at]))
    }

    /// The same plan with one step's status changed; `number` is 1-based.
    pub fn with_status(&self, number: usize, status: StepStatus) -> Result<Plan, String> {
        if number == 0 || number > self.steps.len() {
            return Err(format!(
                "there is no step {number}: the plan has steps 1 to {}",
                self.steps.len()
            ));
        }
        let mut plan = self.clone();
        plan.steps[number - 1].status = status;
        Ok(plan)
    }

    /// Markdown checklist, as models and people read it.
    pub fn checklist(&self) -> String {
        let line = |(i, step): (usize, &Step)| {
            let mark = match step.status {
                StepStatus::Pending => "[ ]",
                StepStatus::InProgress => "[~]",
                StepStatus::Done => "[x]",
                StepStatus::Skipped => "[-]",
            };
            format!("{}. {mark} {}", i + 1, step.text)
        };
        self.steps
            .iter()
            .enumerate()
            .map(line)
            .collect::<Vec<_>>()
            .join("\n")
    }
}
