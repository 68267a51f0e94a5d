//! Reads a journal's line in one pass: its own fields as they come, the event's straight into the variant that `event`
//! names. Nothing is copied into a tree first. The tag stands before the event's fields, as it is written.

use super::{Read, Record, Timestamp};
use serde::de::value::{CowStrDeserializer, MapAccessDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, IntoDeserializer, MapAccess,
    VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use std::borrow::Cow;
use std::fmt;

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Line)
    }
}

struct Line;

impl<'de> Visitor<'de> for Line {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line of a journal")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
        let mut own = Own::default();
        loop {
            let Some(Name(name)) = map.next_key()? else {
                return Err(A::Error::missing_field("event"));
            };
            if name == "event" {
                break;
            }
            if !own.take(&name, &mut map)? {
                // An event that does not say first what it is.
                return Err(A::Error::missing_field("event"));
            }
        }
        let Name(tag) = map.next_value()?;
        let event = Read::deserialize(Tagged {
            tag,
            rest: Rest {
                map: &mut map,
                own: &mut own,
            },
        })?;
        let missing = A::Error::missing_field;
        Ok(Record {
            seq: own.seq.ok_or_else(|| missing("seq"))?,
            at: own.at.ok_or_else(|| missing("at"))?,
            event,
            prev: own.prev.ok_or_else(|| missing("prev"))?,
            hash: own.hash.ok_or_else(|| missing("hash"))?,
        })
    }
}

/// The fields that every line has.
#[derive(Default)]
struct Own {
    seq: Option<u64>,
    at: Option<Timestamp>,
    prev: Option<String>,
    hash: Option<String>,
}

impl Own {
    /// Whether the field is one of these.
    fn take<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "seq" => self.seq = Some(map.next_value()?),
            "at" => self.at = Some(map.next_value()?),
            "prev" => self.prev = Some(map.next_value()?),
            "hash" => self.hash = Some(map.next_value()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A name, borrowed from the line where it has no escapes.
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyName;
        impl<'de> Visitor<'de> for AnyName {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(AnyName)
    }
}

/// The rest of the line, without its own fields: those of the event.
struct Rest<'a, A> {
    map: &'a mut A,
    own: &'a mut Own,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rest<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(Name(name)) = self.map.next_key()? {
            if !self.own.take(&name, self.map)? {
                let name: CowStrDeserializer<'_, A::Error> = name.into_deserializer();
                return seed.deserialize(name).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// The event: which one, and its fields.
struct Tagged<'a, 'de, A> {
    tag: Cow<'de, str>,
    rest: Rest<'a, A>,
}

impl<'de, A: MapAccess<'de>> Deserializer<'de> for Tagged<'_, 'de, A> {
    type Error = A::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'a, 'de, A: MapAccess<'de>> EnumAccess<'de> for Tagged<'a, 'de, A> {
    type Error = A::Error;
    type Variant = Rest<'a, A>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Rest<'a, A>), A::Error> {
        let tag: CowStrDeserializer<'_, A::Error> = self.tag.into_deserializer();
        Ok((seed.deserialize(tag)?, self.rest))
    }
}

impl<'de, A: MapAccess<'de>> VariantAccess<'de> for Rest<'_, A> {
    type Error = A::Error;

    fn unit_variant(mut self) -> Result<(), A::Error> {
        while self.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        seed.deserialize(MapAccessDeserializer::new(self))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, A::Error> {
        Err(A::Error::custom("an event is no tuple"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        visitor.visit_map(self)
    }
}

#[cfg(test)]
mod tests {
    use crate::agent::event::{Event, Record};

    fn read(fields: &str) -> Result<Record, serde_json::Error> {
        let own = r#""seq":7,"at":"2026-11-22T00:12:59.759Z""#;
        serde_json::from_str(&format!(
            r#"{{{own},{fields},"prev":"p\u0041","hash":"h"}}"#
        ))
    }

    #[test]
    fn an_event_of_any_form_is_read_between_the_fields_of_the_line() {
        let record = read(r#""event":"reminded","of a later program":[1]"#).expect("a line");
        assert_eq!((record.seq, record.event), (7, Event::Reminded));
        assert_eq!((record.prev, record.hash), ("pA".into(), "h".into()));
        let record = read(r#""event":"send_due","later":{"a":null},"send":3"#).expect("a line");
        assert_eq!(record.event, Event::SendDue { send: 3 });
    }

    #[test]
    fn a_line_without_an_event_or_with_one_that_nobody_knows_is_none() {
        for wrong in [
            r#""send":3,"event":"send_due""#,
            r#""event":"born""#,
            r#""x":1"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
