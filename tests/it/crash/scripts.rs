//! The sessions that are ended at every point: what the model says, what the person says, what must come of it.
//!
//! A new one is one more entry. Calls are `(tool, arguments)`; `reality.rs` knows what each tool does to the world.

use journeyman::agent::event::MediaKind;

/// One session, from its objective to its last word.
#[derive(Debug)]
pub struct Script {
    pub name: &'static str,
    /// The n-th answer of the model, counted in the conversation: asked again, it says the same.
    pub model: &'static [Reply],
    /// To the questions that ask for approval, in their order. `CODE` is the question's.
    pub approvals: &'static [&'static str],
    /// To a free question of the model.
    pub tells: &'static str,
    /// Rounds of a turn.
    pub rounds_max: u32,
    /// So many sends fail before the first one works.
    pub sends_fail: usize,
    /// The channel does not take the first send before the person has written once more.
    pub closed: bool,
    /// The objective comes from a schedule, in the slot [`SLOT`]; nobody writes it.
    pub scheduled: bool,
    /// The session works in git worktrees of its own.
    pub own: bool,
    /// The objective is spoken, or comes with a file.
    pub sent: Option<MediaKind>,
    /// What the person says right after the objective, as a part of it.
    pub pieces: &'static [&'static str],
    /// The tasks of a plan, each of which needs the one before.
    pub plan: &'static [(&'static str, &'static str)],
    /// None of them needs another one, so that they run side by side.
    pub beside: bool,
    /// What the person says after the last word of a turn, one after the other.
    pub after: &'static [&'static str],
    /// Commands outlive the process that started them, and what they print.
    pub kept: bool,
    /// The model's window in tokens: so small that messages are left out, and results.
    pub window: Option<u64>,
    /// How often each effect has happened in the end.
    pub effects: &'static [(&'static str, usize)],
    /// The last word to the person.
    pub ending: &'static str,
    /// Short enough for every pair of deaths.
    pub pairs: bool,
}

/// An answer of the model.
#[derive(Debug)]
pub struct Reply {
    pub text: &'static str,
    pub calls: &'static [(&'static str, &'static str)],
    /// The person says this while the model thinks.
    pub meanwhile: Option<&'static str>,
    /// The person says this while the first command runs.
    pub during: Option<&'static str>,
}

const fn says(text: &'static str) -> Reply {
    let (meanwhile, during) = (None, None);
    Reply {
        text,
        calls: &[],
        meanwhile,
        during,
    }
}

const fn calls(calls: &'static [(&'static str, &'static str)]) -> Reply {
    Reply { calls, ..says("") }
}

const BASE: Script = Script {
    name: "",
    model: &[],
    approvals: &[],
    tells: "",
    rounds_max: 15,
    sends_fail: 0,
    closed: false,
    scheduled: false,
    own: false,
    sent: None,
    pieces: &[],
    plan: &[],
    beside: false,
    after: &[],
    kept: false,
    window: None,
    effects: &[],
    ending: "",
    pairs: false,
};

pub const OBJECTIVE: &str = "do the job";
/// When the schedule fires, and when every process looks at it.
pub const SLOT: &str = "2026-11-23T09:00:00Z";
pub const NOW: &str = "2026-11-23T09:00:02Z";

const TEST: (&str, &str) = ("run_command", r#"{"command":"cargo test"}"#);
const LIST: (&str, &str) = ("list_files", "{}");
/// Of two files: a process can die between them.
const PATCH: (&str, &str) = (
    "apply_patch",
    r#"{"edits":[{"path":"a.txt","search":"old","replace":"new"},{"path":"b.txt","search":"old","replace":"new"}]}"#,
);
const WRITE: (&str, &str) = ("write_file", r#"{"path":"c.txt","content":"new"}"#);
const COMMIT: (&str, &str) = ("git_commit", r#"{"message":"feat: the job"}"#);
const PUSH: (&str, &str) = ("git_push", "{}");
const PROPOSE: (&str, &str) = (
    "git_create_pr",
    r#"{"title":"The job","summary":"It is done."}"#,
);
/// Different ones, so that nothing is a loop.
const LOOKS: [(&str, &str); 3] = [
    ("list_files", r#"{"path":"src"}"#),
    ("list_files", r#"{"path":"tests"}"#),
    ("list_files", r#"{"path":"docs"}"#),
];

macro_rules! four_times {
    ($text:expr) => {
        concat!($text, $text, $text, $text)
    };
}

/// About 300 tokens of an answer, which no reference can stand for.
const ESSAY: &str = four_times!(four_times!(
    "I have thought about the whole of it at length, and once more, word by word. "
));

const ASK: (&str, &str) = ("request_user_approval", r#"{"question":"Red or blue?"}"#);

const SWITCH: (&str, &str) = ("switch_workspace", r#"{"name":"other"}"#);
const WRITE_THERE: (&str, &str) = ("write_file", r#"{"path":"d.txt","content":"new"}"#);

pub static SCRIPTS: &[Script] = &[
    Script {
        name: "answer",
        model: &[says("Hello.")],
        ending: "Hello.",
        pairs: true,
        ..BASE
    },
    Script {
        name: "patch",
        model: &[calls(&[PATCH]), says("Patched.")],
        effects: &[("patch", 1)],
        ending: "Patched.",
        pairs: true,
        ..BASE
    },
    Script {
        name: "commit",
        model: &[calls(&[LIST, WRITE]), calls(&[COMMIT]), says("Committed.")],
        effects: &[("feat: the job", 1)],
        ending: "Committed.",
        ..BASE
    },
    Script {
        name: "approval",
        model: &[calls(&[TEST]), says("It passes.")],
        approvals: &["yes"],
        effects: &[("cargo test", 1)],
        ending: "It passes.",
        pairs: true,
        ..BASE
    },
    Script {
        name: "two-approvals",
        model: &[
            calls(&[TEST, LIST, ("run_command", r#"{"command":"make install"}"#)]),
            says("Done."),
        ],
        approvals: &["/approve CODE", "yes"],
        effects: &[("cargo test", 1), ("make install", 1)],
        ending: "Done.",
        ..BASE
    },
    Script {
        name: "refusal",
        model: &[calls(&[TEST]), calls(&[TEST]), says("I leave it.")],
        approvals: &["/deny CODE not now"],
        effects: &[("cargo test", 0)],
        ending: "I leave it.",
        pairs: true,
        ..BASE
    },
    Script {
        name: "steer",
        model: &[
            Reply {
                meanwhile: Some("with tabs"),
                ..calls(&[LIST, WRITE])
            },
            says("With tabs."),
        ],
        ending: "With tabs.",
        ..BASE
    },
    Script {
        name: "written-command",
        model: &[
            Reply {
                meanwhile: Some("/hurry now"),
                ..calls(&[LIST, WRITE])
            },
            says("Hurried."),
        ],
        ending: "Hurried.",
        ..BASE
    },
    // It counts from the next turn on: this one writes all the same.
    Script {
        name: "agent-chosen",
        model: &[
            Reply {
                meanwhile: Some("/agents use reader"),
                ..calls(&[WRITE])
            },
            says("Written."),
        ],
        effects: &[("write c.txt", 1)],
        ending: "Written.",
        ..BASE
    },
    Script {
        name: "cancel",
        model: &[
            Reply {
                meanwhile: Some("/cancel"),
                ..says("too late")
            },
            says("too late"),
        ],
        ending: "🛑 Stopped.",
        pairs: true,
        ..BASE
    },
    Script {
        name: "cancel-command",
        model: &[
            Reply {
                during: Some("stop"),
                ..calls(&[TEST, LIST])
            },
            says("too late"),
        ],
        approvals: &["yes"],
        effects: &[("cargo test", 1)],
        ending: "🛑 Stopped.",
        ..BASE
    },
    Script {
        name: "limit",
        model: &[calls(&[LIST]), calls(&[LIST]), says("Done.")],
        rounds_max: 2,
        ending: "Done.",
        ..BASE
    },
    Script {
        name: "retry",
        model: &[calls(&[WRITE]), says("Done.")],
        sends_fail: 2,
        ending: "Done.",
        ..BASE
    },
    Script {
        name: "held",
        model: &[calls(&[WRITE]), says("Done.")],
        closed: true,
        ending: "Done.",
        ..BASE
    },
    Script {
        name: "question",
        model: &[calls(&[ASK]), says("Blue it is.")],
        tells: "blue",
        ending: "Blue it is.",
        pairs: true,
        ..BASE
    },
    Script {
        name: "switch",
        model: &[
            calls(&[WRITE, SWITCH, WRITE_THERE, LIST]),
            says("Done there."),
        ],
        effects: &[("write c.txt in shop", 1), ("write d.txt in other", 1)],
        ending: "Done there.",
        ..BASE
    },
    Script {
        name: "own-worktree",
        model: &[calls(&[WRITE, TEST]), says("Done beside it.")],
        approvals: &["yes"],
        effects: &[
            ("worktree of shop", 1),
            ("write c.txt in own shop", 1),
            ("write c.txt in shop", 0),
            ("cargo test", 1),
        ],
        ending: "Done beside it.",
        own: true,
        pairs: true,
        ..BASE
    },
    Script {
        name: "own-worktrees",
        model: &[
            calls(&[WRITE, SWITCH, WRITE_THERE, LIST]),
            says("Done there."),
        ],
        effects: &[
            ("worktree of shop", 1),
            ("worktree of other", 1),
            ("write c.txt in own shop", 1),
            ("write d.txt in own other", 1),
        ],
        ending: "Done there.",
        own: true,
        ..BASE
    },
    Script {
        name: "sent-elsewhere",
        model: &[
            Reply {
                meanwhile: Some("/workspace other"),
                ..calls(&[WRITE])
            },
            calls(&[WRITE_THERE]),
            says("Done there."),
        ],
        // A round that an interruption took back is asked for again after the switch.
        effects: &[("write c.txt", 1), ("write d.txt in other", 1)],
        ending: "Done there.",
        ..BASE
    },
    Script {
        name: "brought",
        model: &[
            Reply {
                meanwhile: Some("/bring"),
                ..calls(&[WRITE])
            },
            calls(&[LIST]),
            says("Done with it."),
        ],
        effects: &[("worktree of shop", 1), ("write c.txt", 1), ("brought", 1)],
        ending: "Done with it.",
        own: true,
        ..BASE
    },
    Script {
        name: "push",
        model: &[
            calls(&[WRITE, COMMIT]),
            calls(&[PUSH]),
            says("It is on the remote."),
        ],
        approvals: &["yes"],
        effects: &[("feat: the job", 1), ("push", 1)],
        ending: "It is on the remote.",
        ..BASE
    },
    Script {
        name: "pull-request",
        model: &[
            calls(&[WRITE, COMMIT]),
            calls(&[PROPOSE]),
            says("It is proposed."),
        ],
        approvals: &["/approve CODE"],
        effects: &[("feat: the job", 1), ("pull request", 1)],
        ending: "It is proposed.",
        ..BASE
    },
    Script {
        name: "kept",
        model: &[calls(&[TEST]), calls(&[COMMIT]), says("It passes.")],
        approvals: &["yes"],
        effects: &[("cargo test", 1), ("feat: the job", 1)],
        ending: "It passes.",
        kept: true,
        ..BASE
    },
    Script {
        name: "cron",
        model: &[calls(&[LIST]), calls(&[TEST]), says("All is well.")],
        approvals: &["yes"],
        effects: &[("cargo test", 1)],
        ending: "All is well.",
        scheduled: true,
        ..BASE
    },
    Script {
        name: "compaction",
        model: &[
            Reply {
                meanwhile: Some("with tabs"),
                ..calls(&[LOOKS[0]])
            },
            calls(&[LOOKS[1]]),
            calls(&[LOOKS[2]]),
            Reply {
                text: ESSAY,
                ..calls(&[WRITE])
            },
            Reply {
                text: ESSAY,
                ..calls(&[WRITE_THERE])
            },
            Reply {
                text: ESSAY,
                ..calls(&[ASK])
            },
            Reply {
                text: ESSAY,
                ..calls(&[COMMIT])
            },
            says("With tabs, in blue."),
        ],
        tells: "blue",
        effects: &[("feat: the job", 1)],
        ending: "With tabs, in blue.",
        window: Some(2_600),
        ..BASE
    },
    Script {
        name: "voice",
        model: &[calls(&[TEST]), says("It passes.")],
        approvals: &["yes"],
        effects: &[("cargo test", 1)],
        ending: "It passes.",
        sent: Some(MediaKind::Audio),
        ..BASE
    },
    Script {
        name: "document",
        model: &[calls(&[WRITE]), says("Read.")],
        effects: &[("worktree of shop", 1), ("file", 1)],
        ending: "Read.",
        own: true,
        sent: Some(MediaKind::Document),
        ..BASE
    },
    Script {
        name: "picture",
        model: &[calls(&[WRITE]), says("Seen.")],
        effects: &[("worktree of shop", 1), ("file", 1)],
        ending: "Seen.",
        own: true,
        sent: Some(MediaKind::Image),
        ..BASE
    },
    Script {
        name: "pieces",
        // What comes too late for the first turn starts another one.
        model: &[says("Hello."), says("Hello."), says("Hello.")],
        pieces: &["the one on mobile", "and a test"],
        ending: "Hello.",
        ..BASE
    },
    Script {
        name: "plan",
        model: &[says("Hello.")],
        plan: &[WRITE, TEST],
        after: &["/plan do it all", "/plan run"],
        approvals: &["yes"],
        effects: &[("write c.txt", 1), ("cargo test", 1)],
        ending: "🗺 Plan",
        pairs: true,
        ..BASE
    },
    Script {
        name: "plan-kept",
        model: &[
            calls(&[("plan_tasks", r#"{"objective":"the plan"}"#)]),
            says("There is a plan."),
        ],
        plan: &[TEST, COMMIT],
        after: &["/plan run"],
        approvals: &["/approve CODE"],
        effects: &[("cargo test", 1), ("feat: the job", 1)],
        ending: "🗺 Plan",
        kept: true,
        ..BASE
    },
    Script {
        name: "plan-beside",
        model: &[says("Hello.")],
        plan: &[WRITE, TEST, LIST, WRITE_THERE],
        beside: true,
        after: &["/plan do it all", "/plan run"],
        approvals: &["yes"],
        effects: &[("write c.txt", 1), ("cargo test", 1), ("write d.txt", 1)],
        ending: "🗺 Plan",
        kept: true,
        ..BASE
    },
    Script {
        name: "delegate",
        model: &[
            calls(&[
                ("delegate", r#"{"objective":"Do part a."}"#),
                ("delegate", r#"{"objective":"Do part b."}"#),
            ]),
            calls(&[COMMIT]),
            says("Both parts are there."),
        ],
        effects: &[
            ("child: Do part a.", 1),
            ("child: Do part b.", 1),
            ("feat: the job", 1),
        ],
        ending: "Both parts are there.",
        ..BASE
    },
    Script {
        name: "ask",
        model: &[says("Hello.")],
        after: &["/ask src -- why?"],
        ending: "It is so.",
        pairs: true,
        ..BASE
    },
];
