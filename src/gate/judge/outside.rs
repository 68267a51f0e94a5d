//! Touches of what is neither a path nor a command's text: servers, sources, remotes, other workspaces, GitHub, schedules.
//!
//! Each asks the facts what is meant. What was not looked up asks the person, and where nothing would happen nothing is said.

use super::Judgement;
use crate::agent::mcp::full_name;
use crate::gate::options::read_words;
use crate::gate::words::Word;
use crate::gate::{
    Decision, Destination, JudgedCommand, McpTouch, Pattern, PushWish, ScheduleFact,
};
use crate::schedule::wish::{Wish, shown_time};

impl Judgement<'_> {
    /// A tool of an MCP server. Only the owner's configuration, or the person, lets it run.
    pub(super) fn mcp(&mut self, touch: &McpTouch) {
        let name = full_name(&touch.server, &touch.tool);
        // Another configuration is another server, and another description another tool: what is approved, and granted, is
        // bound to both.
        let origin = format!("@{:.12}.{:.12}", touch.origin, touch.about);
        let decision = match touch.allowed {
            true => Decision::Allow,
            false => Decision::Ask,
        };
        if !touch.allowed {
            let text = format!("what the MCP server {} does cannot be seen", touch.server);
            let fix = "the person can approve it, or allow the tool in config/mcp.json";
            self.note_grantable("mcp", text, fix);
            self.pattern = Some(Pattern {
                program: name.clone(),
                subcommand: Some(origin.clone()),
            });
        }
        self.commands.push(JudgedCommand {
            argv: vec![name.clone(), origin],
            program: name,
            decision,
        });
    }

    /// A question about sources. This program answers it by reading; another one has the network, and hears what is asked.
    pub(super) fn sources(&mut self, names: &[String]) {
        self.wants.sources = Some(names.to_vec());
        let facts = self.facts;
        let answerer = match &facts.answerer {
            None => return self.unresolved("unresolved-sources", "who would answer"),
            Some(Destination::Nowhere { .. }) => return, // nobody will be asked
            Some(Destination::Known(answerer)) if answerer.argv.is_empty() => return,
            Some(Destination::Known(answerer)) => answerer,
        };
        let text = format!(
            "{} is another program: it hears the question, reads the sources and has the network",
            answerer.agent
        );
        let fix = "the person can approve it, or name another defaultAgent in config/agents.json";
        self.note_grantable("other-agent", text, fix);
        self.pattern = Some(Pattern {
            program: "ask".to_owned(),
            subcommand: Some(answerer.agent.clone()),
        });
        self.commands.push(JudgedCommand {
            argv: answerer.argv.clone(),
            program: answerer.agent.clone(),
            decision: Decision::Ask,
        });
    }

    /// A push, by the rules that hold for the command which it is.
    pub(super) fn push(&mut self, wish: &PushWish) {
        self.wants.push = Some(wish.clone());
        let facts = self.facts;
        let argv = match &facts.push {
            None => return self.unresolved("unresolved-push", "where it is pushed to"),
            Some(Destination::Nowhere { .. }) => return, // nothing will run
            Some(Destination::Known(plan)) => plan.argv(),
        };
        self.git(argv);
    }

    /// A clone, likewise. Its name is a free one beside the other workspaces: it is no path of this one.
    pub(super) fn clone_of(&mut self, url: &str) {
        self.wants.clone = Some(url.to_owned());
        let facts = self.facts;
        match &facts.clone {
            None => self.unresolved("unresolved-clone", "what would be cloned"),
            Some(Destination::Nowhere { .. }) => {}
            Some(Destination::Known(plan)) => self.git(plan.argv()),
        }
    }

    /// Another workspace of the person's: what is done there is judged there.
    pub(super) fn workspace(&mut self, name: &str) {
        self.wants.workspace = Some(name.to_owned());
        if self.facts.workspace.is_none() {
            self.unresolved("unresolved-workspace", "which workspace is meant");
        }
    }

    /// A command of git's that we make, by the rules for commands.
    fn git(&mut self, argv: Vec<String>) {
        let words: Vec<Word> = argv.iter().map(Word::literal).collect();
        let reading = read_words(self.policy, &words);
        let (outer, command_at) = (self.findings.begin(), self.commands.len());
        self.commands.push(JudgedCommand {
            argv,
            program: "git".to_owned(),
            decision: Decision::Allow,
        });
        self.permission(&words[0], &reading);
        self.options(&reading);
        self.rules(&reading);
        self.commands[command_at].decision = self.findings.end(outer);
    }

    /// A request to GitHub's API. Reading may be granted for the session, writing is asked about each time.
    pub(super) fn github(&mut self, method: &str) {
        self.wants.github = true;
        let facts = self.facts;
        let address = match &facts.github {
            None => {
                return self.unresolved("unresolved-github", "which project on GitHub is meant");
            }
            Some(Destination::Nowhere { .. }) => return,
            Some(Destination::Known(project)) => project.address(),
        };
        let fix = "the person can approve it";
        let (program, subcommand) = ("github".to_owned(), Some("read".to_owned()));
        match method {
            "GET" => {
                self.note_grantable("github-read", format!("it reads {address}"), fix);
                self.pattern = Some(Pattern {
                    program: program.clone(),
                    subcommand,
                });
            }
            _ => self.note(
                Decision::Ask,
                "github-write",
                format!("it changes {address}, where others see it"),
                fix,
            ),
        }
        self.commands.push(JudgedCommand {
            argv: vec![program.clone(), method.to_owned(), address],
            program,
            decision: Decision::Ask,
        });
    }

    /// A change of what runs by itself: the person says yes to each, and what the clock started makes none.
    pub(super) fn schedule(&mut self, wish: &Wish) {
        self.wants.schedule = Some(wish.clone());
        let facts = self.facts;
        let mut argv = vec!["schedule".to_owned(), wish.verb().to_owned()];
        argv.extend(wish.id().map(|id| id.to_string()));
        let (text, more) = match &facts.schedule {
            None => return self.unresolved("unresolved-schedule", "which schedule is meant"),
            Some(ScheduleFact::Impossible { .. }) => return, // nothing will be changed
            Some(ScheduleFact::Forbidden) => {
                let text = "a session that a schedule started creates and changes no schedules";
                let fix = "tell the person what to send, such as /cron add";
                return self.note(Decision::Deny, "scheduled-session", text, fix);
            }
            Some(ScheduleFact::New {
                schedule,
                timezone,
                next,
            }) => {
                let next: Vec<String> = next.iter().map(|time| shown_time(time)).collect();
                let text = format!("it will run by itself, next on {}", next.join(", "));
                (text, [schedule, timezone])
            }
            Some(ScheduleFact::Kept { schedule, message }) => (
                "it changes what runs by itself".to_owned(),
                [schedule, message],
            ),
        };
        argv.extend(more.map(Clone::clone));
        self.note(Decision::Ask, "schedule", text, "the person can approve it");
        self.commands.push(JudgedCommand {
            program: argv[0].clone(),
            argv,
            decision: Decision::Ask,
        });
    }
}
