//! Task graphs: what is refused and how it is named, references, what can start, how it looks.

use crate::plan_draft::bounds;
use crate::support::generated;
use journeyman::agent::event::EffectClass;
use journeyman::plan::{
    Catalog, Graph, Row, Rows, Standing, Task, TaskEnd, check, mermaid, ready, references, resolve,
    tree,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn catalog() -> Catalog {
    let mut catalog = Catalog::new(bounds());
    let schema = json!({"type": "object"});
    catalog
        .register("shell", "run_command", "run_command", "Run", schema)
        .unwrap();
    catalog
}

fn task(id: &str, depends_on: &[&str], input: Value) -> Task {
    Task {
        id: id.into(),
        service: "shell".into(),
        command: "run_command".into(),
        prompt: "do it".into(),
        depends_on: depends_on.iter().map(|on| (*on).to_owned()).collect(),
        input,
    }
}

/// Ids, and what each depends on.
type Tasks<'a> = &'a [(&'a str, &'a [&'a str])];

fn graph(tasks: Tasks) -> Graph {
    Graph {
        objective: "Release it".into(),
        tasks: tasks
            .iter()
            .map(|(id, on)| task(id, on, json!({})))
            .collect(),
    }
}

fn problems(graph: &Graph) -> Vec<String> {
    let all = check(graph, &catalog()).err().unwrap_or_default();
    all.iter().map(ToString::to_string).collect()
}

#[test]
fn a_graph_that_cannot_be_carried_out_is_refused_with_everything_named() {
    let cases: [(Tasks, &[&str]); 8] = [
        (&[], &["the plan has no tasks"]),
        (&[("a", &[]), ("b", &["a"])], &[]),
        (&[("a", &[]), ("a", &[])], &["duplicate task id \"a\""]),
        (
            &[("a", &["b"])],
            &["task \"a\" depends on unknown task \"b\""],
        ),
        (&[("a", &["a"])], &["task \"a\" depends on itself"]),
        (&[("a", &["b"]), ("b", &["a"])], &["cycle: a -> b -> a"]),
        (
            &[
                ("a", &["c"]),
                ("b", &["a"]),
                ("c", &["b"]),
                ("d", &["a", "x"]),
            ],
            &[
                "task \"d\" depends on unknown task \"x\"",
                "cycle: a -> c -> b -> a",
            ],
        ),
        (
            &[("a b", &[])],
            &["task id \"a b\" cannot be used: 1 to 64 letters, digits, - and _ can"],
        ),
    ];
    for (tasks, told) in cases {
        assert_eq!(problems(&graph(tasks)), told);
    }
    let many: Vec<String> = (0..201).map(|n| format!("t{n}")).collect();
    let tasks: Vec<(&str, &[&str])> = many.iter().map(|id| (id.as_str(), &[][..])).collect();
    assert_eq!(
        problems(&graph(&tasks)),
        ["the plan has 201 tasks; at most 200 are possible (plan_tasks_max)"]
    );
    let mut unknown = graph(&[("a", &[])]);
    unknown.tasks[0].command = "run_comand".into();
    assert_eq!(
        problems(&unknown),
        ["task \"a\": unknown command \"shell.run_comand\" (is \"shell.run_command\" meant?)"]
    );
}

#[test]
fn a_reference_is_refused_where_nothing_can_be_there() {
    let with = |input: Value| Graph {
        objective: "x".into(),
        tasks: vec![task("a", &[], json!({})), task("b", &[], input)],
    };
    assert_eq!(
        problems(&with(json!({"list": [{"x": "see {{a.output.uid}}"}]}))),
        ["task \"b\" refers to {{a.output.uid}} without dependsOn: add \"a\" to its dependsOn"]
    );
    assert_eq!(
        problems(&with(json!({"x": "{{c.output}}"}))),
        ["task \"b\" refers to {{c.output}} of unknown task \"c\""]
    );
    assert_eq!(
        problems(&with(json!({"x": "{{b.output}}"}))),
        ["task \"b\" depends on itself"]
    );
    assert_eq!(
        problems(&with(json!({"x": "{{a.uid}} and ${{ secrets.a }}"}))),
        ["task \"b\": {{a.uid}} is no reference; write {{task.output.field}}"]
    );
    let mut in_prompt = graph(&[("a", &[]), ("b", &[])]);
    in_prompt.tasks[1].prompt = "mail it to {{a.output.mail}}".into();
    assert_eq!(problems(&in_prompt).len(), 1);
}

#[test]
fn a_reference_keeps_its_type_and_embedded_becomes_text() {
    let outputs = BTreeMap::from([(
        "task-0".to_owned(),
        json!({"uid": "u1", "port": 80, "users": [{"name": "Ann"}, {"name": "Bo"}], "on": true, "none": null}),
    )]);
    let cases = [
        ("{{task-0.output.uid}}", json!("u1")),
        ("{{task-0.output.port}}", json!(80)),
        ("{{ task-0.output.on }}", json!(true)),
        ("{{task-0.output.none}}", json!(null)),
        ("{{task-0.output.users[1].name}}", json!("Bo")),
        ("{{task-0.output.users.0}}", json!({"name": "Ann"})),
        ("port {{task-0.output.port}}!", json!("port 80!")),
        ("{{task-0.output.uid}}{{task-0.output.port}}", json!("u180")),
        (
            "all: {{task-0.output.users}}",
            json!(r#"all: [{"name":"Ann"},{"name":"Bo"}]"#),
        ),
        ("{{{task-0.output.port}}}", json!("{80}")),
        // No references.
        ("{{task-0.uid}}", json!("{{task-0.uid}}")),
        ("${{ secrets.KEY }}", json!("${{ secrets.KEY }}")),
        ("{{task-0.output.}}", json!("{{task-0.output.}}")),
        ("{{task-0.output", json!("{{task-0.output")),
        ("é{{é", json!("é{{é")),
    ];
    for (text, filled) in cases {
        let input = json!({"x": [text]});
        assert_eq!(
            resolve(&input, &outputs),
            Ok(json!({"x": [filled]})),
            "{text}"
        );
    }
    assert_eq!(
        resolve(&json!("{{task-0.output}}"), &outputs).as_ref(),
        Ok(&outputs["task-0"])
    );
}

#[test]
fn a_reference_that_leads_nowhere_says_what_there_is() {
    let outputs = BTreeMap::from([("a".to_owned(), json!({"uid": 1, "list": [1]}))]);
    let told = |text: &str| resolve(&json!(text), &outputs).unwrap_err().to_string();
    assert_eq!(
        told("{{a.output.id}}"),
        "{{a.output.id}}: there is no \"id\" in the output of \"a\" (there is list, uid)"
    );
    assert_eq!(
        told("{{a.output.list[1]}}"),
        "{{a.output.list.1}}: there is no \"1\" in the output of \"a\" (there is 1 items)"
    );
    assert_eq!(
        told("{{b.output}}"),
        "{{b.output}}: task \"b\" has not given anything"
    );
}

#[test]
fn what_a_reference_brings_is_not_read_again() {
    let evil = "{{b.output.secret}}";
    let outputs = BTreeMap::from([
        ("a".to_owned(), json!({"text": evil, "deep": {"x": [evil]}})),
        ("b".to_owned(), json!({"secret": "s3cret"})),
    ]);
    let input = json!({"whole": "{{a.output.text}}", "part": "say {{a.output.text}}", "deep": "{{a.output.deep}}",
        "split": "{{{{a.output.text}}"});
    let filled = resolve(&input, &outputs).unwrap();
    assert!(!filled.to_string().contains("s3cret"), "{filled}");
    assert_eq!(filled["whole"], evil);
    assert_eq!(filled["part"], format!("say {evil}"));
}

#[test]
fn names_of_fields_are_no_references() {
    let input = json!({"{{a.output.x}}": 1, "b": ["{{a.output[0]}}"]});
    let found = references(&input);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].to_string(), "{{a.output.0}}");
}

#[test]
fn a_text_full_of_braces_is_read_in_one_go() {
    let text = "{".repeat(1_000_000);
    assert!(references(&json!(text)).is_empty());
}

#[test]
fn a_failed_task_aborts_its_dependents_and_nothing_else() {
    let graph = graph(&[
        ("e", &["d"]),
        ("a", &[]),
        ("b", &["a"]),
        ("c", &["a"]),
        ("d", &["b", "c"]),
        ("f", &["c"]),
    ]);
    let ended = |all: &[(&str, TaskEnd)]| -> BTreeMap<String, TaskEnd> {
        all.iter()
            .map(|(id, end)| ((*id).to_owned(), *end))
            .collect()
    };
    let first = ready(&graph, &ended(&[]));
    assert_eq!(
        (first.start, first.aborted.len()),
        (vec!["a".to_owned()], 0)
    );
    let done = ready(&graph, &ended(&[("a", TaskEnd::Done)]));
    assert_eq!(done.start, ["b", "c"]);
    let failed = ended(&[
        ("a", TaskEnd::Done),
        ("b", TaskEnd::Failed),
        ("c", TaskEnd::Done),
    ]);
    let failed = ready(&graph, &failed);
    assert_eq!(failed.start, ["f"]);
    assert_eq!(failed.aborted, ["e", "d"]);
}

#[test]
fn a_digest_is_of_everything_and_not_of_the_order_of_fields() {
    let one = graph(&[("a", &[]), ("b", &["a"])]);
    let json = serde_json::to_string(&one).unwrap();
    let read: Graph = serde_json::from_str(&json).unwrap();
    assert_eq!(read.digest(), one.digest());
    assert_eq!(one.digest().len(), 64);
    let with = |input: &str| {
        let mut graph = one.clone();
        graph.tasks[0].input = serde_json::from_str(input).unwrap();
        graph.digest()
    };
    assert_eq!(
        with(r#"{"x":1,"y":{"a":1,"b":2}}"#),
        with(r#"{"y":{"b":2,"a":1},"x":1}"#)
    );
    let mut seen = BTreeSet::from([one.digest(), with(r#"{"x":1}"#), with(r#"{"x":"1"}"#)]);
    let changes: [fn(&mut Graph); 6] = [
        |graph| graph.objective.push('!'),
        |graph| graph.tasks[1].id.push('x'),
        |graph| graph.tasks[1].prompt.push('x'),
        |graph| graph.tasks[1].command.push('x'),
        |graph| graph.tasks[1].depends_on.clear(),
        |graph| graph.tasks.reverse(),
    ];
    for change in changes {
        let mut other = one.clone();
        change(&mut other);
        assert!(seen.insert(other.digest()));
    }
}

fn rows() -> Rows {
    let row = |standing, class, touches: &str| Row {
        standing,
        class,
        touches: touches.into(),
    };
    BTreeMap::from([
        (
            "test".to_owned(),
            row(Standing::WouldRun, EffectClass::Opaque, "$ pytest -q"),
        ),
        (
            "tag".to_owned(),
            row(
                Standing::WouldAsk,
                EffectClass::Probeable,
                "git tag \"v1\" # <now>",
            ),
        ),
    ])
}

fn release() -> Graph {
    graph(&[
        ("test", &[]),
        ("lint", &[]),
        ("tag", &["test", "lint"]),
        ("mail", &["tag"]),
        ("note", &["tag"]),
        ("clean", &["lint"]),
    ])
}

#[test]
fn a_tree_names_every_task_once_with_where_it_stands() {
    let expected = "\
Release it
├─ test  shell.run_command  would run · opaque · $ pytest -q
└─ lint  shell.run_command  planned
   ├─ tag  shell.run_command  would ask · probeable · git tag \"v1\" # <now>  ← test, lint
   │  ├─ mail  shell.run_command  planned
   │  └─ note  shell.run_command  planned
   └─ clean  shell.run_command  planned";
    assert_eq!(tree(&release(), &rows()), expected);
}

#[test]
fn a_flowchart_is_mermaid_whatever_stands_in_it() {
    let expected = "\
%% Release it
flowchart TD
    t0[\"test<br/>shell.run_command<br/>would run<br/>$ pytest -q\"]:::would_run
    t1[\"lint<br/>shell.run_command<br/>planned\"]:::planned
    t2[\"tag<br/>shell.run_command<br/>would ask<br/>git tag #34;v1#34; #35; #60;now#62;\"]:::would_ask
    t3[\"mail<br/>shell.run_command<br/>planned\"]:::planned
    t4[\"note<br/>shell.run_command<br/>planned\"]:::planned
    t5[\"clean<br/>shell.run_command<br/>planned\"]:::planned
    t0 --> t2
    t1 --> t2
    t2 --> t3
    t2 --> t4
    t1 --> t5
    classDef planned fill:#f4f4f4,stroke:#888,color:#222
    classDef would_run fill:#e2f5e4,stroke:#2a7d32,color:#222
    classDef would_ask fill:#fff4d6,stroke:#b07d00,color:#222
";
    assert_eq!(mermaid(&release(), &rows()), expected);
}

#[test]
fn what_a_person_approves_by_is_neither_cut_short_unseen_nor_hidden() {
    let mut rows = rows();
    let long = format!("echo \u{202e}hi\u{1b}[2K\n&& {}", "x".repeat(2_000));
    rows.get_mut("test").unwrap().touches = long;
    let tree = tree(&release(), &rows);
    assert_eq!(tree.lines().count(), 7);
    assert!(tree.contains("echo hi[2K && xxx"), "{tree}");
    assert!(tree.contains("x… [1014 more characters]"), "{tree}");
}

#[test]
fn a_deep_graph_is_not_indented_without_end() {
    let ids: Vec<String> = (0..200).map(|n| format!("t{n}")).collect();
    let mut chain = graph(&[]);
    for (at, id) in ids.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| ids[before].as_str());
        let on: Vec<&str> = before.into_iter().collect();
        chain.tasks.push(task(id, &on, json!({})));
    }
    let tree = tree(&chain, &Rows::new());
    assert_eq!(tree.lines().count(), 201);
    let longest = tree.lines().map(|line| line.chars().count()).max();
    assert!(longest < Some(80), "{longest:?}");
}

/// Any graph: ids that are taken twice, dependencies that are unknown, cycles.
fn any_graph() -> impl Strategy<Value = Graph> {
    let one = (0..12_u8, prop::collection::vec(0..14_u8, 0..4), ".{0,12}");
    prop::collection::vec(one, 0..12).prop_map(|tasks| Graph {
        objective: "any".into(),
        tasks: tasks
            .into_iter()
            .map(|(id, on, text)| {
                let on: Vec<String> = on.iter().map(|on| format!("t{on}")).collect();
                let on: Vec<&str> = on.iter().map(String::as_str).collect();
                let input = json!({"x": format!("{text}{{{{t{id}.output{text}}}}}")});
                task(&format!("t{id}"), &on, input)
            })
            .collect(),
    })
}

/// A graph without cycles, in any order.
fn sound_graph() -> impl Strategy<Value = Graph> {
    let on = prop::collection::vec(prop::collection::vec(0..30_usize, 0..4), 1..30);
    on.prop_map(|all| Graph {
        objective: "sound".into(),
        tasks: all
            .iter()
            .enumerate()
            .map(|(at, on)| {
                let on = on.iter().filter(|on| **on < at);
                let on: BTreeSet<String> = on.map(|on| format!("t{on}")).collect();
                let on: Vec<&str> = on.iter().map(String::as_str).collect();
                task(&format!("t{at}"), &on, json!({}))
            })
            .collect(),
    })
    .prop_flat_map(|graph| (Just(graph.objective), Just(graph.tasks).prop_shuffle()))
    .prop_map(|(objective, tasks)| Graph { objective, tasks })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..generated() })]

    #[test]
    fn any_graph_is_checked_and_shown(graph in any_graph()) {
        let told = check(&graph, &catalog());
        let view = tree(&graph, &Rows::new());
        prop_assert_eq!(view.lines().count(), graph.tasks.len() + 1, "{}", view);
        prop_assert!(mermaid(&graph, &Rows::new()).lines().count() > graph.tasks.len());
        if told.is_ok() {
            prop_assert!(!ready(&graph, &BTreeMap::new()).start.is_empty());
        }
    }

    #[test]
    fn no_task_starts_before_what_it_depends_on_and_each_ends_once(graph in sound_graph(), fails in prop::collection::vec(any::<bool>(), 30)) {
        prop_assert_eq!(check(&graph, &catalog()), Ok(()));
        let mut ended: BTreeMap<String, TaskEnd> = BTreeMap::new();
        loop {
            let next = ready(&graph, &ended);
            for id in &next.start {
                let task = graph.task(id).unwrap();
                prop_assert!(task.depends_on.iter().all(|on| ended.get(on) == Some(&TaskEnd::Done)));
            }
            let aborted = next.aborted.iter().map(|id| (id.clone(), TaskEnd::Aborted));
            let started = next.start.iter().map(|id| {
                let at: usize = id[1..].parse().unwrap();
                (id.clone(), if fails[at] && at.is_multiple_of(3) { TaskEnd::Failed } else { TaskEnd::Done })
            });
            let new: Vec<_> = aborted.chain(started).collect();
            if new.is_empty() {
                break;
            }
            for (id, end) in new {
                prop_assert_eq!(ended.insert(id, end), None);
            }
        }
        prop_assert_eq!(ended.len(), graph.tasks.len(), "all of them ended");
    }

    #[test]
    fn what_has_no_references_stays_as_it_is(text in "[^{}]{0,40}|\\{\\{[a-z]{1,5}\\}\\}|\\{{0,3}[a-z.]{0,9}\\}{0,3}") {
        prop_assume!(references(&json!(text)).is_empty());
        prop_assert_eq!(resolve(&json!(text), &BTreeMap::new()), Ok(json!(text)));
    }

    #[test]
    fn whatever_a_task_gives_comes_through_unchanged(given in ".{0,60}") {
        let outputs = BTreeMap::from([("a".to_owned(), json!({"x": given}))]);
        prop_assert_eq!(resolve(&json!("{{a.output.x}}"), &outputs), Ok(json!(given)));
        let around = resolve(&json!("<{{a.output.x}}|{{a.output.x}}>"), &outputs);
        prop_assert_eq!(around, Ok(json!(format!("<{given}|{given}>"))));
    }
}
