//! The program as its user has it: the binary, a home and a data folder on disk, and what the kernel says about it.

use crate::loopback::Loopback;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const SECRET: &str = "secret of the bench";
const NUMBER: &str = "5491112345678";
/// Of the kernel's clock ticks in `/proc/PID/stat`; the same on every Linux.
const TICK_MS: f64 = 10.0;

/// A configuration folder with data and one project, gone afterwards.
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        fs::create_dir_all(folder.path().join("projects/project")).expect("a project");
        fs::create_dir(folder.path().join("config")).expect("a folder");
        let limits = "rounds_max = 1000\ntokens_max = 1000000000\n";
        fs::write(folder.path().join("config/limits.toml"), limits).expect("limits");
        Self(folder)
    }

    /// The binary, with nothing of this machine's configuration.
    pub fn journeyman(&self, model: &Loopback, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_journeyman"));
        command
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .env("JOURNEYMAN_HOME", self.0.path())
            .env("DATA_DIR", self.0.path().join("data"));
        command
            .env("AGENT_WRITE_ENABLED", "true")
            .env("AGENT_MODEL", "instant");
        command
            .env("OPENAI_BASE_URL", format!("{}/v1", model.url))
            .env("OPENAI_API_KEY", "none");
        command.current_dir(self.project());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// A file of the project, with the folders that it needs.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.project().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("written");
    }

    /// Makes the project a git repository without commits.
    pub fn repository(&self) {
        let mut git = Command::new("git");
        git.args(["init", "--quiet"]).current_dir(self.project());
        assert!(git.status().expect("git runs").success());
    }

    fn project(&self) -> PathBuf {
        self.0.path().join("projects/project")
    }

    /// The only session's journal.
    fn journal(&self) -> PathBuf {
        let sessions = fs::read_dir(self.0.path().join("data/agent_sessions")).expect("sessions");
        sessions
            .map(|entry| entry.expect("a file").path())
            .next()
            .expect("a journal")
    }

    pub fn journal_bytes(&self) -> usize {
        fs::metadata(self.journal()).expect("a journal").len() as usize
    }

    pub fn session(&self) -> String {
        self.journal()
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned()
    }
}

/// What the kernel counts for one process, its children not included.
#[derive(Clone, Copy)]
pub struct Usage {
    pub cpu_ms: f64,
    pub rss_mb: f64,
    pub anon_mb: f64,
}

impl Usage {
    pub fn of(process: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().ok()? + fields[12].parse::<f64>().ok()?;
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let mb = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? / 1000.0)
        };
        Some(Self {
            cpu_ms: ticks * TICK_MS,
            rss_mb: mb("VmRSS:")?,
            anon_mb: mb("RssAnon:")?,
        })
    }
}

/// `journeyman serve`, listening.
pub struct Server {
    child: Child,
    address: String,
}

impl Server {
    pub fn start(home: &Home, model: &Loopback) -> Self {
        let mut command = home.journeyman(model, &["serve"]);
        command
            .env("PROJECTS_ROOT", home.0.path().join("projects"))
            .env("BIND_ADDR", "127.0.0.1:0");
        command
            .env("WHATSAPP_API_URL", format!("{}/graph", model.url))
            .env("WHATSAPP_APP_SECRET", SECRET);
        command
            .env("WHATSAPP_ACCESS_TOKEN", "t")
            .env("WHATSAPP_VERIFY_TOKEN", "t")
            .env("WHATSAPP_PHONE_NUMBER_ID", "1");
        command
            .env("ALLOWED_PHONE_NUMBERS", NUMBER)
            .env("NO_COLOR", "1")
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("start it");
        let log = BufReader::new(child.stderr.take().expect("its log"));
        let mut lines = log.lines().map(|line| line.expect("its log"));
        let address = lines
            .find_map(|line| Some(line.split_once("address=")?.1.split(' ').next()?.to_owned()));
        std::thread::spawn(move || lines.for_each(drop));
        let server = Self {
            child,
            address: address.expect("it says where it listens"),
        };
        assert!(
            server
                .ask("GET /healthz HTTP/1.1\r\n", b"")
                .contains("200 OK"),
            "it is healthy"
        );
        server
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A signed webhook with one message.
    pub fn say(&self, text: &str) {
        let body = format!(
            r#"{{"object":"whatsapp_business_account","entry":[{{"id":"1","changes":[{{"field":"messages","value":{{"messaging_product":"whatsapp","metadata":{{"phone_number_id":"1"}},"messages":[{{"from":"{NUMBER}","id":"wamid.1","timestamp":"1","type":"text","text":{{"body":"{text}"}}}}]}}}}]}}]}}"#
        );
        let mut keyed = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("a key");
        keyed.update(body.as_bytes());
        let signature = hex::encode(keyed.finalize().into_bytes());
        let head = format!(
            "POST /webhook HTTP/1.1\r\nx-hub-signature-256: sha256={signature}\r\ncontent-type: application/json\r\n"
        );
        let answer = self.ask(&head, body.as_bytes());
        assert!(answer.contains("200 OK"), "the webhook is taken: {answer}");
    }

    fn ask(&self, head: &str, body: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("connect to it");
        let rest = format!(
            "host: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream
            .write_all(&[head.as_bytes(), rest.as_bytes(), body].concat())
            .expect("ask it");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("its answer");
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Gone already is what is wanted.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
