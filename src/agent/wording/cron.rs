//! What the chat hears of schedules.

use super::{in_a_line, one_line};
use crate::agent::event::{Inbound, Via};
use crate::agent::state::State;
use crate::agent::texts::Texts;
use crate::schedule::misfire::ON_TIME;
use crate::schedule::wish::{Answer, Listed, Unclear, Wish, shown_in, shown_time};

/// What came of a wish about schedules.
pub fn cron_answer(texts: &Texts, wish: &Wish, answer: &Answer) -> String {
    match answer {
        Answer::Added {
            id,
            schedule,
            message,
            timezone,
            next,
        } => {
            let next: Vec<String> = next.iter().map(|time| shown_time(time)).collect();
            let values = [
                ("id", id.to_string()),
                ("schedule", schedule.clone()),
                ("message", message.clone()),
                ("timezone", timezone.clone()),
                ("next", next.join("\n")),
            ];
            say(texts, "cron_added", &values)
        }
        Answer::Listed { jobs } if jobs.is_empty() => texts.say("cron_none", &[]),
        Answer::Listed { jobs } => {
            let lines = jobs.iter().map(|job| cron_line(texts, job));
            let list = lines.collect::<Vec<_>>().join("\n");
            texts.say("cron_list", &[("list", &list)])
        }
        Answer::Done { id } => {
            let name = match wish {
                Wish::Delete { .. } => "cron_deleted",
                Wish::Pause { .. } => "cron_rests",
                Wish::Resume { .. } => "cron_resumed",
                Wish::Run { .. } | Wish::Add(_) | Wish::List => "cron_runs_now",
            };
            texts.say(name, &[("id", &id.to_string())])
        }
        Answer::Missing { id } => texts.say("cron_missing", &[("id", &id.to_string())]),
        Answer::Refused { why } => texts.say("cron_refused", &[("why", why)]),
    }
}

fn cron_line(texts: &Texts, job: &Listed) -> String {
    const CHARS_MAX: usize = 100;
    let state = match (&job.next, job.paused.as_str()) {
        (Some(next), _) => texts.say("cron_line_next", &[("next", &shown_time(next))]),
        (None, why) => texts.say("cron_line_paused", &[("why", why)]),
    };
    let last = job.last.as_deref();
    let last = last.map(|last| texts.say("cron_line_last", &[("last", last)]));
    let values = [
        ("id", job.id.to_string()),
        ("schedule", job.schedule.clone()),
        ("timezone", job.timezone.clone()),
        ("message", one_line(&job.message, CHARS_MAX)),
        ("state", state),
        ("last", last.unwrap_or_default()),
    ];
    say(texts, "cron_line", &values)
}

fn say(texts: &Texts, name: &str, values: &[(&str, String)]) -> String {
    let values = values.iter().map(|(name, value)| (*name, value.as_str()));
    texts.say(name, &values.collect::<Vec<_>>())
}

/// What the chat hears when a schedule fires; `None` for what a person said.
pub fn cron_fires(state: &State, message: &Inbound) -> Option<String> {
    const CHARS_MAX: usize = 200;
    let scheduled = state.opening.scheduled.as_ref();
    let scheduled = scheduled.filter(|_| message.via == Via::Schedule)?;
    let texts = &state.texts;
    let late = i64::try_from(state.now.since(scheduled.slot)).unwrap_or(i64::MAX);
    let slot = shown_in(&scheduled.timezone, scheduled.slot.0);
    let late = match late > ON_TIME.num_milliseconds() {
        true => texts.say("cron_fires_late", &[("slot", &slot)]),
        false => String::new(),
    };
    let values = [
        ("id", scheduled.job.to_string()),
        ("message", one_line(&message.text, CHARS_MAX)),
        ("late", late),
    ];
    Some(say(texts, "cron_fires", &values))
}

/// What is asked, said once more; `None` where nothing is.
pub fn reminder(state: &State) -> Option<String> {
    let scheduled = state.opening.scheduled.as_ref()?;
    let texts = &state.texts;
    let (name, code, what) = match (state.question(), state.listening()) {
        (Some((call, question)), _) => ("reminder", question.approval.clone(), in_a_line(call)),
        (None, Some(call)) => {
            let question = call.json().unwrap_or_default()["question"].take();
            let question = question.as_str().unwrap_or_default().to_owned();
            ("reminder_question", String::new(), question)
        }
        (None, None) => return None,
    };
    let values = [
        ("id", scheduled.job.to_string()),
        ("code", code),
        ("what", what),
    ];
    Some(say(texts, name, &values))
}

/// What is not understood of a wish.
pub fn cron_unclear(texts: &Texts, unclear: &Unclear) -> String {
    let (name, said) = match unclear {
        Unclear::Verb(said) => ("cron_unclear_verb", said.as_str()),
        Unclear::Id(said) => ("cron_unclear_id", said.as_str()),
        Unclear::Schedule => ("cron_unclear_schedule", ""),
        Unclear::Message => ("cron_unclear_message", ""),
        Unclear::Term(said) => ("cron_unclear_term", said.as_str()),
    };
    texts.say(name, &[("said", said)])
}
