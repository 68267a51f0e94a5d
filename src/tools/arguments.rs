//! The arguments of tools: their schemas, made from the types, and what is wrong with arguments that do not fit. Pure.

use super::{Tool, preview_patch};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// So much of a wrong value is shown.
const VALUE_CHARS_MAX: usize = 60;
const ERRORS_MAX: usize = 20;

/// A tool's arguments as its type. They fit the schema by then, so an error is a difference of type and schema.
pub fn args<A: DeserializeOwned>(json: &Value) -> Result<A, String> {
    serde_json::from_value(json.clone())
        .map_err(|e| format!("the arguments do not fit the tool: {e}"))
}

/// The schema of a type without what a model does not need.
pub fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = SchemaGenerator::new(settings)
        .into_root_schema_for::<A>()
        .to_value();
    if let Value::Object(map) = &mut schema {
        map.remove("description"); // the type's own, for readers of the source
        map.entry("properties")
            .or_insert_with(|| Value::Object(Map::new()));
    }
    strip(&mut schema);
    schema
}

fn strip(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    for noise in ["title", "format", "default"] {
        map.remove(noise);
    }
    if map.get("minimum").is_some_and(|least| *least == 0) {
        map.remove("minimum");
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    // An optional field is one that is not required: `null` is read as if it were missing.
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|name| name != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            map.insert("type".into(), one);
        }
    }
    // Below `properties` the keys are names of fields, not keywords.
    for field in map
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(Map::values_mut)
    {
        strip(field);
    }
    if let Some(items) = map.get_mut("items") {
        strip(items);
    }
}

/// What is sent of a tool's schema. Unknown fields, empty texts and zeros are refused all the same, and nobody pays for
/// saying so with every request.
pub fn sent(tool: &Tool) -> Value {
    let mut schema = (tool.schema)();
    if tool.name == preview_patch::TOOL.name {
        // The arguments of apply_patch, which says what they are.
        drop_keys(&mut schema, &["description", "properties", "required"], 1);
    }
    drop_keys(&mut schema, &NOT_SENT, 0);
    schema
}

const NOT_SENT: [&str; 6] = [
    "additionalProperties",
    "maxItems",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
];

/// Takes keywords away from a schema and all that is below it; `spared`: so many levels keep them.
fn drop_keys(schema: &mut Value, keys: &[&str], spared: usize) {
    let Value::Object(map) = schema else { return };
    if spared == 0 {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
    let spared = spared.saturating_sub(1);
    // Below `properties` the keys are names of fields, not keywords.
    let fields = map.get_mut("properties").and_then(Value::as_object_mut);
    let fields = fields.into_iter().flat_map(Map::values_mut);
    fields.for_each(|field| drop_keys(field, keys, spared));
    if let Some(items) = map.get_mut("items") {
        drop_keys(items, keys, spared);
    }
}

/// Compiled once per tool. With the first one goes what its draft says of schemas: of draft 7 that is one short document, of
/// 2020-12 nine, which is 0.4 MB in memory.
pub fn validator(tool: &Tool) -> Validator {
    jsonschema::draft7::new(&(tool.schema)()).expect("BUG: a tool's schema does not compile")
}

/// All misfits in one text.
pub fn check(tool: &Tool, validator: &Validator, arguments: &Value) -> Result<(), String> {
    let present = match arguments {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, v)| !v.is_null())
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        ),
        other => other.clone(),
    };
    let errors: Vec<String> = validator
        .iter_errors(&present)
        .take(ERRORS_MAX)
        .map(|e| tell(&e, tool))
        .collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "The arguments of {} do not fit:\n{}",
            tool.name,
            errors.join("\n")
        )),
    }
}

fn tell(error: &ValidationError<'_>, tool: &Tool) -> String {
    let pointer = error.instance_path().as_str();
    let at = if pointer.is_empty() {
        "the arguments".to_owned()
    } else {
        pointer.to_owned()
    };
    let value = super::text::line(&error.instance().to_string(), VALUE_CHARS_MAX);
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            format!(
                "{pointer}/{}: missing, but required",
                property.as_str().unwrap_or_default()
            )
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = known(tool, pointer);
            let each = unexpected
                .iter()
                .map(|name| format!("{pointer}/{name}: unknown; expected only {known}"));
            each.collect::<Vec<_>>().join("\n")
        }
        ValidationErrorKind::Type {
            kind: TypeKind::Single(kind),
        } => format!("{at}: expected {kind}, got {value}"),
        ValidationErrorKind::Minimum { limit } => {
            format!("{at}: expected at least {limit}, got {value}")
        }
        ValidationErrorKind::Maximum { limit } => {
            format!("{at}: expected at most {limit}, got {value}")
        }
        ValidationErrorKind::MinLength { .. } => format!("{at}: expected a text that is not empty"),
        ValidationErrorKind::MinItems { limit } => {
            format!("{at}: expected at least {limit} item(s), got {value}")
        }
        ValidationErrorKind::MaxItems { limit } => format!("{at}: expected at most {limit} items"),
        ValidationErrorKind::Enum { options } => {
            format!("{at}: expected one of {options}, got {value}")
        }
        // The rest does not occur in our schemas; the library's own words will do.
        _ => format!("{at}: {error}"),
    }
}

/// The names of the fields that the object at this place can have.
fn known(tool: &Tool, pointer: &str) -> String {
    let schema = (tool.schema)();
    let mut here = &schema;
    for part in pointer.split('/').skip(1) {
        let next = here
            .get("properties")
            .and_then(|fields| fields.get(part))
            .or_else(|| here.get("items"));
        here = next.unwrap_or(here);
    }
    let fields = here.get("properties").and_then(Value::as_object);
    let names: Vec<&str> = fields
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str)
        .collect();
    if names.is_empty() {
        "no fields".into()
    } else {
        names.join(", ")
    }
}
