//! The planted bugs: each is a patch that the simulation must find (`tests/planted/run`, by .ci/full).

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn every_planted_bug_still_fits_the_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(root.join("tests/planted")).expect("the patches");
    let patches: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "patch")
        })
        .collect();
    assert!(patches.len() >= 5, "{patches:?}");
    for patch in patches {
        let output = Command::new("git")
            .args(["apply", "--check"])
            .arg(&patch)
            .current_dir(root)
            .output()
            .expect("git runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{} no longer fits the source, plant the bug anew: {said}",
            patch.display()
        );
    }
}
