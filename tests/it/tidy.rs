//! Invariants that the source itself must keep, and a look at its size.

use journeyman::agent::texts::{ENGLISH, Texts};
use std::fs;
use std::path::{Path, PathBuf};

struct Source {
    name: String,
    /// Without comments and without the tests at the file's end.
    code: String,
    text: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a source file");
        let body = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = body
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join("\n");
        let name = path
            .strip_prefix(&root)
            .expect("below src")
            .display()
            .to_string();
        Source { name, code, text }
    };
    files.iter().map(read).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true => collect(&path, files),
            false if path.extension().is_some_and(|extension| extension == "rs") => {
                files.push(path)
            }
            false => {}
        }
    }
}

fn files_with(needle: &str) -> Vec<String> {
    sources()
        .into_iter()
        .filter(|source| source.code.contains(needle))
        .map(|source| source.name)
        .collect()
}

/// Invariant 1.
#[test]
fn deciding_and_judging_have_no_clock_no_randomness_no_io_no_async() {
    let forbidden = [
        "std::fs",
        "std::net",
        "std::process",
        "std::env",
        "std::time",
        "std::thread",
        "tokio",
        "Utc::now",
        "Local::now",
        "Instant",
        "SystemTime",
        "rand::",
        "getrandom",
        "uuid",
        "async fn",
        ".await",
        "println!",
        "crate::world",
        "crate::doors",
        "crate::hub",
        "crate::session",
    ];
    let pure = |name: &str| {
        [
            "agent/",
            "definitions/",
            "gate/",
            "plan/",
            "schedule/",
            "subagent/",
        ]
        .iter()
        .any(|folder| name.starts_with(folder))
    };
    for source in sources().iter().filter(|source| pure(&source.name)) {
        for word in forbidden {
            assert!(
                !source.code.contains(word),
                "src/{} must not use {word}",
                source.name
            );
        }
    }
}

/// Invariant 4.
#[test]
fn only_the_gate_mints_approvals_and_they_cannot_be_copied_or_read_back() {
    let makers: Vec<_> = files_with("Approved {")
        .into_iter()
        .filter(|name| name != "gate/approved.rs")
        .collect();
    assert!(makers.is_empty(), "{makers:?} mint approvals");
    let source = sources()
        .into_iter()
        .find(|source| source.name == "gate/approved.rs")
        .expect("the file");
    let at = source
        .text
        .find("pub struct Approved<T>")
        .expect("the type");
    let derive = source.text[..at].rsplit("\n\n").next().unwrap_or_default();
    assert!(
        !derive.contains("Clone") && !derive.contains("Deserialize"),
        "{derive}"
    );
    assert!(
        !source.code.contains("for Approved"),
        "no trait gives a way around"
    );
}

/// Invariant 5: every tool's work starts with an approved call.
#[test]
fn tools_take_nothing_but_an_approved_call() {
    for source in sources()
        .iter()
        .filter(|source| source.name.starts_with("tools/"))
    {
        for word in [
            "crate::hub",
            "crate::session",
            "crate::doors",
            "std::env",
            "reqwest",
            "rusqlite",
        ] {
            assert!(
                !source.code.contains(word),
                "src/{} reaches out by {word}",
                source.name
            );
        }
    }
    assert!(sources().iter().any(|source| {
        source
            .code
            .contains("pub type RunFn = fn(Approved<Call>, Arc<Reach>)")
    }));
}

/// Invariant 6.
#[test]
fn one_function_starts_processes_and_one_opens_files_for_the_model() {
    assert_eq!(files_with("Command::new("), ["world/process.rs"]);
    assert_eq!(files_with(".spawn()"), ["world/process.rs"]);
    assert_eq!(files_with("openat2("), ["world/workspace.rs"]);
    for source in sources()
        .iter()
        .filter(|source| source.name.starts_with("tools/"))
    {
        for word in [
            "File::open",
            "fs::read",
            "fs::write",
            "OpenOptions",
            "fs::rename",
            "fs::remove",
        ] {
            assert!(
                !source.code.contains(word),
                "src/{} opens files by {word}",
                source.name
            );
        }
    }
}

/// Invariant 6: one way into a process, and confinement is only ever put on a process that was forked for a command.
#[test]
fn confinement_is_applied_in_one_place_and_never_to_this_program() {
    assert_eq!(files_with("pre_exec("), ["world/process.rs"]);
    assert_eq!(files_with(".enter("), ["world/process.rs"]);
    for word in [
        "restrict_self",
        "apply_filter",
        "set_no_new_privs",
        "setrlimit(",
        "PR_CAPBSET_DROP",
        "fork()",
    ] {
        assert_eq!(files_with(word), ["world/keeper.rs"], "{word}");
    }
    let of_the_keeper =
        |name: &str| name.starts_with("world/keeper") || name == "world/spool/layout.rs";
    let keeper: Vec<_> = sources()
        .into_iter()
        .filter(|source| of_the_keeper(&source.name))
        .collect();
    assert_eq!(keeper.len(), 4);
    for source in keeper {
        for word in [
            "format!", "Vec<u8>", "vec!", "String", "Box", "Mutex", "println!",
        ] {
            assert!(
                !source.code.contains(word),
                "src/{} allocates or locks by {word}",
                source.name
            );
        }
    }
}

/// Invariant 2: events happen to a state in one place.
#[test]
fn the_state_changes_in_apply_only() {
    let is_apply = |name: &str| name == "agent/apply.rs" || name.starts_with("agent/apply/");
    for source in sources().iter().filter(|source| !is_apply(&source.name)) {
        assert!(
            !source.code.contains("&mut State"),
            "src/{} changes the state",
            source.name
        );
    }
}

#[test]
fn every_text_that_the_source_names_is_in_the_catalogue() {
    let texts = Texts::parse(ENGLISH).expect("the catalogue");
    let catalogue: toml::Table = toml::from_str(ENGLISH).expect("the catalogue");
    let mut used = 0;
    for source in sources() {
        for marker in [
            "say(state, \"",
            "texts.say(\"",
            "notice(state, \"",
            "say(\"limit_",
        ] {
            for part in source.code.split(marker).skip(1) {
                let name = part.split('"').next().unwrap_or_default();
                let name = if marker.ends_with("limit_") {
                    format!("limit_{name}")
                } else {
                    name.to_owned()
                };
                assert!(
                    catalogue.contains_key(&name),
                    "src/{} says {name:?}",
                    source.name
                );
                assert!(!texts.say(&name, &[]).is_empty());
                used += 1;
            }
        }
    }
    assert!(used > 20, "the test still finds the places");
}

/// Not word by word: what stands between two values.
#[test]
fn every_error_that_is_translated_is_one_that_the_program_says() {
    let text = include_str!("../../prompts/errors.es.toml");
    let errors: toml::Table = toml::from_str(text).expect("the catalogue");
    let code: String = sources().into_iter().map(|source| source.code).collect();
    for said in errors.keys() {
        let mut rest = said.as_str();
        while !rest.is_empty() {
            let (words, after) = rest.split_once('{').unwrap_or((rest, ""));
            assert!(code.contains(words), "nothing says {words:?} of {said:?}");
            rest = after.split_once('}').map_or("", |(_, after)| after);
        }
    }
}

#[test]
fn no_unwrap_and_every_expect_states_its_invariant() {
    for source in sources() {
        assert!(
            !source.code.contains(".unwrap()"),
            "src/{} unwraps",
            source.name
        );
        for part in source.code.split(".expect(").skip(1) {
            let said = part.trim_start();
            assert!(
                said.starts_with("\"BUG: "),
                "src/{} expects without an invariant: {}",
                source.name,
                &said[..said.len().min(60)]
            );
        }
    }
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    for source in sources() {
        assert!(
            source.text.starts_with("//! "),
            "src/{} does not say what it is for",
            source.name
        );
    }
}

#[test]
fn every_test_file_is_part_of_the_binary() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    for (folder, list) in [("", "main.rs"), ("crash", "mod.rs"), ("gate", "mod.rs")] {
        let named = fs::read_to_string(root.join(folder).join(list)).expect("the list");
        for entry in fs::read_dir(root.join(folder)).expect("a folder").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let module = name.strip_suffix(".rs").filter(|_| name != list);
            assert!(
                module.is_none_or(|module| named.contains(&format!("mod {module};"))),
                "tests/it/{folder}/{name} is forgotten"
            );
        }
    }
}

#[test]
fn every_variable_that_is_read_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = fs::read_to_string(root.join(".env.example")).expect(".env.example");
    let config: String = sources()
        .into_iter()
        .filter(|source| source.name.starts_with("config"))
        .map(|source| source.code)
        .collect();
    let looks_like_one = |word: &&str| {
        word.len() > 6
            && word.contains('_')
            && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    let names: Vec<&str> = config
        .split('"')
        .filter(looks_like_one)
        .filter(|name| {
            !name.starts_with('_') && !name.starts_with("XDG_") && !name.starts_with("CARGO_")
        })
        .collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names.iter().filter(|name| **name != "JOURNEYMAN_HOME") {
        assert!(
            example.contains(&format!("\n{name}=")),
            "{name} is not in .env.example"
        );
    }
}
