//! The services outside: the model's server and WhatsApp.

use super::sources::{Sources, numbers};
use super::{ConfigError, ModelSettings, WhatsApp};

const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
const DEFAULT_GRAPH_URL: &str = "https://graph.facebook.com/v23.0";

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
    if allowed.is_empty() {
        return Err(ConfigError::Missing {
            name: "ALLOWED_PHONE_NUMBERS",
            why: "without it nobody would be served".into(),
        });
    }
    Ok(Some(WhatsApp {
        access_token: need("WHATSAPP_ACCESS_TOKEN", access_token)?,
        phone_number_id: need("WHATSAPP_PHONE_NUMBER_ID", phone_number_id)?,
        verify_token: need("WHATSAPP_VERIFY_TOKEN", verify_token)?,
        app_secret: need("WHATSAPP_APP_SECRET", app_secret)?,
        api_url,
        allowed,
    }))
}
