//! `journeyman serve`: the server, until SIGTERM or Ctrl-C.

use super::assemble::{Assembly, assemble, model, project_workspace};
use super::{CliError, Exit, block_on_for_many, log_to_stderr};
use crate::config::Settings;
use crate::doors::front::{self, Terms};
use crate::doors::schedule::Ticker;
use crate::doors::{http, server};
use crate::hub::Hub;
use crate::world::trim;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub fn run(settings: Settings) -> Result<Exit, CliError> {
    log_to_stderr("info");
    if settings.whatsapp.is_none() && settings.http_clients.is_empty() {
        return Err(CliError::Use("no channel is configured: set the WHATSAPP_ variables or HTTP_CLIENTS (see .env.example), or use `journeyman chat`".into()));
    }
    let (model, workspace) = (model(&settings)?, project_workspace(&settings)?);
    workspace(&|| None).map_err(CliError::Use)?;
    block_on_for_many(async {
        let Assembly {
            hub,
            shutdown,
            lock: _lock,
        } = assemble(&settings, model, workspace)?;
        let listener = listen(&settings).await?;
        tokio::spawn(stop_on_signal(shutdown.clone()));
        let address = listener
            .local_addr()
            .map(|address| address.to_string())
            .unwrap_or_default();
        tracing::info!(%address, data = %settings.data_dir.display(), "serving; the webhook is /webhook");
        serve(hub, &settings, listener, shutdown).await
    })?
}

async fn listen(settings: &Settings) -> Result<TcpListener, CliError> {
    TcpListener::bind(settings.bind).await.map_err(|error| {
        CliError::Failed(format!(
            "listen on {}: {error}. Stop what uses it, or set BIND_ADDR",
            settings.bind
        ))
    })
}

/// Serves on `listener` until `shutdown`, then waits until every session reached its safe point.
///
/// # Errors
/// Where what an earlier process left cannot be read.
pub async fn serve(
    hub: Arc<Hub>,
    settings: &Settings,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<Exit, CliError> {
    hub.recover()
        .map_err(|error| CliError::Failed(error.to_string()))?;
    tokio::spawn(hub.clone().sweep());
    tokio::spawn(Ticker::new(hub.clone()).run());
    let router = server::router(hub.clone(), settings.whatsapp.clone())
        .merge(http::router(hub.clone(), settings.http_clients.clone()));
    let terms = Terms::from(&settings.limits);
    trim::forget_start();
    front::serve(listener, router, terms, shutdown).await;
    hub.rest().await;
    Ok(Exit::Done)
}

/// The first signal drains, the second stops at once.
async fn stop_on_signal(shutdown: CancellationToken) {
    let (Ok(mut term), Ok(mut int)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        tracing::error!("signals cannot be watched: stop the server by SIGKILL, nothing is lost");
        return;
    };
    for _ in 0..2 {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        if shutdown.is_cancelled() {
            std::process::exit(0); // what was running is found at the next start
        }
        tracing::info!("stopping at the next safe point; once more stops at once");
        shutdown.cancel();
    }
}
