//! `journeyman chat` as somebody at a terminal has it: a pseudo-terminal of its own, keys in, what is seen out.

use crate::fake_model::{FakeModel, Next, calls, says};
use crate::program::Program;
use crate::support::PATIENCE;
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

/// Ctrl-C, as a terminal sends it.
const CTRL_C: &str = "\x03";

pub struct Terminal {
    keys: File,
    seen: Arc<Mutex<String>>,
    /// What was looked at already.
    read: usize,
    chat: Child,
}

impl Terminal {
    fn open(program: &Program, environment: &[(&str, &str)]) -> Self {
        Self::run(program.command(&["chat"]), environment)
    }

    /// A command as somebody at a terminal starts it.
    pub fn run(mut command: Command, environment: &[(&str, &str)]) -> Self {
        let size = Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(&size, None).expect("a pseudo-terminal");
        let side = || Stdio::from(pty.slave.try_clone().expect("a handle"));
        command.env("TERM", "xterm-256color");
        command.envs(environment.iter().copied());
        command.stdin(side()).stdout(side()).stderr(side());
        let chat = command.spawn().expect("the program starts");
        drop((command, pty.slave));
        let keys = File::from(pty.master);
        let mut screen = keys.try_clone().expect("a handle");
        let seen = Arc::new(Mutex::new(String::new()));
        let shared = seen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It ends when the program has closed its side.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                shared.lock().expect("no panic").push_str(&text);
            }
        });
        let read = 0;
        Self {
            keys,
            seen,
            read,
            chat,
        }
    }

    /// Whether what is typed shows, and lines are the kernel's: as it is before and after a program edits lines itself.
    pub fn is_as_it_was(&self) -> bool {
        let settings = tcgetattr(&self.keys).expect("its settings");
        let usual = LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG;
        settings.local_flags.contains(usual)
    }

    pub fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
    }

    /// Waits until this is seen, after what was waited for before.
    pub async fn sees(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let seen = self.seen.lock().expect("no panic").clone();
            if let Some(at) = seen[self.read..].find(text) {
                self.read += at + text.len();
                return;
            }
            assert!(Instant::now() < until, "{text:?} was never seen:\n{seen:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn ended(&mut self) -> Option<i32> {
        let ended = tokio::time::timeout(PATIENCE, self.chat.wait()).await;
        ended.expect("it ends").expect("a status").code()
    }

    pub fn all(&self) -> String {
        self.seen.lock().expect("no panic").clone()
    }
}

fn run(command: &str) -> Next {
    calls("run_command", json!({"command": command, "timeout": 60}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_at_the_prompt_and_the_answer_is_shown_once() {
    let write = calls("write_file", json!({"path": "b.txt", "content": "new\n"}));
    let model = FakeModel::recorded(vec![
        run("echo ran > proof.txt"),
        write,
        says("It ran.\nAnd it is written."),
    ])
    .await;
    let program = Program::new(&model.base_url);
    let mut terminal = Terminal::open(&program, &[]);
    terminal.sees("Ctrl-C stops the work").await;
    terminal.types("prove it\r");
    terminal.sees("⠋ thinking, 0 s").await;
    terminal.sees("May I run this?").await;
    terminal.types("yes\r");
    terminal.sees("Approved").await;
    terminal.sees("\x1b[32m+new").await;
    terminal.sees("It ran.").await;
    terminal.sees("And it is written.").await;
    terminal.sees("Files changed: 1").await;
    terminal.types("\x04");
    terminal.sees("is kept: journeyman resume").await;
    assert_eq!(terminal.ended().await, Some(0));
    let all = terminal.all();
    assert_eq!(all.matches("And it is written.").count(), 1, "{all}");
    assert!(program.workspace().join("proof.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_stops_the_work_and_once_more_leaves_with_the_session_kept() {
    let model = FakeModel::recorded(vec![run("sleep 60"), says("Too late.")]).await;
    let program = Program::new(&model.base_url);
    let mut terminal = Terminal::open(&program, &[]);
    terminal.sees("Ctrl-C stops the work").await;
    terminal.types("wait a minute\r");
    terminal.sees("May I run this?").await;
    terminal.types("yes\r");
    terminal.sees("run_command, 0 s").await;
    terminal.types(CTRL_C);
    terminal.sees("Stopped.").await;
    terminal.types(CTRL_C);
    terminal.sees("is kept: journeyman resume").await;
    let code = terminal.ended().await;
    assert!(code.is_some_and(|code| code != 0), "{code:?}");
    let listed = program.run(&["sessions"]).await;
    assert!(listed.out.contains("cancelled"), "{}", listed.out);
}

/// A screen reader reads what stands there: no colours, and nothing that moves.
#[tokio::test(flavor = "multi_thread")]
async fn without_colours_nothing_moves() {
    for environment in [[("NO_COLOR", "1")], [("TERM", "dumb")]] {
        let write = calls("write_file", json!({"path": "b.txt", "content": "new\n"}));
        let model = FakeModel::recorded(vec![write, says("It is written.")]).await;
        let program = Program::new(&model.base_url);
        let mut terminal = Terminal::open(&program, &environment);
        terminal.sees("Ctrl-C stops the work").await;
        terminal.types("write it\r");
        terminal.sees("+new").await;
        terminal.sees("It is written.").await;
        terminal.types("\x04");
        terminal.sees("is kept: journeyman resume").await;
        terminal.ended().await;
        let all = terminal.all();
        assert!(
            !all.contains("thinking") && !all.contains("\x1b[3"),
            "{all:?}"
        );
    }
}
