//! Edits to a text, applied in one copy.

use bytes::{BufMut, Bytes, BytesMut};
use smallvec::SmallVec;

use crate::jsonrpc::scan::Span;
use crate::jsonrpc::text;
use crate::jsonrpc::view::Object;

/// Replacements at spans of one text.
///
/// *Invariants.* Spans are within the text and do not overlap; the order of adding is free.
#[derive(Debug, Clone, Default)]
pub struct Edits(SmallVec<[(Span, Bytes); 3]>);

impl Edits {
    /// No edits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces what stands at `span`.
    pub fn replace(&mut self, span: Span, with: impl Into<Bytes>) {
        let at = self.0.partition_point(|(other, _)| other.start < span.start);
        debug_assert!(at == 0 || self.0[at - 1].0.end <= span.start, "edits overlap");
        self.0.insert(at, (span, with.into()));
    }

    /// Removes the members `names` of `object`, wherever they are there, with the commas that go with them.
    ///
    /// All names of one object go in one call: who is last among the rest decides about the commas.
    pub fn remove(&mut self, text: &[u8], object: &Object, names: &[&str]) {
        let goes = |key: &Span| names.iter().any(|name| text::means(&text[key.clone()], name));
        // Where members that go began to, where the last one that stays ended, and where the last one of all did.
        let (mut from, mut stays, mut end) = (None, None, 0);
        for (key, value) in object.iter() {
            if goes(key) {
                from = from.or(Some(key.start));
            } else {
                if let Some(from) = from.take() {
                    self.replace(from..key.start, "");
                }
                stays = Some(value.end);
            }
            end = value.end;
        }
        if let Some(from) = from {
            self.replace(stays.unwrap_or(from)..end, "");
        }
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many bytes the edits of `within` add; negative when they shorten it.
    #[must_use]
    pub fn growth(&self) -> isize {
        self.0.iter().map(|(span, with)| with.len().cast_signed() - span.len().cast_signed()).sum()
    }

    /// Appends the part `within` of `text` to `out`, edited.
    pub fn write(&self, text: &[u8], within: Span, out: &mut BytesMut) {
        let mut from = within.start;
        for (span, with) in
            self.0.iter().filter(|(span, _)| within.start <= span.start && span.end <= within.end)
        {
            out.put_slice(&text[from..span.start]);
            out.put_slice(with);
            from = span.end;
        }
        out.put_slice(&text[from..within.end]);
    }

    /// The whole `text`, edited; shares its memory when there is nothing to do.
    #[must_use]
    pub fn apply(&self, text: &Bytes) -> Bytes {
        if self.is_empty() {
            return text.clone();
        }
        let mut out = BytesMut::with_capacity(text.len().saturating_add_signed(self.growth()));
        self.write(text, 0..text.len(), &mut out);
        out.freeze()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whichever members go, the rest is an object with its members in their order.
    #[test]
    fn members_go_with_their_commas() {
        let text = Bytes::from_static(br#"{ "a" : 1 , "b":2,"c":{"a":3}, "d":4 }"#);
        let object = Object::scan(&text, 0).unwrap();
        for mask in 0..16 {
            let (gone, kept): (Vec<_>, Vec<_>) =
                ["a", "b", "c", "d"].into_iter().enumerate().partition(|(bit, _)| mask >> bit & 1 == 1);
            let mut edits = Edits::new();
            edits.remove(&text, &object, &gone.iter().map(|(_, name)| *name).collect::<Vec<_>>());
            let left = edits.apply(&text);
            let after = Object::scan(&left, 0).unwrap();
            assert_eq!(after.end(), left.len());
            let names: Vec<_> =
                after.iter().map(|(key, _)| text::unquote(&left[key.clone()]).unwrap()).collect();
            assert_eq!(names, kept.iter().map(|(_, name)| *name).collect::<Vec<_>>(), "{mask}");
            assert_eq!(edits.is_empty(), gone.is_empty());
        }
    }

    proptest! {
        /// A splice changes what it names and nothing else.
        #[test]
        fn only_the_spans_change(
            parts in proptest::collection::vec((".{0,8}", ".{0,8}", ".{0,8}"), 0..6),
            backwards in any::<bool>(),
        ) {
            let (mut text, mut wanted, mut spans) = (String::new(), String::new(), Vec::new());
            for (keep, old, new) in &parts {
                text.push_str(keep);
                wanted.push_str(keep);
                spans.push((text.len()..text.len() + old.len(), new.clone()));
                text.push_str(old);
                wanted.push_str(new);
            }
            let spans: Vec<_> = spans.into_iter().filter(|(span, _)| !span.is_empty()).collect();
            prop_assume!(parts.iter().all(|(_, old, _)| !old.is_empty()));
            let mut edits = Edits::new();
            let add = |(span, new): &(Span, String)| edits.replace(span.clone(), new.clone());
            if backwards { spans.iter().rev().for_each(add) } else { spans.iter().for_each(add) }
            prop_assert_eq!(edits.apply(&Bytes::from(text)), Bytes::from(wanted));
        }
    }
}
