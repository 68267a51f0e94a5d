//! What does not fit a schema, in Ajv's words; a missing parameter is named with its own place (seed 001).

use super::reference::references;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, ValidationError, Validator};
use serde_json::Value;

/// Misfits that are told; one more line says how many there are besides.
const TOLD_MAX: usize = 100;

/// Everything that does not fit.
pub fn all(validator: &Validator, input: &Value) -> Vec<String> {
    validator
        .iter_errors(input)
        .flat_map(|e| words(&e))
        .collect()
}

/// Everything that will not fit whatever the references in it bring.
pub fn for_certain(validator: &Validator, input: &Value) -> Vec<String> {
    let certain = validator.iter_errors(input).filter(|e| !is_open(e));
    certain.flat_map(|error| words(&error)).collect()
}

/// All in one text.
///
/// # Errors
/// `Parameter validation failed: …`, where there are any.
pub fn told(mut misfits: Vec<String>) -> Result<(), String> {
    let beyond = misfits.len().saturating_sub(TOLD_MAX);
    misfits.truncate(TOLD_MAX);
    if beyond > 0 {
        misfits.push(format!("and {beyond} more"));
    }
    match misfits.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "Parameter validation failed: {}",
            misfits.join("; ")
        )),
    }
}

/// Whether a reference decides about it.
fn is_open(error: &ValidationError<'_>) -> bool {
    match error.kind() {
        // How many there are, and how they are called, is known.
        Kind::Required { .. }
        | Kind::AdditionalProperties { .. }
        | Kind::AdditionalItems { .. }
        | Kind::MinItems { .. }
        | Kind::MaxItems { .. }
        | Kind::MinProperties { .. }
        | Kind::MaxProperties { .. }
        | Kind::PropertyNames { .. }
        | Kind::FalseSchema => false,
        _ => !references(error.instance()).is_empty(),
    }
}

fn words(error: &ValidationError<'_>) -> Vec<String> {
    let path = error.instance_path().as_str();
    let at = if path.is_empty() { "/" } else { path };
    let text = match error.kind() {
        Kind::Required { property } => {
            return vec![format!("{path}/{} is required", plain(property))];
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let each = unexpected
                .iter()
                .map(|name| format!("{at} must NOT have additional properties ({name})"));
            return each.collect();
        }
        Kind::Type { kind } => format!("must be {}", names(kind)),
        Kind::Pattern { pattern } => format!("must match pattern \"{pattern}\""),
        Kind::Format { format } => format!("must match format \"{format}\""),
        Kind::Enum { .. } => "must be equal to one of the allowed values".into(),
        Kind::Constant { .. } => "must be equal to constant".into(),
        Kind::Minimum { limit } => format!("must be >= {limit}"),
        Kind::Maximum { limit } => format!("must be <= {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be > {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be < {limit}"),
        Kind::MultipleOf { multiple_of } => format!("must be multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("must NOT have fewer than {limit} characters"),
        Kind::MaxLength { limit } => format!("must NOT have more than {limit} characters"),
        Kind::MinItems { limit } => format!("must NOT have fewer than {limit} items"),
        Kind::MaxItems { limit } => format!("must NOT have more than {limit} items"),
        Kind::AdditionalItems { limit } => format!("must NOT have more than {limit} items"),
        Kind::MinProperties { limit } => format!("must NOT have fewer than {limit} properties"),
        Kind::MaxProperties { limit } => format!("must NOT have more than {limit} properties"),
        Kind::UniqueItems => "must NOT have duplicate items".into(),
        Kind::Contains => "must contain at least 1 valid item".into(),
        Kind::AnyOf { .. } => "must match a schema in anyOf".into(),
        Kind::OneOfNotValid { .. } | Kind::OneOfMultipleValid { .. } => {
            "must match exactly one schema in oneOf".into()
        }
        Kind::Not { .. } => "must NOT be valid".into(),
        // `additionalProperties: false` where nothing is known of any.
        Kind::FalseSchema if is_additional(error) => "must NOT have additional properties".into(),
        Kind::FalseSchema => "boolean schema is false".into(),
        Kind::PropertyNames { .. } => "property name must be valid".into(),
        Kind::UnevaluatedItems { .. } => "must NOT have unevaluated items".into(),
        Kind::BacktrackLimitExceeded { .. }
        | Kind::RegexEngineFailure { .. }
        | Kind::ContentEncoding { .. }
        | Kind::ContentMediaType { .. }
        | Kind::Custom { .. }
        | Kind::FromUtf8 { .. }
        | Kind::Referencing(_) => error.to_string(),
    };
    vec![format!("{at} {text}")]
}

fn is_additional(error: &ValidationError<'_>) -> bool {
    let path = error.schema_path().as_str();
    path.ends_with("/additionalProperties")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn names(kind: &TypeKind) -> String {
    let all: Vec<String> = match kind {
        TypeKind::Single(one) => vec![one.to_string()],
        TypeKind::Multiple(some) => some.iter().map(|one: JsonType| one.to_string()).collect(),
    };
    all.join(",")
}
