//! Who writes in Spanish is answered in Spanish, also about why something is asked.

use crate::webhook::Front;
use journeyman::agent::language::Language;
use journeyman::agent::texts::Catalogues;
use journeyman::gate::BUILT_IN;
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread")]
async fn a_question_and_an_unclear_schedule_are_explained_in_spanish() {
    let command =
        json!({"tool": "run_command", "arguments": {"command": "frobnicate now > out.txt"}});
    let mut front = Front::new(json!([{"calls": [command]}])).await;
    front
        .says("wamid.1", "arregla el formulario de acceso, por favor")
        .await;
    let question = front.hears().await.text;
    for why in [
        "no está en la lista de permitidos (unknown-program)",
        "redirige la entrada o la salida (redirects)",
    ] {
        assert!(question.contains(why), "{question}");
    }
    front.says("wamid.2", "/cron bailar").await;
    let told = front.hears().await.text;
    assert!(
        told.contains("\"bailar\" no es nada que se pueda hacer"),
        "{told}"
    );
}

/// A text for a rule that nobody has would never be seen, and one that is missed shows in English.
#[test]
fn every_rule_that_asks_has_a_spanish_reason() {
    let catalogues = Catalogues::built_in();
    let spanish = catalogues.speaking(Language::Spanish);
    let policy: toml::Table = toml::from_str(BUILT_IN).expect("the policy");
    let mut missed = BTreeSet::new();
    for (kind, key) in [("program", "name"), ("rule", "id")] {
        let entries = policy[kind].as_array().expect("a list");
        let asks = entries.iter().filter(|entry| {
            let decision = entry.get("decision").or_else(|| entry.get("stance"));
            entry.get("reason").is_some() && decision.and_then(|it| it.as_str()) == Some("ask")
        });
        for entry in asks {
            let name = entry[key].as_str().expect("a name").replace(' ', "-");
            if spanish.reason(&name).is_none() {
                missed.insert(name);
            }
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
