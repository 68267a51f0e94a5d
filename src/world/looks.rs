//! Answers to looks: what a decision must know of the outside, found out without consequences.

use super::{World, abroad, resolve};
use crate::agent::brief::{self, Brief};
use crate::agent::event::{
    Call, CallId, Event, Expectation, Opening, Outcome, Probe, WorkspaceRef,
};
use crate::agent::mcp::Offer;
use crate::agent::step::Look;
use crate::gate::{self, Facts, GatePolicy, Touch, Wants};
use crate::tools::{self, Action, Reach};
use crate::world::outputs::Outputs;
use crate::world::projects::Projects;
use crate::world::remote::Remote;
use crate::world::trust::Glance;
use crate::world::workspace::Workspace;
use crate::world::{clock, journal, open_workspace, probe};
use std::collections::BTreeMap;
use std::path::Path;
use tokio_util::sync::CancellationToken;

impl World {
    pub(super) async fn find_out(
        &self,
        look: Look,
        policy: &GatePolicy,
        workspace: &Result<Workspace, String>,
        journal: &Path,
    ) -> Event {
        let session = journal.file_stem().unwrap_or_default().to_string_lossy();
        match (look, workspace) {
            (Look::Chain { message }, _) => verify(message, journal),
            (
                Look::Examine {
                    call,
                    touches,
                    opening,
                },
                Ok(workspace),
            ) => {
                let wants = gate::wants(policy, &touches);
                let examined = self.examine(call, &touches, &wants, &session, workspace);
                self.with_schedule(examined.await, &wants, &opening)
            }
            (
                Look::Graph {
                    graph,
                    tasks,
                    opening,
                },
                Ok(workspace),
            ) => {
                let mut facts = BTreeMap::new();
                for (task, touches) in tasks {
                    let wants = gate::wants(policy, &touches);
                    let found = self.facts(&CallId("0".into()), &wants, workspace).await;
                    facts.insert(task, self.schedule_in(found, &wants, &opening));
                }
                Event::GraphExamined { graph, facts }
            }
            (Look::Graph { graph, .. }, Err(_)) => Event::GraphExamined {
                graph,
                facts: BTreeMap::new(),
            },
            (Look::Outputs { graph, outputs }, _) => {
                let kept = Outputs::of(&self.data_dir, &session);
                let whole = |(task, call, printed)| (task, kept.whole(&call, printed));
                let outputs = outputs.into_iter().map(whole).collect();
                Event::WholesSeen { graph, outputs }
            }
            (Look::Probe { call, expect }, Ok(workspace)) => {
                self.probe(call, expect, &session, workspace).await
            }
            (Look::Tree { call }, Ok(workspace)) => {
                let tree = self.tree(&session, workspace).await;
                Event::TreeSeen { call, tree }
            }
            (Look::Mcp { known }, Ok(workspace)) => self.servers(&known, workspace).await,
            (
                Look::Brief {
                    known,
                    touched,
                    agent,
                },
                Ok(workspace),
            ) => {
                let (known, touched, agent) = (&known, &touched[..], agent.as_str());
                self.brief(
                    Glance {
                        known,
                        touched,
                        agent,
                    },
                    workspace,
                )
            }
            (Look::Spend { month, session }, _) => self.spend(month, &session),
            (Look::Workspaces { message, name }, _) => self.workspaces(message, name),
            // Out of a workspace that is gone.
            (Look::Examine { call, touches, .. }, Err(_))
                if matches!(touches[..], [Touch::Workspace(_)]) =>
            {
                let mut facts = Facts::default();
                self.look_around(&gate::wants(policy, &touches), &mut facts);
                Event::CallExamined {
                    call: call.id,
                    facts,
                    expect: None,
                }
            }
            // Where the workspace cannot be opened, a call fails, a doubt stays one, and nothing is known of its state.
            (Look::Examine { call, .. }, Err(why)) => Event::ToolFinished {
                call: call.id,
                outcome: Outcome::failed(why),
            },
            (Look::Probe { call, .. }, Err(why)) => Event::CallProbed {
                call,
                probe: Probe::Unclear { why: why.clone() },
            },
            (Look::Mcp { .. }, Err(_)) => Event::McpSeen { offer: None },
            (Look::Tree { call }, Err(_)) => Event::TreeSeen { call, tree: None },
            (Look::Brief { known, .. }, Err(_)) => Event::BriefSeen {
                brief: known,
                text: String::new(),
            },
        }
    }

    /// What the gate must know of a call, and what a probe could look for after a crash.
    async fn examine(
        &self,
        call: Call,
        touches: &[Touch],
        wants: &Wants,
        session: &str,
        workspace: &Workspace,
    ) -> Event {
        let facts = self.facts(&call.id, wants, workspace).await;
        let outside = abroad::expectation(session, &call, touches, &facts);
        let writes = |touch: &Touch| matches!(touch, Touch::Write(_));
        let inside = match touches.iter().any(writes) {
            // A patch over large files takes its time: messages are taken meanwhile.
            true => {
                let (asked, place) = (call.clone(), workspace.clone());
                let inside = tokio::task::spawn_blocking(move || expectation(&asked, &place));
                inside.await.unwrap_or_default()
            }
            false => expectation(&call, workspace),
        };
        let expect = inside.or(outside);
        let is_spooled = expect.as_ref().is_some_and(|one| one.spool.is_some());
        if is_spooled && let Err(error) = Outputs::of(&self.data_dir, session).make() {
            let outcome = Outcome::failed(format!(
                "Not run: its output cannot be kept in {}: {error}",
                self.data_dir.display()
            ));
            return Event::ToolFinished {
                call: call.id,
                outcome,
            };
        }
        Event::CallExamined {
            expect,
            call: call.id,
            facts,
        }
    }

    /// What the gate must know of something that touches this.
    async fn facts(&self, call: &CallId, wants: &Wants, workspace: &Workspace) -> Facts {
        // Where the kernel sees to it that they are only read.
        let mut linked = match self.sandbox.has_landlock() {
            true => workspace.links().to_vec(),
            false => Vec::new(),
        };
        linked.extend(workspace.source_paths());
        let mut facts = resolve::facts(wants, workspace.root(), &linked, &self.surroundings);
        let processes = self.processes(workspace, CancellationToken::new());
        let remote = self.remote(&processes, call, workspace);
        abroad::look_up(&remote, wants, &mut facts).await;
        self.look_around(wants, &mut facts);
        facts
    }

    /// The same, with what a change of schedules would come to.
    fn with_schedule(&self, examined: Event, wants: &Wants, opening: &Opening) -> Event {
        match examined {
            Event::CallExamined {
                call,
                facts,
                expect,
            } => Event::CallExamined {
                call,
                facts: self.schedule_in(facts, wants, opening),
                expect,
            },
            examined => examined,
        }
    }

    fn schedule_in(&self, facts: Facts, wants: &Wants, opening: &Opening) -> Facts {
        let Some(wish) = &wants.schedule else {
            return facts;
        };
        let schedule = self.desk.fact(&self.store, wish, opening, clock::now());
        Facts {
            schedule: Some(schedule),
            ..facts
        }
    }

    /// What became of a call that a dead process left.
    async fn probe(
        &self,
        call: CallId,
        expect: Option<Expectation>,
        session: &str,
        workspace: &Workspace,
    ) -> Event {
        let reach = Reach {
            session: session.to_owned(),
            workspace: workspace.clone(),
            processes: self.processes(workspace, CancellationToken::new()),
            outputs: Outputs::of(&self.data_dir, session),
            hosting: self.hosting.clone(),
            trust: self.trust.clone(),
            own: self.surroundings.own.as_slice().into(),
            projects: self.projects.clone(),
            expect,
            agent: None, // a probe loads nothing
            outline: self.outline,
            mcp: None,
            helpers: None,
            asks: None,
        };
        let probe = probe::probe(&call, &reach).await;
        Event::CallProbed { call, probe }
    }

    /// The workspace's own files for a session that begins, and what its prompt says of them.
    pub fn first_brief(&self, workspace: &WorkspaceRef) -> (Brief, String) {
        let Ok(workspace) = open_workspace(Path::new(&workspace.path)) else {
            return Default::default();
        };
        let (brief, found) = self.trust.first_brief(&workspace);
        (brief, brief::section(&found, brief::OURSELVES))
    }

    fn brief(&self, glance: Glance<'_>, workspace: &Workspace) -> Event {
        let (brief, found) = self.trust.brief(workspace, glance);
        let text = brief::news(glance.known, &brief, &found, glance.agent);
        Event::BriefSeen { brief, text }
    }

    /// Whether MCP servers are there, or may be, for a session that begins.
    pub fn has_servers(&self, workspace: &WorkspaceRef) -> bool {
        let opened = open_workspace(Path::new(&workspace.path));
        opened.is_ok_and(|workspace| self.mcp.may_be_here(&workspace))
    }

    async fn servers(&self, known: &Offer, workspace: &Workspace) -> Event {
        let offer = self.mcp.offer(workspace).await;
        Event::McpSeen {
            offer: (offer != *known).then(|| Box::new(offer)),
        }
    }

    /// What other sessions spent this month.
    fn spend(&self, month: String, session: &str) -> Event {
        let spent = self.store.spent_elsewhere(&month, session);
        if let Err(error) = &spent {
            tracing::warn!(%error, "the month's spend is not known");
        }
        Event::SpendSeen {
            month,
            elsewhere: spent.ok(),
        }
    }

    /// Which workspace is meant, and what would be cloned.
    fn look_around(&self, wants: &Wants, facts: &mut Facts) {
        let projects = self.projects.as_deref();
        let workspace = wants.workspace.as_ref();
        facts.workspace = workspace.map(|name| Projects::destination(projects, name));
        let url = wants.clone.as_ref();
        facts.clone = url.map(|url| Remote::clone_plan(projects, url));
        let sources = wants.sources.as_ref();
        facts.answerer = sources.map(|names| self.inquiries.answerer(names));
    }

    fn workspaces(&self, message: String, name: Option<String>) -> Event {
        let projects = self.projects.as_deref();
        let names = projects.map(Projects::names).unwrap_or_default();
        Event::WorkspacesSeen {
            wanted: name.map(|name| Projects::destination(projects, &name)),
            message,
            names,
        }
    }
}

/// Reads the journal again from its file.
fn verify(message: String, path: &Path) -> Event {
    let (lines, head, damage) = match journal::scan(path, |_| Ok(())) {
        Ok(scan) => {
            let damage = scan.error(path).map(|error| error.to_string());
            (scan.end.seq, scan.end.head, damage)
        }
        Err(error) => (0, String::new(), Some(error.to_string())),
    };
    Event::ChainVerified {
        message,
        lines,
        head,
        damage,
    }
}

fn expectation(call: &Call, workspace: &Workspace) -> Option<Expectation> {
    let Action::World {
        expect: Some(expect),
        ..
    } = &tools::find(&call.tool)?.action
    else {
        return None;
    };
    expect(&call.json().ok()?, workspace)
}
