//! Tries: a tiny request to the model, a look at the number, the user of a token, Meta's challenge. Errors are sentences
//! without a full stop, and hold no secret.

use crate::cli::doctor::LOCAL_SERVERS;
use crate::doors::whatsapp::signature;
use crate::world::{clock, net};
use axum::Router;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::routing::get;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;
use tokio::net::TcpListener;

const LOOK: Duration = Duration::from_secs(3);
const TRY: Duration = Duration::from_secs(20);
/// A local server may have to load the model first.
const ANSWER: Duration = Duration::from_secs(180);
const MODELS_SHOWN_MAX: usize = 12;

pub(super) struct Trying;

impl Trying {
    pub(super) fn new() -> Self {
        Self
    }

    /// The first local server that answers: its name and address.
    pub(super) async fn local_model(&self) -> Option<(&'static str, &'static str)> {
        for (name, address) in LOCAL_SERVERS {
            let request = client(address)
                .get(format!("{address}/models"))
                .timeout(LOOK);
            if request
                .send()
                .await
                .is_ok_and(|answer| answer.status().is_success())
            {
                return Some((name, address));
            }
        }
        None
    }

    /// The models that a server lists.
    pub(super) async fn models(&self, address: &str, key: &str) -> Vec<String> {
        let request = client(address)
            .get(format!("{address}/models"))
            .timeout(LOOK);
        let Ok(answer) = request.bearer_auth(key).send().await else {
            return Vec::new();
        };
        let listed: Value = answer.json().await.unwrap_or_default();
        let ids = listed["data"].as_array().into_iter().flatten();
        let ids = ids.filter_map(|model| model["id"].as_str().map(str::to_owned));
        ids.take(MODELS_SHOWN_MAX).collect()
    }

    pub(super) async fn model(
        &self,
        address: &str,
        key: &str,
        model: &str,
    ) -> Result<String, String> {
        let body = json!({"model": model, "messages": [{"role": "user", "content": "Say ok."}]});
        let request = client(address).post(format!("{address}/chat/completions"));
        let request = request.bearer_auth(key).json(&body).timeout(ANSWER);
        let answer = asked(request, address).await?;
        match answer["choices"][0]["message"].is_object() {
            true => Ok(format!("{model} answers")),
            false => Err(format!(
                "{address} answers, but not as an OpenAI-compatible server does"
            )),
        }
    }

    pub(super) async fn github(&self, api: &str, token: &str) -> Result<String, String> {
        let request = client(api)
            .get(format!("{api}/user"))
            .header("user-agent", "journeyman");
        let user = asked(request.bearer_auth(token).timeout(TRY), api).await?;
        Ok(format!(
            "GitHub knows the token as {}",
            user["login"].as_str().unwrap_or("?")
        ))
    }

    pub(super) async fn whatsapp(
        &self,
        api: &str,
        token: &str,
        id: &str,
    ) -> Result<String, String> {
        if !id.chars().all(|c| c.is_ascii_digit()) || id.is_empty() {
            return Err("the phone number ID is digits only".into());
        }
        let request = client(api)
            .get(format!("{api}/{id}"))
            .bearer_auth(token)
            .timeout(TRY);
        let number = asked(request, api).await?;
        Ok(format!(
            "the token is valid for {}",
            number["display_phone_number"].as_str().unwrap_or(id)
        ))
    }

    pub(super) async fn webhook(
        &self,
        bind: &str,
        public: &str,
        token: &str,
    ) -> Result<String, String> {
        let here = TcpListener::bind(bind).await.map_err(|error| {
            format!("{bind} cannot be listened on: {error} (a `serve` that runs must be stopped for this)")
        })?;
        let expected = token.to_owned();
        let routes = Router::new().route(
            "/webhook",
            get(move |Query(asked): Query<HashMap<String, String>>| {
                std::future::ready(answer(&expected, &asked))
            }),
        );
        let server = tokio::spawn(async move { axum::serve(here, routes).await });
        let challenge = hex::encode(clock::random::<8>());
        let public = public.trim_end_matches('/').trim_end_matches("/webhook");
        let request = client(public)
            .get(format!("{public}/webhook"))
            .timeout(TRY)
            .query(&[
                ("hub.mode", "subscribe"),
                ("hub.verify_token", token),
                ("hub.challenge", &challenge),
            ]);
        let said = match request.send().await {
            Ok(answer) => answer.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        };
        server.abort();
        // Only then is the address free again.
        let _ = server.await;
        match said == challenge {
            true => Ok(format!("{public}/webhook leads here")),
            false => Err(format!("{public}/webhook does not lead to {bind}")),
        }
    }
}

fn answer(expected: &str, asked: &HashMap<String, String>) -> (StatusCode, String) {
    let said = |name: &str| asked.get(name).cloned().unwrap_or_default();
    match signature::token_matches(expected, &said("hub.verify_token")) {
        true => (StatusCode::OK, said("hub.challenge")),
        false => (StatusCode::FORBIDDEN, String::new()),
    }
}

fn client(address: &str) -> Client {
    net::strict_client(address)
}

async fn asked(request: RequestBuilder, address: &str) -> Result<Value, String> {
    let answer = request
        .send()
        .await
        .map_err(|error| match error.is_timeout() {
            true => format!("{address} did not answer in time"),
            false => format!("{address} cannot be reached"),
        })?;
    let status = answer.status();
    let body: Value = answer.json().await.unwrap_or_default();
    if status.is_success() {
        return Ok(body);
    }
    let why = body["error"]["message"]
        .as_str()
        .or_else(|| body["message"].as_str());
    let why: String = why.unwrap_or_default().chars().take(200).collect();
    Err(format!(
        "{address} answers {}{}{why}",
        status.as_u16(),
        if why.is_empty() { "" } else { ": " }
    ))
}
