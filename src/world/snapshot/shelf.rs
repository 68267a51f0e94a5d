//! The shelf: a git folder of our own for one session's snapshots, with a configuration in which nothing runs.
//!
//! Its attributes stand above those of the workspace, so that files go in and out byte for byte: no line ends converted,
//! no filter, no keyword. Ignore rules are the person's.

use super::{Result, SnapshotError, ignored, remove};
use crate::agent::event::{CallId, TreeId};
use crate::world::process::{Exit, Processes};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// Says where the shelf belongs; written last, so that a shelf without it is made again.
pub const PLACE: &str = "place.json";
const TREE: &str = "tree";
const ATTRIBUTES: &str = "* -text -ident -filter !eol !crlf !working-tree-encoding\n";

/// A shelf that is ready.
#[derive(Debug)]
pub struct Shelf {
    folder: PathBuf,
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    root: PathBuf,
    /// The folder of the repository whose top the workspace is.
    common: Option<PathBuf>,
    /// Of objects: `sha1`, `sha256`.
    format: String,
}

impl Shelf {
    /// Finds the shelf, or makes it.
    pub async fn open(processes: &Processes, root: &Path, folder: &Path) -> Result<Self> {
        let known = fs::read(folder.join(PLACE)).ok();
        let known = known.and_then(|text| serde_json::from_slice::<Place>(&text).ok());
        if let Some(place) = known.filter(|place| place.root == root) {
            let folder = folder.to_owned();
            return Ok(Self { folder, place });
        }
        let place = find_place(processes, root).await;
        let excludes = person_excludes(processes, root).await;
        make(folder, &place, excludes.as_deref())?;
        let folder = folder.to_owned();
        Ok(Self { folder, place })
    }

    pub fn is_in_repository(&self) -> bool {
        self.place.common.is_some()
    }

    /// For git that reads the folder and writes objects.
    pub fn variables(&self) -> Vec<(String, String)> {
        let objects = self.repository().join("objects");
        let text = |path: &Path| path.to_string_lossy().into_owned();
        [
            ("GIT_DIR", text(&self.folder)),
            ("GIT_WORK_TREE", text(&self.place.root)),
            ("GIT_OBJECT_DIRECTORY", text(&objects)),
            ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_ATTR_NOSYSTEM", "1".into()),
            ("GIT_LITERAL_PATHSPECS", "1".into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// The same with another index.
    pub fn variables_with_index(&self, name: &str) -> Vec<(String, String)> {
        let mut variables = self.variables();
        let index = self.folder.join(name).to_string_lossy().into_owned();
        variables.push(("GIT_INDEX_FILE".into(), index));
        variables
    }

    /// For git that names trees, where git's own cleaning looks.
    pub fn variables_for_refs(&self) -> Vec<(String, String)> {
        let folder = self.repository().to_string_lossy().into_owned();
        vec![("GIT_DIR".into(), folder)]
    }

    fn repository(&self) -> &Path {
        self.place.common.as_deref().unwrap_or(&self.folder)
    }

    /// The tree of the index as it stands.
    pub fn last_tree(&self) -> Option<TreeId> {
        let text = fs::read(self.folder.join(TREE)).ok()?;
        super::tree_of("write-tree", &text).ok()
    }

    pub fn remember_tree(&self, tree: &TreeId) -> Result<()> {
        write(&self.folder.join(TREE), &tree.0)
    }

    /// Before the index changes.
    pub fn forget_tree(&self) -> Result<()> {
        remove(&self.folder.join(TREE))
    }
}

/// The workspace that a shelf belongs to.
pub fn root_of(folder: &Path) -> Option<PathBuf> {
    let text = fs::read(folder.join(PLACE)).ok()?;
    let place: Place = serde_json::from_slice(&text).ok()?;
    Some(place.root)
}

/// Makes the folder, for this user only.
pub fn make_folder(folder: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|source| failed("make", folder, source))
}

fn failed(verb: &'static str, path: &Path, source: io::Error) -> SnapshotError {
    let path = path.to_owned();
    SnapshotError::Shelf { verb, path, source }
}

/// As a whole or not at all.
fn write(path: &Path, text: &str) -> Result<()> {
    let temporary = path.with_extension("new");
    let fail = |source| failed("write", path, source);
    let mut file = fs::File::create(&temporary).map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(fail)?;
    drop(file);
    fs::rename(&temporary, path).map_err(fail)
}

/// The repository whose top folder the workspace is. One around it is not the session's: then the shelf keeps everything.
async fn find_place(processes: &Processes, root: &Path) -> Place {
    let args = [
        "rev-parse",
        "--path-format=absolute",
        "--show-toplevel",
        "--git-common-dir",
        "--show-object-format",
    ];
    let answer = ask(processes, root, &args).await.unwrap_or_default();
    let lines: Vec<&str> = answer.lines().collect();
    let (common, format) = match lines[..] {
        [top, common, format] if Path::new(top) == root => (Some(common.into()), format),
        _ => (None, "sha1"),
    };
    Place {
        root: root.to_owned(),
        common,
        format: format.to_owned(),
    }
}

/// The person's own list of what is never added, where it is not in its usual place.
async fn person_excludes(processes: &Processes, root: &Path) -> Option<String> {
    let args = ["config", "--path", "--get", "core.excludesFile"];
    let answer = ask(processes, root, &args).await?;
    let path = answer.trim_end_matches('\n');
    (!path.is_empty() && !path.contains('\n')).then(|| path.to_owned())
}

async fn ask(processes: &Processes, root: &Path, args: &[&str]) -> Option<String> {
    let call = CallId("checkpoint".into());
    let finished = processes.git(&call, root, args, None).await;
    (finished.exit == Exit::Code(0)).then(|| finished.stdout.text())
}

fn make(folder: &Path, place: &Place, excludes: Option<&str>) -> Result<()> {
    for inner in ["info", "objects", "refs"] {
        make_folder(&folder.join(inner))?;
    }
    // With another repository's stat data, the old index would lie.
    for name in ["index", TREE] {
        remove(&folder.join(name))?;
    }
    write(&folder.join("HEAD"), "ref: refs/heads/none\n")?;
    write(&folder.join("config"), &config(place, excludes))?;
    write(&folder.join("info/attributes"), ATTRIBUTES)?;
    let exclude = folder.join("info/exclude");
    match &place.common {
        // Followed with every snapshot: the person may add to it.
        Some(common) => {
            remove(&exclude)?;
            let target = common.join("info/exclude");
            symlink(target, &exclude).map_err(|source| failed("make", &exclude, source))?;
        }
        None => write(&exclude, &ignored::from_above(&place.root))?,
    }
    let text = serde_json::to_string(place).expect("BUG: paths and strings serialise");
    write(&folder.join(PLACE), &text)
}

/// Objects are on disk when git ends, with one flush for all. The index has no checksum of its own, which would take
/// longer than writing it: it is a cache, and what git cannot read of it is made again.
fn config(place: &Place, excludes: Option<&str>) -> String {
    let mut text = String::from(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tlogAllRefUpdates = false\n\tfsyncMethod = batch\n\
         [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[index]\n\tversion = 4\n\tskipHash = true\n",
    );
    if place.format != "sha1" {
        text.push_str(&format!(
            "[extensions]\n\tobjectFormat = {}\n",
            place.format
        ));
    }
    if let Some(path) = excludes {
        let quoted = path.replace('\\', "\\\\").replace('"', "\\\"");
        text.push_str(&format!("[core]\n\texcludesFile = \"{quoted}\"\n"));
    }
    text
}
