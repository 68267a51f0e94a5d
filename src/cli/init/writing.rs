//! `.env`: what stands in it stays, the answers take the place of their lines, and it is replaced in one step.

use crate::cli::CliError;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where there is no file yet: every variable with its explanation.
const TEMPLATE: &str = include_str!("../../../.env.example");

pub(super) struct EnvFile {
    path: PathBuf,
    text: String,
    values: BTreeMap<String, String>,
}

impl EnvFile {
    pub(super) fn read(folder: &Path) -> Result<Self, CliError> {
        let path = folder.join(".env");
        // What a link leads to is what is meant.
        let path = path.canonicalize().unwrap_or(path);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => TEMPLATE.to_owned(),
            Err(error) => return Err(failed("read", &path, &error)),
        };
        // A line that cannot be read is kept, and is no answer.
        let values = dotenvy::from_read_iter(text.as_bytes()).flatten().collect();
        Ok(Self { path, text, values })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What is set, if it is not empty.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.values
            .get(name)
            .filter(|value| !value.is_empty())
            .cloned()
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        let line = format!("{name}={}", quoted(value));
        let is_it = |line: &str| {
            let line = line.trim_start();
            let line = line.strip_prefix("export ").unwrap_or(line);
            line.split_once('=')
                .is_some_and(|(left, _)| left.trim() == name)
        };
        let mut lines: Vec<&str> = self.text.lines().collect();
        // The last one counts: all others would say something else.
        let first = lines.iter().position(|line| is_it(line));
        lines.retain(|line| !is_it(line));
        lines.insert(first.unwrap_or(lines.len()), &line);
        self.text = lines.join("\n") + "\n";
        self.values.insert(name.to_owned(), value.to_owned());
    }

    /// Whole or not at all, mode 600.
    pub(super) fn write(&self) -> Result<(), CliError> {
        let fail = |error: io::Error| failed("write", &self.path, &error);
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut private = DirBuilder::new();
        private
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(fail)?;
        let mut fresh = tempfile::NamedTempFile::new_in(folder).map_err(fail)?;
        fresh.write_all(self.text.as_bytes()).map_err(fail)?;
        fresh.as_file().sync_all().map_err(fail)?;
        fresh
            .persist(&self.path)
            .map_err(|error| fail(error.error))?;
        Ok(())
    }
}

fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:@,+-=".contains(c);
    if value.chars().all(plain) {
        return value.to_owned();
    }
    if !value.contains('\'') {
        return format!("'{value}'");
    }
    let mut quoted = String::from("\"");
    for c in value.chars() {
        if matches!(c, '"' | '\\' | '$') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted + "\""
}

fn failed(verb: &str, path: &Path, error: &io::Error) -> CliError {
    CliError::Failed(format!("{verb} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_other_lines_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(".env");
        fs::write(
            &path,
            "# mine\nOTHER=\"a b\"\nexport OPENAI_API_KEY=old\nOPENAI_API_KEY=older\n",
        )
        .expect("a file");
        let mut file = EnvFile::read(folder.path()).expect("it is read");
        let odd = "a'b \"c\" $HOME \\ #x";
        file.set("OPENAI_API_KEY", odd);
        file.set("AGENT_MODEL", "qwen3:8b");
        file.write().expect("it is written");
        let text = fs::read_to_string(&path).expect("a file");
        assert!(text.starts_with("# mine\nOTHER=\"a b\"\n"), "{text}");
        let read: BTreeMap<String, String> = dotenvy::from_path_iter(&path)
            .expect("a file")
            .map(|pair| pair.expect("a pair"))
            .collect();
        assert_eq!(read["OPENAI_API_KEY"], odd);
        assert_eq!(read["AGENT_MODEL"], "qwen3:8b");
        assert_eq!(read.len(), 3);
    }
}
