//! The self-test: before the first command, a forbidden write is tried.

use super::private::{private_folder, sweep};
use super::{Launch, Life, Processes};
use crate::agent::event::CallId;
use crate::world::confine::Needs;
use std::io;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What the self-test's limit is.
const PROOF_TIMEOUT: Duration = Duration::from_secs(10);

impl Processes {
    /// What stands against starting anything here: found out once, before the first command.
    ///
    /// The text says what to set.
    pub async fn distrust(&self) -> Option<String> {
        if let Some(why) = self.sandbox.refusal() {
            return Some(why);
        }
        let proven = self.sandbox.proven.get_or_init(|| self.prove()).await;
        let why = proven.as_ref().err()?.clone();
        self.sandbox.distrust(why)
    }

    /// The self-test: a confined process writes where it may, and fails to write where it may not.
    async fn prove(&self) -> Result<(), String> {
        tokio::task::spawn_blocking(|| sweep(&std::env::temp_dir()));
        if !self.sandbox.has_landlock() {
            return Ok(());
        }
        let failed = |error: io::Error| format!("the self-test could not be made: {error}");
        let folder = private_folder().map_err(failed)?;
        let root = folder.path().canonicalize().map_err(failed)?;
        let (inside, outside) = (root.join("inside"), root.join("outside"));
        std::fs::create_dir(&inside).map_err(failed)?;
        std::fs::create_dir(&outside).map_err(failed)?;
        let script = "(echo x > ../outside/written) 2> /dev/null; echo x > written";
        let launch = Launch {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            cwd: inside.clone(),
            env: Vec::new(),
            timeout: PROOF_TIMEOUT,
            stdin: None,
            needs: Needs::default(),
            guard_git: false,
            life: Life::Bound,
        };
        let test = Self {
            workspace: inside.clone(),
            cancel: CancellationToken::new(),
            live: None,
            only_reads: false,
            ..self.clone()
        };
        let finished = test.run_anyway(&CallId("self-test".into()), launch).await;
        match (
            outside.join("written").exists(),
            inside.join("written").exists(),
        ) {
            (false, true) => Ok(()),
            (true, _) => Err("a forbidden write was not refused".into()),
            (false, false) => Err(format!(
                "an allowed write failed ({:?}: {})",
                finished.exit,
                finished.stderr.text().trim()
            )),
        }
    }
}
