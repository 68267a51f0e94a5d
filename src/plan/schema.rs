//! JSON Schemas of commands: bounded before anything is checked against them, since servers write some.

use super::{Bounds, misfit};
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};
use thiserror::Error;

/// Why nothing can be checked against a schema.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchemaError {
    #[error("another command is called the same")]
    Taken,
    #[error("its schema is no object")]
    NoObject,
    #[error("its schema has {bytes} bytes; at most {max} are possible (plan_schema_bytes_max)")]
    Bytes { bytes: usize, max: usize },
    #[error("its schema has more than {max} levels (plan_schema_depth_max)")]
    Depth { max: usize },
    #[error(
        "its schema has more than {max} schemas in it, every $ref written out (plan_subschemas_max)"
    )]
    Subschemas { max: usize },
    #[error("its schema leads elsewhere: {0:?}; only #/… within the same schema is followed")]
    Elsewhere(String),
    #[error("its schema has a $ref that leads nowhere: {0:?}")]
    Nowhere(String),
    #[error("its schema contains itself: {0:?}")]
    Recursive(String),
    #[error("its schema cannot be used: {0}")]
    Unusable(String),
}

/// Whether an input fits a schema.
///
/// # Errors
/// `Parameter validation failed: …` with everything that does not fit, or why nothing can be said.
pub fn validate(schema: &Value, input: &Value) -> Result<(), String> {
    let validator = compiled(schema).map_err(|error| error.to_string())?;
    misfit::told(misfit::all(&validator, input))
}

/// A schema that costs no more than the bounds say, whatever is checked against it.
///
/// # Errors
/// Which bound it goes beyond, or why it is none.
pub(super) fn bounded(schema: &Value, bounds: &Bounds) -> Result<Validator, SchemaError> {
    if !schema.is_object() {
        return Err(SchemaError::NoObject);
    }
    let bytes = schema.to_string().len();
    if bytes > bounds.schema_bytes_max {
        return Err(SchemaError::Bytes {
            bytes,
            max: bounds.schema_bytes_max,
        });
    }
    let mut survey = Survey {
        root: schema,
        bounds,
        schemas: 0,
        inside: Vec::new(),
    };
    survey.schema(schema, 1)?;
    compiled(schema)
}

/// Patterns are matched in linear time; nothing is fetched.
fn compiled(schema: &Value) -> Result<Validator, SchemaError> {
    jsonschema::options()
        .offline()
        .should_validate_formats(true)
        .with_format("phone", is_phone)
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| SchemaError::Unusable(error.to_string()))
}

/// E.164: `+` and 7 to 15 digits, none of them a leading zero.
fn is_phone(text: &str) -> bool {
    text.strip_prefix('+').is_some_and(|digits| {
        (7..=15).contains(&digits.len())
            && digits.bytes().all(|digit| digit.is_ascii_digit())
            && !digits.starts_with('0')
    })
}

/// A walk through a schema, into every `$ref` each time it is met: that is what checking costs.
struct Survey<'a> {
    root: &'a Value,
    bounds: &'a Bounds,
    schemas: usize,
    /// `$ref`s that the walk is inside of.
    inside: Vec<&'a str>,
}

impl<'a> Survey<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<(), SchemaError> {
        let Value::Object(keywords) = schema else {
            return Ok(()); // true, false
        };
        self.schemas += 1;
        if self.schemas > self.bounds.subschemas_max {
            let max = self.bounds.subschemas_max;
            return Err(SchemaError::Subschemas { max });
        }
        if depth > self.bounds.schema_depth_max {
            let max = self.bounds.schema_depth_max;
            return Err(SchemaError::Depth { max });
        }
        for (keyword, value) in keywords {
            self.keyword(keyword, value, depth)?;
        }
        Ok(())
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        depth: usize,
    ) -> Result<(), SchemaError> {
        match (keyword, value) {
            // Values, and no schemas.
            ("enum" | "const" | "default" | "examples", _) => Ok(()),
            // Names, and a schema each.
            (
                "properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "$defs"
                | "definitions",
                Value::Object(named),
            ) => self.each(named, depth),
            ("$ref", Value::String(to)) => self.reference(to, depth),
            // What changes where a $ref leads.
            ("$dynamicRef" | "$recursiveRef", Value::String(to)) => {
                Err(SchemaError::Elsewhere(to.clone()))
            }
            ("$id" | "id", Value::String(id)) if depth > 1 => {
                Err(SchemaError::Elsewhere(id.clone()))
            }
            (_, Value::Object(_)) => self.schema(value, depth + 1),
            (_, Value::Array(items)) => items
                .iter()
                .try_for_each(|item| self.schema(item, depth + 1)),
            (_, Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => Ok(()),
        }
    }

    fn each(&mut self, named: &'a Map<String, Value>, depth: usize) -> Result<(), SchemaError> {
        named
            .values()
            .try_for_each(|schema| self.schema(schema, depth + 1))
    }

    fn reference(&mut self, to: &'a str, depth: usize) -> Result<(), SchemaError> {
        let pointer = to.strip_prefix('#');
        let pointer = pointer.filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let pointer = pointer.ok_or_else(|| SchemaError::Elsewhere(to.to_owned()))?;
        if self.inside.contains(&to) {
            return Err(SchemaError::Recursive(to.to_owned()));
        }
        let target = self.root.pointer(pointer);
        let target = target.ok_or_else(|| SchemaError::Nowhere(to.to_owned()))?;
        self.inside.push(to);
        self.schema(target, depth + 1)?;
        self.inside.pop();
        Ok(())
    }
}
