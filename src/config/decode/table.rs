//! A table that is asked for its keys one by one.

use super::{Decoder, Field, Place, Placed, Refusal, Wrong, nearest};
use crate::config::document::{Member, Value};

/// A table of the file while it is read.
#[derive(Debug)]
pub(in crate::config) struct Table<'d, 'a> {
    pub decoder: &'d mut Decoder<'a>,
    pub place: Place,
    pub(super) members: &'a [Member],
    pub(super) asked: Vec<&'static str>,
}

impl<'a> Table<'_, 'a> {
    /// Reads the value of a key, if it is there and not null. What is wrong with it is noted.
    pub(in crate::config) fn read<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Field<'_, 'a>) -> Result<T, Refusal>,
    ) -> Option<T> {
        self.read_placed(key, read).map(|placed| placed.value)
    }

    /// The same, with the place of the value.
    pub(in crate::config) fn read_placed<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Field<'_, 'a>) -> Result<T, Refusal>,
    ) -> Option<Placed<T>> {
        self.asked.push(key);
        let member = self.members.iter().find(|member| member.key == key)?;
        if member.value.value == Value::Null {
            return None;
        }
        self.field(member).noted(read)
    }

    /// Reads the value of the first of several keys that mean the same.
    pub(in crate::config) fn read_any<T>(
        &mut self,
        keys: &[&'static str],
        read: impl Fn(&mut Field<'_, 'a>) -> Result<T, Refusal>,
    ) -> Option<T> {
        let mut found = None;
        for key in keys {
            let value = self.read(key, &read);
            found = found.or(value);
        }
        found
    }

    /// Reads the value of every key, where the keys are not ours. Nulls are left out.
    pub(in crate::config) fn read_all<T>(
        &mut self,
        read: impl Fn(&str, &mut Field<'_, 'a>) -> Result<T, Refusal>,
    ) -> Vec<(String, T)> {
        let mut all = Vec::new();
        for member in self.members {
            if member.value.value == Value::Null {
                continue;
            }
            let value = self.field(member).noted(|field| read(&member.key, field));
            if let Some(value) = value {
                all.push((member.key.clone(), value.value));
            }
        }
        all
    }

    /// Whether a key is there.
    pub(in crate::config) fn has(&self, key: &str) -> bool {
        self.members.iter().any(|member| member.key == key)
    }

    /// Whether a key was asked for.
    pub(in crate::config) fn was_asked(&self, key: &str) -> bool {
        self.asked.contains(&key)
    }

    /// The keys that are there, each with its place.
    pub(in crate::config) fn keys(&self) -> Vec<(&'a str, Place)> {
        let place = |member: &'a Member| Place {
            path: self.place.inside(&member.key),
            span: member.key_span.clone(),
        };
        self.members.iter().map(|member| (member.key.as_str(), place(member))).collect()
    }

    /// Notes something wrong with the table as a whole.
    pub(in crate::config) fn note(&mut self, wrong: Wrong) {
        self.decoder.note(&self.place, wrong);
    }

    /// Notes every key that nobody asked for.
    pub(super) fn refuse_unknown(&mut self) {
        for (key, place) in self.keys() {
            if self.was_asked(key) {
                continue;
            }
            let mut allowed = self.asked.clone();
            allowed.sort_unstable();
            let allowed = format!("allowed here: {}", allowed.join(", "));
            let mend = match nearest(key, self.asked.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?\n{allowed}"),
                None => allowed,
            };
            let wrong = Wrong::new(format!("unknown key `{key}`")).mend(mend);
            self.decoder.note(&place, wrong);
        }
    }

    fn field(&mut self, member: &'a Member) -> Field<'_, 'a> {
        Field {
            place: Place { path: self.place.inside(&member.key), span: member.value.span.clone() },
            key_span: member.key_span.clone(),
            decoder: self.decoder,
            node: &member.value,
        }
    }
}
