//! `journeyman resume`: goes on with a session where it stopped.

use super::assemble::{assemble, fixed_workspace, model};
use super::run::{Attendant, Doubt, How, failed, leave, read_line};
use super::{CliError, Exit, block_on, find, log_to_stderr};
use crate::agent::state::State;
use crate::agent::texts::Catalogues;
use crate::config::Settings;
use crate::gate::{Reply, read_reply};
use crate::history::{good_part, keep_good_part};
use clap::Args;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

#[derive(Debug, Args)]
#[command(
    after_help = "Works for sessions that wait, were interrupted or cancelled, failed, or reached a limit. --yes does not answer \
                  whether something that may have run is to run again: that takes --run-again, --go-on or you."
)]
pub struct Resume {
    /// Id of the session, or the beginning of one (see `journeyman sessions`)
    session: String,
    #[command(flatten)]
    how: How,
    /// Where the journal is damaged: go on from the lines before the damage. The damaged file is kept whole
    #[arg(long)]
    from_good_prefix: bool,
    /// Where a call may or may not have run before the interruption: run it again
    #[arg(long, conflicts_with = "go_on")]
    run_again: bool,
    /// Where a call may or may not have run before the interruption: go on without running it again
    #[arg(long)]
    go_on: bool,
}

impl Resume {
    fn doubt(&self) -> Doubt {
        match (self.run_again, self.go_on) {
            (true, _) => Doubt::RunAgain,
            (false, true) => Doubt::GoOn,
            (false, false) => Doubt::Ask,
        }
    }

    pub fn run(self, settings: Settings) -> Result<Exit, CliError> {
        log_to_stderr("warn");
        let (model, workspace) = (model(&settings)?, fixed_workspace(None)?);
        let doubt = self.doubt();
        block_on(async {
            let assembly = assemble(&settings, model, workspace)?;
            let session = find::session(&settings.data_dir, &self.session)?;
            let path = find::journal(&settings.data_dir, &session)?;
            let texts = &settings.texts;
            let state = mended(&path, texts, self.from_good_prefix).await?;
            assembly.hub.index().map_err(failed)?;
            let mut seen = assembly.hub.surface().observers.watch();
            let attendant = Attendant::new(
                &assembly,
                session,
                state.opening.owner.clone(),
                self.how,
                doubt,
            )?;
            let exit = attendant.take_up(&state, &mut seen).await;
            leave(assembly).await;
            attendant.print_rest(&mut seen);
            exit
        })?
    }
}

/// A damaged journal goes on from its good part only where the person says so, by the flag or at the terminal.
async fn mended(path: &Path, texts: &Catalogues, agreed: bool) -> Result<State, CliError> {
    let past = good_part(path, texts, |_| {}).map_err(failed)?;
    let Some(damage) = past.error(path) else {
        return Ok(past.state);
    };
    let lines = past.end.seq;
    if !agreed && !io::stdin().is_terminal() {
        return Err(CliError::Failed(format!(
            "{damage}. Add --from-good-prefix to go on from line {lines}; the damaged file is kept whole"
        )));
    }
    if !agreed {
        let _ = write!(
            io::stderr(),
            "{damage}.\nGo on from line {lines}? What was done after it is not known then, and the damaged file is kept whole. [yes/no] "
        );
        let said = read_line().await.and_then(|line| read_reply(&line));
        if said != Some(Reply::Yes) {
            return Err(CliError::Failed("nothing was changed".into()));
        }
    }
    if let Some(tail) = keep_good_part(path, texts).map_err(failed)? {
        let _ = writeln!(
            io::stderr(),
            "Going on from line {lines}; {} lines ({} bytes) are set aside, the damaged file is kept as {}",
            tail.lines,
            tail.bytes,
            path.with_file_name(&tail.kept_as).display()
        );
    }
    Ok(good_part(path, texts, |_| {}).map_err(failed)?.state)
}
