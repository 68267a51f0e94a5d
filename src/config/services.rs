//! The services outside: the model's server, WhatsApp, GitHub; the programs that speak over HTTP.

use super::sources::{Sources, numbers};
use super::{ConfigError, HttpClient, ModelSettings, WhatsApp};
use crate::world::remote::{Hosting, is_name};

const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
const DEFAULT_GRAPH_URL: &str = "https://graph.facebook.com/v23.0";
const DEFAULT_GITHUB_URL: &str = "https://api.github.com";

/// A secret that can be guessed is none.
const HTTP_SECRET_CHARS_MIN: usize = 24;
const HTTP_NAME_CHARS_MAX: usize = 32;

pub(super) fn model(sources: &mut Sources) -> Result<Option<ModelSettings>, ConfigError> {
    let base_url = sources.url("OPENAI_BASE_URL", DEFAULT_BASE_URL)?;
    let key = sources.get("OPENAI_API_KEY", true).map(|(key, _)| key);
    let Some((name, _)) = sources.get("AGENT_MODEL", false) else {
        return Ok(None);
    };
    let key = match key {
        Some(key) => key,
        None if base_url != DEFAULT_BASE_URL => "none".into(),
        None => {
            return Err(ConfigError::Missing {
                name: "OPENAI_API_KEY",
                why: format!(
                    "{DEFAULT_BASE_URL} needs one; for a local server set OPENAI_BASE_URL"
                ),
            });
        }
    };
    Ok(Some(ModelSettings {
        name,
        base_url,
        key,
    }))
}

/// Who hears: a server of its own, or the model's. The model's key goes to the model's server only.
pub(super) fn transcription(
    sources: &mut Sources,
    model: Option<&ModelSettings>,
) -> Result<Option<ModelSettings>, ConfigError> {
    let own = sources.url("TRANSCRIPTION_BASE_URL", "")?;
    let own = Some(own).filter(|url| !url.is_empty());
    let own_key = sources.get("TRANSCRIPTION_API_KEY", true);
    let Some((name, _)) = sources.get("TRANSCRIPTION_MODEL", false) else {
        return Ok(None);
    };
    let (base_url, key) = match (own, model) {
        (Some(own), _) => (own, None),
        (None, Some(model)) => (model.base_url.clone(), Some(model.key.clone())),
        (None, None) => (DEFAULT_BASE_URL.to_owned(), None),
    };
    let own_key = own_key.map(|(key, _)| key);
    Ok(Some(ModelSettings {
        name,
        base_url,
        key: own_key.or(key).unwrap_or_else(|| "none".into()),
    }))
}

pub(super) fn whatsapp(sources: &mut Sources) -> Result<Option<WhatsApp>, ConfigError> {
    let api_url = sources.url("WHATSAPP_API_URL", DEFAULT_GRAPH_URL)?;
    let allowed = sources.parsed(
        "ALLOWED_PHONE_NUMBERS",
        "",
        "phone numbers in digits with country code, comma-separated",
        numbers,
    )?;
    let secrets = [
        "WHATSAPP_ACCESS_TOKEN",
        "WHATSAPP_VERIFY_TOKEN",
        "WHATSAPP_APP_SECRET",
    ];
    let [access_token, verify_token, app_secret] =
        secrets.map(|name| sources.get(name, true).map(|(value, _)| value));
    let phone_number_id = sources
        .get("WHATSAPP_PHONE_NUMBER_ID", false)
        .map(|(value, _)| value);
    if [&access_token, &verify_token, &app_secret, &phone_number_id]
        .iter()
        .all(|value| value.is_none())
    {
        return Ok(None);
    }
    let need = |name: &'static str, value: Option<String>| {
        value.ok_or_else(|| ConfigError::Missing {
            name,
            why: "WhatsApp needs all of its variables (see .env.example)".into(),
        })
    };
    Ok(Some(WhatsApp {
        access_token: need("WHATSAPP_ACCESS_TOKEN", access_token)?,
        phone_number_id: need("WHATSAPP_PHONE_NUMBER_ID", phone_number_id)?,
        verify_token: need("WHATSAPP_VERIFY_TOKEN", verify_token)?,
        app_secret: need("WHATSAPP_APP_SECRET", app_secret)?,
        api_url,
        allowed,
    }))
}

pub(super) fn github(sources: &mut Sources) -> Result<Hosting, ConfigError> {
    let api = sources.url("GITHUB_API_URL", DEFAULT_GITHUB_URL)?;
    let project = |text: &str| match text.split_once('/') {
        Some((owner, name)) if is_name(owner) && is_name(name) => {
            Some(Some((owner.to_owned(), name.to_owned())))
        }
        Some(_) => None,
        None => text.is_empty().then_some(None),
    };
    let project = sources.parsed("GITHUB_REPO", "", "owner/name", project)?;
    let token = sources.get("GITHUB_TOKEN", true);
    if let Some((token, origin)) = &token
        && !token.chars().all(|c| c.is_ascii_graphic())
    {
        return Err(ConfigError::Value {
            name: "GITHUB_TOKEN".into(),
            origin: origin.clone(),
            value: "(not shown)".into(),
            accepted: "a token: letters, digits and signs without blanks",
        });
    }
    Ok(Hosting {
        api,
        token: token.map(|(token, _)| token),
        project,
    })
}

pub(super) fn http_clients(sources: &mut Sources) -> Result<Vec<HttpClient>, ConfigError> {
    let Some((value, origin)) = sources.get("HTTP_CLIENTS", true) else {
        return Ok(Vec::new());
    };
    clients(&value).ok_or(ConfigError::Value {
        name: "HTTP_CLIENTS".into(),
        origin,
        value: "(not shown)".into(),
        accepted: "NAME:SECRET pairs, comma-separated: names of lower-case letters, digits, - and _, each once; \
                   secrets of at least 24 letters, digits and signs but commas, each another (`openssl rand -hex 32` makes one)",
    })
}

fn clients(text: &str) -> Option<Vec<HttpClient>> {
    let mut clients: Vec<HttpClient> = Vec::new();
    let pairs = text.split(',').map(str::trim);
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let (name, secret) = pair.split_once(':')?;
        let in_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        let named = (1..=HTTP_NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(in_name);
        let secret_enough =
            secret.len() >= HTTP_SECRET_CHARS_MIN && secret.chars().all(|c| c.is_ascii_graphic());
        let taken = |other: &HttpClient| other.name == name || other.secret == secret;
        if !named || !secret_enough || clients.iter().any(taken) {
            return None;
        }
        clients.push(HttpClient {
            name: name.to_owned(),
            secret: secret.to_owned(),
        });
    }
    Some(clients)
}

#[cfg(test)]
mod tests {
    use super::clients;

    #[test]
    fn clients_need_a_name_and_a_secret_of_their_own() {
        let secret = "0123456789abcdef01234567";
        let found = clients(&format!("ci:{secret}, slack:{secret}:x,")).expect("two clients");
        let found: Vec<_> = found.iter().map(|c| (&*c.name, &*c.secret)).collect();
        assert_eq!(
            found,
            [("ci", secret), ("slack", "0123456789abcdef01234567:x")]
        );
        for wrong in [
            "ci".to_owned(),
            format!(":{secret}"),
            format!("Ci:{secret}"),
            format!("a/b:{secret}"),
            "ci:short".to_owned(),
            format!("ci:{secret} {secret}"),
            format!("ci:{secret},ci:{secret}1"),
            format!("ci:{secret},slack:{secret}"),
        ] {
            assert!(clients(&wrong).is_none(), "{wrong}");
        }
    }
}
