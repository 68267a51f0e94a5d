//! `journeyman doctor`: what is configured, what is reachable, what is missing, and how to fix it.

use super::{CliError, Exit, block_on};
use crate::agent::event::CallId;
use crate::agent::{limits, money};
use crate::config::{ModelSettings, Settings, WhatsApp};
use crate::world::process::{self, Exit as Ended, Processes};
use clap::Args;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const REACH_TIMEOUT: Duration = Duration::from_secs(3);
pub(super) const LOCAL_SERVERS: &[(&str, &str)] = &[
    ("Ollama", "http://127.0.0.1:11434/v1"),
    ("llama.cpp", "http://127.0.0.1:8080/v1"),
    ("LM Studio", "http://127.0.0.1:1234/v1"),
    ("vLLM", "http://127.0.0.1:8000/v1"),
];

/// `journeyman doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// One line of the report.
enum Finding {
    Good(String),
    /// Not needed for everything.
    Note(String),
    /// Something that must be fixed.
    Bad(String),
}

impl Finding {
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Finding::Good(text) => ("ok", text),
            Finding::Note(text) => ("note", text),
            Finding::Bad(text) => ("bad", text),
        }
    }
}

impl Doctor {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        if !self.json {
            print_settings(settings);
        }
        let findings = block_on(examine(settings))?;
        let is_bad = |finding: &&Finding| matches!(finding, Finding::Bad(_));
        let bad = findings.iter().filter(is_bad).count();
        match self.json {
            true => println!("{}", as_json(settings, &findings)),
            false => print_findings(&findings, bad),
        }
        Ok(if bad == 0 { Exit::Done } else { Exit::Failed })
    }
}

/// Before anything is looked at, which may take seconds.
fn print_settings(settings: &Settings) {
    println!("Configuration: {}", settings.home.display());
    for shown in &settings.shown {
        println!(
            "  {:<26} {:<40} ({})",
            shown.name, shown.value, shown.origin
        );
    }
    println!();
}

fn print_findings(findings: &[Finding], bad: usize) {
    for (state, text) in findings.iter().map(Finding::parts) {
        let word = if state == "bad" { "BAD" } else { state };
        println!("{word:<5} {text}");
    }
    match bad {
        0 => println!("\nNothing is broken."),
        _ => println!("\n{bad} to fix."),
    }
}

fn as_json(settings: &Settings, findings: &[Finding]) -> Value {
    let set = settings.shown.iter().map(|shown| {
        json!({ "name": shown.name, "value": shown.value, "origin": shown.origin.to_string() })
    });
    let found = findings.iter().map(Finding::parts);
    let found = found.map(|(state, text)| json!({ "state": state, "text": text }));
    json!({
        "configuration": settings.home,
        "settings": set.collect::<Value>(),
        "findings": found.collect::<Value>(),
    })
}

async fn examine(settings: &Settings) -> Vec<Finding> {
    let http = reqwest::Client::builder()
        .timeout(REACH_TIMEOUT)
        .build()
        .unwrap_or_default();
    let mut findings = vec![data_folder(&settings.data_dir)];
    findings.extend(commands(settings).await);
    findings.push(match settings.policy() {
        Ok(policy) => Finding::Good(format!("policy {}", &policy.gate.digest()[..12])),
        Err(error) => Finding::Bad(error.to_string()),
    });
    match &settings.model {
        Some(model) => {
            findings.push(reach_model(&http, model).await);
            findings.push(known_model(settings, model));
        }
        None => findings.extend(look_for_models(&http).await),
    }
    findings.push(match settings.write_enabled {
        true => {
            Finding::Good("the agent may write and run commands, each judged by the gate".into())
        }
        false => Finding::Note(
            "the agent can only read: set AGENT_WRITE_ENABLED=true to let it work".into(),
        ),
    });
    findings.push(match &settings.projects_root {
        Some(root) => Finding::Good(format!("workspaces of chats: {}", root.display())),
        None => Finding::Note("PROJECTS_ROOT is not set: `serve` needs it".into()),
    });
    findings.push(match &settings.whatsapp {
        Some(whatsapp) => reach_whatsapp(&http, whatsapp).await,
        None => Finding::Note(
            "WhatsApp is not configured: see docs/whatsapp.md; `chat` and `run` do without".into(),
        ),
    });
    findings.extend(mcp(settings));
    findings
}

/// What is wrong with the configuration of MCP servers; `mcp list` starts them.
fn mcp(settings: &Settings) -> Vec<Finding> {
    let problem = |why: &String| Finding::Bad(format!("config/mcp.json: {why}"));
    let mut findings: Vec<Finding> = settings.mcp.problems.iter().map(problem).collect();
    if !settings.mcp.servers.is_empty() {
        let count = settings.mcp.servers.len();
        findings.push(Finding::Good(format!(
            "MCP servers: {count}; `journeyman mcp list` starts them and says what they offer"
        )));
    }
    findings
}

fn data_folder(folder: &Path) -> Finding {
    let tried = std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
    match tried {
        Ok(_) => Finding::Good(format!("data folder {}", folder.display())),
        Err(error) => Finding::Bad(format!(
            "the data folder {} cannot be written: {error}. Make it writable, or set DATA_DIR",
            folder.display()
        )),
    }
}

/// Whether commands are confined, and git runs like that.
async fn commands(settings: &Settings) -> Vec<Finding> {
    let environment = process::safe_environment(&settings.file.environment);
    let sandbox = settings.sandbox(&environment);
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            return vec![Finding::Bad(format!(
                "no temporary folder can be made: {error}"
            ))];
        }
    };
    let processes = Processes::new(
        Arc::new(environment),
        sandbox.clone(),
        folder.path(),
        CancellationToken::new(),
    );
    let state = format!("sandbox: {}", sandbox.state());
    if let Some(why) = processes.distrust().await {
        return vec![Finding::Bad(format!("{state}. {why}"))];
    }
    let sandbox = match sandbox.has_landlock() {
        true => Finding::Good(format!("{state}; the self-test passed")),
        false => Finding::Note(format!("{state}: commands may do what your user may do")),
    };
    vec![sandbox, git(&processes, folder.path()).await]
}

async fn git(processes: &Processes, folder: &Path) -> Finding {
    let finished = processes
        .git(&CallId("doctor".into()), folder, &["--version"], None)
        .await;
    match finished.exit {
        Ended::Code(0) => Finding::Good(finished.stdout.text().trim().to_owned()),
        other => Finding::Bad(format!(
            "git does not run ({other:?}): install it, the agent commits with it"
        )),
    }
}

async fn reach_model(http: &reqwest::Client, model: &ModelSettings) -> Finding {
    let answered = http
        .get(format!("{}/models", model.base_url))
        .bearer_auth(&model.key)
        .send()
        .await;
    match answered.map(|response| response.status().as_u16()) {
        Ok(200..=299) => Finding::Good(format!("model {} at {}", model.name, model.base_url)),
        Ok(status @ (401 | 403)) => Finding::Bad(format!(
            "{} refuses the key ({status}): check OPENAI_API_KEY",
            model.base_url
        )),
        Ok(404 | 405) => Finding::Note(format!(
            "{} answers, but lists no models: whether {} works shows with the first message",
            model.base_url, model.name
        )),
        Ok(status) => Finding::Bad(format!("{} answers with {status}", model.base_url)),
        Err(_) => Finding::Bad(format!(
            "{} cannot be reached: check OPENAI_BASE_URL, and that the server runs",
            model.base_url
        )),
    }
}

/// Whether it is known what the model costs and how much it can read.
fn known_model(settings: &Settings, model: &ModelSettings) -> Finding {
    let entry = settings.model_entry();
    let price = entry.and_then(|entry| entry.price);
    let context = entry.and_then(|entry| entry.context_tokens);
    let missing = match (price, context) {
        (Some(price), Some(context)) => {
            let [input, cached, output] =
                [price.input, price.cached_input, price.output].map(money::dollars);
            return Finding::Good(format!(
                "{}: {input} for a million tokens of input, {cached} cached, {output} of output; reads {context} tokens",
                model.name
            ));
        }
        (None, Some(_)) => "price (input_usd, output_usd)",
        (Some(_), None) => "context window (context_tokens)",
        (None, None) => "price (input_usd, output_usd) and context window (context_tokens)",
    };
    let file = settings.home.join("config/models.toml");
    let add = format!(
        "{} has no {missing}: add a [[model]] with names = [{:?}] to {}",
        model.name,
        model.name,
        file.display()
    );
    match price.is_none() && limits::in_money(&settings.limits) {
        true => Finding::Bad(format!(
            "{add}. A limit in money is set (config/limits.toml): until then the model is asked nothing"
        )),
        false => Finding::Note(add),
    }
}

async fn look_for_models(http: &reqwest::Client) -> Vec<Finding> {
    let mut findings = vec![Finding::Bad(
        "no model: set AGENT_MODEL, and OPENAI_API_KEY or OPENAI_BASE_URL (`demo` needs none)"
            .into(),
    )];
    for (name, address) in LOCAL_SERVERS {
        let found = http
            .get(format!("{address}/models"))
            .send()
            .await
            .is_ok_and(|response| response.status().is_success());
        findings.push(Finding::Note(match found {
            true => format!("{name} runs here: OPENAI_BASE_URL={address}"),
            false => format!("looked for {name} at {address}: not there"),
        }));
    }
    findings
}

async fn reach_whatsapp(http: &reqwest::Client, whatsapp: &WhatsApp) -> Finding {
    let answered = http
        .get(format!("{}/{}", whatsapp.api_url, whatsapp.phone_number_id))
        .bearer_auth(&whatsapp.access_token)
        .send()
        .await;
    match answered.map(|response| response.status().as_u16()) {
        Ok(200..=299) => Finding::Good(format!(
            "WhatsApp: the token is valid, {} numbers are served",
            whatsapp.allowed.len()
        )),
        Ok(status @ (400 | 401 | 403)) => Finding::Bad(format!(
            "WhatsApp refuses the token or the number's id ({status}): check WHATSAPP_ACCESS_TOKEN and WHATSAPP_PHONE_NUMBER_ID"
        )),
        Ok(status) => Finding::Note(format!("WhatsApp answers with {status}")),
        Err(_) => Finding::Bad(format!(
            "{} cannot be reached: check WHATSAPP_API_URL and the network",
            whatsapp.api_url
        )),
    }
}
