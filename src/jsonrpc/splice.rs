//! Edits to a text, applied in one copy.

use bytes::{BufMut, Bytes, BytesMut};
use smallvec::SmallVec;

use crate::jsonrpc::scan::Span;

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
