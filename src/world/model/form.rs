//! Answers of a given shape: `response_format` and `temperature`, and how to do without them where a server refuses.
//!
//! Whoever asks says in words, too, what the answer is to be, and checks what comes: a form only makes it likelier.

use super::{Model, ModelError, Patience, Request};
use crate::agent::event::Answer;
use serde_json::Value;
use std::sync::Mutex;

/// What a server is to hold an answer to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Form<'a> {
    pub temperature: Option<f64>,
    /// What the answer is called, and the JSON Schema of it.
    pub schema: Option<(&'a str, &'a Value)>,
}

/// What servers were found to refuse, by model: they are not asked for it again.
#[derive(Debug, Default)]
pub(super) struct Forms(Mutex<Vec<(String, Refused)>>);

/// So many models are remembered.
const MODELS_MAX: usize = 50;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Refused {
    temperature: bool,
    schema: bool,
}

impl Forms {
    fn of(&self, model: &str) -> Refused {
        let known = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        let found = known.iter().find(|(name, _)| name == model);
        found.map(|(_, refused)| *refused).unwrap_or_default()
    }

    fn remember(&self, model: &str, refused: Refused) {
        let mut known = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        known.retain(|(name, _)| name != model);
        if known.len() >= MODELS_MAX {
            known.remove(0);
        }
        known.push((model.to_owned(), refused));
    }
}

impl Model {
    /// Asks for an answer of this form, and without what of it the server refuses: then the text is whatever the words of
    /// the request brought about. Nothing of it is shown while it is written.
    ///
    /// # Errors
    /// As [`Model::ask`]; requests that were refused for their form count.
    pub async fn ask_for(
        &self,
        request: &Request<'_>,
        form: Form<'_>,
        patience: Patience,
    ) -> Result<Answer, (ModelError, u32)> {
        let forms = match self {
            Model::OpenAi(model) => &model.forms,
            Model::Scripted(_) => return self.ask(request, patience, &|_| ()).await,
        };
        let known = forms.of(request.model);
        let mut refused = known;
        let mut spent = 0;
        loop {
            let left = Form {
                temperature: form.temperature.filter(|_| !refused.temperature),
                schema: form.schema.filter(|_| !refused.schema),
            };
            let (error, requests) = match self.ask_as(request, left, patience, &|_| ()).await {
                Ok(answer) => {
                    // Only now is it certain that it was the form.
                    if refused != known {
                        forms.remember(request.model, refused);
                    }
                    let attempts = spent + answer.attempts;
                    return Ok(Answer { attempts, ..answer });
                }
                Err(failure) => failure,
            };
            spent += requests;
            // Each time around something is left out: three requests at most.
            let Some(less) = less(left, refused, &error) else {
                return Err((error, spent));
            };
            refused = less;
        }
    }
}

/// What to leave out after this error, if the form can be the reason for it.
fn less(form: Form<'_>, refused: Refused, error: &ModelError) -> Option<Refused> {
    let (ModelError::Refused { message, .. } | ModelError::Server { message, .. }) = error else {
        return None;
    };
    let message = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let of_temperature = says(&["temperature"]);
    let of_schema = says(&["response_format", "json_schema", "schema", "grammar"]);
    // A server that fails is believed only where it names the form: all else may pass.
    if matches!(error, ModelError::Server { .. }) && !of_temperature && !of_schema {
        return None;
    }
    if form.temperature.is_some() && of_temperature && !of_schema {
        let temperature = true;
        return Some(Refused {
            temperature,
            ..refused
        });
    }
    if form.schema.is_some() {
        let schema = true;
        return Some(Refused { schema, ..refused });
    }
    form.temperature.map(|_| Refused {
        temperature: true,
        ..refused
    })
}
