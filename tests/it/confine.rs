//! What a command cannot do, even approved; and what it still can. Everything here is really executed.

use crate::support::{git, make_repository, no_whatsapp};
use journeyman::agent::event::CallId;
use journeyman::config::Settings;
use journeyman::world::confine::{Mode, Needs, Reach};
use journeyman::world::process::{
    Exit, Finished, Launch, Life, Processes, safe_environment, sweep,
};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const PROBE: &str = include_str!("probe.c");

/// A workspace with what must not be touched around it.
struct Cage {
    folder: TempDir,
    environment: Vec<(String, String)>,
    settings: Settings,
    cancel: CancellationToken,
}

impl Cage {
    /// `None`, with a notice, where this kernel has no Landlock.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for (name, text) in [
            ("outside/marker", "untouched"),
            ("outside/sub/marker", "untouched"),
            ("home/.ssh/id_ed25519", "SECRET"),
            ("home/.cargo/credentials.toml", "SECRET"),
            ("home/.cargo/config.toml", "# harmless"),
            ("home/letters/private", "SECRET"),
            ("demo/data/journal", "SECRET"),
            ("demo/config/.env", "SECRET"),
            ("work/inside", "inside"),
        ] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        let settings = Settings::demo(&root.join("demo"), no_whatsapp());
        let mut cage = Self {
            environment: safe_environment(&[]),
            settings,
            cancel: CancellationToken::new(),
            folder,
        };
        if !cage.settings.sandbox(&cage.environment).has_landlock() {
            println!("SKIPPED: this kernel has no Landlock");
            return None;
        }
        // The toolchain is found where it is, although the home folder is another.
        let real = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        for (name, below) in [
            ("CARGO_HOME", ".cargo"),
            ("RUSTUP_HOME", ".rustup"),
            ("PYENV_ROOT", ".pyenv"),
        ] {
            let path = std::env::var_os(name).map_or_else(|| real.join(below), PathBuf::from);
            if path.is_dir() {
                cage.set(name, &path.to_string_lossy());
            }
        }
        let home = cage.path("home");
        cage.set("HOME", &home.to_string_lossy());
        Some(cage)
    }

    fn set(&mut self, name: &str, value: &str) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.into(), value.into()));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder
            .path()
            .canonicalize()
            .expect("a folder")
            .join(name)
    }

    fn processes(&self) -> Processes {
        let sandbox = self.settings.sandbox(&self.environment);
        let environment = Arc::new(self.environment.clone());
        Processes::new(
            environment,
            sandbox,
            &self.path("work"),
            self.cancel.clone(),
        )
    }

    fn launch(&self, text: &str) -> Launch {
        Launch {
            program: "bash".into(),
            args: vec!["-c".into(), text.into()],
            cwd: self.path("work"),
            env: vec![("OUT".into(), self.path("outside").display().to_string())],
            timeout: Duration::from_secs(60),
            stdin: None,
            needs: Needs::default(),
            guard_git: true,
            life: Life::Bound,
        }
    }

    async fn start(&self, launch: Launch) -> Finished {
        self.processes().run(&CallId("1.1".into()), launch).await
    }

    async fn bash(&self, text: &str) -> Finished {
        self.start(self.launch(text)).await
    }

    #[track_caller]
    fn well(text: &str, finished: &Finished) {
        assert_eq!(
            finished.exit,
            Exit::Code(0),
            "{text}\n{}\n{}",
            finished.stdout.text(),
            finished.stderr.text()
        );
    }

    async fn works(&self, text: &str) -> String {
        let finished = self.bash(text).await;
        Self::well(text, &finished);
        finished.stdout.text()
    }

    async fn fails(&self, text: &str) -> String {
        let finished = self.bash(text).await;
        assert_ne!(
            finished.exit,
            Exit::Code(0),
            "{text}: {}",
            finished.stdout.text()
        );
        finished.stdout.text() + &finished.stderr.text()
    }

    /// Compiles the prober inside the cage.
    async fn probe(&self) -> &Self {
        fs::write(self.path("work/probe.c"), PROBE).expect("a file");
        self.works("cc -o probe probe.c").await;
        self
    }
}

/// Every file below, with its text.
fn tree(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(tree(&path)),
            false => {
                drop(found.insert(path.clone(), fs::read_to_string(&path).unwrap_or_default()))
            }
        }
    }
    found
}

/// How many processes have this word in their command line.
fn running(word: &str) -> usize {
    let pids = fs::read_dir("/proc").expect("proc").flatten();
    let has = |path: PathBuf| {
        let mut line = String::new();
        let read = fs::File::open(path.join("cmdline"))
            .and_then(|mut file| file.read_to_string(&mut line));
        read.is_ok() && line.split('\0').any(|argument| argument == word)
    };
    pids.filter(|entry| has(entry.path())).count()
}

fn has(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(program).is_file());
    if !found {
        println!("SKIPPED: no {program} here");
    }
    found
}

// --- what it cannot do -----------------------------------------------------------------------------------------------

#[tokio::test]
async fn no_write_leaves_the_workspace() {
    let Some(cage) = Cage::new() else { return };
    std::os::unix::fs::symlink(cage.path("outside"), cage.path("work/link")).expect("a link");
    let before = tree(&cage.path("outside"));
    for attempt in [
        "echo x > $OUT/new",
        "echo x > $OUT/marker",
        "echo x >> $OUT/marker",
        "echo x > ../outside/marker",
        "echo x > link/marker",
        "echo x > /proc/self/root$OUT/marker",
        "echo x > /proc/self/cwd/../outside/marker",
        "echo x > /dev/fd/../../..$OUT/marker",
        "ln $OUT/marker hard && echo x > hard",
        "ln -s $OUT soft && echo x > soft/marker",
        "mv $OUT/marker stolen",
        "mv inside $OUT/moved",
        "cp inside $OUT/copied",
        "rm -f $OUT/marker",
        "rm -rf $OUT/sub",
        "rmdir $OUT/sub",
        "mkdir $OUT/made",
        "mkfifo $OUT/fifo",
        "truncate -s 0 $OUT/marker",
        "dd if=inside of=$OUT/marker",
        "cd $OUT && echo x > marker",
        "exec 3<> $OUT/marker && echo x >&3",
        "bash -c 'bash -c \"echo x > $OUT/marker\"'",
        "(setsid bash -c 'echo x > $OUT/marker'; test -e $OUT/nothing)",
        "git init -q $OUT/repository",
        "git clone -q . $OUT/clone",
        "tar cf $OUT/archive.tar inside",
        "touch ~/.bashrc",
        "mkdir -p ~/.config/autostart",
        "echo x >> ~/.cargo/config.toml",
        "echo x > /tmp/journeyman-confine-test-$$ ",
        "echo x > /var/tmp/journeyman-confine-test-$$",
        "echo x > /etc/journeyman-confine-test",
        "echo x > /usr/local/journeyman-confine-test",
        "echo 0 > /proc/sys/kernel/ns_last_pid",
        "echo x > /sys/fs/cgroup/cgroup.procs",
    ] {
        cage.fails(attempt).await;
        assert_eq!(tree(&cage.path("outside")), before, "{attempt}");
    }
    assert_eq!(tree(&cage.path("home")).len(), 4);
}

/// The corpus that the gate is tested with, as if it had let everything through.
#[tokio::test]
async fn the_hostile_corpus_leaves_nothing_outside() {
    let Some(mut cage) = Cage::new() else { return };
    make_repository(&cage.path("work"));
    fs::write(cage.path("work/a"), "x\n").expect("a file");
    let before = (tree(&cage.path("outside")), tree(&cage.path("home")));
    let planted = cage.path("outside/planted");
    let corpus = include_str!("../vectors/gate_hostile.tsv").lines();
    let commands: Vec<String> = corpus
        .filter(|line| !line.starts_with('#') && line.contains("MARKER"))
        .filter_map(|line| line.split_once('\t'))
        .map(|(_, text)| text.replace("\\n", "\n").replace("\\r", "\r"))
        .map(|text| text.replace("MARKER", &planted.to_string_lossy()))
        .collect();
    assert!(commands.len() > 100, "{}", commands.len());
    let run = async |cage: &Cage, processes: &Processes, text: &str| {
        let launch = Launch {
            timeout: Duration::from_secs(2),
            ..cage.launch(text)
        };
        processes.run(&CallId("1.1".into()), launch).await;
    };
    let confined = cage.processes();
    for command in &commands {
        run(&cage, &confined, command).await;
        let after = (tree(&cage.path("outside")), tree(&cage.path("home")));
        assert_eq!(after, before, "{command}");
    }
    // Without the sandbox they do what they are for; those that would reach out are left out.
    cage.settings.file.sandbox = Mode::Off;
    let free = cage.processes();
    let reaches_out = |command: &&String| {
        let words = [
            "://", "pip ", "npm ", "npx ", "ssh ", "rsync ", "docker ", "ext::",
        ];
        !words.iter().any(|word| command.contains(word))
    };
    let mut worked = 0;
    for command in commands.iter().filter(reaches_out) {
        run(&cage, &free, command).await;
        let removed = fs::remove_file(&planted).or_else(|_| fs::remove_dir_all(&planted));
        worked += usize::from(removed.is_ok());
    }
    assert!(worked > 40, "only {worked} of them do anything at all");
}

#[tokio::test]
async fn secrets_stay_unread() {
    let Some(mut cage) = Cage::new() else { return };
    // Even where the toolchain is that of the person.
    let cargo = cage.path("home/.cargo");
    cage.set("CARGO_HOME", &cargo.to_string_lossy());
    cage.works("cat ~/.cargo/config.toml").await;
    let data = cage.path("demo");
    for attempt in [
        "cat ~/.ssh/id_ed25519".to_owned(),
        "ls ~/.ssh".into(),
        "cat ~/letters/private".into(),
        "ls ~".into(),
        "cat ~/.cargo/credentials.toml".into(),
        "ln ~/.ssh/id_ed25519 key && cat key".into(),
        "ln -s ~/.ssh keys && cat keys/*".into(),
        "cat /proc/self/root$HOME/.ssh/id_ed25519".into(),
        "cp -r ~/.ssh copy".into(),
        "tar cf - ~/.ssh".into(),
        format!("cat {}/data/journal", data.display()),
        format!("cat {}/config/.env", data.display()),
        format!("cat {}/../outside/marker", data.display()),
        format!("cat /proc/{}/environ", std::process::id()),
        format!("cat /proc/{}/maps", std::process::id()),
        format!("readlink /proc/{}/fd/0", std::process::id()),
        format!("ls /proc/{}/root/", std::process::id()),
        format!("ls /proc/{}/cwd/", std::process::id()),
        // The keeper is a copy of the server.
        "cat /proc/$PPID/environ".into(),
        "cat /proc/$PPID/mem | head -c 1".into(),
        "cat /etc/shadow".into(),
    ] {
        let said = cage.fails(&format!("set -o pipefail; {attempt}")).await;
        assert!(!said.contains("SECRET"), "{attempt}: {said}");
    }
}

#[tokio::test]
async fn neither_the_kernel_nor_others_are_in_reach() {
    let Some(cage) = Cage::new() else { return };
    if !has("cc") {
        return;
    }
    cage.probe().await;
    for (what, errno) in [
        ("ptrace", "EPERM"),
        ("unshare-user", "EPERM"),
        ("unshare-mount", "EPERM"),
        ("clone-user", "EPERM"),
        ("clone3", "ENOSYS"),
        ("setns", "EPERM"),
        ("mount", "EPERM"),
        ("chroot", "EPERM"),
        ("bpf", "EPERM"),
        ("perf", "EPERM"),
        ("keyctl", "EPERM"),
        ("io_uring", "EPERM"),
        ("module", "EPERM"),
        ("kexec", "EPERM"),
        ("reboot", "EPERM"),
        ("settime", "EPERM"),
        ("handle", "EPERM"),
        ("vmread", "EPERM"),
        ("prlimit", "EPERM"),
        ("own-limit", "ok"),
        ("descriptors", "ok"),
        ("x32", "ENOSYS"),
        ("inet", "EACCES"),
        ("inet6", "EACCES"),
        ("udp", "EACCES"),
        ("raw", "EACCES"),
        ("netlink", "EACCES"),
        ("vsock", "EACCES"),
        ("unix", "EACCES"),
        ("datagram-pair", "EACCES"),
        ("stream-pair", "ok"),
        ("privileges", "ok"),
    ] {
        let finished = cage.bash(&format!("./probe {what}")).await;
        assert_eq!(finished.stdout.text().trim(), errno, "{what} {finished:?}");
    }
    let mut bystander = std::process::Command::new("sleep")
        .arg("20")
        .spawn()
        .expect("sleep");
    for pid in [bystander.id(), std::process::id()] {
        cage.fails(&format!("kill -CONT {pid}")).await;
    }
    cage.fails("kill -KILL $PPID").await;
    assert!(bystander.try_wait().expect("a status").is_none());
    bystander
        .kill()
        .and_then(|()| bystander.wait())
        .expect("it ends");
    let core = cage.works("ulimit -c; ulimit -n; ulimit -f").await;
    assert_eq!(core.lines().next(), Some("0"), "{core}");
    assert!(!core.contains("unlimited"), "{core}");
}

#[tokio::test]
async fn there_is_no_network_until_the_person_says_so() {
    let Some(cage) = Cage::new() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let attempt = format!("echo hello > /dev/tcp/127.0.0.1/{port}");
    cage.fails(&attempt).await;
    listener.set_nonblocking(true).expect("it can");
    assert!(listener.accept().is_err(), "nobody came");
    let launch = Launch {
        needs: Needs {
            network: true,
            ..Needs::default()
        },
        ..cage.launch(&attempt)
    };
    Cage::well(&attempt, &cage.start(launch).await);
    assert!(listener.accept().is_ok());
}

#[tokio::test]
async fn nothing_survives_that_a_command_started() {
    let Some(cage) = Cage::new() else { return };
    let leave = |word: &str| {
        format!(
            "setsid sleep {word} & (setsid setsid sleep {word} &) ; nohup sleep {word} > /dev/null 2>&1 & \
             setsid bash -c 'trap \"\" TERM HUP; (setsid sleep {word} &); sleep {word}; sleep {word}' & sleep 0.3;"
        )
    };
    // At its own end,
    cage.works(&leave("70001.5")).await;
    assert_eq!(running("70001.5"), 0);
    // when its time is up,
    let mut launch = cage.launch(&format!("{} sleep 70002.5", leave("70002.5")));
    launch.timeout = Duration::from_secs(1);
    assert_eq!(cage.start(launch).await.exit, Exit::TimedOut);
    assert_eq!(running("70002.5"), 0);
    // when the person cancels,
    let cancel = cage.cancel.clone();
    let after = async {
        while running("70003.5") < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        cancel.cancel();
    };
    let text = format!("{} sleep 70003.5", leave("70003.5"));
    let (finished, ()) = tokio::join!(cage.bash(&text), after);
    assert_eq!(finished.exit, Exit::Cancelled);
    assert_eq!(running("70003.5"), 0);
}

#[tokio::test]
async fn an_abandoned_command_ends_too() {
    let Some(cage) = Cage::new() else { return };
    let command = cage.bash("setsid sleep 70004.5 & sleep 70004.5");
    let seen = async {
        while running("70004.5") < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        finished = command => panic!("it goes on: {finished:?}"),
        () = seen => {}
    }
    let started = Instant::now();
    while running("70004.5") > 0 {
        assert!(started.elapsed() < Duration::from_secs(10), "it still runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Bounded by itself, so that a failure of this test is no failure of the machine.
#[tokio::test]
async fn a_swarm_that_scatters_is_killed_to_the_last() {
    let Some(cage) = Cage::new() else { return };
    let mut launch = cage.launch(
        "swarm() { if [ $1 -gt 0 ]; then for n in 1 2 3; do (trap '' TERM; setsid bash -c \"$(declare -f swarm); swarm $(($1-1))\" &) ; done; fi; exec sleep 70005.5; }; swarm 4",
    );
    launch.timeout = Duration::from_secs(3);
    assert_eq!(cage.start(launch).await.exit, Exit::TimedOut);
    assert_eq!(running("70005.5"), 0);
}

#[tokio::test]
async fn hooks_and_configuration_of_git_stay_as_they_were() {
    let Some(cage) = Cage::new() else { return };
    let work = cage.path("work");
    make_repository(&work);
    let hooks = work.join(".git/hooks");
    for sample in fs::read_dir(&hooks).expect("git's samples").flatten() {
        fs::remove_file(sample.path()).expect("remove a sample");
    }
    fs::write(hooks.join("commit-msg"), "#!/bin/sh\n").expect("a hook of the person");
    let before = tree(&work.join(".git"));
    for attempt in [
        "echo evil > .git/hooks/a.sample; mv .git/hooks/a.sample .git/hooks/pre-push",
        "echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        "git config core.fsmonitor evil",
        "git config core.hooksPath .",
        "printf '[core]\\n\\tpager = evil\\n' > .git/config.worktree",
        "rm .git/config",
        "rm -r .git/hooks && ln -s $OUT .git/hooks",
        "rm .git/config && ln -s $OUT/marker .git/config",
        "rm .git/config && mkdir .git/config && touch .git/config/x",
        "mkdir .git/hooks/folder; ln -s $OUT .git/hooks/post-merge",
        "chmod 777 .git/hooks/commit-msg .git/config",
        "cp -r .git/. evil; echo ../evil > .git/commondir",
        "ln -s $OUT/marker .git/commondir",
        "for i in $(seq 300); do echo evil > .git/hooks/$i; done; echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/*",
        "head -c 1100000 /dev/zero > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        "head -c 1100000 /dev/zero >> .git/config; echo evil > .git/hooks/pre-push",
    ] {
        let finished = cage.bash(attempt).await;
        let remark = finished.remark.unwrap_or_default();
        assert!(remark.contains("Put back as before"), "{attempt}: {remark}");
        let mut after = tree(&work.join(".git"));
        after.retain(|path, _| !path.to_string_lossy().contains("put-aside"));
        assert_eq!(after, before, "{attempt}");
        assert_eq!(tree(&cage.path("outside")).len(), 2, "{attempt}");
    }
    git(&work, &["status"]);
    // Hooks stay hooks.
    let mode = fs::metadata(work.join(".git/config"))
        .map(|meta| std::os::unix::fs::MetadataExt::mode(&meta));
    assert_eq!(mode.expect("a mode") & 0o777, 0o644);
    let finished = cage.bash("mv .git elsewhere && ln -s elsewhere .git").await;
    assert!(
        finished
            .remark
            .is_some_and(|remark| remark.contains(".git-put-aside"))
    );
    assert!(!work.join(".git").exists());
}

#[tokio::test]
async fn what_git_notes_about_branches_stays() {
    let Some(cage) = Cage::new() else { return };
    make_repository(&cage.path("work"));
    let finished = cage
        .bash("git switch -q -c fix/a && git branch -q --set-upstream-to=main")
        .await;
    assert_eq!(finished.remark, None);
    assert_eq!(
        cage.works("git config branch.fix/a.merge").await,
        "refs/heads/main\n"
    );
    let launch = Launch {
        guard_git: false,
        ..cage.launch("git remote add origin https://example.com/x.git")
    };
    Cage::well("git remote add", &cage.start(launch).await);
    cage.works("git config remote.origin.url").await;
}

#[tokio::test]
async fn a_linked_worktree_may_commit_and_a_made_up_one_opens_nothing() {
    let Some(cage) = Cage::new() else { return };
    let main = cage.path("main");
    make_repository(&main);
    let work = cage.path("work");
    fs::remove_dir_all(&work).expect("it goes");
    git(
        &main,
        &[
            "worktree",
            "add",
            "-q",
            "-b",
            "side",
            &work.to_string_lossy(),
        ],
    );
    cage.works("echo more >> notes.txt && git commit -qam 'feat: more' && git log --oneline")
        .await;
    cage.fails("echo evil > $(git rev-parse --git-common-dir)/hooks/pre-commit")
        .await;
    assert!(!main.join(".git/hooks/pre-commit").exists());
    let own = |name: &str| fs::read_to_string(main.join(".git/worktrees/work").join(name)).ok();
    let pointer = || fs::read_to_string(work.join(".git")).ok();
    let before = (own("commondir"), own("config.worktree"), pointer());
    for attempt in [
        "echo /tmp > $(git rev-parse --git-dir)/commondir",
        "echo evil > $(git rev-parse --git-dir)/config.worktree",
        "echo gitdir: evil > .git",
        "rm .git; mkdir .git; echo x > .git/config",
        "for i in $(seq 300); do mkdir $(git rev-parse --git-common-dir)/worktrees/$i; done; echo /tmp > $(git rev-parse --git-dir)/commondir",
    ] {
        let finished = cage.bash(attempt).await;
        assert!(
            finished
                .remark
                .is_some_and(|remark| remark.contains("Put back")),
            "{attempt}"
        );
        assert_eq!(
            (own("commondir"), own("config.worktree"), pointer()),
            before,
            "{attempt}"
        );
    }
    git(&work, &["status"]);
    cage.fails("echo x > ../main/notes.txt").await;
    let outside = cage.path("outside");
    fs::write(work.join(".git"), format!("gitdir: {}", outside.display())).expect("a file");
    cage.fails("echo x > $OUT/marker").await;
}

#[tokio::test]
async fn own_data_in_the_workspace_stays_hidden() {
    let Some(mut cage) = Cage::new() else { return };
    cage.settings.data_dir = cage.path("work/data");
    for (name, text) in [
        ("data/journal", "SECRET"),
        ("src/main.c", "int main(void) { return 0; }"),
    ] {
        let path = cage.path("work").join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    cage.works("echo more >> src/main.c; echo new > src/new.c; cat inside")
        .await;
    for attempt in [
        "cat data/journal",
        "echo x > data/new",
        "rm data/journal",
        "mv data elsewhere",
        "rm -r data",
    ] {
        let said = cage.fails(attempt).await;
        assert!(!said.contains("SECRET"), "{said}");
    }
    assert_eq!(
        fs::read_to_string(cage.path("work/data/journal")).expect("it is there"),
        "SECRET"
    );
}

#[tokio::test]
async fn only_git_itself_gets_its_credentials() {
    let Some(cage) = Cage::new() else { return };
    let with = |credentials| Launch {
        needs: Needs {
            network: true,
            credentials,
        },
        ..cage.launch("cat ~/.ssh/id_ed25519")
    };
    assert_ne!(cage.start(with(false)).await.exit, Exit::Code(0));
    assert_eq!(cage.start(with(true)).await.stdout.text(), "SECRET");
    let private = Launch {
        args: vec!["-c".into(), "cat ~/letters/private".into()],
        ..with(true)
    };
    assert_ne!(cage.start(private).await.exit, Exit::Code(0));
}

// --- what it can do --------------------------------------------------------------------------------------------------

#[tokio::test]
async fn ordinary_work_goes_on() {
    let Some(cage) = Cage::new() else { return };
    make_repository(&cage.path("work"));
    cage.works("set -e; echo a > a; mkdir -p d/e; mv a d/e/a; ln d/e/a b; ln -s d c; rm -r c d b; mkfifo f; rm f").await;
    cage.works("set -e; f=$(mktemp); echo x > $f; mv $f here; d=$(mktemp -d); test $d != /tmp; cp here $d; rm here").await;
    cage.works("diff <(echo a) <(echo a) && echo x | tee /dev/null > /dev/null && head -c 8 /dev/urandom > /dev/null").await;
    cage.works("echo two >> notes.txt && git add -A && git -c user.name=A -c user.email=a@b.c commit -qm 'feat: two' && git status -s").await;
    cage.works("ls / /usr /etc > /dev/null; cat /etc/os-release /proc/cpuinfo /proc/self/status > /dev/null; id; nproc; date").await;
    if has("cc") && has("make") {
        fs::write(
            cage.path("work/hello.c"),
            "#include <stdio.h>\nint main(void) { puts(\"hello\"); }\n",
        )
        .expect("a file");
        fs::write(
            cage.path("work/Makefile"),
            "hello: hello.c\n\tcc -o $@ $<\ntest: hello\n\t./hello\n",
        )
        .expect("a file");
        assert!(cage.works("make -j2 test").await.contains("hello"));
    }
}

#[tokio::test]
async fn python_and_node_go_on() {
    let Some(cage) = Cage::new() else { return };
    if has("python3") {
        let test = "import unittest, tempfile, multiprocessing, subprocess\nclass T(unittest.TestCase):\n  def test(self):\n    \
                    tempfile.NamedTemporaryFile().close(); multiprocessing.Lock()\n    \
                    subprocess.run(['true'], check=True)\n";
        fs::write(cage.path("work/test_all.py"), test).expect("a file");
        cage.works("python3 -m unittest -q && python3 -m venv --without-pip .venv && .venv/bin/python -c 'print(1)'").await;
    }
    if has("node") {
        cage.works("node -e 'require(\"child_process\").execSync(\"echo hi\"); new (require(\"worker_threads\").Worker)(\"1\", {eval: true})'").await;
    }
    if has("npm") {
        fs::write(
            cage.path("work/package.json"),
            r#"{"name": "x", "version": "1.0.0", "scripts": {"test": "node -e 1"}}"#,
        )
        .expect("a file");
        cage.works("npm test --silent").await;
    }
}

#[tokio::test]
async fn cargo_tests_offline() {
    let Some(cage) = Cage::new() else { return };
    if !has("cargo") {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/demo/project");
    let work = cage.path("work");
    fs::create_dir_all(work.join("src")).expect("a folder");
    for name in ["Cargo.toml", "src/lib.rs"] {
        fs::copy(source.join(name), work.join(name)).expect("a copy");
    }
    let finished = cage.bash("cargo test --offline").await;
    // The demo's test fails on purpose: it was built and it ran.
    assert!(
        finished.stdout.text().contains("test result:"),
        "{finished:?}"
    );
}

#[tokio::test]
async fn it_can_be_switched_off_by_the_person() {
    let Some(mut cage) = Cage::new() else { return };
    cage.settings.file.sandbox = Mode::Off;
    cage.works("echo x > $OUT/new").await;
    assert_eq!(cage.settings.sandbox(&cage.environment).state(), "off");
    // What was started still ends with it.
    cage.works("setsid sleep 70006.5 &").await;
    assert_eq!(running("70006.5"), 0);
}

#[test]
fn what_a_killed_server_left_is_swept() {
    let folder = tempfile::tempdir().expect("a folder");
    let make = |name: &str, days: u64| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.join("deep")).expect("a folder");
        let then = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60 + 60);
        let handle = fs::File::open(&path).expect("it is there");
        handle.set_modified(then).expect("it can be set");
        path
    };
    let (old, new) = (
        make("journeyman-command-a", 1),
        make("journeyman-command-b", 0),
    );
    let other = make("somebody-elses", 9);
    sweep(folder.path());
    assert!(!old.exists() && new.exists() && other.exists());
}

/// `cargo test --release -- --ignored --nocapture what_confinement_costs`
#[tokio::test]
#[ignore = "a measurement"]
async fn what_confinement_costs() {
    let Some(mut cage) = Cage::new() else { return };
    let made = [Mode::Off, Mode::Required].map(|mode| {
        cage.settings.file.sandbox = mode;
        (cage.settings.sandbox(&cage.environment), cage.processes())
    });
    let mut times = [Vec::new(), Vec::new()];
    let limit = Duration::from_secs(1);
    // Turn by turn, because other things run on this machine.
    for _ in 0..300 {
        for ((_, processes), times) in made.iter().zip(&mut times) {
            let launch = Launch {
                program: "/bin/true".into(),
                args: Vec::new(),
                ..cage.launch("")
            };
            let started = Instant::now();
            processes.run(&CallId("1".into()), launch).await;
            times.push(started.elapsed());
        }
    }
    // As it would be without a keeper and a temporary folder.
    let mut bare = Vec::new();
    for _ in 0..300 {
        let started = Instant::now();
        let mut command = tokio::process::Command::new("/bin/true");
        // SAFETY: one system call, which touches no memory.
        unsafe { command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(Into::into)) };
        let _ = command.output().await;
        bare.push(started.elapsed());
    }
    bare.sort();
    println!("bare: best {:?}, median {:?}", bare[0], bare[150]);
    for ((sandbox, _), mut times) in made.into_iter().zip(times) {
        let started = Instant::now();
        for _ in 0..100 {
            let (work, outside) = (cage.path("work"), cage.path("outside"));
            let reach = Reach {
                workspace: &work,
                temp: &outside,
                own: &[],
                read: &[],
                is_ours: false,
                only_reads: false,
            };
            assert!(sandbox.enclose(&reach, Needs::default(), limit).is_ok());
        }
        let preparing = started.elapsed() / 100;
        let first = times[0];
        times.sort();
        let (best, median) = (times[0], times[150]);
        println!(
            "{}: first {first:?}, best {best:?}, median {median:?}; preparing {preparing:?}",
            sandbox.state()
        );
    }
}
