//! Seed 001, section by section: how a task becomes a command with an input that fits, and what is said where it does not.

use journeyman::agent::limits::built_in;
use journeyman::agent::mcp::Offer;
use journeyman::plan::{Bounds, Catalog, Draft, Graph, Next, Request, SchemaError, validate};
use journeyman::tools::{self, Action};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub fn bounds() -> Bounds {
    built_in().plans()
}

/// The seed's own command.
fn firestore() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "description": "Firestore path in format firestore/{database}/data/{collection}",
                "pattern": "^firestore/[^/]+/data/[^/]+$",
            },
            "documentId": {"type": "string", "description": "Document ID to create"},
            "data": {"type": "object", "description": "Document data to write"},
            "merge": {"type": "boolean", "description": "Whether to merge with existing document"},
        },
        "required": ["path", "documentId", "data"],
        "examples": [{
            "path": "firestore/(default)/data/users",
            "documentId": "user-123",
            "data": {"name": "John Doe", "email": "john@example.com"},
        }],
    })
}

fn catalog() -> Catalog {
    let mut catalog = Catalog::new(bounds());
    let about = "Create a Firestore document with the specified data";
    catalog
        .register("firestore", "createDocument", "create", about, firestore())
        .unwrap();
    let mail = json!({
        "type": "object",
        "properties": {"email": {"type": "string", "format": "email"}, "port": {"type": "number"}},
        "required": ["email"],
    });
    catalog
        .register("mail", "send", "send", "Send a mail", mail)
        .unwrap();
    catalog
}

fn task(id: &str, service: &str, command: &str, depends_on: &[&str]) -> Value {
    json!({"id": id, "service": service, "command": command, "prompt": "Create a user document for John Doe with email john@example.com", "dependsOn": depends_on})
}

fn routed() -> Draft {
    let mut draft = Draft::begin("Add John Doe", &catalog());
    let tasks = json!({"tasks": [task("task-0", "firestore", "createDocument", &[]), task("task-1", "mail", "send", &["task-0"])]});
    draft.answered(&tasks.to_string());
    draft
}

fn asked(draft: &Draft) -> Request {
    match draft.next() {
        Next::Ask(request) => *request,
        other => panic!("{other:?}"),
    }
}

fn failed(draft: &Draft) -> String {
    match draft.next() {
        Next::Failed(why) => why,
        other => panic!("{other:?}"),
    }
}

fn graph(draft: &Draft) -> Graph {
    match draft.next() {
        Next::Done(graph) => graph,
        other => panic!("{other:?}"),
    }
}

fn first_input() -> Value {
    json!({"path": "firestore/(default)/data/users", "documentId": "user-123", "data": {"name": "John Doe"}})
}

fn constructed(id: &str, name: (&str, &str), input: &Value, depends_on: &[&str]) -> String {
    json!({"id": id, "service": name.0, "command": name.1, "input": input, "dependsOn": depends_on})
        .to_string()
}

const CREATE: (&str, &str) = ("firestore", "createDocument");
const SEND: (&str, &str) = ("mail", "send");

#[test]
fn input_validation() {
    for lacking in ["id", "service", "command", "prompt"] {
        for nothing in [None, Some(json!("")), Some(json!(null)), Some(json!(7))] {
            let mut one = task("task-0", "mail", "send", &[]);
            match nothing {
                Some(nothing) => one[lacking] = nothing,
                None => drop(one.as_object_mut().unwrap().remove(lacking)),
            }
            let mut draft = Draft::begin("Add John Doe", &catalog());
            draft.answered(&json!({"tasks": [one]}).to_string());
            let user = asked(&draft).user;
            let words = "Invalid input: id, service, command, and prompt are required";
            assert!(user.contains(words), "{lacking}: {user}");
        }
    }
}

#[test]
fn schema_retrieval() {
    let catalog = catalog();
    let command = catalog.get("firestore", "createDocument").unwrap();
    assert_eq!(command.schema, firestore());
    assert_eq!(command.examples[0].input["documentId"], "user-123");
    // Cut at another dot it is the same command.
    let mut catalog = Catalog::new(bounds());
    let any = json!({"type": "object"});
    catalog
        .register("mcp.github", "create_issue", "t", "", any)
        .unwrap();
    assert!(catalog.get("mcp", "github.create_issue").is_some());
    assert!(catalog.get("mcp", "create_issue").is_none());
}

#[test]
fn parameter_construction() {
    let draft = routed();
    let request = asked(&draft);
    assert_eq!(request.temperature, 0.2);
    assert!(request.system.contains("### Required Parameters"));
    assert!(
        request
            .user
            .contains("Create a user document for John Doe with email john@example.com")
    );
}

#[test]
fn response_parsing() {
    let input = first_input();
    let answer = constructed("task-0", CREATE, &input, &[]);
    let forms = [
        answer.clone(),
        format!("```json\n{answer}\n```"),
        format!("Here is the input:\n\n```\n{answer}\n```\nDone."),
        format!("Sure: {answer} That is all."),
    ];
    for form in forms {
        let mut draft = routed();
        draft.answered(&form);
        assert!(
            asked(&draft).user.contains("task-1"),
            "{form}: {:?}",
            draft.next()
        );
    }
}

#[test]
fn ajv_schema_validation() {
    let mut draft = routed();
    let input = json!({"path": "users", "documentId": 7});
    draft.answered(&constructed("task-0", CREATE, &input, &[]));
    let user = asked(&draft).user;
    // All of them at once.
    for words in [
        "Parameter validation failed: ",
        "/data is required",
        "/documentId must be string",
        "/path must match pattern \"^firestore/[^/]+/data/[^/]+$\"",
    ] {
        assert!(user.contains(words), "{user}");
    }
}

#[test]
fn system_instruction_structure() {
    let system = asked(&routed()).system;
    let at = system.find("## Command Schema").unwrap();
    let expected = r#"## Command Schema
### Description
Create a Firestore document with the specified data

### Required Parameters
- **data** (object): Document data to write
- **documentId** (string): Document ID to create
- **path** (string): Firestore path in format firestore/{database}/data/{collection}

### Optional Parameters
- **merge** (boolean): Whether to merge with existing document

### JSON Schema
```json
{"properties":{"data":{"type":"object"},"documentId":{"type":"string"},"merge":{"type":"boolean"},"path":{"pattern":"^firestore/[^/]+/data/[^/]+$","type":"string"}},"required":["path","documentId","data"],"type":"object"}
```

### Examples
Example 1
```json
{
  "data": {
    "email": "john@example.com",
    "name": "John Doe"
  },
  "documentId": "user-123",
  "path": "firestore/(default)/data/users"
}
```"#;
    assert_eq!(&system[at..], expected);
    assert!(!system.contains("Send a mail"), "one command at a time");
}

#[test]
fn user_prompt_structure() {
    let user = asked(&routed()).user;
    let routing: Value = serde_json::from_str(&user).unwrap();
    assert_eq!(routing, task("task-0", "firestore", "createDocument", &[]));
}

#[test]
fn ai_response_schema() {
    let schema = asked(&routed()).schema;
    assert_eq!(schema["properties"]["input"], firestore());
    assert_eq!(
        schema["properties"]["dependsOn"],
        json!({"type": "array", "items": {"type": "string"}})
    );
    assert_eq!(
        schema["required"],
        json!(["id", "service", "command", "input", "dependsOn"])
    );
    // Where a reference may stand, a server that holds the model to the schema lets it write one.
    let mut draft = routed();
    draft.answered(&constructed("task-0", CREATE, &first_input(), &[]));
    let input = &asked(&draft).schema["properties"]["input"];
    assert_eq!(
        input["properties"]["port"]["type"],
        json!(["number", "string"])
    );
}

#[test]
fn layer_1_type_guard() {
    let good = json!({"id": "task-0", "service": "firestore", "command": "createDocument", "input": first_input(), "dependsOn": []});
    let with = |field: &str, value: Value| {
        let mut bad = good.clone();
        bad[field] = value;
        bad.to_string()
    };
    let mut bad = vec![
        "no JSON".to_owned(),
        "null".into(),
        "[]".into(),
        "{}".into(),
        String::new(),
        "{".into(),
    ];
    for field in ["id", "service", "command"] {
        bad.push(with(field, json!(7)));
        bad.push(with(field, json!("another")));
    }
    for input in [json!("text"), json!(null), json!(7)] {
        bad.push(with("input", input));
    }
    for depends_on in [json!("task-1"), json!([7]), json!(null)] {
        bad.push(with("dependsOn", depends_on));
    }
    for answer in bad {
        let mut draft = routed();
        draft.answered(&answer);
        let user = asked(&draft).user;
        assert!(
            user.contains("Invalid AI response format"),
            "{answer}: {user}"
        );
    }
}

#[test]
fn layer_2_schema_validation() {
    let cases = [
        (json!({"type": "string"}), json!(7), "/x must be string"),
        (
            json!({"type": ["string", "null"]}),
            json!(7),
            "/x must be null,string",
        ),
        (
            json!({"format": "email"}),
            json!("john"),
            "/x must match format \"email\"",
        ),
        (
            json!({"format": "uri"}),
            json!("no uri"),
            "/x must match format \"uri\"",
        ),
        (
            json!({"format": "date-time"}),
            json!("noon"),
            "/x must match format \"date-time\"",
        ),
        (
            json!({"format": "phone"}),
            json!("12"),
            "/x must match format \"phone\"",
        ),
        (
            json!({"pattern": "^a+$"}),
            json!("b"),
            "/x must match pattern \"^a+$\"",
        ),
        (
            json!({"enum": ["a", "b"]}),
            json!("c"),
            "/x must be equal to one of the allowed values",
        ),
        (
            json!({"const": 1}),
            json!(2),
            "/x must be equal to constant",
        ),
        (json!({"minimum": 1}), json!(0), "/x must be >= 1"),
        (json!({"maximum": 9}), json!(10), "/x must be <= 9"),
        (json!({"exclusiveMinimum": 1}), json!(1), "/x must be > 1"),
        (json!({"exclusiveMaximum": 9}), json!(9), "/x must be < 9"),
        (
            json!({"multipleOf": 5}),
            json!(7),
            "/x must be multiple of 5",
        ),
        (
            json!({"minLength": 2}),
            json!("a"),
            "/x must NOT have fewer than 2 characters",
        ),
        (
            json!({"maxLength": 2}),
            json!("abc"),
            "/x must NOT have more than 2 characters",
        ),
        (
            json!({"minItems": 1}),
            json!([]),
            "/x must NOT have fewer than 1 items",
        ),
        (
            json!({"maxItems": 1}),
            json!([1, 2]),
            "/x must NOT have more than 1 items",
        ),
        (
            json!({"uniqueItems": true}),
            json!([1, 1]),
            "/x must NOT have duplicate items",
        ),
        (
            json!({"items": {"type": "integer"}}),
            json!([1, "a"]),
            "/x/1 must be integer",
        ),
        (
            json!({"properties": {"y": {"type": "boolean"}}}),
            json!({"y": 1}),
            "/x/y must be boolean",
        ),
        (json!({"required": ["y"]}), json!({}), "/x/y is required"),
        (
            json!({"additionalProperties": false}),
            json!({"z": 1}),
            "/x must NOT have additional properties",
        ),
        (
            json!({"properties": {"y": {}}, "additionalProperties": false}),
            json!({"y": 1, "z": 1}),
            "/x must NOT have additional properties (z)",
        ),
        (
            json!({"minProperties": 1}),
            json!({}),
            "/x must NOT have fewer than 1 properties",
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!(1),
            "/x must match a schema in anyOf",
        ),
        (
            json!({"oneOf": [{"minimum": 0}, {"maximum": 9}]}),
            json!(5),
            "/x must match exactly one schema in oneOf",
        ),
        (
            json!({"not": {"type": "string"}}),
            json!("a"),
            "/x must NOT be valid",
        ),
    ];
    for (of_x, x, words) in cases {
        let schema = json!({"type": "object", "properties": {"x": of_x}});
        let input = json!({"x": x});
        assert_eq!(
            validate(&schema, &input),
            Err(format!("Parameter validation failed: {words}"))
        );
    }
    assert_eq!(
        validate(&json!({"type": "object"}), &json!(7)),
        Err("Parameter validation failed: / must be object".into())
    );
    let phone = json!({"format": "phone"});
    assert_eq!(validate(&phone, &json!("+5491112345678")), Ok(()));
}

#[test]
fn missing_required_parameter() {
    let schema = json!({"type": "object", "required": ["email"]});
    assert_eq!(
        validate(&schema, &json!({})),
        Err("Parameter validation failed: /email is required".into())
    );
}

#[test]
fn type_mismatch() {
    let schema = json!({"type": "object", "properties": {"port": {"type": "number"}}});
    assert_eq!(
        validate(&schema, &json!({"port": "80"})),
        Err("Parameter validation failed: /port must be number".into())
    );
}

#[test]
fn format_violation() {
    let schema = json!({"type": "object", "properties": {"email": {"pattern": "@"}}});
    let told = validate(&schema, &json!({"email": "john"})).unwrap_err();
    assert!(told.starts_with("Parameter validation failed: /email must match pattern"));
}

#[test]
fn enum_constraint() {
    let schema = json!({"type": "object", "properties": {"status": {"enum": ["open", "closed"]}}});
    assert_eq!(
        validate(&schema, &json!({"status": "lost"})),
        Err(
            "Parameter validation failed: /status must be equal to one of the allowed values"
                .into()
        )
    );
}

#[test]
fn all_errors_come_at_once() {
    let schema = json!({
        "type": "object",
        "properties": {"port": {"type": "number"}},
        "required": ["email", "port"],
    });
    let told = validate(&schema, &json!({"port": "x"})).unwrap_err();
    let told = told.strip_prefix("Parameter validation failed: ").unwrap();
    let each: BTreeSet<&str> = told.split("; ").collect();
    assert_eq!(each, ["/email is required", "/port must be number"].into());
}

#[test]
fn reference_syntax() {
    let mut draft = routed();
    draft.answered(&constructed("task-0", CREATE, &first_input(), &[]));
    // Whatever type it will have, a reference is kept; what is certain to be wrong is told.
    let input = json!({"port": "{{task-0.output.port}}"});
    let answer = constructed("task-1", SEND, &input, &["task-0"]);
    draft.answered(&answer);
    let user = asked(&draft).user;
    assert!(
        user.contains("Parameter validation failed: /email is required\n"),
        "{user}"
    );
    let input = json!({"email": "{{task-0.output.mail}}", "port": "{{task-0.output.port}}"});
    draft.answered(&constructed("task-1", SEND, &input, &["task-0"]));
    assert_eq!(graph(&draft).tasks[1].input, input);
}

#[test]
fn a_reference_without_depends_on_goes_back_to_the_model() {
    let mut draft = Draft::begin("Add John Doe", &catalog());
    let tasks = json!({"tasks": [task("a", "mail", "send", &[]), task("b", "mail", "send", &[])]});
    draft.answered(&tasks.to_string());
    draft.answered(&constructed("a", SEND, &json!({"email": "a@b.de"}), &[]));
    let input = json!({"email": "{{a.output.mail}}"});
    draft.answered(&constructed("b", SEND, &input, &[]));
    let user = asked(&draft).user;
    assert!(user.contains("task \"b\" refers to {{a.output.mail}} without dependsOn"));
    draft.answered(&constructed("b", SEND, &input, &["a"]));
    assert_eq!(graph(&draft).tasks[1].depends_on, ["a"]);
}

#[test]
fn a_dependency_that_was_planned_is_not_dropped() {
    let mut draft = routed();
    draft.answered(&constructed("task-0", CREATE, &first_input(), &[]));
    let input = json!({"email": "a@b.de"});
    draft.answered(&constructed("task-1", SEND, &input, &[]));
    assert!(
        asked(&draft)
            .user
            .contains("dependsOn must keep \"task-0\"")
    );
}

#[test]
fn error_recovery() {
    let mut draft = routed();
    for _ in 0..3 {
        asked(&draft);
        draft.answered("I would rather not.");
    }
    assert_eq!(
        failed(&draft),
        "Command agent failed: Invalid AI response format (task task-0, 3 answers)"
    );
    // Terminal: nothing that comes later changes it.
    draft.answered(&constructed("task-0", CREATE, &first_input(), &[]));
    assert!(failed(&draft).starts_with("Command agent failed: "));
    let mut draft = routed();
    (0..3).for_each(|_| draft.answered(&constructed("task-0", CREATE, &json!({}), &[])));
    assert_eq!(
        failed(&draft),
        "Command agent failed: Parameter validation failed: /path is required; /documentId is required; /data is required (task task-0, 3 answers)"
    );
}

#[test]
fn each_task_has_three_answers_of_its_own() {
    let mut draft = routed();
    draft.answered("no");
    draft.answered("no");
    draft.answered(&constructed("task-0", CREATE, &first_input(), &[]));
    assert!(!asked(&draft).user.contains("refused"));
    draft.answered("no");
    draft.answered("no");
    assert!(asked(&draft).user.contains("refused"));
    draft.answered("no");
    assert!(failed(&draft).contains("task task-1"));
}

#[test]
fn a_routing_that_cannot_be_carried_out_goes_back_and_then_fails() {
    let mut draft = Draft::begin("Add John Doe", &catalog());
    let tasks = json!({"tasks": [task("a", "mail", "sent", &["a"])]});
    for _ in 0..3 {
        draft.answered(&tasks.to_string());
    }
    let why = failed(&draft);
    assert!(why.starts_with("Planning failed: Invalid plan: "), "{why}");
    assert!(why.contains("unknown command \"mail.sent\" (is \"mail.send\" meant?)"));
    assert!(why.contains("task \"a\" depends on itself"));
}

#[test]
fn what_the_orchestrator_writes_as_input_is_built_anew() {
    let mut draft = Draft::begin("Add John Doe", &catalog());
    let mut one = task("a", "mail", "send", &[]);
    one["input"] = json!({"email": "evil@example.com"});
    draft.answered(&json!({"tasks": [one]}).to_string());
    draft.answered(&constructed("a", SEND, &json!({"email": "a@b.de"}), &[]));
    assert_eq!(graph(&draft).tasks[0].input, json!({"email": "a@b.de"}));
}

#[test]
fn every_tool_that_does_something_by_itself_is_a_command() {
    let catalog = Catalog::of_tools(bounds(), tools::all(), &Offer::default());
    let named: BTreeSet<&str> = catalog
        .commands()
        .map(|command| command.tool.as_str())
        .collect();
    for tool in tools::all() {
        let is_work = matches!(tool.action, Action::World { .. } | Action::Schedule(_));
        assert_eq!(named.contains(tool.name), is_work, "{}", tool.name);
    }
    assert!(!named.contains("request_user_approval") && !named.contains("create_task_plan"));
    for name in ["shell.run_command", "git.commit", "files.write_file"] {
        let (service, command) = name.split_once('.').unwrap();
        assert!(catalog.get(service, command).is_some(), "{name}");
    }
    for command in catalog.commands() {
        for example in &command.examples {
            assert_eq!(command.fits(&example.input), Ok(()), "{}", command.tool);
        }
    }
}

#[test]
fn bounds_that_leave_nothing_leave_nothing() {
    let bounds = Bounds {
        schema_bytes_max: 10,
        ..bounds()
    };
    let catalog = Catalog::of_tools(bounds, tools::all(), &Offer::default());
    assert_eq!(catalog.commands().count(), 0);
    assert!(catalog.left_out.len() > 20);
}

#[test]
fn what_is_said_about_an_answer_has_an_end() {
    let mut draft = Draft::begin("any", &catalog());
    let one = task("a", "mail", &"x".repeat(1_000_000), &[]);
    for _ in 0..3 {
        draft.answered(&json!({"tasks": [one]}).to_string());
    }
    assert!(failed(&draft).len() < 5_000);
}

#[test]
fn the_question_for_tasks_names_the_commands() {
    let Next::Ask(request) = Draft::begin("Add John Doe", &catalog()).next() else {
        panic!("nothing was asked");
    };
    insta::assert_snapshot!(format!(
        "{}\n--- user\n{}\n--- schema\n{:#}",
        request.system, request.user, request.schema
    ));
}

#[test]
fn token_usage() {
    // About four characters a token: 2,000 tokens.
    const SYSTEM_CHARS_MAX: usize = 8_000;
    let catalog = Catalog::of_tools(bounds(), tools::all(), &Offer::default());
    for command in catalog.commands() {
        let mut draft = Draft::begin("any", &catalog);
        let one = task("a", &command.service, &command.command, &[]);
        draft.answered(&json!({"tasks": [one]}).to_string());
        let request = asked(&draft);
        assert!(
            request.system.len() < SYSTEM_CHARS_MAX,
            "{}: {}",
            command.tool,
            request.system.len()
        );
        assert!(request.user.len() < 800, "about 200 tokens");
    }
}

#[test]
fn schemas_are_bounded_before_they_are_used() {
    let register = |schema: Value| {
        let mut catalog = Catalog::new(bounds());
        catalog.register("s", "c", "t", "", schema)
    };
    let long = json!({"type": "object", "description": "x".repeat(20_000)});
    assert!(matches!(register(long), Err(SchemaError::Bytes { .. })));
    let mut deep = json!({"type": "object"});
    for _ in 0..40 {
        deep = json!({"properties": {"a": deep}});
    }
    assert!(matches!(register(deep), Err(SchemaError::Depth { .. })));
    // Two to the power of 20 schemas, in a few lines.
    let mut bomb = serde_json::Map::new();
    for level in 0..20 {
        let next = format!("#/$defs/d{}", level + 1);
        bomb.insert(
            format!("d{level}"),
            json!({"allOf": [{"$ref": next}, {"$ref": next}]}),
        );
    }
    bomb.insert("d20".into(), json!({"type": "object"}));
    let bomb = json!({"type": "object", "$ref": "#/$defs/d0", "$defs": bomb});
    assert!(matches!(
        register(bomb),
        Err(SchemaError::Subschemas { .. } | SchemaError::Depth { .. })
    ));
    for to in [
        "http://127.0.0.1:1/x.json",
        "file:///etc/passwd",
        "other.json",
        "#anchor",
    ] {
        let elsewhere = json!({"properties": {"a": {"$ref": to}}});
        assert_eq!(
            register(elsewhere),
            Err(SchemaError::Elsewhere(to.to_owned()))
        );
    }
    let around = json!({"properties": {"a": {"$ref": "#"}}});
    assert_eq!(register(around), Err(SchemaError::Recursive("#".into())));
    let nowhere = json!({"properties": {"a": {"$ref": "#/$defs/b"}}});
    assert!(matches!(register(nowhere), Err(SchemaError::Nowhere(_))));
    let mut twice = Catalog::new(bounds());
    let any = json!({"type": "object"});
    assert_eq!(
        twice.register("mcp.a", "b.c", "one", "", any.clone()),
        Ok(())
    );
    assert_eq!(
        twice.register("mcp.a.b", "c", "other", "", any),
        Err(SchemaError::Taken)
    );
    assert_eq!(register(json!(true)), Err(SchemaError::NoObject));
    assert!(matches!(
        register(json!({"type": "nothing"})),
        Err(SchemaError::Unusable(_))
    ));
    assert!(matches!(
        register(json!({"$schema": "http://127.0.0.1:1/meta", "type": "object"})),
        Err(SchemaError::Unusable(_))
    ));
    // A field of that name is no keyword, and a $ref within the schema is followed.
    let named = json!({
        "properties": {"$ref": {"type": "string"}, "$id": {"$ref": "#/$defs/id"}},
        "$defs": {"id": {"type": "integer"}},
    });
    assert_eq!(register(named), Ok(()));
}
