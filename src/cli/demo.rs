//! `journeyman demo`: the whole thing in a minute, without keys.
//!
//! Only two things are not what they would be: the model is a recording, and WhatsApp is a stand-in on loopback. The
//! server, the signed webhooks, the gate, the journal, git, the broken project and its tests are real.

use super::assemble::{Assembly, assemble, project_workspace};
use super::{CliError, Exit, audit, block_on_for_many, log_to_stderr, serve};
use crate::agent::event::{CallId, EndReason, Event, OutgoingKind};
use crate::agent::texts::Catalogues;
use crate::config::{Settings, WhatsApp};
use crate::doors::Seen;
use crate::doors::terminal::{Style, activity};
use crate::doors::whatsapp::signature::{self, SIGNATURE_HEADER};
use crate::doors::whatsapp::standin::{self, Sent, SentKind, Standin};
use crate::gate::{Reply, read_reply};
use crate::world::model::Model;
use crate::world::model::scripted::Scripted;
use crate::world::process::{Exit as Ended, Processes, safe_environment};
use clap::Args;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

const MODEL: &str = include_str!("../../examples/demo/model.json");
const PROJECT: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        include_str!("../../examples/demo/project/Cargo.toml"),
    ),
    (
        ".gitignore",
        include_str!("../../examples/demo/project/gitignore"),
    ),
    (
        "src/lib.rs",
        include_str!("../../examples/demo/project/src/lib.rs"),
    ),
];
const OBJECTIVE: &str = "The test for discount fails, fix it and commit.";
const NUMBER: &str = "5491100000000";
const PHONE_NUMBER_ID: &str = "100000000000000";

#[derive(Debug, Args)]
pub struct Demo {
    /// Approve every question, each shown and journaled as approved
    #[arg(long, conflicts_with = "no_approvals")]
    yes: bool,
    /// Deny every question at once
    #[arg(long)]
    no_approvals: bool,
}

impl Demo {
    pub fn run(self) -> Result<Exit, CliError> {
        log_to_stderr("error");
        println!(
            "Journeyman demo. The model is a recording, so no key is needed; everything else is real. It works in the project's own folder (worktree = \"shared\").\n"
        );
        let folder = tempfile::Builder::new()
            .prefix("journeyman-demo-")
            .tempdir()
            .map_err(failed("make a folder"))?;
        let played = block_on_for_many(self.play(folder.path()))??;
        let Some(exit) = played else {
            println!("\nStopped; {} is removed.", folder.path().display());
            return Ok(Exit::Interrupted);
        };
        epilogue(folder)?;
        Ok(exit)
    }

    /// `None` where it was stopped by Ctrl-C.
    async fn play(&self, folder: &Path) -> Result<Option<Exit>, CliError> {
        let shop = folder.join("projects/shop");
        let token = "demo-token";
        let standin = standin::start(token)
            .await
            .map_err(failed("start the stand-in for WhatsApp"))?;
        let settings = Settings::demo(folder, whatsapp(token, &standin.base_url));
        make_project(&shop, &settings).await?;
        let model = Model::Scripted(
            Scripted::parse(MODEL).expect("BUG: the recording parses, a test says so"),
        );
        let Assembly {
            hub,
            shutdown,
            lock: _lock,
        } = assemble(&settings, model, project_workspace(&settings)?)?;
        let listener = TcpListener::bind(settings.bind)
            .await
            .map_err(failed("listen on loopback"))?;
        let address = listener
            .local_addr()
            .map_err(failed("listen on loopback"))?;
        let seen = hub.surface().observers.watch();
        let person = Person::new(
            format!("http://{address}/webhook"),
            settings.whatsapp.as_ref(),
        );
        println!("Server: http://{address}   Project: {}\n", shop.display());
        let server = serve::serve(hub.clone(), &settings, listener, shutdown.clone());
        let (exit, ()) = tokio::join!(
            async {
                let exit = tokio::select! {
                    exit = self.converse(&person, standin, seen) => exit.map(Some),
                    _ = tokio::signal::ctrl_c() => Ok(None),
                };
                shutdown.cancel();
                exit
            },
            async { drop(server.await) },
        );
        exit
    }

    async fn converse(
        &self,
        person: &Person,
        mut standin: Standin,
        mut seen: UnboundedReceiver<Seen>,
    ) -> Result<Exit, CliError> {
        let style = Style::of(&io::stdout());
        person.write(OBJECTIVE).await?;
        let mut lines = None;
        let (mut reason, mut last) = (EndReason::Failed, None);
        loop {
            tokio::select! {
                biased;
                Some(sent) = standin.sent.recv() => {
                    show(&sent, style);
                    if !sent.buttons.is_empty() && !self.answer(person, &sent, &mut lines).await? {
                        println!("\nNobody is here to answer: the session is parked, the question stays open. Use a terminal, --yes or --no-approvals.");
                        return Ok(Exit::Waiting);
                    }
                }
                Some(seen) = seen.recv() => {
                    let Seen::Recorded { record, .. } = seen else { continue };
                    if let Some(line) = activity(&record.event) {
                        println!("{}", style.dim(&indented(&line)));
                    }
                    match &record.event {
                        Event::TurnEnded { reason: ended, .. } => reason = *ended,
                        Event::SendStarted { send, kind: OutgoingKind::Final, .. } => last = Some(*send),
                        Event::SendFinished { send, .. } if last == Some(*send) => break,
                        _ => {}
                    }
                }
            }
        }
        while let Ok(sent) = standin.sent.try_recv() {
            show(&sent, style);
        }
        Ok(Exit::of(reason))
    }

    /// `false` where nobody answers.
    async fn answer(
        &self,
        person: &Person,
        question: &Sent,
        lines: &mut Option<UnboundedReceiver<String>>,
    ) -> Result<bool, CliError> {
        let yes = match (self.yes, self.no_approvals) {
            (true, _) => true,
            (_, true) => false,
            _ => match ask_person(lines).await {
                Some(answer) => answer,
                None => return Ok(false),
            },
        };
        let button = if yes {
            question.buttons.first()
        } else {
            question.buttons.last()
        };
        let Some(button) = button else {
            return Ok(false);
        };
        person.press(question, button).await?;
        Ok(true)
    }
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> CliError {
    move |error| CliError::Failed(format!("{what}: {error}"))
}

fn whatsapp(token: &str, api_url: &str) -> WhatsApp {
    WhatsApp {
        access_token: token.into(),
        phone_number_id: PHONE_NUMBER_ID.into(),
        verify_token: "demo-verify".into(),
        app_secret: "demo-secret".into(),
        api_url: api_url.into(),
        allowed: vec![NUMBER.into()],
    }
}

/// A git repository with a commit whose test really fails.
async fn make_project(folder: &Path, settings: &Settings) -> Result<(), CliError> {
    fs::create_dir_all(folder.join("src")).map_err(failed("make the project"))?;
    for (name, content) in PROJECT {
        fs::write(folder.join(name), content).map_err(failed("make the project"))?;
    }
    let environment = safe_environment(&[]);
    let sandbox = settings.sandbox(&environment);
    let processes = Processes::new(
        Arc::new(environment),
        sandbox,
        folder,
        CancellationToken::new(),
    );
    let steps: [&[&str]; 5] = [
        &["init", "--quiet", "--initial-branch=main"],
        &["config", "user.name", "Demo"],
        &["config", "user.email", "demo@example.com"],
        &["add", "--all"],
        &[
            "commit",
            "--quiet",
            "--message",
            "feat: prices and discounts",
        ],
    ];
    for step in steps {
        let finished = processes
            .git(&CallId("demo".into()), folder, step, None)
            .await;
        if finished.exit != Ended::Code(0) {
            let said = finished.stderr.text();
            return Err(CliError::Failed(format!(
                "git {} did not work ({:?}): {said}. Is git installed?",
                step.join(" "),
                finished.exit
            )));
        }
    }
    Ok(())
}

/// The one who writes: signs webhooks as Meta would.
struct Person {
    http: reqwest::Client,
    webhook: String,
    secret: String,
}

impl Person {
    fn new(webhook: String, whatsapp: Option<&WhatsApp>) -> Self {
        let secret = whatsapp
            .map(|whatsapp| whatsapp.app_secret.clone())
            .unwrap_or_default();
        Self {
            http: reqwest::Client::new(),
            webhook,
            secret,
        }
    }

    async fn write(&self, text: &str) -> Result<(), CliError> {
        println!("🧑 {text}");
        self.post(standin::text_webhook(
            PHONE_NUMBER_ID,
            NUMBER,
            "wamid.demo-1",
            text,
        ))
        .await
    }

    async fn press(&self, question: &Sent, button: &(String, String)) -> Result<(), CliError> {
        println!("🧑 [{}]", button.1);
        let id = format!("{}-answer", question.id);
        let button = (button.0.as_str(), button.1.as_str());
        self.post(standin::button_webhook(
            PHONE_NUMBER_ID,
            NUMBER,
            &id,
            &question.id,
            button,
        ))
        .await
    }

    async fn post(&self, body: Vec<u8>) -> Result<(), CliError> {
        let signed = signature::sign(&self.secret, &body);
        let posted = self
            .http
            .post(&self.webhook)
            .header(SIGNATURE_HEADER, signed)
            .body(body)
            .send()
            .await;
        match posted {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(CliError::Failed(format!(
                "the webhook answered {}",
                response.status()
            ))),
            Err(error) => Err(CliError::Failed(format!(
                "the webhook cannot be reached: {error}"
            ))),
        }
    }
}

fn show(sent: &Sent, style: Style) {
    match &sent.kind {
        SentKind::Read { .. } => println!("{}", style.dim("   ✓✓ read · typing…")),
        SentKind::Reaction(emoji) if emoji.is_empty() => {}
        SentKind::Reaction(emoji) => println!("{}", style.dim(&format!("   {emoji}"))),
        SentKind::Text
        | SentKind::Buttons
        | SentKind::Template(_)
        | SentKind::Document { .. }
        | SentKind::Other(_) => {
            println!("🤖 {}", style.message(&sent.text).replace('\n', "\n   "));
        }
    }
    for (_, title) in &sent.buttons {
        print!("   [{title}]");
    }
    if !sent.buttons.is_empty() {
        println!();
    }
}

fn indented(text: &str) -> String {
    format!("   {}", text.replace('\n', "\n   "))
}

/// Yes or no of the person at the terminal; `None` where nobody is there.
async fn ask_person(lines: &mut Option<UnboundedReceiver<String>>) -> Option<bool> {
    if lines.is_none() && !io::stdin().is_terminal() {
        return None;
    }
    let lines = lines.get_or_insert_with(read_lines);
    loop {
        print!("   y/n › ");
        let _ = io::stdout().flush();
        match read_reply(&lines.recv().await?) {
            Some(Reply::Yes) => return Some(true),
            Some(Reply::No) => return Some(false),
            None => println!("   Please answer y or n."),
        }
    }
}

/// A thread of its own, so that Ctrl-C is not held up by a read.
fn read_lines() -> UnboundedReceiver<String> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// What is left to look at.
fn epilogue(folder: TempDir) -> Result<(), CliError> {
    let folder = folder.keep();
    let texts = Catalogues::built_in();
    println!();
    for path in super::find::journals(&folder.join("data"))? {
        println!("Journal: {}", path.display());
        audit::print(&audit::verify(&path, &texts));
    }
    println!(
        "Look around: git -C {0}/projects/shop log -p   ·   remove it: rm -r {0}",
        folder.display()
    );
    Ok(())
}
