//! The HTTP server: WhatsApp's webhook and a health check.
//!
//! It answers 200 only after every message of a webhook is on disk; anything else makes WhatsApp send it again, and
//! what came twice is dropped. It logs neither texts nor numbers.

use crate::agent::event::{Inbound, MediaKind, Via};
use crate::config::WhatsApp;
use crate::doors::guests::{Entry, Guests};
use crate::doors::whatsapp::payload::{self, Incoming, Kind};
use crate::doors::whatsapp::signature::{self, SIGNATURE_HEADER};
use crate::hub::Hub;
use crate::world::clock;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Read marks that may be on their way; beyond that a message gets none.
const COURTESIES_MAX: usize = 32;

/// What the routes need.
#[derive(Clone)]
struct Front {
    hub: Arc<Hub>,
    guests: Arc<Guests>,
    whatsapp: Option<Arc<WhatsApp>>,
    courtesies: Arc<Semaphore>,
}

/// What Meta sends once, when the webhook is set up.
#[derive(Debug, Deserialize)]
struct Verification {
    #[serde(rename = "hub.mode", default)]
    mode: String,
    #[serde(rename = "hub.verify_token", default)]
    token: String,
    #[serde(rename = "hub.challenge", default)]
    challenge: String,
}

type Reply = (StatusCode, String);

/// The routes.
pub fn router(hub: Arc<Hub>, whatsapp: Option<WhatsApp>) -> Router {
    let body_bytes_max = hub.surface().policy.limits.body_bytes_max;
    let allowed = whatsapp.as_ref().map(|whatsapp| whatsapp.allowed.clone());
    let front = Front {
        hub,
        guests: Arc::new(Guests::new(allowed.unwrap_or_default())),
        whatsapp: whatsapp.map(Arc::new),
        courtesies: Arc::new(Semaphore::new(COURTESIES_MAX)),
    };
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/webhook", get(verify).post(receive))
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .with_state(front)
}

async fn verify(State(front): State<Front>, Query(asked): Query<Verification>) -> Reply {
    let Some(whatsapp) = &front.whatsapp else {
        return not_configured();
    };
    match asked.mode == "subscribe"
        && signature::token_matches(&whatsapp.verify_token, &asked.token)
    {
        true => (StatusCode::OK, asked.challenge),
        false => reply(
            StatusCode::FORBIDDEN,
            "the verify token is not the one in WHATSAPP_VERIFY_TOKEN",
        ),
    }
}

async fn receive(
    State(front): State<Front>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Reply {
    let Some(whatsapp) = &front.whatsapp else {
        return not_configured();
    };
    let body = match body {
        Ok(body) => body,
        Err(rejection) => {
            return reply(
                rejection.status(),
                "the body is too large or did not arrive whole",
            );
        }
    };
    let header = headers
        .get(SIGNATURE_HEADER)
        .and_then(|value| value.to_str().ok());
    if !signature::verify(&whatsapp.app_secret, header, &body) {
        tracing::warn!(bytes = body.len(), "webhook refused: bad signature");
        return reply(
            StatusCode::UNAUTHORIZED,
            "the signature does not fit the body",
        );
    }
    let incoming = match payload::parse(&body) {
        Ok(incoming) => incoming,
        Err(error) => {
            tracing::warn!(%error, "webhook refused");
            return reply(StatusCode::BAD_REQUEST, &error.to_string());
        }
    };
    for message in incoming {
        if let Err(error) = take(&front, message).await {
            tracing::error!(%error, "webhook not taken; WhatsApp will send it again");
            return reply(StatusCode::SERVICE_UNAVAILABLE, "not taken; send it again");
        }
    }
    reply(StatusCode::OK, "ok")
}

/// One message of a webhook. Who is not on the list gets nothing and costs nothing.
async fn take(front: &Front, incoming: Incoming) -> Result<(), crate::hub::DeliverError> {
    let Incoming {
        id,
        from,
        kind,
        quotes: about,
        ..
    } = incoming;
    let store = &front.hub.surface().store;
    let inbound = |text: String, via, unreadable| Inbound {
        about: about.clone(),
        via,
        unreadable,
        ..Inbound::text(id.clone(), from.clone(), text)
    };
    let message = match kind {
        Kind::Status { state, error } if state == "failed" => {
            if front.guests.serves(store, &from)? {
                let failure = payload::not_delivered(error);
                let chat = format!("whatsapp:{from}");
                front.hub.not_delivered(&chat, &id, failure).await?;
            }
            return Ok(());
        }
        Kind::Status { .. } => return Ok(()),
        Kind::Text(text) => inbound(text, Via::Text, None),
        Kind::Button { id: command, .. } => inbound(command, Via::Button, None),
        // Taken back, it says nothing any more.
        Kind::Reaction { emoji, .. } if emoji.is_empty() => return Ok(()),
        Kind::Reaction { emoji, of } => Inbound {
            about: Some(of),
            ..inbound(emoji, Via::Reaction, None)
        },
        Kind::Media { media, .. }
            if media.kind == MediaKind::Image && !front.hub.surface().world.intake.sees() =>
        {
            inbound(String::new(), Via::Text, Some("image".into()))
        }
        Kind::Media { media, caption } => Inbound {
            media: Some(Box::new(media)),
            ..inbound(caption, Via::Text, None)
        },
        // WhatsApp's own word about the chat (a new number), not the person's.
        Kind::Unsupported(name) if name == "system" => return Ok(()),
        Kind::Unsupported(name) => inbound(String::new(), Via::Text, Some(name)),
    };
    let message = match front.guests.entry(store, &message, clock::now())? {
        Entry::Served => message,
        Entry::Paired => Inbound {
            via: Via::Pairing,
            text: String::new(),
            media: None,
            ..message
        },
        Entry::Stranger => {
            tracing::info!("message of a number that is not in ALLOWED_PHONE_NUMBERS dropped");
            return Ok(());
        }
    };
    // "typing…" after the answer to a command or a button would only mislead.
    let starts_work = message.via == Via::Text && !message.text.trim_start().starts_with('/');
    let delivered = front
        .hub
        .deliver(&format!("whatsapp:{from}"), message)
        .await?;
    if delivered.fresh
        && starts_work
        && let Ok(place) = front.courtesies.clone().try_acquire_owned()
    {
        // A courtesy: whether it arrives changes nothing.
        let world = front.hub.surface().world.clone();
        tokio::spawn(async move {
            if let Some(graph) = &world.channels.whatsapp {
                let _ = graph.read_and_typing(&id).await;
            }
            drop(place);
        });
    }
    Ok(())
}

fn reply(status: StatusCode, text: &str) -> Reply {
    (status, format!("{text}\n"))
}

fn not_configured() -> Reply {
    reply(
        StatusCode::NOT_FOUND,
        "WhatsApp is not configured here (see .env.example)",
    )
}
