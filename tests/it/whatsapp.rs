//! The WhatsApp wire: only Meta gets in, nothing malformed spoils a neighbour, and what goes out arrives whole.

use crate::support::generated;
use journeyman::agent::event::{Inbound, OutgoingKind, Timestamp};
use journeyman::agent::state::{Button, Outgoing};
use journeyman::agent::undelivered::Deliveries;
use journeyman::doors::whatsapp::graph::{Graph, GraphError, Retry};
use journeyman::doors::whatsapp::payload::{self, Incoming, Kind, PayloadError};
use journeyman::doors::whatsapp::sending::Sending;
use journeyman::doors::whatsapp::signature::{sign, token_matches, verify};
use journeyman::doors::whatsapp::standin::{self, SentKind, Standin};
use journeyman::doors::whatsapp::text::{
    MESSAGE_CHARS_MAX, messages, question, split, to_whatsapp,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

// --- signature -------------------------------------------------------------------------------------------------------

#[test]
fn accepts_what_meta_signs_and_nothing_else() {
    // RFC 4231, test case 2.
    let known = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    let body = b"what do ya want for nothing?";
    assert_eq!(sign("Jefe", body), known);
    assert!(verify("Jefe", Some(known), body));
    assert!(
        verify("Jefe", Some(&known.replace("5bdcc1", "5BDCC1")), body),
        "hex digits have no case"
    );

    let refused: [(&str, Option<&str>, &[u8]); 10] = [
        ("Jefe", None, body),
        ("Jefe", Some(""), body),
        ("Jefe", Some("sha256="), body),
        ("Jefe", Some(&known[7..]), body),
        ("Jefe", Some(&known[..70]), body),
        ("Jefe", Some(&known.replace("sha256", "sha1")), body),
        ("Jefe", Some(&known.replace('c', "g")), body),
        ("Jefe", Some(known), b"what do ya want for nothing? "),
        ("jefe", Some(known), body),
        ("", Some(&sign("", body)), body),
    ];
    for (secret, header, body) in refused {
        assert!(
            !verify(secret, header, body),
            "secret {secret:?}, header {header:?}"
        );
    }
}

#[test]
fn an_unset_verify_token_matches_nothing() {
    assert!(token_matches("s3cret", "s3cret"));
    for (expected, given) in [
        ("s3cret", "s3cre"),
        ("s3cret", "S3cret"),
        ("s3cret", ""),
        ("", ""),
    ] {
        assert!(!token_matches(expected, given), "{expected:?} {given:?}");
    }
}

// --- payload ---------------------------------------------------------------------------------------------------------

fn webhook(value: Value) -> Vec<u8> {
    let entry =
        json!({ "id": "1", "changes": [{ "field": "messages", "value": value }], "time": 7 });
    json!({ "object": "whatsapp_business_account", "entry": [entry] })
        .to_string()
        .into_bytes()
}

fn with_messages(messages: Value) -> Vec<u8> {
    webhook(json!({
        "messaging_product": "whatsapp",
        "metadata": { "display_phone_number": "1", "phone_number_id": "PN" },
        "contacts": [{ "profile": { "name": "A" }, "wa_id": "5491112345678" }],
        "messages": messages,
    }))
}

fn text_message(id: &str, body: &str) -> Value {
    json!({ "from": "5491112345678", "id": id, "timestamp": "1760000000", "type": "text", "text": { "body": body } })
}

fn read(body: &[u8]) -> payload::Payload {
    payload::read(body).expect("a webhook")
}

#[test]
fn reads_text_and_buttons_in_order_with_unknown_fields() {
    let button = |kind: Value| {
        let mut message = json!({ "from": "+5491112345678", "id": "b", "timestamp": 1760000000, "future": { "x": [1] } });
        message
            .as_object_mut()
            .expect("object")
            .extend(kind.as_object().expect("object").clone());
        message
    };
    let reply = json!({ "type": "button_reply", "button_reply": { "id": "approve:7K2", "title": "Approve", "new": 1 } });
    let chosen = json!({ "type": "list_reply", "list_reply": { "id": "l", "title": "L", "description": "d" } });
    let body = with_messages(json!([
        text_message("wamid.1", "fix it ✅"),
        button(
            json!({ "type": "interactive", "interactive": reply, "context": { "id": "wamid.q" } })
        ),
        button(json!({ "type": "interactive", "interactive": chosen })),
        button(json!({ "type": "button", "button": { "payload": "p", "text": "Yes" } })),
        button(json!({ "type": "sticker", "sticker": { "id": "1" } })),
        button(
            json!({ "type": "interactive", "interactive": { "type": "nfm_reply", "nfm_reply": {} } })
        ),
    ]));
    let payload = read(&body);
    assert_eq!(payload.skipped, 0);
    let kinds: Vec<Kind> = payload
        .incoming
        .iter()
        .map(|incoming| incoming.kind.clone())
        .collect();
    let pressed = |id: &str, title: &str| Kind::Button {
        id: id.into(),
        title: title.into(),
    };
    assert_eq!(
        kinds,
        [
            Kind::Text("fix it ✅".into()),
            pressed("approve:7K2", "Approve"),
            pressed("l", "L"),
            pressed("p", "Yes"),
            Kind::Unsupported("sticker".into()),
            Kind::Unsupported("interactive nfm_reply".into()),
        ]
    );
    for incoming in &payload.incoming {
        assert_eq!(
            (incoming.from.as_str(), incoming.phone_number_id.as_str()),
            ("5491112345678", "PN")
        );
        assert_eq!(incoming.timestamp, Some(1_760_000_000));
    }
}

#[test]
fn one_malformed_message_never_spoils_the_others() {
    let broken = json!([
        text_message("wamid.1", "first"),
        null,
        7,
        "text",
        [],
        {},
        { "from": "1", "id": "x", "type": "text" },
        { "from": "1", "id": "x", "type": "text", "text": { "body": 7 } },
        { "from": "1", "id": "", "type": "text", "text": { "body": "no id" } },
        { "from": "1", "type": "text", "text": { "body": "no id" } },
        { "from": "1", "id": "x", "text": { "body": "no type" } },
        { "from": ["1"], "id": "x", "type": "text", "text": { "body": "odd sender" } },
        { "from": "1", "id": "x", "type": "interactive" },
        { "from": "1", "id": "x", "type": "interactive", "interactive": { "type": "button_reply" } },
        text_message("wamid.2", "second"),
        { "from": "1", "id": "wamid.3", "timestamp": "soon", "type": "text", "text": { "body": "third" } },
    ]);
    let payload = read(&with_messages(broken));
    let ids: Vec<&str> = payload
        .incoming
        .iter()
        .map(|incoming| incoming.id.as_str())
        .collect();
    assert_eq!(ids, ["wamid.1", "wamid.2", "wamid.3"]);
    assert_eq!(payload.skipped, 13);
    assert_eq!(payload.incoming[2].timestamp, None);
}

#[test]
fn malformed_entries_and_foreign_changes_are_stepped_over() {
    let good = json!({ "field": "messages", "value": { "metadata": {}, "messages": [text_message("wamid.1", "hi")] } });
    let body = json!({ "object": "whatsapp_business_account", "entry": [
        null,
        { "changes": null },
        { "changes": "no list" },
        { "changes": [null, { "field": "account_update", "value": { "messages": [text_message("no", "no")] } }, { "field": "messages" }] },
        { "changes": [{ "field": "messages", "value": { "messages": {}, "statuses": 1 } }, good] },
    ] });
    let payload = read(body.to_string().as_bytes());
    assert_eq!(payload.incoming.len(), 1);
    assert_eq!(payload.incoming[0].id, "wamid.1");
    assert_eq!(
        payload.skipped, 3,
        "three values that should have been lists"
    );
}

#[test]
fn accepts_the_older_and_the_newer_shape_of_a_sender() {
    let sender = |message: Value, contacts: Value| {
        let mut full = text_message("wamid.1", "hi");
        let object = full.as_object_mut().expect("object");
        object.remove("from");
        object.extend(message.as_object().expect("object").clone());
        let payload = read(&webhook(
            json!({ "metadata": { "phone_number_id": "PN" }, "contacts": contacts, "messages": [full] }),
        ));
        payload
            .incoming
            .first()
            .map(|incoming: &Incoming| incoming.from.clone())
    };
    let both = json!([{ "wa_id": "549", "user_id": "AR.1" }, { "wa_id": "55", "user_id": "BR.2" }]);
    let cases = [
        (
            json!({ "from": "549" }),
            json!([{ "wa_id": "549" }]),
            Some("549"),
        ),
        (
            json!({ "from": "549", "from_user_id": "AR.1" }),
            both.clone(),
            Some("549"),
        ),
        (json!({ "from_user_id": "BR.2" }), both.clone(), Some("55")),
        (json!({ "user_id": "AR.1" }), both.clone(), Some("549")),
        (
            json!({ "from": "", "from_user_id": "AR.1" }),
            json!([{ "wa_id": "", "user_id": "AR.1" }]),
            Some("AR.1"),
        ),
        (json!({ "from_user_id": "AR.1" }), json!(null), Some("AR.1")),
        (json!({}), json!([{ "user_id": "AR.1" }]), Some("AR.1")),
        (
            json!({}),
            json!([{ "wa_id": "549", "user_id": "AR.1" }]),
            Some("549"),
        ),
        (json!({}), both, None),
        (json!({}), json!([]), None),
    ];
    for (message, contacts, expected) in cases {
        assert_eq!(
            sender(message.clone(), contacts.clone()).as_deref(),
            expected,
            "{message} {contacts}"
        );
    }
}

#[test]
fn delivery_failures_are_seen() {
    let body = webhook(
        json!({ "metadata": { "phone_number_id": "PN" }, "statuses": [
        { "id": "wamid.out", "status": "delivered", "timestamp": "1", "recipient_id": "549", "pricing": {} },
        { "id": "wamid.out", "status": "failed", "timestamp": "2", "recipient_user_id": "AR.1",
          "errors": [{ "code": 131047, "title": "Re-engagement message", "error_data": {} }] },
        { "status": "no id" },
    ] }),
    );
    let payload = read(&body);
    assert_eq!((payload.incoming.len(), payload.skipped), (2, 1));
    assert!(
        matches!(&payload.incoming[0].kind, Kind::Status { state, error: None } if state == "delivered")
    );
    assert!(
        matches!(&payload.incoming[1].kind, Kind::Status { error: Some(error), .. } if error.code == 131_047)
    );
    assert_eq!(payload.incoming[1].from, "AR.1");
}

#[test]
fn a_body_that_is_no_webhook_is_an_error_without_its_content() {
    let not_json: [&[u8]; 4] = [b"", b"{\"object\": secret", b"\xff\xfe", b"{}{}"];
    for body in not_json {
        let error = payload::parse(body).expect_err("not JSON");
        assert!(matches!(error, PayloadError::NotJson { .. }), "{error}");
        assert!(!error.to_string().contains("secret"));
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(payload::parse(deep.as_bytes()).is_err());
    for body in [
        "null",
        "[]",
        "7",
        "\"x\"",
        "{}",
        r#"{"object":"page","entry":[]}"#,
    ] {
        assert!(
            matches!(
                payload::parse(body.as_bytes()),
                Err(PayloadError::NotWhatsApp(_))
            ),
            "{body}"
        );
    }
    assert!(
        payload::parse(br#"{"object":"whatsapp_business_account"}"#)
            .expect("empty")
            .is_empty()
    );
}

#[test]
fn the_demos_own_webhooks_are_read() {
    let text = read(&standin::text_webhook(
        "PN",
        "549",
        "wamid.1",
        "the test fails, fix it",
    ));
    assert_eq!(
        text.incoming[0].kind,
        Kind::Text("the test fails, fix it".into())
    );
    assert_eq!(text.incoming[0].from, "549");
    let pressed = read(&standin::button_webhook(
        "PN",
        "549",
        "wamid.2",
        "wamid.q",
        ("approve:A1", "Approve"),
    ));
    assert_eq!(
        pressed.incoming[0].kind,
        Kind::Button {
            id: "approve:A1".into(),
            title: "Approve".into()
        }
    );
}

proptest! {
    #![proptest_config(generated())]
    #[test]
    fn no_body_makes_the_reader_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = payload::read(&body);
    }
}

// --- marks -----------------------------------------------------------------------------------------------------------

#[test]
fn markdown_becomes_whatsapps_marks_and_code_stays() {
    let cases = [
        ("**bold** and *italic*", "*bold* and _italic_"),
        ("***both***", "*_both_*"),
        ("**bold *both* bold**", "*bold _both_ bold*"),
        ("__two words__, _one_", "*two words*, _one_"),
        ("~~gone~~ ~kept~", "~gone~ ~kept~"),
        ("(**a**), **b**: **c**!", "(*a*), *b*: *c*!"),
        ("**¿Qué?** **árbol**", "*¿Qué?* *árbol*"),
        ("# Title", "*Title*"),
        ("### The **big** one ###", "*The big one*"),
        ("## C#", "*C#*"),
        ("#hashtag and #7", "#hashtag and #7"),
        ("* one\n+ two\n  * **three**", "- one\n- two\n  - *three*"),
        ("[docs](https://x.org/a_b_c)", "docs (https://x.org/a_b_c)"),
        (
            "[**docs**](https://x.org \"T\"), [x](<y z>)",
            "*docs* (https://x.org), [x](<y z>)",
        ),
        ("[wiki](https://x.org/A_(b))", "wiki (https://x.org/A_(b))"),
        (
            "![logo](a.png) <https://x.org/*a*>",
            "logo (a.png) https://x.org/*a*",
        ),
        ("[https://x.org](https://x.org)", "https://x.org"),
        (
            "see https://x.org/_a_/**b**/*c* now",
            "see https://x.org/_a_/**b**/*c* now",
        ),
        // What is not a mark.
        ("2*3*4", "2*3*4"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("2**3**4", "2**3**4"),
        ("a_b_c and __init__.py", "a_b_c and __init__.py"),
        ("*.rs and *.py, **/*.rs", "*.rs and *.py, **/*.rs"),
        ("f(*args, **kwargs)", "f(*args, **kwargs)"),
        ("handlers[i](event)", "handlers[i](event)"),
        ("[ ] todo [x] (done)", "[ ] todo [x] (done)"),
        ("a ** b ** c, ** x", "a ** b ** c, ** x"),
        ("**open", "**open"),
        (r"\*not\* \_this\_", r"\*not\* \_this\_"),
        // Code.
        (
            "`**x**` and ``a ` **b**`` **c**",
            "`**x**` and ``a ` **b**`` *c*",
        ),
        ("**run `a**b` now**", "*run `a**b` now*"),
        ("`open **b**", "`open *b*"),
        (
            "```rust\nlet x = **y**; # no\n* z\n```\n**b**",
            "```\nlet x = **y**; # no\n* z\n```\n*b*",
        ),
        ("~~~\n**x**\n```\n~~~", "```\n**x**\n```\n```"),
        ("```\n**never closed**", "```\n**never closed**"),
        (
            "text\n\n    indented **code**\n\n**b**",
            "text\n\n    indented **code**\n\n*b*",
        ),
        (
            "- item\n\n    its **paragraph**",
            "- item\n\n    its *paragraph*",
        ),
        ("wrapped\n    **line**", "wrapped\n    *line*"),
        ("", ""),
    ];
    for (markdown, expected) in cases {
        assert_eq!(to_whatsapp(markdown), expected, "from {markdown:?}");
    }
}

proptest! {
    #![proptest_config(generated())]
    #[test]
    fn code_is_never_touched(code in "[a-z*_~\\[\\]()# ]{1,40}", around in "[a-z*_ ]{0,10}") {
        prop_assume!(!code.trim().is_empty());
        let span = format!("{around}`{code}`");
        prop_assert!(to_whatsapp(&span).contains(&format!("`{code}`")), "{}", to_whatsapp(&span));
        let block = format!("{around}\n```\n{code}\n```");
        let kept = format!("\n```\n{code}\n```");
        prop_assert!(to_whatsapp(&block).ends_with(&kept));
    }

    #[test]
    fn any_text_converts(text in "\\PC{0,80}", lines in "[*_~`\\[\\]()<>!#é \n\\\\h]{0,60}") {
        to_whatsapp(&text);
        to_whatsapp(&lines);
    }
}

// --- splitting -------------------------------------------------------------------------------------------------------

#[test]
fn splits_where_a_reader_would() {
    assert_eq!(split("short", 64), ["short"]);
    assert!(split(" \n\n ", 64).is_empty());
    let a = "a".repeat(40);
    let b = "b".repeat(40);
    assert_eq!(split(&format!("{a}\n\n{b}"), 64), [a.clone(), b.clone()]);
    // A sentence, where no paragraph ends in time.
    let text = format!("{a}. {}. {b}", "c d ".repeat(4).trim());
    assert_eq!(
        split(&text, 64),
        [format!("{a}. c d c d c d c d."), b.clone()]
    );
    // A word, where no sentence does; indentation after a line's end stays.
    assert_eq!(
        split(&format!("{a} word word word word {b}"), 64),
        [format!("{a} word word word word"), b.clone()]
    );
    assert_eq!(
        split(&format!("- {a}\n  - {b}"), 64),
        [format!("- {a}"), format!("  - {b}")]
    );
    // Inside of a word only where it is longer than a message.
    let long = "x".repeat(150);
    assert_eq!(
        split(&long, 64),
        ["x".repeat(64), "x".repeat(64), "x".repeat(22)]
    );
}

#[test]
fn a_code_block_stays_whole_where_it_can() {
    let text = format!(
        "Before it, some words.\n```\n{}\n```\nAfter.",
        "code line\n".repeat(4).trim()
    );
    assert_eq!(
        split(&text, 64),
        [
            "Before it, some words.".to_owned(),
            format!("```\n{}\n```\nAfter.", "code line\n".repeat(4).trim())
        ]
    );
}

#[test]
fn a_long_code_block_is_closed_and_reopened_between_its_lines() {
    let lines: Vec<String> = (0..30).map(|n| format!("    line {n:02}")).collect();
    let parts = split(
        &format!("Look:\n```\n{}\n```\nDone.", lines.join("\n")),
        100,
    );
    assert!(parts.len() > 3);
    let mut seen = Vec::new();
    for part in &parts {
        assert!(part.chars().count() <= 100);
        assert_eq!(part.matches("```").count() % 2, 0, "{part}");
        seen.extend(
            part.lines()
                .filter(|line| line.contains("line"))
                .map(str::to_owned),
        );
    }
    assert_eq!(seen, lines);
    assert!(parts.last().expect("parts").ends_with("Done."));
}

#[test]
fn a_question_keeps_its_whole_text_and_a_part_for_the_buttons() {
    let diff: String = (0..600).map(|n| format!("+ line {n}\n")).collect();
    let (before, body) =
        question(&format!("May I?\n```diff\n{diff}```\nReply yes or no.")).expect("not blank");
    assert!(body.chars().count() <= 1024 && body.ends_with("Reply yes or no."));
    let all = before.join("\n") + "\n" + &body;
    assert!((0..600).all(|n| all.lines().any(|line| line == format!("+ line {n}"))));
    assert!(question("  ").is_none());
    assert!(messages("").is_empty());
    assert_eq!(messages("# Hi"), ["*Hi*"]);
    assert!(
        messages(&"word ".repeat(20_000))
            .iter()
            .all(|part| part.chars().count() <= MESSAGE_CHARS_MAX)
    );
}

fn ends_in_code(part: &str) -> bool {
    let mut open = 0;
    for line in part.lines().map(str::trim) {
        let ticks = line.len() - line.trim_start_matches('`').len();
        if open > 0 && ticks >= open && ticks == line.len() {
            open = 0;
        } else if open == 0
            && (3..=16).contains(&ticks)
            && !line[ticks..].contains('`')
            // Longer words are none that name a language, so this is no fence.
            && line[ticks..].chars().count() <= 40
        {
            open = ticks;
        }
    }
    open > 0
}

proptest! {
    #![proptest_config(generated())]
    #[test]
    fn nothing_is_lost_and_every_part_fits(text in "([a-zé👍🏽 .!`\n]{0,30}|(\n\n)|(\n```\n)|[x]{70,90}){0,30}", max in 64usize..200) {
        let parts = split(&text, max);
        let mut all = String::new();
        for part in &parts {
            prop_assert!(part.chars().count() <= max);
            prop_assert!(!part.trim().is_empty());
            prop_assert!(!ends_in_code(part), "{:?}", part);
            all.push_str(part);
        }
        let solid = |text: &str| text.chars().filter(|c| !c.is_whitespace() && *c != '`').collect::<String>();
        prop_assert_eq!(solid(&all), solid(&text));
    }
}

// --- Graph -----------------------------------------------------------------------------------------------------------

fn outgoing(kind: OutgoingKind, text: &str) -> Outgoing {
    Outgoing {
        send: 1,
        kind,
        text: text.to_owned(),
        approval: None,
        buttons: Vec::new(),
        sending: true,
        attempts: 0,
        due: None,
        repeated: false,
        again: false,
        parts: 0,
        ids: Vec::new(),
        fleeting: false,
        held: None,
        closed_at: None,
        answers: None,
    }
}

const TOKEN: &str = "EAAG-not-for-logs";

#[test]
fn what_is_sent_again_says_so_once() {
    const PART: &str = "(sent again: a part)\n";
    const INTERRUPTED: &str = "(sent again after an interruption)\n";
    let failure = |id: &str| Inbound {
        about: Some(id.into()),
        ..Inbound::text("s1", "channel", "")
    };
    let again = |outgoing: &Outgoing| {
        let mut deliveries = Deliveries::default();
        deliveries.taken(outgoing, &["a".into(), "b".into()], Timestamp(1));
        deliveries.failed(&failure("b"), true, Timestamp(2), PART)
    };
    let mut first = again(&outgoing(OutgoingKind::Final, "Long.")).expect("sent again");
    assert_eq!(first.text, format!("{PART}Long."));
    first.repeat(INTERRUPTED);
    assert_eq!(first.text, format!("{PART}Long."), "one mark is enough");
    let mut interrupted = outgoing(OutgoingKind::Final, "Long.");
    interrupted.repeat(INTERRUPTED);
    let second = again(&interrupted).expect("sent again");
    assert_eq!(second.text, format!("{INTERRUPTED}Long."));
    assert_eq!(second.parts, 0, "all of it goes out");
}

async fn graph() -> (Graph, Standin) {
    let standin = standin::start(TOKEN).await.expect("a loopback port");
    let quick = Retry {
        backoff_ms: 1,
        wait_ms_max: 1_500,
        ..Retry::default()
    };
    (
        Graph::new(&standin.base_url, "PN", TOKEN).with_retry(quick),
        standin,
    )
}

#[tokio::test]
async fn what_we_send_arrives() {
    let (graph, mut standin) = graph().await;
    let id = graph
        .send_text("549", "hello", Some("wamid.q"))
        .await
        .expect("sent");
    let sent = standin.sent.recv().await.expect("recorded");
    assert_eq!(
        (sent.id, sent.to.as_str(), sent.text.as_str()),
        (id, "549", "hello")
    );
    assert_eq!(
        (sent.kind, sent.reply_to.as_deref()),
        (SentKind::Text, Some("wamid.q"))
    );

    graph
        .send_buttons(
            "US.549",
            "run `cargo test`?",
            &[("a:1", "Approve"), ("d:1", "Deny")],
        )
        .await
        .expect("sent");
    let sent = standin.sent.recv().await.expect("recorded");
    assert_eq!((sent.kind, sent.to.as_str()), (SentKind::Buttons, "US.549"));
    assert_eq!(
        sent.buttons,
        [
            ("a:1".into(), "Approve".into()),
            ("d:1".into(), "Deny".into())
        ]
    );

    graph.read_and_typing("wamid.in").await.expect("read");
    let sent = standin.sent.recv().await.expect("recorded");
    assert_eq!(
        (sent.kind, sent.text.as_str()),
        (SentKind::Read { typing: true }, "wamid.in")
    );
    let paths: Vec<String> = standin
        .control
        .requests()
        .into_iter()
        .map(|request| request.path)
        .collect();
    assert_eq!(paths, ["/v23.0/PN/messages"; 3]);
    assert_eq!(
        standin.control.requests()[1].body["recipient"],
        "US.549",
        "a user id is no phone number"
    );
}

#[tokio::test]
async fn tries_again_when_whatsapp_is_busy_and_waits_as_told() {
    let (graph, standin) = graph().await;
    standin.control.fail_next(1, 429, Some(1));
    standin.control.fail_next(1, 503, None);
    let before = Instant::now();
    graph
        .send_text("549", "hello", None)
        .await
        .expect("sent at last");
    assert!(
        before.elapsed() >= Duration::from_secs(1),
        "Retry-After was respected"
    );
    let statuses: Vec<u16> = standin
        .control
        .requests()
        .iter()
        .map(|request| request.status)
        .collect();
    assert_eq!(statuses, [429, 503, 200]);
}

#[tokio::test]
async fn gives_up_after_a_bounded_number_of_attempts() {
    let (graph, standin) = graph().await;
    standin.control.fail_next(9, 500, None);
    let error = graph
        .send_text("549", "hello", None)
        .await
        .expect_err("never");
    assert!(
        matches!(
            error,
            GraphError::GaveUp {
                attempts: 4,
                status: 500,
                code: Some(131_000),
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(standin.control.requests().len(), 4);
}

#[tokio::test]
async fn a_long_wait_is_for_whoever_sends_and_not_for_the_request() {
    let (graph, standin) = graph().await;
    standin.control.fail_next(1, 429, Some(120));
    let error = graph
        .send_text("549", "hello", None)
        .await
        .expect_err("not now");
    assert!(
        matches!(
            error,
            GraphError::GaveUp {
                attempts: 1,
                status: 429,
                wait_ms: Some(120_000),
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(standin.control.requests().len(), 1, "not before its time");
}

#[tokio::test]
async fn too_many_messages_to_one_person_wait_longer() {
    let (graph, standin) = graph().await;
    let graph = graph.with_retry(Retry {
        backoff_ms: 1,
        pair_wait_ms: 300,
        ..Retry::default()
    });
    standin.control.fail_next_with(2, 400, 131_056, None);
    let before = Instant::now();
    graph
        .send_text("549", "hello", None)
        .await
        .expect("sent at last");
    assert!(before.elapsed() >= Duration::from_millis(600));
}

#[tokio::test]
async fn a_template_names_the_workspace_on_one_line() {
    let (graph, mut standin) = graph().await;
    let long = format!("my\n\t    shop {}", "x".repeat(80));
    graph
        .send_template("549", "news", "es", &long)
        .await
        .expect("sent");
    let sent = standin.sent.recv().await.expect("recorded");
    assert_eq!(sent.kind, SentKind::Template("news".into()));
    assert!(sent.text.starts_with("my shop xxx") && sent.text.len() == 60);
    let language = &standin.control.requests()[0].body["template"]["language"];
    assert_eq!(language["code"], "es");
}

#[tokio::test]
async fn what_arrived_of_a_message_is_not_sent_again() {
    let answers = Arc::new(Mutex::new(vec![200, 429, 200, 200]));
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let taken = bodies.clone();
    let app = axum::Router::new().fallback(move |body: String| async move {
        let status = answers.lock().expect("no panic").remove(0);
        let body: Value = serde_json::from_str(&body).expect("JSON");
        if status == 200 {
            let text = body["text"]["body"].as_str().expect("a text").to_owned();
            taken.lock().expect("no panic").push(text);
        }
        let status = axum::http::StatusCode::from_u16(status).expect("a status");
        let answer = json!({ "messages": [{ "id": "wamid.1" }] }).to_string();
        (status, [("retry-after", "120")], answer)
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("port");
    let url = format!("http://{}", listener.local_addr().expect("address"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let text = ["first ", "second ", "third "].map(|word| word.repeat(600));
    let whole = text.join("\n\n");
    let mut outgoing = outgoing(OutgoingKind::Final, &whole);
    let (graph, sending) = (Graph::new(&url, "PN", TOKEN), Sending::new(None, 3));
    let failed = sending.send(&graph, "549", &outgoing).await;
    let failed = failed.expect_err("the second part is refused");
    assert!(failed.transient && !failed.closed, "{failed:?}");
    assert_eq!((failed.parts, failed.wait_ms), (1, Some(120_000)));
    assert_eq!(failed.ids, ["wamid.1"], "of the part that arrived");
    outgoing.parts = failed.parts;
    let ids = sending.send(&graph, "549", &outgoing).await;
    assert_eq!(ids.expect("the rest").len(), 2);
    assert_eq!(*bodies.lock().expect("no panic"), messages(&whole));
}

#[tokio::test]
async fn a_rate_limit_that_comes_as_400_is_one_too() {
    let app = axum::Router::new().fallback(|| async {
        (
            axum::http::StatusCode::BAD_REQUEST,
            json!({ "error": { "code": 131056, "message": "pair rate" } }).to_string(),
        )
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("port");
    let url = format!("http://{}", listener.local_addr().expect("address"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let quick = Retry {
        backoff_ms: 1,
        pair_wait_ms: 1,
        ..Retry::default()
    };
    let error = Graph::new(&url, "PN", TOKEN)
        .with_retry(quick)
        .send_text("549", "x", None)
        .await;
    assert!(
        matches!(
            error,
            Err(GraphError::GaveUp {
                attempts: 4,
                status: 400,
                code: Some(131_056),
                ..
            })
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_refusal_is_final_and_says_whatsapps_reason() {
    let (graph, standin) = graph().await;
    standin.control.fail_next(1, 400, None);
    let error = graph
        .send_text("549", "hello", None)
        .await
        .expect_err("outside the window");
    assert!(matches!(
        error,
        GraphError::Refused {
            status: 400,
            code: Some(131_047),
            ..
        }
    ));
    assert!(
        error.to_string().contains("Re-engagement message"),
        "{error}"
    );
    assert_eq!(standin.control.requests().len(), 1, "never again");

    let wrong = Graph::new(&standin.base_url, "PN", "EAAG-wrong");
    let error = wrong
        .send_text("549", "hello", None)
        .await
        .expect_err("wrong token");
    assert!(
        matches!(
            error,
            GraphError::Refused {
                status: 401,
                code: Some(190),
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn what_whatsapp_would_refuse_is_not_even_sent() {
    let (graph, standin) = graph().await;
    let long = "x".repeat(MESSAGE_CHARS_MAX + 1);
    let title = "y".repeat(21);
    let refused = [
        graph.send_text("549", "", None).await,
        graph.send_text("549", &long, None).await,
        graph
            .send_buttons("549", &long[..1025], &[("a", "A")])
            .await,
        graph.send_buttons("549", "x", &[]).await,
        graph.send_buttons("549", "x", &[("a", "A"); 4]).await,
        graph.send_buttons("549", "x", &[("a", &title)]).await,
    ];
    for result in refused {
        assert!(matches!(result, Err(GraphError::Invalid(_))), "{result:?}");
    }
    assert!(standin.control.requests().is_empty());
}

#[tokio::test]
async fn unreachable_is_told_from_in_doubt() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("port");
    let url = format!("http://{}/v23.0", listener.local_addr().expect("address"));
    let hangs_up = std::thread::spawn(move || drop(listener.accept()));
    let quick = Retry {
        backoff_ms: 1,
        ..Retry::default()
    };
    let graph = Graph::new(&url, "PN", TOKEN).with_retry(quick);
    let error = graph
        .send_text("549", "hello", None)
        .await
        .expect_err("the connection broke");
    assert!(matches!(error, GraphError::InDoubt { .. }), "{error:?}");
    hangs_up.join().expect("the listener is closed now");
    let error = graph
        .send_text("549", "hello", None)
        .await
        .expect_err("nobody listens");
    assert!(
        matches!(error, GraphError::Unreachable { attempts: 4, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn the_token_is_in_no_error() {
    let app = axum::Router::new().fallback(|headers: axum::http::HeaderMap| async move {
        let sent = headers["authorization"].to_str().expect("text").to_owned();
        (axum::http::StatusCode::UNAUTHORIZED, json!({ "error": { "code": 190, "message": format!("Malformed access token {sent}") } }).to_string())
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("port");
    let url = format!("http://{}", listener.local_addr().expect("address"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let graph = Graph::new(&url, "PN", TOKEN);
    let error = graph
        .send_text("549", "hello", None)
        .await
        .expect_err("refused");
    assert!(
        !format!("{error} {error:?} {graph:?}").contains(TOKEN),
        "{error}"
    );
    assert!(error.to_string().contains("[token]"));
    let graph = Graph::new(&url, "PN", "line\nbreak");
    let error = graph
        .send_text("549", "hello", None)
        .await
        .expect_err("no header can carry it");
    assert!(!format!("{error} {error:?}").contains("break"), "{error}");
}

// --- long texts, and the mark of work ----------------------------------------------------------------------------------

fn diff_of(files: usize, lines: usize) -> String {
    let file = |n: usize| {
        let added = format!("+{}\n", "x".repeat(60)).repeat(lines);
        format!(
            "--- a/src/part_{n}.rs\n+++ b/src/part_{n}.rs\n@@ -1,1 +1,{lines} @@\n-old\n{added}"
        )
    };
    (0..files)
        .map(file)
        .collect::<String>()
        .trim_end()
        .to_owned()
}

async fn sent_as(kind: OutgoingKind, text: &str) -> Vec<standin::Sent> {
    let (graph, mut standin) = graph().await;
    let sending = Sending::new(None, 3);
    let sent = sending.send(&graph, "549", &outgoing(kind, text)).await;
    sent.expect("sent");
    std::iter::from_fn(|| standin.sent.try_recv().ok()).collect()
}

#[tokio::test]
async fn a_long_diff_is_a_document_with_its_files_and_lines() {
    let diff = diff_of(14, 10);
    let shown = sent_as(OutgoingKind::Notice, &format!("```diff\n{diff}\n```")).await;
    let [document] = &shown[..] else {
        panic!("{} messages", shown.len());
    };
    let SentKind::Document { name, content } = &document.kind else {
        panic!("{document:?}");
    };
    assert_eq!(
        (name.as_str(), content.trim_end()),
        ("diff.patch", diff.as_str())
    );
    let lines: Vec<&str> = document.text.lines().collect();
    assert_eq!(lines[0], "✏️ +140 −14");
    assert_eq!(lines[1], "src/part_0.rs (+10 −1)");
    assert_eq!((lines.len(), lines[13]), (14, "… 14"), "not all of them");

    let changed = format!("✏️ a.rs (+90 −1)\n```diff\n{}\n```", diff_of(1, 90));
    let shown = sent_as(OutgoingKind::Change, &changed).await;
    assert_eq!(shown[0].text, "✏️ a.rs (+90 −1)", "said already");
    let short = format!("```diff\n{}\n```", diff_of(1, 5));
    let shown = sent_as(OutgoingKind::Notice, &short).await;
    assert_eq!(shown[0].kind, SentKind::Text, "what fits is read at once");
}

#[tokio::test]
async fn a_very_long_answer_is_a_document_and_its_beginning_and_end_are_read() {
    let paragraph = "It **works** now, and here is why in all detail. ".repeat(20);
    let body = [paragraph.trim(); 20].join("\n\n");
    let text = format!("# Fixed\n\n{body}\n\n✏️ Files changed: 3 (+40 −2)");
    let shown = sent_as(OutgoingKind::Final, &text).await;
    let [document] = &shown[..] else {
        panic!("{} messages", shown.len());
    };
    let SentKind::Document { name, content } = &document.kind else {
        panic!("{document:?}");
    };
    assert_eq!((name.as_str(), content), ("answer.md", &text));
    let caption = &document.text;
    assert!(
        caption.starts_with("*Fixed*\n\nIt *works* now"),
        "{caption}"
    );
    assert!(
        caption.ends_with("\n…\n\n✏️ Files changed: 3 (+40 −2)"),
        "{caption}"
    );
    let three = [paragraph.trim(); 10].join("\n\n");
    let shown = sent_as(OutgoingKind::Final, &three).await;
    assert!(shown.len() == 3 && shown.iter().all(|sent| sent.kind == SentKind::Text));
}

#[tokio::test]
async fn a_question_is_never_a_document_and_never_cut() {
    let question = format!("🔐 May I run this?\n```diff\n{}\n```", diff_of(20, 20));
    let (graph, mut standin) = graph().await;
    let question = Outgoing {
        approval: Some("7K2M".into()),
        buttons: vec![Button {
            command: "/deny 7K2M".into(),
            title: "Deny".into(),
        }],
        ..outgoing(OutgoingKind::Question, &question)
    };
    let sent = Sending::new(None, 3).send(&graph, "549", &question).await;
    assert!(sent.expect("sent").len() > 3);
    let shown: Vec<_> = std::iter::from_fn(|| standin.sent.try_recv().ok()).collect();
    let (last, before) = shown.split_last().expect("messages");
    assert_eq!(last.kind, SentKind::Buttons);
    assert!(before.iter().all(|sent| sent.kind == SentKind::Text));
    let all: String = shown.iter().map(|sent| sent.text.as_str()).collect();
    let kept = all.lines().filter(|line| line.starts_with("+x")).count();
    assert_eq!(kept, 400);
}

#[tokio::test]
async fn what_cannot_be_uploaded_goes_in_parts() {
    let (graph, mut standin) = graph().await;
    standin.control.fail_next_with(1, 400, 131_053, None);
    let text = format!("```diff\n{}\n```", diff_of(14, 10));
    let sending = Sending::new(None, 3);
    let sent = sending
        .send(&graph, "549", &outgoing(OutgoingKind::Notice, &text))
        .await;
    assert_eq!(sent.expect("sent").len(), messages(&text).len());
    while let Ok(sent) = standin.sent.try_recv() {
        assert_eq!(sent.kind, SentKind::Text);
    }
}

#[tokio::test]
async fn the_mark_of_work_is_taken_away_with_the_answer_also_by_another_process() {
    let (graph, mut standin) = graph().await;
    let sending = Sending::new(None, 3);
    sending.marks.put(&graph, "549", "wamid.in");
    let answer = Outgoing {
        answers: Some("wamid.in".into()),
        ..outgoing(OutgoingKind::Final, "Done.")
    };
    sending.send(&graph, "549", &answer).await.expect("sent");
    let another = Sending::new(None, 3);
    another.send(&graph, "549", &answer).await.expect("sent");
    let reactions: Vec<_> = std::iter::from_fn(|| standin.sent.try_recv().ok())
        .filter_map(|sent| match sent.kind {
            SentKind::Reaction(emoji) => Some((emoji, sent.text)),
            _ => None,
        })
        .collect();
    let of = |emoji: &str| (emoji.to_owned(), "wamid.in".to_owned());
    assert_eq!(reactions, [of("⏳"), of(""), of("")]);
}

#[tokio::test]
async fn a_mark_that_fails_stops_nothing() {
    let (graph, mut standin) = graph().await;
    let sending = Sending::new(None, 3);
    standin.control.fail_next(1, 500, None);
    sending.marks.put(&graph, "549", "wamid.in");
    let answer = outgoing(OutgoingKind::Final, "Done.");
    while standin.control.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    sending.send(&graph, "549", &answer).await.expect("sent");
    assert_eq!(standin.sent.recv().await.expect("recorded").text, "Done.");
    standin.control.fail_next(0, 500, None);
    assert_eq!(standin.control.requests().len(), 2, "nor is it tried again");
}
