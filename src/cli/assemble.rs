//! Puts the pieces together: settings in, a hub with its world out.

use super::CliError;
use crate::agent::event::WorkspaceRef;
use crate::agent::mask::Masks;
use crate::agent::step::Policy;
use crate::config::{ModelSettings, Settings, WhatsApp};
use crate::doors::whatsapp::graph::Graph;
use crate::doors::whatsapp::media::MediaSource;
use crate::doors::whatsapp::sending::Sending;
use crate::doors::{Channels, Observers};
use crate::hub::{Hub, PickWorkspace, Site};
use crate::session::Surface;
use crate::world::confine::Sandbox;
use crate::world::ears::Ears;
use crate::world::inquiries::Inquiries;
use crate::world::lock::DataLock;
use crate::world::mcp::Servers;
use crate::world::media::Intake;
use crate::world::model::openai::{Address, OpenAi};
use crate::world::model::{Model, Patience};
use crate::world::pictures::Eyes;
use crate::world::projects::{Projects, reference};
use crate::world::resolve::Surroundings;
use crate::world::schedules::Desk;
use crate::world::shelf::Shelf;
use crate::world::store::Store;
use crate::world::trust::Trust;
use crate::world::visit::Bounds;
use crate::world::{Offers, World, process};
use std::env;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A hub that owns its data folder until this is dropped.
pub struct Assembly {
    pub hub: Arc<Hub>,
    pub shutdown: CancellationToken,
    /// Held until this is dropped.
    pub lock: DataLock,
}

/// Takes the data folder, and builds everything that works in it.
///
/// # Errors
/// Where the policy is wrong, the data folder cannot be used, or another process uses it.
pub fn assemble(
    settings: &Settings,
    model: Model,
    workspace: PickWorkspace,
) -> Result<Assembly, CliError> {
    let policy = Arc::new(settings.policy()?);
    let data_dir = &settings.data_dir;
    make_private(data_dir)?;
    let lock = DataLock::take(data_dir).map_err(|error| CliError::Failed(error.to_string()))?;
    let environment = process::safe_environment(&settings.file.environment);
    let limits = &settings.limits;
    let store = Arc::new(Store::new(data_dir));
    let environment = Arc::new(environment);
    let (sandbox, trust) = (
        settings.sandbox(&environment),
        trust(settings, store.clone(), policy.masks.clone()),
    );
    let mcp = servers(
        settings,
        &policy,
        trust.clone(),
        environment.clone(),
        sandbox.clone(),
    );
    let world = World {
        model,
        store: store.clone(),
        patience: Patience {
            attempts_max: limits.model_attempts_max,
            retry_after_max: Duration::from_secs(limits.model_retry_after_seconds_max),
            silence_max: Duration::from_secs(limits.model_silence_seconds),
        },
        surroundings: surroundings(settings, &environment),
        sandbox,
        environment,
        channels: Channels {
            whatsapp: settings.whatsapp.as_ref().map(graph),
            sending: Sending::new(settings.whatsapp_template(), limits.message_parts_max),
        },
        masks: policy.masks.clone(),
        trust,
        mcp: Arc::new(mcp),
        inquiries: Arc::new(inquiries(settings)),
        answers: Bounds::of(limits),
        policy: policy.clone(),
        hosting: Arc::new(settings.github.clone()),
        projects: projects(settings).map(Arc::new),
        data_dir: data_dir.clone(),
        send_attempts_max: limits.send_attempts_max,
        invitations: Default::default(),
        outline: limits.outline(),
        intake: intake(settings),
        desk: desk(settings),
        worktrees: settings.worktrees(),
        offers: Offers::default(),
        answered: AtomicU64::new(0),
    };
    let shutdown = CancellationToken::new();
    let world = Arc::new(world);
    let surface = Surface {
        outside: world.clone(),
        world,
        policy,
        store,
        observers: Observers::default(),
        people: Arc::new(settings.file.people.clone()),
        isolation: settings.file.worktree,
        shutdown: shutdown.clone(),
    };
    let texts = settings.texts.clone();
    let hub = Hub::new(surface, texts, data_dir, workspace)
        .map_err(|error| CliError::Failed(error.to_string()))?;
    if settings.limits.month_cents_max > 0 {
        // What other processes spent counts, also where they were killed before the database knew.
        hub.index()
            .map_err(|error| CliError::Failed(error.to_string()))?;
    }
    Ok(Assembly {
        hub,
        shutdown,
        lock,
    })
}

/// Where trust in workspaces is kept.
pub fn trust(settings: &Settings, store: Arc<Store>, masks: Masks) -> Trust {
    Trust {
        store,
        masks,
        run_hooks: settings.file.git_hooks,
        shelf: Shelf::new(settings.home.clone(), settings.limits.definitions()),
    }
}

/// What can be asked about, and who answers.
pub fn inquiries(settings: &Settings) -> Inquiries {
    Inquiries {
        home: settings.home.clone(),
        children: Arc::default(),
    }
}

/// MCP servers; none is started by this.
pub fn servers(
    settings: &Settings,
    policy: &Policy,
    trust: Trust,
    environment: Arc<Vec<(String, String)>>,
    sandbox: Arc<Sandbox>,
) -> Servers {
    let (configured, masks) = (settings.mcp.clone(), policy.masks.clone());
    let limits = settings.limits.clone();
    Servers::new(configured, trust, masks, limits, environment, sandbox)
}

/// The desk at which schedules are kept.
pub fn desk(settings: &Settings) -> Desk {
    let allowed = settings.whatsapp.as_ref();
    let allowed = allowed.map(|whatsapp| &*whatsapp.allowed);
    Desk {
        timezone: settings.file.timezone.clone(),
        jobs_max: settings.limits.cron_jobs_max,
        late_minutes: settings.limits.cron_late_minutes,
        only_number: match allowed {
            Some([only]) => Some(only.clone()),
            Some(_) | None => None,
        },
    }
}

/// Makes the data folder, for nobody else to look into.
///
/// # Errors
/// Where it cannot be made.
pub fn make_private(data_dir: &Path) -> Result<(), CliError> {
    let mut private = fs::DirBuilder::new();
    let made = private.recursive(true).mode(0o700).create(data_dir);
    made.map_err(|error| {
        CliError::Failed(format!(
            "make the data folder {}: {error}",
            data_dir.display()
        ))
    })
}

/// What the gate must know of this machine.
pub fn surroundings(settings: &Settings, environment: &[(String, String)]) -> Surroundings {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let path = environment
        .iter()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| env::split_paths(value).collect());
    let hidden = [settings.data_dir.clone(), settings.home.join(".env")];
    let own = settings.settled().into_iter().chain(hidden);
    Surroundings {
        own: own.map(|path| real(&path)).collect(),
        home: env::var_os("HOME").map(PathBuf::from),
        path: path.unwrap_or_default(),
    }
}

fn intake(settings: &Settings) -> Intake {
    let whatsapp = settings.whatsapp.as_ref();
    let bytes_max = settings.limits.media_bytes_max;
    let source = |w: &WhatsApp| MediaSource::new(&w.api_url, &w.access_token, bytes_max);
    let minute = |of: &ModelSettings| settings.models.find(&of.name)?.minute_micros;
    let ears = |of: &ModelSettings| Ears::new(&of.base_url, &of.key, &of.name, minute(of));
    Intake {
        source: whatsapp.map(source),
        ears: settings.transcription.as_ref().map(ears),
        eyes: (settings.model_entry())
            .filter(|entry| entry.images)
            .map(|_| Eyes::new(settings.limits.image_bytes_max)),
    }
}

fn graph(whatsapp: &crate::config::WhatsApp) -> Graph {
    Graph::new(
        &whatsapp.api_url,
        &whatsapp.phone_number_id,
        &whatsapp.access_token,
    )
}

/// The model of the settings.
///
/// # Errors
/// Where none is set: what to set, and which local servers would do.
pub fn model(settings: &Settings) -> Result<Model, CliError> {
    let Some(model) = &settings.model else {
        return Err(CliError::Use(
            "no model is configured: set AGENT_MODEL, and OPENAI_API_KEY or OPENAI_BASE_URL (see .env.example). \
             `journeyman doctor` looks for local servers; `journeyman demo` needs none"
                .into(),
        ));
    };
    Ok(openai(model, settings.file.model_stream))
}

fn openai(model: &ModelSettings, stream: bool) -> Model {
    Model::OpenAi(Box::new(OpenAi::new(Address {
        base_url: model.base_url.clone(),
        key: model.key.clone(),
        stream,
    })))
}

/// Always this folder.
///
/// # Errors
/// Where it does not exist.
pub fn fixed_workspace(folder: Option<&Path>) -> Result<PickWorkspace, CliError> {
    let folder = folder
        .map(Path::to_owned)
        .unwrap_or_else(|| PathBuf::from("."));
    let path = folder.canonicalize().map_err(|error| {
        CliError::Use(format!(
            "the workspace {} cannot be used: {error}",
            folder.display()
        ))
    })?;
    if !path.is_dir() {
        return Err(CliError::Use(format!(
            "the workspace {} is no folder",
            path.display()
        )));
    }
    Ok(always(reference(&path).into()))
}

/// The same place for every session.
pub fn always(site: Site) -> PickWorkspace {
    Box::new(move |_| Ok(site.clone()))
}

fn projects(settings: &Settings) -> Option<Projects> {
    let root = settings.projects_root.as_ref()?;
    Some(Projects::at(
        &root.canonicalize().unwrap_or_else(|_| root.clone()),
    ))
}

/// A folder below `PROJECTS_ROOT`: where the chat was last, else the one that is named in the settings, else the only one.
pub fn project_workspace(settings: &Settings) -> Result<PickWorkspace, CliError> {
    let Some(projects) = projects(settings) else {
        return Err(CliError::Use("PROJECTS_ROOT is not set: it names the folder whose children are the workspaces of chats".into()));
    };
    let named = settings.file.workspace.clone();
    Ok(Box::new(move |last| {
        pick(&projects, last(), &named).map(Site::from)
    }))
}

fn pick(projects: &Projects, last: Option<String>, named: &str) -> Result<WorkspaceRef, String> {
    let last = last.map(PathBuf::from).filter(|path| projects.holds(path));
    let last = last.and_then(|path| projects.find(path.file_name()?.to_str()?).ok());
    if let Some(last) = last {
        return Ok(last);
    }
    let names = projects.names();
    match (named, &names[..]) {
        ("", [only]) => projects.find(only),
        ("", _) => Err(format!(
            "no workspace can be chosen in {}: it must hold one folder, or `workspace` in config/settings.toml must name one",
            projects.root().display()
        )),
        (named, _) => projects
            .find(named)
            .map_err(|why| format!("`workspace` in config/settings.toml: {why}")),
    }
}
