//! What came of a wish about schedules, for a model.

use crate::agent::event::Outcome;
use crate::schedule::wish::{Answer, Listed, Wish};

pub fn schedule_outcome(wish: &Wish, answer: &Answer) -> Outcome {
    match answer {
        Answer::Added { id, next, .. } => {
            Outcome::done(format!("Schedule {id} is set; next: {}.", next.join(", ")))
        }
        Answer::Listed { jobs } if jobs.is_empty() => Outcome::done("There are none."),
        Answer::Listed { jobs } => {
            let lines: Vec<String> = jobs.iter().map(line).collect();
            Outcome::done(lines.join("\n"))
        }
        Answer::Done { id } => Outcome::done(format!("Schedule {id}: {} done.", wish.verb())),
        Answer::Missing { id } => Outcome::failed(format!("There is no schedule {id}.")),
        Answer::Refused { why } => Outcome::failed(why.clone()),
    }
}

fn line(job: &Listed) -> String {
    let next = match &job.next {
        Some(next) => format!("next {next}"),
        None => format!("paused: {}", job.paused),
    };
    format!(
        "{}: {} ({}), {next}: {:?}",
        job.id, job.schedule, job.timezone, job.message
    )
}
