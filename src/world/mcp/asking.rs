//! What servers ask the person while a call of one of their tools runs: passed on to the session of that call, or declined.
//!
//! A request of a server does not say for which call it is. Where several run at once over one connection nobody is asked:
//! the question could reach the wrong person.

use crate::agent::event::CallId;
use crate::agent::forms::{ServerAnswer, ServerQuestion, Wants};
use crate::agent::mask::Masks;
use crate::world::Asks;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Of one call; whoever asks more often is told no.
const QUESTIONS_MAX: usize = 5;
/// How often it is looked whether a call's time is up, at most.
const LOOK_MIN: Duration = Duration::from_millis(100);

/// The calls that run over one connection.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<Vec<Arc<Asking>>>>);

/// What one call's server asks.
pub struct Asking {
    pub server: String,
    pub call: CallId,
    /// `None`: nobody is there to answer.
    pub asks: Option<Asks>,
    pub masks: Masks,
    pub so_far: Mutex<SoFar>,
}

/// What was asked in one call.
#[derive(Default)]
pub struct SoFar {
    questions: usize,
    /// Why the person was not asked something.
    refused: Vec<String>,
    /// For the person, in questions that are answered.
    waited: Duration,
    /// Since when one is open.
    open: Option<Instant>,
}

/// As long as it is there, its call's server may ask.
pub struct Attended<'a> {
    calls: &'a Calls,
    asking: Arc<Asking>,
}

impl Calls {
    pub fn attend(&self, asking: Arc<Asking>) -> Attended<'_> {
        self.all().push(asking.clone());
        Attended {
            calls: self,
            asking,
        }
    }

    /// What a server is told that asks something.
    pub async fn answer(&self, request: ElicitRequestParams) -> ElicitResult {
        let calls = self.all().clone();
        match &calls[..] {
            [one] => one.answer(request).await,
            several => {
                for one in several {
                    one.refuse(
                        "several calls of it ran at once, and it does not say which one asks",
                    );
                }
                ElicitResult::new(ElicitationAction::Decline)
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Asking>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Attended<'_> {
    fn drop(&mut self) {
        self.calls
            .all()
            .retain(|one| !Arc::ptr_eq(one, &self.asking));
    }
}

impl Asking {
    async fn answer(&self, request: ElicitRequestParams) -> ElicitResult {
        let question = self.question(request);
        let (asks, question) = match (&self.asks, question) {
            (Some(asks), Ok(question)) => (asks, question),
            (None, Ok(_)) => return self.refused("nobody is here to answer"),
            (_, Err(why)) => return self.refused(&why),
        };
        let is_page = matches!(question.wants, Wants::Page { .. });
        let (to, answer) = oneshot::channel();
        let _open = Open::begin(self);
        asks(&self.call, question, to);
        match answer.await {
            Ok(ServerAnswer::Given { .. }) if is_page => {
                ElicitResult::new(ElicitationAction::Accept)
            }
            Ok(ServerAnswer::Given { content }) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(content)
            }
            Ok(ServerAnswer::Declined) => ElicitResult::new(ElicitationAction::Decline),
            Err(_) => ElicitResult::new(ElicitationAction::Cancel),
        }
    }

    fn question(&self, request: ElicitRequestParams) -> Result<ServerQuestion, String> {
        let mut so_far = self.so_far();
        so_far.questions += 1;
        if so_far.questions > QUESTIONS_MAX || so_far.open.is_some() {
            return Err(format!(
                "{QUESTIONS_MAX} questions in one call are the limit, one at a time"
            ));
        }
        match request {
            ElicitRequestParams::FormElicitationParams {
                message,
                requested_schema,
                ..
            } => {
                let schema =
                    serde_json::to_value(&requested_schema).map_err(|error| error.to_string())?;
                ServerQuestion::form(&self.server, &self.masks.apply(message), schema)
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                ServerQuestion::page(&self.server, &self.masks.apply(message), &url)
            }
            _ => Err("it asks in a way that is not known here".into()),
        }
    }

    fn refused(&self, why: &str) -> ElicitResult {
        self.refuse(why);
        ElicitResult::new(ElicitationAction::Decline)
    }

    fn refuse(&self, why: &str) {
        let mut so_far = self.so_far();
        if so_far.refused.len() < QUESTIONS_MAX {
            so_far.refused.push(why.to_owned());
        }
    }

    /// What the model reads about questions that nobody was asked; empty where there are none.
    pub fn remarks(&self) -> String {
        let remark = |why: &String| {
            format!("\n[The server asked the person something and was told no: {why}.]")
        };
        self.so_far().refused.iter().map(remark).collect()
    }

    /// Done when a call has taken so long, but for what a person took to answer.
    pub async fn out_of_time(&self, limit: Duration) {
        let began = Instant::now();
        loop {
            let left = (limit + self.waited()).saturating_sub(began.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.max(LOOK_MIN)).await;
        }
    }

    fn waited(&self) -> Duration {
        let so_far = self.so_far();
        let open = so_far.open.map(|since| since.elapsed());
        so_far.waited + open.unwrap_or_default()
    }

    fn so_far(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that is open, for as long as it is there.
struct Open<'a>(&'a Asking);

impl<'a> Open<'a> {
    fn begin(asking: &'a Asking) -> Self {
        asking.so_far().open = Some(Instant::now());
        Self(asking)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut so_far = self.0.so_far();
        let since = so_far.open.take();
        so_far.waited += since.map(|since| since.elapsed()).unwrap_or_default();
    }
}
