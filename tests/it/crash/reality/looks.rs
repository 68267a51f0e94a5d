//! What can be found out about a history's world: the facts for the gate, and what a probe finds after a death.

use super::Reality;
use journeyman::agent::event::{
    Call, CallId, Event, Expectation, ExpectedFile, ExpectedMark, Probe,
};
use journeyman::agent::step::Look;
use journeyman::gate::{
    self, Answerer, Destination, Facts, GatePolicy, PathFact, Place, ProgramFact, Project,
    PushPlan, Touch,
};
use journeyman::world::projects;
use serde_json::Value;
use std::path::Path;

/// What the branch is at, by how many commits were made.
pub(super) const COMMITS: [&str; 4] = [
    "1111111111111111111111111111111111111111",
    "2222222222222222222222222222222222222222",
    "3333333333333333333333333333333333333333",
    "4444444444444444444444444444444444444444",
];

impl Reality {
    pub(super) fn look(&self, look: Look, policy: &GatePolicy, journals: &Path) -> Event {
        let known = |name: &String| {
            let folder = journals.with_file_name(name);
            Destination::Known(Box::new(projects::reference(&folder)))
        };
        match look {
            Look::Examine { call, touches, .. } => {
                let facts = Facts {
                    workspace: gate::wants(policy, &touches).workspace.as_ref().map(known),
                    ..self.facts(policy, &touches)
                };
                Event::CallExamined {
                    expect: self.expectation(&call, &facts),
                    facts,
                    call: call.id,
                }
            }
            Look::Graph { graph, tasks, .. } => Event::GraphExamined {
                graph,
                facts: tasks
                    .into_iter()
                    .map(|(task, touches)| (task, self.facts(policy, &touches)))
                    .collect(),
            },
            Look::Outputs { .. } => unreachable!("no output of a script is long"),
            Look::Probe { call, expect } => Event::CallProbed {
                probe: self.probe(&call, expect.as_ref()),
                call,
            },
            Look::Tree { call } => Event::TreeSeen { call, tree: None },
            Look::Brief { known, .. } => Event::BriefSeen {
                brief: known,
                text: String::new(),
            },
            Look::Mcp { .. } => unreachable!("there are no MCP servers in a script"),
            Look::Workspaces { message, name } => Event::WorkspacesSeen {
                message,
                names: vec!["other".into(), "shop".into()],
                wanted: name.as_ref().map(known),
            },
            Look::Chain { .. } => unreachable!("nobody asks for /audit in a script"),
            Look::Spend { month, .. } => Event::SpendSeen {
                month,
                elsewhere: Some(Default::default()),
            },
        }
    }

    /// The digest of a file is the file.
    fn expectation(&self, call: &Call, facts: &Facts) -> Option<Expectation> {
        let arguments = call.json().ok()?;
        let names = match call.tool.as_str() {
            "apply_patch" => patched(&arguments),
            "write_file" => vec![arguments["path"].as_str()?.to_owned()],
            _ => return self.expected_else(call, facts),
        };
        let truth = self.truth();
        let file = |path: String| ExpectedFile {
            before: truth.files.get(&path).cloned(),
            after: Some("new".into()),
            path,
        };
        let files = names.into_iter().map(file).collect();
        Some(Expectation {
            files,
            ..Expectation::default()
        })
    }

    /// Of what leaves no file behind.
    fn expected_else(&self, call: &Call, facts: &Facts) -> Option<Expectation> {
        let mut expect = Expectation::default();
        match call.tool.as_str() {
            "git_commit" => expect.commit = true,
            "git_push" | "git_create_pr" => {
                let Some(Destination::Known(plan)) = &facts.push else {
                    return None;
                };
                expect.push = Some(plan.clone());
                expect.mark = (call.tool == "git_create_pr").then(|| {
                    Box::new(ExpectedMark {
                        project: project(),
                        text: call.id.0.clone(),
                        pull: None,
                        also: Vec::new(),
                    })
                });
            }
            "run_command" if self.script.kept => expect.spool = Some(self.truth().boot.to_string()),
            _ => return None,
        }
        Some(expect)
    }

    fn probe(&self, call: &CallId, expect: Option<&Expectation>) -> Probe {
        let Some(expect) = expect else {
            return unclear();
        };
        let truth = self.truth();
        if expect.commit {
            return found(truth.commits.contains(call));
        }
        if expect.mark.is_some() {
            return found(truth.pulls.contains(call));
        }
        if let Some(plan) = &expect.push {
            return found(truth.remote.as_ref() == Some(&plan.commit));
        }
        if let Some(boot) = &expect.spool {
            return match truth.kept.get(call) {
                Some(_) => Probe::Kept,
                None if *boot == truth.boot.to_string() => Probe::DidNotHappen,
                None => unclear(),
            };
        }
        let mut files = expect.files.iter();
        if files
            .clone()
            .all(|f| truth.files.get(&f.path) == f.after.as_ref())
        {
            return found(true);
        }
        match files.all(|f| truth.files.get(&f.path) == f.before.as_ref()) {
            true => Probe::DidNotHappen,
            false => unclear(),
        }
    }
}

fn unclear() -> Probe {
    Probe::Unclear {
        why: "nobody can tell".into(),
    }
}

fn found(is_there: bool) -> Probe {
    match is_there {
        true => Probe::Happened {
            output: "Found in place.".into(),
        },
        false => Probe::DidNotHappen,
    }
}

pub(super) fn patched(arguments: &Value) -> Vec<String> {
    let edits = arguments["edits"].as_array().into_iter().flatten();
    edits
        .filter_map(|edit| Some(edit["path"].as_str()?.to_owned()))
        .collect()
}

impl Reality {
    /// Every path is in the workspace, every program is the system's, and a push goes to the one remote that there is.
    fn facts(&self, policy: &GatePolicy, touches: &[Touch]) -> Facts {
        let wants = gate::wants(policy, touches);
        let path = |written: String| {
            let fact = PathFact {
                resolved: format!("/w/shop/{written}"),
                place: Place::Workspace,
                exists: true,
            };
            (written, fact)
        };
        let program = |name: String| {
            let path = format!("/usr/bin/{name}");
            (name, ProgramFact::System { path })
        };
        Facts {
            paths: wants.paths.into_iter().map(path).collect(),
            programs: wants.programs.into_iter().map(program).collect(),
            push: wants
                .push
                .map(|_| Destination::Known(Box::new(self.plan()))),
            github: wants
                .github
                .then(|| Destination::Known(Box::new(project()))),
            answerer: wants.sources.map(|_| {
                Destination::Known(Box::new(Answerer {
                    agent: "journeyman".into(),
                    argv: Vec::new(),
                }))
            }),
            ..Facts::default()
        }
    }

    fn plan(&self) -> PushPlan {
        PushPlan {
            remote: "origin".into(),
            url: "https://forge.test/ana/shop.git".into(),
            branch: "topic".into(),
            commit: COMMITS[self.truth().commits.len()].to_owned(),
            overwrites: None,
        }
    }
}

fn project() -> Project {
    Project {
        api: "https://forge.test/api/v3".into(),
        owner: "ana".into(),
        name: "shop".into(),
    }
}
